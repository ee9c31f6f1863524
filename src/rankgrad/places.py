"""Soft permutation matrices: the fraction of each place that each score takes, by the distance of ranks."""

import torch
from torch import Tensor

__all__ = ["ranks_of_places", "shares_of_places"]


def ranks_of_places(ranks: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sorted ranks and which places are taken, both (..., d).

    >>> ranks_of_places(torch.tensor([2.0, 9.0, 1.0]), torch.tensor([True, False, True]))
    (tensor([1., 2., 0.]), tensor([ True,  True, False]))
    """
    taken = torch.arange(ranks.shape[-1], device=ranks.device) < mask.sum(-1, keepdim=True)
    return ranks.masked_fill(~mask, torch.inf).sort(dim=-1).values.where(taken, 0.0), taken


def shares_of_places(ranks: tuple[Tensor, Tensor], exists: tuple[Tensor, Tensor], temperature: float) -> Tensor:
    """Return rows of `rankgrad.sorters.permutation_of_ranks`, (..., b, d).

    Args:
        ranks: ranks of b places (..., b, 1), and of the scores (..., 1, d).
        exists: which places are taken, and which scores exist.
        temperature: temperature, in units of places.
    """
    taken, mask = exists
    closeness = -(ranks[0] - ranks[1]).abs() / temperature
    # Rows of empty places keep all entries; otherwise they would be 0 / 0.
    shares = torch.softmax(closeness.masked_fill(taken & ~mask, -torch.inf), -1)
    return shares.masked_fill(~(taken & mask), 0.0)
