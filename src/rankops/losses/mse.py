"""MSE, the mean squared error of regression."""

from typing import Literal

from torch import Tensor

from rankops.checks import check_choice
from rankops.losses._inputs import Groups, Reduction, groups, is_ordered, pointwise
from rankops.ranks import ranks

__all__ = ["mse"]

Within = Literal["nothing", "standardized", "ranks", "centered"]


def mse(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    sigmoid: bool = False,
    within: Within = "nothing",
) -> Tensor:
    r"""Every score should equal its target, far ones above all.

    $\frac1n \sum_i (y_i - y^*_i)^2$ over all scores, whatever their groups: the baseline of SoDeep, Section 4.2.1.
    Where targets are relative to their group, `within` says what is done about it; ranking losses need no such choice.

    Args:
        scores, target: y and $y^*$, one shape.
        mask: of that shape, boolean, False where there is no score.
        weights: of that shape, how much each error counts among all.
        dim, reduction, check_finite: see `rankops.losses`.
        sigmoid: put the scores through a sigmoid first; for targets in [0, 1].
        within: what is made of each group first: `nothing`; `standardized` targets (mean 0, deviation 1, or 0 where all
            are equal); `ranks` of the targets, from 1/d for the smallest to 1; or scores and targets `centered`, each
            less the mean of its group.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a group.

    Raises:
        TypeError, ValueError: see `rankops.losses`; with `sigmoid`, a target outside [0, 1]; `sigmoid` and another
            `within` than `nothing`.

    >>> import torch
    >>> mse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    check_choice("within", within, Within)
    if sigmoid and within != "nothing":
        raise ValueError(f"within is {within!r} and sigmoid is True, expected one of them: such targets leave [0, 1]")
    given = groups(
        scores, target=target, dim=dim, mask=mask, weights=weights, check_finite=check_finite, between_0_and_1=sigmoid
    )
    predicted = given.scores.sigmoid() if sigmoid else given.scores
    truth = _relative(given, within).to(predicted.dtype)
    if within == "centered":
        predicted = predicted - _means(predicted, given)
    return pointwise(given, (predicted - truth).square(), reduction)


def _relative(given: Groups, within: Within) -> Tensor:
    target = given.truth.double()
    if within == "ranks":
        return ranks(target, mask=given.mask, descending=False, normalized=True, check_finite=given.finite)
    if within == "nothing":
        return given.truth
    apart = target - _means(target, given)
    if within == "centered":
        return apart
    varied = is_ordered(target, given.weight).unsqueeze(-1)  # else rounding of the mean would be a deviation
    deviation = _means(apart.square(), given).sqrt()
    return (apart / deviation.where(varied, 1.0)).where(varied, 0.0)


def _means(values: Tensor, given: Groups) -> Tensor:
    """Return the mean of each group, (..., 1)."""
    weight = given.weight.to(values.dtype)
    total = weight.sum(-1, keepdim=True)
    return (values.where(weight > 0, 0.0) * weight).sum(-1, keepdim=True) / total.where(total > 0, 1.0)
