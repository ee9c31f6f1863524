"""Spearman's rank correlation, exact."""

import torch
from torch import Tensor

from rankgrad.groups import comparable
from rankgrad.ranks import exact_ranks

__all__ = ["spearman"]


def spearman(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Compute how well the order of the scores agrees with the order of the targets.

    $r_s$, the Pearson correlation of ranks, ties averaged; without ties it is
    $1 - \frac{6 \|\mathrm{rk}(y) - \mathrm{rk}(y^*)\|^2}{n (n^2 - 1)}$ (SoDeep, Section 3.2.1).

    Args:
        scores, target: y and $y^*$, of the same shape.
        dim: the dimension of a group, of n.
        mask: of that shape, boolean, False where there is no example; the others are ranked without it.
        weights: of that shape, weight of each example in the means, variances, and covariance of the ranks.

    Returns:
        One value per group, float64, from -1 to 1; NaN without two different scores and two different targets.

    Raises:
        TypeError: scores are not floating point, or mask or weights have the wrong type.
        ValueError: shapes differ, a value is not finite, or a weight is negative.

    >>> spearman(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1, 2, 3]))
    tensor(0.5000, dtype=torch.float64)
    """
    weight, score_values, target_values, defined = comparable("Spearman", scores, target, mask, weights, dim)
    mask = None if mask is None else mask.movedim(dim, -1)
    centered = []
    for values in (score_values, target_values):
        placed = exact_ranks(values, mask=mask)
        centered.append(placed - (placed * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True))
    first, second = centered
    norms = ((weight * first.square()).sum(-1) * (weight * second.square()).sum(-1)).sqrt()
    correlation = (weight * first * second).sum(-1) / norms.where(defined, 1.0)
    return correlation.clamp(-1.0, 1.0).where(defined, torch.nan)
