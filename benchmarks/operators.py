"""Soft sorting, top-k and quantiles beside `Laplace`'s ranks, with gradients: ratios of times in one run."""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.results import write
from rankops.sorters import Laplace
from rankops.sorters.operators import soft_median, soft_sort, soft_topk

SHAPES, ROUNDS = ((10_000,), (16, 10_000), (8, 1000), (1000, 10)), 25


def milliseconds(operator: Callable[[Tensor], Tensor], scores: Tensor) -> float:
    """Processor time of forward and backward, in which other work on the machine does not count."""
    start = time.process_time()
    operator(scores).square().sum().backward()
    return 1e3 * (time.process_time() - start)


def main() -> None:
    operators = {
        "soft_sort": soft_sort,
        "soft_topk": lambda scores: soft_topk(scores, scores.shape[-1] // 10),
        "soft_median": soft_median,
    }
    laplace, figures = Laplace(), {}
    for shape in SHAPES:
        scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        for name, operator in operators.items():
            pairs = np.array([(milliseconds(operator, scores), milliseconds(laplace, scores)) for _ in range(ROUNDS)])
            figures[f"{name} of {' x '.join(map(str, shape))}"] = {
                "milliseconds": float(np.median(pairs[:, 0])),
                "Laplace": float(np.median(pairs[:, 1])),
                "ratio": float(np.median(pairs[:, 0] / pairs[:, 1])),
            }
    write("operators", figures)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
