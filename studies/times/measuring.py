"""Repeat a step and time it; draw what losses and metrics compare scores with."""

import inspect
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from rankgrad import lookup

__all__ = ["drawn_truth", "median_seconds", "truth_of"]

GRADES = {"label_ranks": 5, "labels": 2}  # of a truth; a target has them if it is a relevance, and is real otherwise
RELEVANCE = {"expected_reciprocal_rank", "lambdarank", "ndcg"}


def median_seconds(step: Callable[[], object], *, clock: Callable[[], float], most: int, limit: float) -> float:
    """Return the median time of a step that is repeated, up to `most` times or until `limit` seconds are over."""
    times: list[float] = []
    while len(times) < most and sum(times) < limit:
        begun = clock()
        step()
        times.append(clock() - begun)
    return median(times)


def truth_of(folder: str, name: str) -> str | None:
    """Return the name of a function's second argument, if it is one that a list has."""
    function = getattr(lookup.module(folder, name), name, None)
    arguments = list(inspect.signature(function).parameters) if callable(function) else []
    return arguments[1] if len(arguments) > 1 and arguments[1] in ("target", *GRADES) else None


def drawn_truth(name: str, argument: str | None, scores: Tensor) -> Tensor:
    """Return what a loss or metric compares scores with: grades, or numbers that follow them."""
    draws = torch.Generator().manual_seed(scores.shape[-1])
    grades = 5 if name in RELEVANCE else GRADES.get(str(argument))
    if grades is None:
        return scores + torch.randn(scores.shape, generator=draws)
    return torch.randint(grades, scores.shape, generator=draws)
