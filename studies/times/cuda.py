"""Measure time and memory of sorters and losses, ours and others', on a GPU, from scores (batch, n) to a tensor."""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module

import torch
from torch import Tensor

from rankgrad import lookup
from studies.times.measuring import OURS, drawn_truth, median_seconds, ours, truth_of
from studies.times.peers import isotonic_ranks, neural_sort, soft_sort

LONGEST = 20.0  # milliseconds; skip longer lists after this, since all pairs of a ten times longer list take 2 seconds
OTHERS = {
    "torchsort l2 0.1": partial(isotonic_ranks, kind="l2", strength=0.1),
    "torchsort kl 0.1": partial(isotonic_ranks, kind="kl", strength=0.1),
    "NeuralSort 0.1": partial(neural_sort, temperature=0.1),
    "SoftSort 0.01": partial(soft_sort, temperature=0.01),
}
LOSSES = (
    "spearman", "kendall", "ranknet", "list_mle", "listnet", "ndcg", "lambdarank", "expected_reciprocal_rank",
    "average_precision", "rlsep", "lsep", "pairwise_logistic", "plackett_luce",
)  # fmt: skip
OPERATORS = (
    "comparator", "LapSum 0.1", "laplace 0.2", "straight_through 0.2", "logistic 1/35", "handcrafted 10", *OTHERS,
    *(f"losses.{name}" for name in LOSSES),
)  # fmt: skip


def operator(name: str, shape: tuple[int, int], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return one of `OPERATORS`, for scores of a shape.

    Raises:
        ImportError: its package is not installed; the operator may raise it, too.
    """
    if name == "LapSum 0.1":
        lapsum = import_module("lapsum.rank").soft_rank
        return lambda scores: lapsum(scores, 0.1)
    if name in OURS:
        return ours(name).to(device)
    if name in OTHERS:
        return OTHERS[name]
    loss = name.removeprefix("losses.")
    argument = str(truth_of("losses", loss))
    truth = drawn_truth(loss, argument, torch.randn(shape, generator=torch.Generator().manual_seed(1)))
    return partial(lookup.find("losses", loss), **{argument: truth.to(device)}, check_finite=device.type == "cpu")


def cost(call: Callable[[Tensor], Tensor], scores: Tensor) -> dict[str, float]:
    """Return the median times of forward and of forward plus backward, and on a GPU the peak memory."""
    scores.requires_grad_()

    def forward() -> Tensor:
        value = call(scores)
        if scores.is_cuda:
            torch.cuda.synchronize()
        return value

    def both() -> None:
        scores.grad = None
        value = call(scores)
        (value if value.dim() == 0 else value.square().mean()).backward()
        if scores.is_cuda:
            torch.cuda.synchronize()

    measured = {}
    for column, step in (("forward ms", forward), ("ms", both)):
        step()
        step()  # the third is warm
        measured[column] = 1e3 * median_seconds(step, clock=time.perf_counter, most=30, limit=0.3)
    if scores.is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        both()
        measured["MB"] = (torch.cuda.max_memory_allocated() - before) / 1e6
    return measured
