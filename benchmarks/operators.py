"""`Laplace`'s ranks beside soft sorting, top-k and quantiles, with gradients: ratios of times in one run."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.results import beside, write
from rankops.sorters import Laplace, soft_median, soft_sort, soft_topk

SHAPES, ROUNDS = ((10_000,), (16, 10_000), (8, 1000), (1000, 10)), 25
OPERATORS = {
    "soft_sort": soft_sort,
    "soft_topk": lambda scores: soft_topk(scores, scores.shape[-1] // 10),
    "soft_median": soft_median,
}


def step(operator: Callable[[Tensor], Tensor], scores: Tensor) -> None:
    operator(scores).square().sum().backward()


def main() -> None:
    figures = {}
    for shape in SHAPES:
        scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        laplace = partial(step, Laplace(), scores)
        for name, operator in OPERATORS.items():
            row = f"{name} of {' x '.join(map(str, shape))}"
            figures[row] = beside({"Laplace": laplace, "operator": partial(step, operator, scores)}, rounds=ROUNDS)
    write("operators", figures)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
