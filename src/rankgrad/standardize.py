"""Measure scores in standard deviations, so that sorters do not depend on the scale of the scores."""

import torch
from torch import Tensor

__all__ = ["centered", "largest", "standard_deviation", "standardized"]


def largest(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the largest score (..., 1) as a constant; the smallest finite number if the mask is all False."""
    kept = scores.detach() if mask is None else scores.detach().masked_fill(~mask, -torch.inf)
    return kept.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)


def standard_deviation(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the population standard deviation over the last dimension; 1 if all scores are equal.

    Scores are first shifted by the largest and divided by their range, so that a large offset, or scores near 1e30 or
    1e-30, cost no precision. The result is at least 2^20 times the smallest normal number (in float16, at least the
    machine epsilon), because dividing by less could make scores or their gradient infinite.

    Args:
        scores: (..., d); scores and their differences must be finite.
        mask: (..., d) boolean, False where there is no score; None if no score is missing.

    Returns:
        (..., 1).

    >>> standard_deviation(torch.tensor([[1e30, 3e30], [7.0, 7.0]]))
    tensor([[1.0000e+30],
            [1.0000e+00]])
    """
    filled = scores if mask is None else scores.where(mask, largest(scores, mask))
    limits = torch.finfo(scores.dtype)
    lowest, highest = torch.aminmax(filled.detach(), dim=-1, keepdim=True)
    spread = (highest - lowest).clamp(min=limits.tiny)  # avoids division by 0 if all scores are equal
    relative = (filled - highest).div_(spread)  # in place, because no other code uses this tensor
    if mask is None:
        count = scores.shape[-1]
        offsets = relative - relative.mean(-1, keepdim=True)
    else:
        count = mask.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        mean = relative.sum(-1, keepdim=True) / count  # absent scores are set to the highest and add 0
        offsets = (relative - mean).masked_fill(~mask, 0.0)
    # If all scores are equal, the norm of zeros has a second derivative of NaN: use ones, and replace the result below.
    differ = highest != lowest
    deviation = torch.linalg.vector_norm(offsets.where(differ, 1.0), dim=-1, keepdim=True) * (spread / count**0.5)
    floor = min(limits.tiny * 2**20, limits.eps)  # eps in float16, where the first value would be 64
    return deviation.clamp(min=floor).masked_fill(~differ, 1.0)


def standardized(scores: Tensor, mask: Tensor | None = None, *, detach: bool = True) -> Tensor:
    """Return the distance of each score from the largest, in standard deviations over the last dimension; 0 or less.

    Args:
        scores, mask: see `standard_deviation`; the result is 0 where the mask is False.
        detach: treat the deviation as a constant in the gradient. Without it, the gradient is the true derivative, but
            then raising one score moves all others, and a quarter of the signs of the soft ranks' Jacobian are wrong.

    Returns:
        (..., d).

    >>> standardized(torch.tensor([[1e30, 3e30], [7.0, 7.0]]))
    tensor([[-2.,  0.],
            [ 0.,  0.]])
    """
    deviation = standard_deviation(scores.detach() if detach else scores, mask)
    result = (scores - largest(scores, mask)) / deviation
    return result if mask is None else result.masked_fill(~mask, 0.0)


def centered(scores: Tensor) -> Tensor:
    """Scale vectors (..., d) to mean 0 and variance 1, with the true derivative, as input of a trained network.

    >>> centered(torch.tensor([1e30, 3e30]))
    tensor([-1.,  1.])
    """
    values = standardized(scores, detach=False)
    return values - values.mean(-1, keepdim=True)
