"""Precision at K as a loss: soft steps on the ranks of the positives, from a sorter."""

import torch
from torch import Tensor

from rankgrad.checks import check_count, check_positive
from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["precision_at_k"]


def precision_at_k(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    k: int = 5,
    temperature: float = 1.0,
) -> Tensor:
    r"""Positives should take the first K positions of each group.

    $1 - \frac{1}{\min(K, P)} \sum_{i: y^*_i = 1} \sigma((K + \frac12 - f(y)_i) / \tau)$ with P the number of
    positives, averaged over groups. With an exact sorter and at least K positives, it tends to 1 - P@K as $\tau$ tends
    to 0. Groups without a positive or without a negative are ignored.

    Args:
        scores: y, any shape.
        labels: $y^*$, of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, weight of each positive; P is then the sum of weights, and min(K, P) the sum of the K
            largest.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        k: K, at least 1.
        temperature: $\tau$, the width of the step in positions.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups have one score, `k` is not a whole number of at least 1, or
            `temperature` is not positive.

    >>> scores, labels = torch.tensor([0.9, 0.5, 0.7, 0.1]), torch.tensor([1, 1, 0, 0])
    >>> precision_at_k(scores, labels, sorter="straight_through", k=2, temperature=0.01)  # the second is at place 3
    tensor(0.5000)
    """
    batch = groups(
        scores,
        labels=labels,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    check_count("k", k)
    check_positive("temperature", temperature)
    weight = batch.weight * batch.truth
    places = soft_ranks(batch, sorter)
    inside = (torch.sigmoid((k + 0.5 - places) / temperature) * weight).sum(-1)
    most = weight.sort(dim=-1, descending=True).values[..., :k].sum(-1).to(inside.dtype)
    both_kinds = (most > 0) & (batch.exists & ~batch.truth).any(-1)
    return reduced(batch, 1 - inside / most.where(both_kinds, 1.0), reduction, counts=both_kinds)
