"""Kendall's rank correlation, and Goodman and Kruskal's gamma, exact."""

import torch
from torch import Tensor

from rankops.metrics.weights import comparable, within
from rankops.ranks import ranks

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
    r"""Compute how many more pairs of scores have the order of their targets than have not.

    Tau-b, $\frac{\sum w_{ij} a_{ij} b_{ij}}{\sqrt{\sum w_{ij} a_{ij}^2 \sum w_{ij} b_{ij}^2}}$ with a and b the signs
    of the differences of scores and of targets. Top-heavy, pairs count
    $w_{ij} = 1 / \mathrm{rk}(y^*)_i + 1 / \mathrm{rk}(y^*)_j$ (Vigna 2015, Eq. 3). It takes memory in proportion to
    n^2.

    Args:
        scores, target: y and $y^*$, one shape.
        dim: the dimension of a group, of n.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape; a pair counts by the product of both.
        top_heavy: pairs count for more, the nearer they are to the top.

    Returns:
        One value a group, float64, from -1 to 1; of several, NaN for those without two different scores or targets.

    Raises:
        TypeError: scores that are not floating point, a mask or weights of another type.
        ValueError: shapes differ, one that is not finite, negative weights; of a single group, fewer than two examples,
            or scores or targets that are all equal.

    >>> kendall(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1, 2, 3]))
    tensor(0.3333, dtype=torch.float64)
    """
    ours, true, pairs, defined = _signs("Kendall's tau", scores, target, mask, weights, dim, top_heavy=top_heavy)
    agreement, of_ours, of_true = ((pairs * part).sum((-2, -1)) for part in (ours * true, ours**2, true**2))
    tau = agreement / (of_ours * of_true).sqrt().where(defined, 1.0)
    return tau.clamp(-1.0, 1.0).where(defined, torch.nan)


def goodman_kruskal_gamma(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Compute how many more pairs have the order of their targets than have not, among those that have any.

    $\gamma = \frac{\sum w_{ij} a_{ij} b_{ij}}{\sum w_{ij} |a_{ij} b_{ij}|}$ with a and b as in `kendall` (Goodman and
    Kruskal 1954): pairs that are tied in scores or in targets are left out, where tau-b holds them against the scores.
    So a perfect order with ties has 1. It takes memory in proportion to n^2.

    Args:
        scores, target, dim, mask, weights: see `kendall`.

    Returns:
        One value a group, float64, from -1 to 1; of several, NaN for those without two different scores or targets.

    Raises:
        TypeError, ValueError: see `kendall`.

    >>> goodman_kruskal_gamma(torch.tensor([0.1, 0.4, 0.4]), torch.tensor([1, 2, 3]))
    tensor(1., dtype=torch.float64)
    """
    ours, true, pairs, defined = _signs("Gamma", scores, target, mask, weights, dim, top_heavy=False)
    agreement = pairs * ours * true
    compared = agreement.abs().sum((-2, -1))
    return (agreement.sum((-2, -1)) / compared.where(defined, 1.0)).clamp(-1.0, 1.0).where(defined, torch.nan)


def _signs(
    metric: str,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    weights: Tensor | None,
    dim: int,
    *,
    top_heavy: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return signs of the differences of scores and of targets, the weights of pairs, (..., n, n); and what counts."""
    weight, *values, defined = comparable(metric, scores, target, mask, weights, dim)
    weight = within(weight)  # products of four small ones would vanish
    ours, true = (torch.sign(one.unsqueeze(-1) - one.unsqueeze(-2)) for one in values)
    pairs = weight.unsqueeze(-1) * weight.unsqueeze(-2)
    if top_heavy:
        closeness = 1 / ranks(values[1], mask=None if mask is None else mask.movedim(dim, -1)).clamp(min=1)
        pairs = pairs * (closeness.unsqueeze(-1) + closeness.unsqueeze(-2))
    return ours, true, pairs, defined
