"""Gains of NDCG and the ideal DCG; probabilities of ERR; the order of documents by score."""

import math
from typing import Literal

import torch
from torch import Tensor

from rankgrad.checks import check_choice, check_positive, check_values, signed
from rankgrad.groups import within

__all__ = ["Gain", "check_grade", "check_relevance", "gains_of", "ideal", "reading_order", "satisfaction"]

Gain = Literal["exponential", "linear"]


def check_relevance(target: Tensor, gain: Gain, *, mask: Tensor | None = None, check_finite: bool = True) -> None:
    """Raise if a target has no gain; targets are ignored where the mask is False.

    Raises:
        ValueError: an unknown `gain`; a target that is negative, or above 60 for an exponential gain.

    >>> check_relevance(torch.tensor([1, -1]), "linear")
    Traceback (most recent call last):
    ...
    ValueError: target[1] is -1, expected a relevance of at least 0
    """
    check_choice("gain", gain, Gain)
    if not check_finite:
        return
    relevance = signed(target) if mask is None else signed(target).masked_fill(~mask, 0)
    check_values("target", target, relevance < 0, "a relevance of at least 0")
    if gain == "exponential":
        check_values("target", target, relevance > 60, "at most 60, since 2^target is the gain: use gain='linear'")


def gains_of(target: Tensor, weight: Tensor, gain: Gain) -> Tensor:
    """Return the gain of each item (..., d) in first place, times its weight.

    Args:
        target: (..., d), relevance of each item; ignored where the weight is 0.
        weight: (..., d), factors of the gains.
        gain: `exponential`, $2^t - 1$, or `linear`, t.

    >>> gains_of(torch.tensor([0.0, 1.0, 3.0]), torch.ones(3), "exponential")
    tensor([0., 1., 7.])
    """
    relevance = target.to(weight.dtype).where(weight > 0, 0.0)
    return weight * (torch.expm1(relevance * math.log(2)) if gain == "exponential" else relevance)


def ideal(gains: Tensor, k: int | None) -> Tensor:
    """Return the discounted cumulative gain (...) of the best order of gains (..., d), over the first k places.

    >>> ideal(torch.tensor([0.0, 1.0, 3.0]), 1)
    tensor(3.)
    """
    ordered = gains.sort(dim=-1, descending=True).values[..., :k]
    places = torch.arange(1, ordered.shape[-1] + 1, device=gains.device, dtype=gains.dtype)
    return (ordered / torch.log2(1 + places)).sum(-1)


def check_grade(target: Tensor, max_grade: float, *, mask: Tensor | None = None, check_finite: bool = True) -> None:
    """Raise if targets are not grades from 0 to `max_grade`; targets are ignored where the mask is False.

    Raises:
        ValueError: `max_grade` is not positive, or a target is negative or above it.

    >>> check_grade(torch.tensor([1, 5]), 4.0)
    Traceback (most recent call last):
    ...
    ValueError: target[1] is 5, expected a relevance from 0 to max_grade, 4.0
    """
    check_positive("max_grade", max_grade)
    if check_finite:
        relevance = signed(target) if mask is None else signed(target).masked_fill(~mask, 0)
        check_values(
            "target", target, (relevance < 0) | (relevance > max_grade), f"a relevance from 0 to max_grade, {max_grade}"
        )


def satisfaction(target: Tensor, weight: Tensor, max_grade: float) -> Tensor:
    r"""Return the probability (..., d) that each item satisfies a reader, $(2^t - 1) / 2^g$ times its relative weight.

    Args:
        target: t, (..., d), relevance of each item; ignored where the weight is 0.
        weight: (..., d), relative to the largest of its group.
        max_grade: g, the highest grade of the scale.

    >>> satisfaction(torch.tensor([0.0, 1.0, 2.0]), torch.ones(3), 2.0)
    tensor([0.0000, 0.2500, 0.7500])
    """
    relevance = target.to(weight.dtype).where(weight > 0, 0.0)
    # Computed as 2^(t - g) - 2^-g, which no grade can overflow.
    return within(weight) * (torch.exp2(relevance - max_grade) - 2.0**-max_grade)


def reading_order(scores: Tensor, gains: Tensor, exists: Tensor, *, truth: Tensor | None = None) -> Tensor:
    """Return the positions (..., d) of items from the highest score to the lowest; ties put the smallest gain first.

    Args:
        scores, gains: (..., d).
        truth: (..., d), breaks ties of equal gains, smallest first; weights of 0 make different gains equal.
        exists: (..., d) boolean, False where there is no score; these positions come last.

    >>> scores, gains = torch.tensor([0.5, 0.9, 0.5]), torch.tensor([2.0, 0.0, 1.0])
    >>> reading_order(scores, gains, torch.ones(3, dtype=torch.bool))
    tensor([1, 2, 0])
    """
    ascending = gains.argsort(dim=-1)
    if truth is not None:
        ascending = truth.argsort(dim=-1)
        ascending = ascending.gather(-1, gains.gather(-1, ascending).argsort(dim=-1, stable=True))
    values = scores.detach().masked_fill(~exists, -torch.inf).gather(-1, ascending)
    return ascending.gather(-1, values.argsort(dim=-1, descending=True, stable=True))
