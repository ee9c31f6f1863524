"""Kendall's tau as a loss: soft signs of rank differences compared with the signs of target differences."""

import torch
from torch import Tensor

from rankgrad.checks import check_positive, value_of
from rankgrad.laplace_sums import sums_of_others
from rankgrad.losses._inputs import (
    AnySorter,
    Reduction,
    check_weights_of_pairs,
    groups,
    is_ordered,
    reduced,
    soft_ranks,
    within,
)
from rankgrad.losses._pairs import Pair, at_once, sums_over_pairs
from rankgrad.ranks import dense_ranks, exact_ranks

__all__ = ["kendall"]

SHORT = 512  # up to this length, comparing all pairs is faster on a CPU than the O(d log^2 d) sums


def kendall(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    temperature: float = 0.5,
    top_heavy: bool = False,
) -> Tensor:
    r"""Every pair of scores should have the order of its targets.

    $1 - \frac{\sum w_{ij} a_{ij} b_{ij}}{\sqrt{\sum w_{ij} a_{ij}^2 \sum w_{ij} b_{ij}^2}}$ over the pairs of a group,
    with $b_{ij} = \mathrm{sign}(y^*_i - y^*_j)$ and $a_{ij} = \mathrm{sign}(\delta) (1 - e^{-|\delta| / \tau})$, where
    $\delta = f(y)_j - f(y)_i$, the same step as in `Laplace`. If the sorter is exact, it tends to 1 minus Kendall's
    tau-b as $\tau$ tends to 0. Long groups take $O(d \log^2 d)$ time. With `top_heavy`, the weight of a pair is
    $w_{ij} = 1 / \mathrm{rk}(y^*)_i + 1 / \mathrm{rk}(y^*)_j$, as in the weighted tau of Vigna 2015, Eq. 3. Averaged
    over groups; groups whose targets are all equal are ignored. $\sum w a^2$ is at least a thousandth of
    $\sum w b^2$, so that nearly equal scores have a finite gradient.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where a group has no example.
        weights: of that shape; the weight of a pair is the product of both.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        temperature: $\tau$, the difference of positions above which a pair counts as ordered.
        top_heavy: pairs near the top get larger weights.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score, a `temperature` that is not positive.

    >>> scores, target = torch.tensor([0.1, 0.9, 0.5, 0.7]), torch.tensor([10.0, 30.0, 20.0, 15.0])
    >>> kendall(scores, target, sorter="straight_through", temperature=0.01)  # one pair of six is wrong: tau = 4 / 6
    tensor(0.3333)
    """
    batch = groups(
        scores,
        target=target,
        order=True,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    check_weights_of_pairs(batch, weights)
    check_positive("temperature", temperature)
    weight = within(batch.weight)
    places = soft_ranks(batch, sorter, differences=True)
    closeness = None  # all pairs have the same weight
    if top_heavy:
        true_places = exact_ranks(batch.truth.double(), mask=batch.mask, check_finite=batch.finite)
        closeness = 1 / true_places.clamp(min=1).to(places.dtype)

    targets = batch.truth.where(weight > 0, 0.0)
    length, kind = places.shape[-1], places.device
    few = length <= SHORT if kind.type == "cpu" else places.numel() * length <= at_once(kind)
    agreement, of_soft, of_true = (_by_pairs if few or torch.compiler.is_compiling() else _by_halves)(
        places / temperature, targets, weight.to(places.dtype), closeness
    )
    ordered = is_ordered(batch.truth, weight)
    of_true = of_true.where(ordered, 1.0)
    tau = agreement / torch.maximum(of_soft, of_true / 1000).sqrt() / of_true.sqrt()
    return reduced(batch, (1 - tau).to(batch.scores.dtype), reduction, counts=ordered)


def _by_pairs(places: Tensor, targets: Tensor, weight: Tensor, closeness: Tensor | None) -> tuple[Tensor, ...]:
    """Return the sums of $w a b$, $w a^2$ and $w b^2$ over all pairs of a group, each in both orders."""

    def rows(places: Pair, targets: Pair, weight: Pair, *closeness: Pair) -> tuple[Tensor, ...]:
        apart = places[1] - places[0]
        size = apart.abs()
        # Written as a factor of the difference, so that the derivative at 0 is 1.
        soft = apart * (-torch.expm1(-size) / size.where(size > 0, 1.0)).where(size > 0, 1.0)
        true = torch.sign(targets[0] - targets[1]).to(soft.dtype)
        pairs = weight[0] * weight[1]
        for first, second in closeness:
            pairs = pairs * (first + second)
        return tuple((pairs * product).sum(-1) for product in (soft * true, soft**2, true**2))

    return sums_over_pairs(rows, places, targets, weight, *([] if closeness is None else [closeness]))


def _by_halves(places: Tensor, targets: Tensor, weight: Tensor, closeness: Tensor | None) -> tuple[Tensor, ...]:
    r"""Return the sums of `_by_pairs`, from sums of `Laplace` within parts that the targets split in halves.

    The dense ranks of two targets first differ in some binary digit. Among all ranks with the same digits before it,
    let c be 1 if the digit is set and -1 if it is not. Since a is antisymmetric, $\sum_{ij} c_i w_i w_j a_{ij}$
    contains exactly the pairs that differ in this digit, with the sign of their order.
    """
    order = places.detach().argsort(dim=-1)
    positions, targets, weight = (values.gather(-1, order) for values in (places.double(), targets, weight.double()))
    # The weight of a pair is w_i w_j (k_i + k_j): factors of the first item, and of the second.
    factors = pair_factors = weight.unsqueeze(0)
    if closeness is not None:
        weighted = weight * closeness.gather(-1, order)
        factors, pair_factors = torch.stack([weight, weighted]), torch.stack([weighted, weight])
    level = dense_ranks(targets)  # starting at 0 or 1
    level = level - level.amin(-1, keepdim=True)
    near, nearer = (sums_of_others(-positions * scale, factors)[1] for scale in (1, 2))
    every = factors.sum(-1, keepdim=True)
    of_soft = (pair_factors * (every - factors - 2 * near + nearer)).sum((0, -1))
    tied = torch.zeros_like(factors).scatter_add(-1, level.expand(factors.shape), factors)
    of_true = (pair_factors * (every - tied.gather(-1, level.expand(factors.shape)))).sum((0, -1))
    agreement = torch.zeros_like(of_soft)
    largest = value_of(level.amax())
    order = torch.arange(level.shape[-1], device=level.device).expand(level.shape)
    for digit in reversed(range(int(level.shape[-1] - 1 if largest is None else largest).bit_length())):
        halved = level.gather(-1, order) >> digit
        half = 2 * (halved & 1) - 1
        moved, of_others = (values.gather(-1, order.expand(values.shape)) for values in (pair_factors, factors))
        signed = _signed_sums(positions.gather(-1, order), of_others, halved >> 1)
        agreement = agreement + (half * moved * signed).sum((0, -1))
        order = order.gather(-1, halved.argsort(dim=-1, stable=True))  # by half, then by position
    return tuple(total.to(places.dtype) for total in (agreement, of_soft, of_true))


def _signed_sums(positions: Tensor, factors: Tensor, segment: Tensor) -> Tensor:
    """Return the sums of a times factors over the other points of the same part.

    Args:
        positions: (..., d), float64, ascending within each part.
        factors: (kinds, ..., d), float64.
        segment: (..., d), whole numbers, ascending.
    """
    begins = torch.cat([torch.ones_like(segment[..., :1], dtype=torch.bool), segment[..., 1:] != segment[..., :-1]], -1)
    signed, _ = sums_of_others(-positions, factors, 1.0, begins)
    until, segment = factors.cumsum(-1), segment.expand(factors.shape)
    totals = torch.zeros_like(factors).scatter_add(-1, segment, factors)
    through = totals.cumsum(-1)  # sums up to the end of each part
    return (2 * through - totals).gather(-1, segment) - 2 * until + factors - signed
