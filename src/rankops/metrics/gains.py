"""Gains of NDCG, and the best that any order can reach."""

import math

import torch
from torch import Tensor

__all__ = ["gains_of", "ideal"]


def gains_of(target: Tensor, weight: Tensor, gain: str) -> Tensor:
    """What each (..., d) gains when it comes first, times its weight."""
    known = target.to(weight.dtype).where(weight > 0, 0.0)
    return weight * (torch.expm1(known * math.log(2)) if gain == "exponential" else known)


def ideal(gains: Tensor, k: int | None) -> Tensor:
    """The discounted cumulative gain (...) of the best order of gains (..., d), of its first k places.

    >>> ideal(torch.tensor([0.0, 1.0, 3.0]), 1)
    tensor(3.)
    """
    ordered = gains.sort(dim=-1, descending=True).values[..., :k]
    places = torch.arange(1, ordered.shape[-1] + 1, device=gains.device, dtype=gains.dtype)
    return (ordered / torch.log2(1 + places)).sum(-1)
