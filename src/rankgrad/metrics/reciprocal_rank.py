"""The reciprocal rank, exact: how early the first positive comes."""

from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.groups import Groups, groups
from rankgrad.ranks import places

__all__ = ["hit_rate", "reciprocal_rank"]


def reciprocal_rank(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = None,
) -> Tensor:
    r"""Compute one over the rank of the first positive; its mean over groups is the MRR.

    $\max_{i \in P} \frac{w_i}{\mathrm{rk}(y)_i} / \max_{i \in P} w_i$ over the positives P; 0 if no positive is among
    the first k. Ties count against a positive: negatives with the same score come first.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query.
        mask: of that shape, boolean, False where there is nothing to rank.
        weights: of that shape, the value of finding each positive.
        k: the number of positions to consider; None for all.

    Returns:
        One value per group, float64, from 0 to 1; NaN for a group without a positive of nonzero weight.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`; `k` below 1.

    >>> import torch
    >>> reciprocal_rank(torch.tensor([[0.9, 0.7, 0.1], [0.2, 0.5, 0.9]]), torch.tensor([[0, 1, 1], [0, 0, 1]]))
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    worth, rank = _positives(batch)
    reached = worth / rank
    if k is not None:
        check_count("k", k)
        reached = reached.where(rank <= k, 0.0)
    return reached.amax(-1) / worth.amax(-1)


def hit_rate(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int = 1,
) -> Tensor:
    r"""Compute whether a positive is among the first k; its mean over groups is the hit rate, retrieval's R@K.

    $\max_{i \in P} w_i [\mathrm{rk}(y)_i \leq k] / \max_{i \in P} w_i$ over the positives P. `recall_at_k` is the
    fraction of positives that are found. Equal scores count against a positive.

    Args:
        scores, labels, dim, mask, weights: see `reciprocal_rank`.
        k: at least 1.

    Returns:
        One value per group, float64, 0 or 1 without weights; NaN for a group without a positive of nonzero weight.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`; `k` below 1.

    >>> import torch
    >>> hit_rate(torch.tensor([[0.9, 0.7, 0.1], [0.2, 0.5, 0.9]]), torch.tensor([[0, 1, 1], [0, 0, 1]]), k=1)
    tensor([0., 1.], dtype=torch.float64)
    """
    check_count("k", k)
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    worth, rank = _positives(batch)
    return worth.where(rank <= k, 0.0).amax(-1) / worth.amax(-1)


def _positives(batch: Groups) -> tuple[Tensor, Tensor]:
    """Return the value of finding each score (0 for negatives) and its rank (at least 1), both (..., d)."""
    scores = batch.scores
    worth = batch.weight * batch.truth
    _, not_smaller = places(scores, batch.mask)
    # Tied positives do not count against each other.
    larger_positives, not_smaller_positives = places(scores, batch.truth)
    return worth, 1 + not_smaller - not_smaller_positives + larger_positives
