"""Kendall's rank correlation, exact."""

import torch
from torch import Tensor

from rankops.metrics.weights import comparable
from rankops.ranks import ranks

__all__ = ["kendall"]


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
    weight, *values, defined = comparable("Kendall's tau", scores, target, mask, weights, dim)
    heaviest = weight.amax(-1, keepdim=True)  # products of four small ones would vanish
    weight = weight / heaviest.where(heaviest > 0, 1.0)
    ours, true = (torch.sign(one.unsqueeze(-1) - one.unsqueeze(-2)) for one in values)
    pairs = weight.unsqueeze(-1) * weight.unsqueeze(-2)
    if top_heavy:
        closeness = 1 / ranks(values[1], mask=None if mask is None else mask.movedim(dim, -1)).clamp(min=1)
        pairs = pairs * (closeness.unsqueeze(-1) + closeness.unsqueeze(-2))
    agreement, of_ours, of_true = ((pairs * part).sum((-2, -1)) for part in (ours * true, ours**2, true**2))
    tau = agreement / (of_ours * of_true).sqrt().where(defined, 1.0)
    return tau.clamp(-1.0, 1.0).where(defined, torch.nan)
