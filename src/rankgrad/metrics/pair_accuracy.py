"""The share of pairs in the right order, exact: by it preferences and reward models are judged."""

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
    r"""Compute which share of the pairs of different targets has scores in the same order; equal scores count half.

    $\frac{1}{2} + \frac{\sum w_{ij} a_{ij} b_{ij}}{2 \sum w_{ij} b_{ij}^2}$ with a and b the signs of the
    differences of scores and of targets, $w_{ij}$ the product of two weights. Of a preferred and a rejected item it is
    1, 0, or 0.5; of labels 0 and 1 it is the area under the ROC curve. It takes time in proportion to n log n, and
    memory to n.

    Args:
        scores, target, dim, mask, weights: see `rankgrad.metrics.kendall`.

    Returns:
        One value per group, float64, from 0 to 1; NaN for those without two different targets that count.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics.kendall`.

    >>> pair_accuracy(torch.tensor([[0.3, 0.1], [0.2, 0.2]]), torch.tensor([1, 0]).expand(2, 2))
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    concordant, discordant, _, of_target, _ = pairs_of("Pair accuracy", scores, target, mask, weights, dim)
    defined = of_target > 0
    accuracy = 0.5 + (concordant - discordant) / (2 * of_target.where(defined, 1.0))
    return accuracy.clamp(0.0, 1.0).where(defined, torch.nan)
