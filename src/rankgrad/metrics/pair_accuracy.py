"""The fraction of pairs in the right order, exact; a metric for preferences and reward models."""

import torch
from torch import Tensor

from rankgrad.metrics._pairs import pairs_of

__all__ = ["pair_accuracy"]


def pair_accuracy(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Compute the fraction of pairs with different targets whose scores have the same order; ties count half.

    $\frac{1}{2} + \frac{\sum w_{ij} a_{ij} b_{ij}}{2 \sum w_{ij} b_{ij}^2}$ with a and b the signs of the
    differences of scores and of targets, and $w_{ij}$ the product of two weights. For a preferred and a rejected item,
    it is 1, 0, or 0.5; for labels 0 and 1, it is the area under the ROC curve. It takes O(n log n) time and O(n)
    memory.

    Args:
        scores, target, dim, mask, weights: see `rankgrad.metrics.kendall`.

    Returns:
        One value per group, float64, from 0 to 1; NaN without two different targets.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics.kendall`.

    >>> pair_accuracy(torch.tensor([[0.3, 0.1], [0.2, 0.2]]), torch.tensor([1, 0]).expand(2, 2))
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    concordant, discordant, _, of_target, _ = pairs_of("Pair accuracy", scores, target, mask, weights, dim)
    defined = of_target > 0
    accuracy = 0.5 + (concordant - discordant) / (2 * of_target.where(defined, 1.0))
    return accuracy.clamp(0.0, 1.0).where(defined, torch.nan)
