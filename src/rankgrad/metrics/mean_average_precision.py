"""Average precision, and its mean over queries or classes, exact."""

import torch
from torch import Tensor

from rankgrad.groups import groups

__all__ = ["average_precision", "mean_average_precision"]


def mean_average_precision(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Average `average_precision` over groups with a positive: queries, or classes with `dim=-2` (SoDeep, 4.2.2).

    Args:
        scores, labels, dim, mask, weights: see `average_precision`.

    Returns:
        A scalar, float64; NaN if no group has a positive.

    Raises:
        TypeError, ValueError: see `average_precision`.

    >>> scores, labels = torch.tensor([[0.9, 0.3], [0.2, 0.4]]), torch.tensor([[1, 0], [1, 0]])
    >>> mean_average_precision(scores, labels)
    tensor(0.7500, dtype=torch.float64)
    """
    return average_precision(scores, labels, dim=dim, mask=mask, weights=weights).nanmean()


def average_precision(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Compute how early the positives of each group come when examples are ordered by score.

    $\sum_t (R_t - R_{t-1}) P_t$ over the thresholds t, which are the distinct scores: the mean over positives of the
    precision at their position, with ties included (SoDeep, Eqs. 5-6, and scikit-learn). Not interpolated. Over the
    labels of an example, it is label ranking average precision (LRAP).

    Args:
        scores: any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False for examples to ignore (such as VOC's difficult objects).
        weights: of that shape, weight of each example.

    Returns:
        One value per group, float64, NaN for a group without a positive of nonzero weight.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: shapes differ or are empty, a score is not finite, a label is not 0 or 1, or
            negative weights.

    >>> scores, labels = torch.tensor([[0.9, 0.3, 0.6], [0.2, 0.4, 0.5]]), torch.tensor([[1, 1, 0], [0, 0, 0]])
    >>> average_precision(scores, labels)
    tensor([0.8333,    nan], dtype=torch.float64)
    """
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    values = batch.scores.where(batch.weight > 0, 0.0).contiguous()
    ascending, order = (-values).sort(dim=-1)
    weight = batch.weight.gather(-1, order)
    positive = weight * batch.truth.gather(-1, order)
    # Where each example's group of equal scores ends.
    last = torch.searchsorted(ascending, ascending, right=True) - 1
    right, seen = (kind.cumsum(-1).gather(-1, last) for kind in (positive, weight))
    precision = torch.where(positive > 0, right / seen, 0.0)
    return (positive * precision).sum(-1) / positive.sum(-1)
