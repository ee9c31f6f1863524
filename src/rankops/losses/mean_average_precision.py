"""The mean average precision loss: ranks of the positives, from a sorter."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from rankops.checks import check_choice, check_labels
from rankops.losses.inputs import present, soft_ranks, transposed
from rankops.metrics.weights import relative_weights

__all__ = ["mean_average_precision"]

Weighting = Literal["classes", "positives"]


def mean_average_precision(
    scores: Tensor,
    labels: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    weight_by: Weighting = "classes",
) -> Tensor:
    r"""In each class, the mean rank of the examples that have it should be small.

    $\frac1n \left( \frac1P \langle f(y_c), y^*_c \rangle - \frac{P + 1}{2} \right)$ for each class c: how far the mean
    rank of its P positives among the n examples is above the least possible, so that a perfect order gives 0 and
    classes of different sizes can be compared. Weighted by the number of positives it is
    $\sum_c \langle f(y_c), y^*_c \rangle$ (SoDeep, Eq. 7) up to a factor and a constant, in which frequent classes
    count for more. Classes without a positive or without a negative are left out; if all are, the value is 0 without
    gradient.

    Args:
        scores: y, (..., n, C).
        labels: $y^*$, (..., n, C), boolean, or integers 0 and 1.
        sorter: f, takes scores (..., C, n) to ranks (..., C, n), 1 for the largest, and `mask`, where one is given.
        mask: (..., n, C) boolean, False where an example does not count for a class (VOC's difficult objects); n is
            then the number of those that do.
        weights: (..., n, C), how much the rank of a positive counts among those of its class.
        weight_by: `classes`, all alike, as in the metric, or `positives`, as in Eq. 7.

    Returns:
        A scalar.

    Raises:
        TypeError: scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, groups of one example, labels that are anything but 0 and 1,
            negative weights, an unknown `weight_by`, or what the sorter refuses: scores that are not finite, another n
            than its length.

    >>> import torch
    >>> from rankops.ranks import ranks
    >>> scores, labels = torch.tensor([[0.9], [0.5], [0.7], [0.1]]), torch.tensor([[1], [1], [0], [0]])
    >>> mean_average_precision(scores, labels, sorter=ranks)  # ranks 1 and 3 instead of 1 and 2: (2 - 1.5) / 4
    tensor(0.1250)
    """
    check_labels(scores, labels, least=2, mask=mask)
    check_choice("weight_by", weight_by, Weighting)
    weight = relative_weights(scores, mask, weights).mT  # (..., C, n)
    exists = present(labels, mask).mT
    positives = labels.bool().mT & exists
    length, count = exists.sum(-1), positives.sum(-1)
    weight = weight * positives
    total = weight.sum(-1)
    ranked = (soft_ranks(sorter, scores, mask, arranged=transposed) * weight).sum(-1)
    # The least possible sum: places 1, 2, ..., the heaviest first.
    places = torch.arange(1, weight.shape[-1] + 1, device=weight.device, dtype=weight.dtype)
    least = (weight.sort(dim=-1, descending=True).values * places).sum(-1)
    above_least = (ranked - least.to(ranked.dtype)) / (total.where(total > 0, 1.0) * length.clamp(min=1))
    both_kinds = (count > 0) & (count < length) & (total > 0)
    share = (both_kinds if weight_by == "classes" else total * both_kinds).to(ranked.dtype)
    whole = share.sum()
    return (above_least * share).sum() / whole.where(whole > 0, 1.0)
