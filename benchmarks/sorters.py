"""Milliseconds of each sorter of params.yaml, forward and backward, on 512 vectors; and against the first of them."""

import time

import numpy as np
import torch

from benchmarks.results import write
from pipelines.settings import load
from rankops.checkpoints import build

BATCH, ROUNDS = 512, 7


def main() -> None:
    params = load()
    torch.set_num_threads(params.compute.threads)
    length = params.synthetic_ranks.length
    sorters = {
        name: build("sorters", each.name, each.args, seed=0)
        for name, each in params.benchmark_sorters.untrained.items()
    }
    for name, each in params.sorters.items():
        sorters[name] = build("sorters", each.name, each.args, seed=0, length=length).eval().requires_grad_(False)
    scores = torch.randn(BATCH, length, generator=torch.Generator().manual_seed(0)).requires_grad_()
    times = {name: [] for name in sorters}
    for _ in range(ROUNDS + 1):  # in turn, so that a slow moment of the machine hits all
        for name, sorter in sorters.items():
            start = time.perf_counter()
            sorter(scores).square().sum().backward()
            times[name].append(time.perf_counter() - start)
    median = {name: float(np.median(values[1:])) for name, values in times.items()}
    first = next(iter(sorters))
    rows = {
        name: {
            "ms": 1000 * median[name],
            f"times {first}": median[name] / median[first],
            "parameters": sum(weight.numel() for weight in sorter.parameters()),
        }
        for name, sorter in sorters.items()
    }
    write(f"sorters, d = {length}, batch {BATCH}", rows)


if __name__ == "__main__":
    main()
