"""Kendall's tau as a loss: soft signs of rank differences against the signs of the targets."""

import torch
from torch import Tensor

from rankops.checks import check_positive
from rankops.losses.inputs import AnySorter, Reduction, groups, is_ordered, reduced, soft_ranks, within
from rankops.ranks import ranks

__all__ = ["kendall"]


def kendall(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    temperature: float = 0.5,
    top_heavy: bool = False,
) -> Tensor:
    r"""Every pair of scores should have the order of its targets.

    $1 - \frac{\sum w_{ij} a_{ij} b_{ij}}{\sqrt{\sum w_{ij} a_{ij}^2 \sum w_{ij} b_{ij}^2}}$ over the pairs of a group,
    with $b_{ij} = \mathrm{sign}(y^*_i - y^*_j)$ and $a_{ij} = \tanh((f(y)_j - f(y)_i) / \tau)$: 1 minus Kendall's
    tau-b when the sorter is exact and $\tau$ tends to 0. Top-heavy, pairs count
    $w_{ij} = 1 / \mathrm{rk}(y^*)_i + 1 / \mathrm{rk}(y^*)_j$, which is the weighted tau of Vigna (2015), Eq. 3.
    Averaged over groups; a group whose targets are all equal is left out. $\sum w a^2$ is taken for at least a
    thousandth of $\sum w b^2$, so that nearly equal scores have a finite gradient. It takes memory in proportion to
    d^2.

    Args:
        scores, target: y and $y^*$, one shape.
        mask: of that shape, boolean, False where a group has no example.
        weights: of that shape; a pair counts by the product of both.
        dim, reduction, sorter, check_finite: see `rankops.losses`.
        temperature: $\tau$, the difference of places beyond which a pair counts as ordered.
        top_heavy: pairs count for more, the nearer they are to the top.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a group.

    Raises:
        TypeError, ValueError: see `rankops.losses`; groups of one, a `temperature` that is not positive.

    >>> scores, target = torch.tensor([0.1, 0.9, 0.5, 0.7]), torch.tensor([10.0, 30.0, 20.0, 15.0])
    >>> kendall(scores, target, sorter="straight_through", temperature=0.01)  # one pair of six is wrong: tau = 4 / 6
    tensor(0.3333)
    """
    given = groups(
        scores, target=target, order=True, dim=dim, mask=mask, weights=weights, check_finite=check_finite, least=2
    )
    check_positive("temperature", temperature)
    weight = within(given.weight)
    places = soft_ranks(given, sorter)
    soft = torch.tanh((places.unsqueeze(-2) - places.unsqueeze(-1)) / temperature)  # [..., i, j]: i above j
    known = given.truth.where(weight > 0, 0.0)
    true = torch.sign(known.unsqueeze(-1) - known.unsqueeze(-2)).to(soft.dtype)
    pairs = (weight.unsqueeze(-1) * weight.unsqueeze(-2)).to(soft.dtype)
    if top_heavy:
        true_places = ranks(given.truth.double(), mask=given.mask, check_finite=given.finite)
        closeness = 1 / true_places.clamp(min=1).to(soft.dtype)
        pairs = pairs * (closeness.unsqueeze(-1) + closeness.unsqueeze(-2))
    agreement, of_soft, of_true = ((pairs * part).sum((-2, -1)) for part in (soft * true, soft**2, true**2))
    ordered = is_ordered(given.truth, weight)
    of_true = of_true.where(ordered, 1.0)
    tau = agreement / torch.maximum(of_soft, of_true / 1000).sqrt() / of_true.sqrt()
    return reduced(given, 1 - tau, reduction, counts=ordered)
