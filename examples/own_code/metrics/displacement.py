"""An example of your own metric: the mean distance of a score's rank from its true rank."""

import torch
from torch import Tensor

from rankgrad.ranks import exact_ranks

__all__ = ["displacement"]

lower_is_better = True


def displacement(
    scores: Tensor, target: Tensor, *, mask: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """Return the mean distance of ranks, a number per list.

    >>> displacement(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[0.0, 1.0, 2.0]]))
    tensor([0.6667], dtype=torch.float64)
    """
    counts = torch.ones_like(scores, dtype=torch.float64) if weights is None else weights.double()
    counts = counts if mask is None else counts * mask
    places = [exact_ranks(values.double(), mask=mask) for values in (scores, target)]
    return ((places[0] - places[1]).abs() * counts).sum(-1) / counts.sum(-1)
