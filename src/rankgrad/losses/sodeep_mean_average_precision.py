"""SoDeep's loss for mean average precision: ranks of the positives, from a sorter."""

from typing import Literal

import torch
from torch import Tensor

from rankgrad.checks import check_choice
from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["sodeep_mean_average_precision"]

Weighting = Literal["classes", "positives"]


def sodeep_mean_average_precision(
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
    weight_by: Weighting = "classes",
) -> Tensor:
    r"""The mean rank of the positives of each class should be small; for 1 - mAP see `average_precision`.

    $\frac1n \left( \frac1P \langle f(y_c), y^*_c \rangle - \frac{P + 1}{2} \right)$ for each class (group) c: the
    mean rank of its P positives among the n examples, minus the smallest possible mean rank, so that a perfect order
    gives 0 and classes of different sizes are comparable. Weighted by the number of positives, it is
    $\sum_c \langle f(y_c), y^*_c \rangle$ (SoDeep, Eq. 7) up to a factor and a constant; frequent classes then have
    more weight. Classes without a positive or without a negative are ignored.

    Args:
        scores: y, any shape.
        labels: $y^*$, of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False for examples to ignore (such as VOC's difficult objects); n is then the
            number of the others.
        weights: of that shape, weight of a positive's rank within its group.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        weight_by: `classes` for equal weights of classes, as in the metric, or `positives`, as in Eq. 7.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups have one score, or `weight_by` is unknown.

    >>> scores, labels = torch.tensor([0.9, 0.5, 0.7, 0.1]), torch.tensor([1, 1, 0, 0])
    >>> sodeep_mean_average_precision(scores, labels, sorter="straight_through")  # ranks 1 and 3: (2 - 1.5) / 4
    tensor(0.1250)
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
    check_choice("weight_by", weight_by, Weighting)
    length, count = batch.exists.sum(-1), batch.truth.sum(-1)
    weight = batch.weight * batch.truth
    total = weight.sum(-1)
    ranked = (soft_ranks(batch, sorter) * weight).sum(-1)
    # The smallest possible sum: positions 1, 2, ..., with the largest weight first.
    places = torch.arange(1, weight.shape[-1] + 1, device=weight.device, dtype=weight.dtype)
    least = (weight.sort(dim=-1, descending=True).values * places).sum(-1)
    above_least = (ranked - least.to(ranked.dtype)) / (total.where(total > 0, 1.0) * length.clamp(min=1))
    both_kinds = (count > 0) & (count < length) & (total > 0)
    return reduced(batch, above_least, reduction, counts=both_kinds if weight_by == "classes" else total * both_kinds)
