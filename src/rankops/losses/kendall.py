"""Kendall's tau as a loss: soft signs of rank differences against the signs of the targets."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import check_positive, check_target
from rankops.losses.inputs import is_ordered, soft_ranks
from rankops.metrics.weights import relative_weights
from rankops.ranks import ranks

__all__ = ["kendall"]


def kendall(
    scores: Tensor,
    target: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    temperature: float = 0.5,
    top_heavy: bool = False,
) -> Tensor:
    r"""Every pair of scores should have the order of its targets.

    $1 - \frac{\sum w_{ij} a_{ij} b_{ij}}{\sqrt{\sum w_{ij} a_{ij}^2 \sum w_{ij} b_{ij}^2}}$ over the pairs of a group,
    with $b_{ij} = \mathrm{sign}(y^*_i - y^*_j)$ and $a_{ij} = \tanh((f(y)_j - f(y)_i) / \tau)$: 1 minus Kendall's
    tau-b when the sorter is exact and $\tau$ tends to 0. Top-heavy, pairs count
    $w_{ij} = 1 / \mathrm{rk}(y^*)_i + 1 / \mathrm{rk}(y^*)_j$, which is the weighted tau of Vigna (2015), Eq. 3.
    Averaged over groups; a group whose targets are all equal is left out; if all are, the value is 0 without
    gradient. $\sum w a^2$ is taken for at least a thousandth of $\sum w b^2$, so that nearly equal scores have a
    finite gradient. It takes memory in proportion to d^2.

    Args:
        scores: y, (..., d), a group along the last dimension.
        target: $y^*$, (..., d).
        sorter: f, takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        mask: (..., d) boolean, False where a group has no example.
        weights: (..., d); a pair counts by the product of both.
        temperature: $\tau$, the difference of places beyond which a pair counts as ordered.
        top_heavy: pairs count for more, the nearer they are to the top.

    Returns:
        A scalar.

    Raises:
        TypeError: scores or a target, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, groups of one, a target that is not finite, negative weights, a
            `temperature` that is not positive, or what the sorter refuses.

    >>> scores, target = torch.tensor([0.1, 0.9, 0.5, 0.7]), torch.tensor([10.0, 30.0, 20.0, 15.0])
    >>> kendall(scores, target, sorter=ranks, temperature=0.01)  # one pair of six is wrong: tau = 4 / 6
    tensor(0.3333)
    """
    check_target(scores, target, least=2, mask=mask)
    check_positive("temperature", temperature)
    weight = relative_weights(scores, mask, weights)
    heaviest = weight.amax(-1, keepdim=True)  # products of four small ones would vanish
    weight = weight / heaviest.where(heaviest > 0, 1.0)
    places = soft_ranks(sorter, scores, mask)
    soft = torch.tanh((places.unsqueeze(-2) - places.unsqueeze(-1)) / temperature)  # [..., i, j]: i above j
    known = target.where(weight > 0, 0.0)
    true = torch.sign(known.unsqueeze(-1) - known.unsqueeze(-2)).to(soft.dtype)
    pairs = (weight.unsqueeze(-1) * weight.unsqueeze(-2)).to(soft.dtype)
    if top_heavy:
        closeness = 1 / ranks(target.double(), mask=mask).clamp(min=1).to(soft.dtype)
        pairs = pairs * (closeness.unsqueeze(-1) + closeness.unsqueeze(-2))
    agreement, of_soft, of_true = ((pairs * part).sum((-2, -1)) for part in (soft * true, soft**2, true**2))
    ordered = is_ordered(target, weight)
    of_true = of_true.where(ordered, 1.0)
    tau = agreement / torch.maximum(of_soft, of_true / 1000).sqrt() / of_true.sqrt()
    return (1 - tau).where(ordered, 0.0).sum() / ordered.sum().clamp(min=1)
