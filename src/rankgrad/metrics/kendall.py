"""Kendall's rank correlation, and Goodman and Kruskal's gamma, exact."""

import torch
from torch import Tensor

from rankgrad.metrics._pairs import pairs_of

__all__ = ["goodman_kruskal_gamma", "kendall"]


def kendall(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    top_heavy: bool = False,
) -> Tensor:
    r"""Compute how many more pairs of scores agree with the order of their targets than disagree (tau-b).

    Tau-b, $\frac{\sum w_{ij} a_{ij} b_{ij}}{\sqrt{\sum w_{ij} a_{ij}^2 \sum w_{ij} b_{ij}^2}}$ with a and b the signs
    of the differences of scores and of targets. With `top_heavy`, the weight of a pair is
    $w_{ij} = 1 / \mathrm{rk}(y^*)_i + 1 / \mathrm{rk}(y^*)_j$ (Vigna 2015, Eq. 3). It takes O(n log n) time and O(n)
    memory.

    Args:
        scores, target: y and $y^*$, of the same shape.
        dim: the dimension of a group, of n.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape; the weight of a pair is the product of both.
        top_heavy: pairs near the top get larger weights.

    Returns:
        One value per group, float64, from -1 to 1; NaN without two different scores and two different targets.

    Raises:
        TypeError: scores are not floating point, or mask or weights have the wrong type.
        ValueError: shapes differ, a value is not finite, or a weight is negative.

    >>> kendall(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1, 2, 3]))
    tensor(0.3333, dtype=torch.float64)
    """
    concordant, discordant, of_scores, of_target, defined = pairs_of(
        "Kendall's tau", scores, target, mask, weights, dim, top_heavy=top_heavy
    )
    product = of_scores * of_target
    least = torch.finfo(product.dtype).tiny  # smaller products have lost precision
    root = product.sqrt().where(product >= least, of_scores.sqrt() * of_target.sqrt())
    tau = (concordant - discordant) / root.where(defined, 1.0)
    return tau.clamp(-1.0, 1.0).where(defined, torch.nan)


def goodman_kruskal_gamma(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Compute how many more pairs agree with the order of their targets than disagree, among pairs without ties.

    $\gamma = \frac{\sum w_{ij} a_{ij} b_{ij}}{\sum w_{ij} |a_{ij} b_{ij}|}$ with a and b as in `kendall` (Goodman and
    Kruskal 1954). Pairs with tied scores or tied targets are ignored, while tau-b counts ties against the scores. So a
    perfect order with ties has a gamma of 1.

    Args:
        scores, target, dim, mask, weights: see `kendall`.

    Returns:
        One value per group, float64, from -1 to 1; NaN without two different scores and two different targets.

    Raises:
        TypeError, ValueError: see `kendall`.

    >>> goodman_kruskal_gamma(torch.tensor([0.1, 0.4, 0.4]), torch.tensor([1, 2, 3]))
    tensor(1., dtype=torch.float64)
    """
    concordant, discordant, *_, defined = pairs_of("Gamma", scores, target, mask, weights, dim)
    compared = concordant + discordant
    return ((concordant - discordant) / compared.where(defined, 1.0)).clamp(-1.0, 1.0).where(defined, torch.nan)
