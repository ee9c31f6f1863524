"""Gains of NDCG, and the best that any order can reach."""

import math
from typing import Literal

import torch
from torch import Tensor

from rankops.checks import check_choice, check_values

__all__ = ["Gain", "check_relevance", "gains_of", "ideal"]

Gain = Literal["exponential", "linear"]


def check_relevance(target: Tensor, gain: Gain, *, mask: Tensor | None = None, check_finite: bool = True) -> None:
    """Raise if targets have no gain; where the mask is False, a target may be anything.

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
    known = target if mask is None else target.masked_fill(~mask, 0)
    check_values("target", target, known < 0, "a relevance of at least 0")
    if gain == "exponential":
        check_values("target", target, known > 60, "at most 60, since 2^target is the gain: use gain='linear'")


def gains_of(target: Tensor, weight: Tensor, gain: Gain) -> Tensor:
    """Return what each (..., d) gains when it comes first, times its weight.

    Args:
        target: (..., d), how relevant each is; anything where the weight is 0.
        weight: (..., d), by which gains are multiplied.
        gain: `exponential`, $2^t - 1$, or `linear`, t.

    >>> gains_of(torch.tensor([0.0, 1.0, 3.0]), torch.ones(3), "exponential")
    tensor([0., 1., 7.])
    """
    known = target.to(weight.dtype).where(weight > 0, 0.0)
    return weight * (torch.expm1(known * math.log(2)) if gain == "exponential" else known)


def ideal(gains: Tensor, k: int | None) -> Tensor:
    """Return the discounted cumulative gain (...) of the best order of gains (..., d), over its first k places.

    >>> ideal(torch.tensor([0.0, 1.0, 3.0]), 1)
    tensor(3.)
    """
    ordered = gains.sort(dim=-1, descending=True).values[..., :k]
    places = torch.arange(1, ordered.shape[-1] + 1, device=gains.device, dtype=gains.dtype)
    return (ordered / torch.log2(1 + places)).sum(-1)
