"""Ranking loss, exact: the fraction of pairs of labels that are in the wrong order."""

from torch import Tensor

from rankgrad.groups import groups
from rankgrad.ranks import places

__all__ = ["ranking_loss"]


def ranking_loss(
    scores: Tensor, labels: Tensor, *, dim: int = -1, mask: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    r"""Compute the fraction of positive-negative pairs in which the positive does not score higher.

    $\sum_{i \in P, j \in N} w_i w_j [y_i \leq y_j] / \sum_{i \in P, j \in N} w_i w_j$ over positives P and negatives N
    (Tsoumakas et al. 2010, and scikit-learn). Equal scores are wrong; if there are none, it is 1 minus the area under
    the ROC curve.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the labels of an example.
        mask: of that shape, boolean, False where there is nothing to rank.
        weights: of that shape; the weight of a pair is the product of both.

    Returns:
        One value per group, float64, from 0 to 1; NaN for a group without a positive or a negative of nonzero weight.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`.

    >>> import torch
    >>> ranking_loss(torch.tensor([0.9, 0.7, 0.5, 0.1]), torch.tensor([1, 0, 1, 0]))  # 0.5 is below 0.7
    tensor(0.2500, dtype=torch.float64)
    """
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask, weights=weights)
    weight = batch.weight
    positive, negative = weight * batch.truth, weight * (batch.exists & ~batch.truth)
    _, not_smaller = places(batch.scores, batch.mask)
    order = batch.scores.masked_fill(~batch.exists, -float("inf")).argsort(dim=-1, descending=True)
    above = negative.gather(-1, order).cumsum(-1).gather(-1, (not_smaller - 1).clamp(min=0))  # negatives up to each
    return (positive * above).sum(-1) / (positive.sum(-1) * negative.sum(-1))
