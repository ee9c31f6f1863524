"""Recall at K, exact."""

from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.groups import among_first, groups

__all__ = ["recall_at_k"]


def recall_at_k(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int = 1,
) -> Tensor:
    r"""Compute the fraction of the positives that are among the first k.

    $\sum_{i \in P} w_i [\mathrm{rk}(y)_i \leq k] / \sum_{i \in P} w_i$ over the positives P. Equal scores share their
    positions, as in `precision_at_k`. `hit_rate` measures whether any positive is found, which caption retrieval calls
    R@K.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query.
        mask: of that shape, boolean, False where there is nothing to rank.
        weights: of that shape, weight of each positive.
        k: at least 1.

    Returns:
        One value per group, float64, from 0 to 1; NaN for a group without a positive of nonzero weight.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`; `k` below 1.

    >>> import torch
    >>> recall_at_k(torch.tensor([0.9, 0.7, 0.5, 0.1]), torch.tensor([1, 0, 1, 0]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    check_count("k", k)
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    weight = batch.weight * batch.truth
    return (weight * among_first(batch, k)).sum(-1) / weight.sum(-1)
