"""Average precision itself as a loss: ranks among the positives over ranks among all, from a sorter."""

from torch import Tensor

from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["average_precision"]


def average_precision(
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
) -> Tensor:
    r"""The positives of each group should come first; the top positions count most.

    $1 - \frac1P \sum_{i \in P} \frac{f(y_P)_i}{f(y)_i}$ with f(y) the ranks among all of a group and f(y_P) those among
    its P positives: 1 minus average precision (SoDeep, Eqs. 5-6) when the sorter is exact, averaged over groups.
    `sodeep_mean_average_precision` makes the mean rank of the positives small, and all positions count the same; here
    those at the top count most, as in the metric. With soft ranks no precision counts for more than 1. Groups without a
    positive or without a negative are left out. With `Handcrafted` this is SmoothAP (Brown et al. 2020).

    Args:
        scores: y, any shape.
        labels: $y^*$, of that shape, 0 and 1 of any type.
        dim: of a group, such as the documents of a query, or with `dim=-2` the examples of a class.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, how much the precision at each positive counts.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`; a sorter of any length.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups of one.

    >>> import torch
    >>> scores, labels = torch.tensor([0.9, 0.5, 0.7, 0.1]), torch.tensor([1, 1, 0, 0])
    >>> average_precision(scores, labels, sorter="straight_through")  # 1 - (1 / 1 + 2 / 3) / 2
    tensor(0.1667)
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
    positives = batch.truth
    weight = batch.weight * positives
    among_all = soft_ranks(batch, sorter)
    # Soft ranks among the positives, which lie closer together, can be larger than those among all: a precision above
    # 1 would reward positives for lying close together.
    precision = (soft_ranks(batch, sorter, mask=positives) / among_all.where(positives, 1.0)).clamp(max=1)
    total = weight.sum(-1).to(precision.dtype)
    both_kinds = (total > 0) & (batch.exists & ~positives).any(-1)
    lost = 1 - (precision * weight).sum(-1) / total.where(both_kinds, 1.0)
    return reduced(batch, lost, reduction, counts=both_kinds)
