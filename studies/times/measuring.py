"""Time a repeated step, and draw targets for losses and metrics."""

import inspect
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from rankgrad import lookup
from rankgrad.io.checkpoints import build
from rankgrad.sorters import load_sorter

OURS = {  # our sorters, by name in tables
    "comparator": ("comparator", {}),
    "laplace 0.05": ("laplace", {"softness": 0.05}),
    "laplace 0.2": ("laplace", {"softness": 0.2}),
    "straight_through 0.2": ("straight_through", {"gradient_softness": 0.2}),
    "logistic 1/35": ("logistic", {"softness": 1 / 35}),
    "handcrafted 10": ("handcrafted", {"steepness": 10.0}),
}

GRADES = {"label_ranks": 5, "labels": 2}  # number of grades; a target has grades only if it is a relevance
RELEVANCE = {"expected_reciprocal_rank", "lambdarank", "ndcg"}


def ours(name: str) -> nn.Module:
    sorter, args = OURS[name]
    return load_sorter(sorter) if sorter == "comparator" else build("sorters", sorter, args, seed=0)


def median_seconds(step: Callable[[], object], *, clock: Callable[[], float], most: int, limit: float) -> float:
    """Return the median time of a step, repeated up to `most` times or `limit` seconds."""
    times: list[float] = []
    while len(times) < most and sum(times) < limit:
        begun = clock()
        step()
        times.append(clock() - begun)
    return median(times)


def truth_of(folder: str, name: str) -> str | None:
    """Return the name of a function's second argument if it is a truth of lists."""
    function = getattr(lookup.module(folder, name), name, None)
    arguments = list(inspect.signature(function).parameters) if callable(function) else []
    return arguments[1] if len(arguments) > 1 and arguments[1] in ("target", *GRADES) else None


def drawn_truth(name: str, argument: str | None, scores: Tensor) -> Tensor:
    """Return a truth for a loss or metric: grades, or numbers that correlate with the scores."""
    draws = torch.Generator().manual_seed(scores.shape[-1])
    grades = 5 if name in RELEVANCE else GRADES.get(str(argument))
    if grades is None:
        return scores + torch.randn(scores.shape, generator=draws)
    return torch.randint(grades, scores.shape, generator=draws)
