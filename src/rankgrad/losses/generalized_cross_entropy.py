"""Generalized cross-entropy, between binary cross-entropy and mean absolute error; robust to wrong labels."""

import torch
from torch import Tensor
from torch.nn import functional

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, groups, pointwise

__all__ = ["generalized_cross_entropy"]


def generalized_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    q: float = 0.7,
) -> Tensor:
    r"""Present labels should have positive scores, absent ones negative; labels that contradict scores matter little.

    $(1 - p^q) / q$ with $p = \sigma(y)$ for a present label and $1 - \sigma(y)$ for an absent one, averaged over all
    labels (Zhang and Sabuncu 2018, Eq. 6, for each label). It tends to `multilabel_soft_margin` as q tends to 0, and is
    the absolute error for q = 1. A label that contradicts a confident prediction has a smaller gradient.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        mask: of that shape, boolean, False for labels to ignore.
        weights: of that shape, weight of each label in the mean over all labels.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        q: above 0, up to 1.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; q is out of range.

    >>> generalized_cross_entropy(torch.zeros(2, 3), torch.tensor([[1, 0, 0], [0, 1, 1]]), q=1.0)
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
    )
    check_positive("q", q)
    if q > 1:
        raise ValueError(f"q is {q}, expected at most 1")
    right = batch.scores.where(batch.truth, -batch.scores)
    return pointwise(batch, -torch.expm1(q * functional.logsigmoid(right)) / q, reduction)
