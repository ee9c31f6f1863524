"""Precision at K, exact."""

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.groups import among_first, groups

__all__ = ["precision_at_k"]


def precision_at_k(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int = 5,
    adaptive_k: bool = False,
) -> Tensor:
    """Compute the fraction of the first K positions of each group that positives take.

    Equal scores share their positions. In a group with fewer than K examples, the remaining positions are empty and
    count as misses: for a single positive, the value is 1/K.

    Args:
        scores: any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, weight of each positive, relative to the largest of all.
        k: K, at least 1.
        adaptive_k: use the number of examples as K in smaller groups, so that no position is empty.

    Returns:
        One value per group, float64, from 0 to 1; NaN if everything is masked.

    Raises:
        TypeError: scores are not floating point.
        ValueError: shapes differ or are empty, a score is not finite, a label is not 0 or 1, a weight is negative, or
            `k` is below 1.

    >>> scores, labels = torch.tensor([0.9, 0.5, 0.7, 0.1]), torch.tensor([1, 1, 0, 0])
    >>> precision_at_k(scores, labels, k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    check_count("k", k)
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    weight = batch.weight * batch.truth
    count = batch.exists.sum(-1)
    deep = count.clamp(max=k) if adaptive_k else torch.full_like(count, k).where(count > 0, 0)
    return (weight * among_first(batch, k)).sum(-1) / deep
