"""Whether scores have the order of their targets: for whole groups (EM), and element by element (EW)."""

import torch
from torch import Tensor

from rankgrad.groups import Groups, groups
from rankgrad.ranks import exact_ranks

__all__ = ["elementwise_match", "exact_match"]


def exact_match(scores: Tensor, target: Tensor, *, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    r"""Compute whether all scores have the rank of their target; its mean over groups is EM.

    $[\mathrm{rk}(y) = \mathrm{rk}(y^*)]$ (Grover et al. 2019). Ties share their average rank: equal scores match only
    equal targets.

    Args:
        scores: y, any shape.
        target: $y^*$, of that shape.
        dim: the dimension of a group.
        mask: of that shape, boolean, False where there is nothing to rank.

    Returns:
        One value per group, float64, 0 or 1; NaN if everything is masked.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`.

    >>> scores, target = torch.tensor([[0.1, 0.4, 0.2], [0.1, 0.2, 0.4]]), torch.tensor([1, 2, 3]).expand(2, -1)
    >>> exact_match(scores, target)
    tensor([0., 1.], dtype=torch.float64)
    """
    batch = groups(scores, exact=True, target=target, order=True, dim=dim, mask=mask)
    return (_matched(batch) | ~batch.exists).all(-1).double().where(batch.exists.any(-1), torch.nan)


def elementwise_match(
    scores: Tensor, target: Tensor, *, dim: int = -1, mask: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    r"""Compute the fraction of scores that have the rank of their target; its mean over groups is EW.

    $\sum_i w_i [\mathrm{rk}(y)_i = \mathrm{rk}(y^*)_i] / \sum_i w_i$ (Grover et al. 2019). Ties share their average
    rank.

    Args:
        scores, target, dim, mask: see `exact_match`.
        weights: of the scores' shape, weight of each score.

    Returns:
        One value per group, float64, from 0 to 1; NaN if all weights are 0.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`.

    >>> elementwise_match(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1, 2, 3]))  # the smallest is in its place
    tensor(0.3333, dtype=torch.float64)
    """
    batch = groups(scores, exact=True, target=target, order=True, dim=dim, mask=mask, weights=weights)
    weight = batch.weight
    return (weight * _matched(batch)).sum(-1) / weight.sum(-1)


def _matched(batch: Groups) -> Tensor:
    first, second = (exact_ranks(values.double(), mask=batch.mask) for values in (batch.scores, batch.truth))
    return first == second
