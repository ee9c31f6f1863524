"""Scores in standard deviations, by which sorters make themselves independent of their scale."""

import torch
from torch import Tensor

__all__ = ["standardised"]


def standardised(scores: Tensor, mask: Tensor | None = None, *, detach: bool = True) -> Tensor:
    r"""How many standard deviations (with division by n) each score of the last dimension is above their mean.

    Differences are taken from the largest score and divided by their range first, so that neither a large offset nor
    scores of 1e30 or 1e-30 lose them. Scores that are all equal become 0.

    Args:
        scores: (..., d), finite.
        mask: (..., d) boolean, False where there is no score, or None; the result is 0 there.
        detach: hold the mean and the deviation constant in the gradient. Attached ones are the true derivative, but
            then raising one score moves all others, and soft ranks get a quarter of the signs of their Jacobian
            wrong.

    Returns:
        (..., d).

    >>> standardised(torch.tensor([[1e30, 3e30], [7.0, 7.0]]))
    tensor([[-1.,  1.],
            [ 0.,  0.]])
    """
    there = None if mask is None else mask.to(scores.dtype)
    kept = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    below = scores - kept.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    if there is not None:
        below = below.masked_fill(~mask, 0.0)
    reach = below.detach().abs().amax(-1, keepdim=True)
    apart = reach > 0
    # Inside a `where`, so that equal scores have a gradient of 0 and not of NaN.
    relative = below / reach.where(apart, 1.0)
    constant = relative.detach() if detach else relative
    count = scores.shape[-1] if there is None else there.sum(-1, keepdim=True).clamp(min=1)
    mean = constant.sum(-1, keepdim=True) / count
    centred = constant - mean
    if there is not None:
        centred = centred * there
    variance = centred.square().sum(-1, keepdim=True) / count
    found = (relative - mean) / variance.where(apart, 1.0).sqrt()
    return found if there is None else found * there
