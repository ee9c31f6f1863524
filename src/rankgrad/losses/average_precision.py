"""Average precision as a loss: ranks among positives divided by ranks among all examples, from a sorter."""

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
    r"""The positives of each group should come first; the top positions matter most.

    $1 - \frac1P \sum_{i \in P} \frac{f(y_P)_i}{f(y)_i}$ with f(y) the ranks in the whole group and f(y_P) the ranks
    among its P positives: 1 minus average precision (SoDeep, Eqs. 5-6) if the sorter is exact, averaged over groups.
    `sodeep_mean_average_precision` minimizes the mean rank of the positives, with equal weight for all positions; here,
    the top positions have the largest weight, as in the metric. With soft ranks, each precision is at most 1. Groups
    without a positive or without a negative are ignored. With `Handcrafted`, this is SmoothAP (Brown et al. 2020).

    Args:
        scores: y, any shape.
        labels: $y^*$, of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, weight of the precision at each positive.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`; the sorter must take any length.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

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
    # Soft ranks among the positives can exceed those in the whole group, because positives lie closer together. A
    # precision above 1 would reward positives for lying close together.
    precision = (soft_ranks(batch, sorter, mask=positives) / among_all.where(positives, 1.0)).clamp(max=1)
    total = weight.sum(-1).to(precision.dtype)
    both_kinds = (total > 0) & (batch.exists & ~positives).any(-1)
    lost = 1 - (precision * weight).sum(-1) / total.where(both_kinds, 1.0)
    return reduced(batch, lost, reduction, counts=both_kinds)
