"""Scores in standard deviations, by which sorters become independent of their scale."""

import torch
from torch import Tensor

__all__ = ["centered", "largest", "standard_deviation", "standardized"]


def largest(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the largest score (..., 1) as a constant; the least finite number where the mask is all False."""
    kept = scores.detach() if mask is None else scores.detach().masked_fill(~mask, -torch.inf)
    return kept.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)


def standard_deviation(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the standard deviation (divided by n) over the last dimension, and 1 where all scores are equal.

    Differences are taken from the largest score and divided by their range first, so that a large offset or scores of
    1e30 or 1e-30 do not lose it. It is at least 2^20 times the smallest normal number: divided by less, scores or
    their gradient could be infinite.

    Args:
        scores: (..., d), finite, and so are their differences.
        mask: (..., d) boolean, False where there is no score; None if all are there.

    Returns:
        (..., 1).

    >>> standard_deviation(torch.tensor([[1e30, 3e30], [7.0, 7.0]]))
    tensor([[1.0000e+30],
            [1.0000e+00]])
    """
    kept = scores if mask is None else scores.where(mask, largest(scores, mask))
    limits = torch.finfo(scores.dtype)
    least, most = torch.aminmax(kept.detach(), dim=-1, keepdim=True)
    reach = (most - least).clamp(min=limits.tiny)
    relative = (kept - most).div_(reach)
    if mask is None:
        offsets, count = relative - relative.mean(-1, keepdim=True), scores.shape[-1]
    else:
        count = mask.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        offsets = (relative - relative.sum(-1, keepdim=True) / count).masked_fill(~mask, 0.0)
    # A norm of zeros would have a second derivative of NaN.
    differ = most != least
    deviation = torch.linalg.vector_norm(offsets.where(differ, 1.0), dim=-1, keepdim=True) * (reach / count**0.5)
    return deviation.clamp(min=min(limits.tiny * 2**20, limits.eps)).masked_fill(~differ, 1.0)  # eps in float16


def standardized(scores: Tensor, mask: Tensor | None = None, *, detach: bool = True) -> Tensor:
    """Return how many standard deviations each score of the last dimension is from the largest; 0 or less.

    Args:
        scores, mask: see `standard_deviation`; the result is 0 where the mask is False.
        detach: hold the deviation constant in the gradient. Attached, the gradient is the true derivative, but raising
            one score then moves all others, and a quarter of the signs of the soft ranks' Jacobian are wrong.

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
    """Bring vectors (..., d) to mean 0 and variance 1, with the true derivative: the input of a trained network.

    >>> centered(torch.tensor([1e30, 3e30]))
    tensor([-1.,  1.])
    """
    values = standardized(scores, detach=False)
    return values - values.mean(-1, keepdim=True)
