"""MSE, the mean squared error of regression."""

from typing import Literal

from torch import Tensor

from rankgrad.checks import check_choice
from rankgrad.lookup import renamed_arguments
from rankgrad.losses._inputs import Groups, Reduction, groups, is_ordered, pointwise
from rankgrad.ranks import exact_ranks

__all__ = ["mse"]

Normalization = Literal["standardized", "ranks", "centered"]


@renamed_arguments("losses.mse")
def mse(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    sigmoid: bool = False,
    normalize_groups: Normalization | None = None,
) -> Tensor:
    r"""Every score should equal its target; large errors matter most.

    $\frac1n \sum_i (y_i - y^*_i)^2$ over all scores, not over groups: the baseline of SoDeep, Section 4.2.1. If targets
    are relative to their group, choose a normalization with `normalize_groups`; ranking losses need none.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no score.
        weights: of that shape, weight of each error in the mean over all errors.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        sigmoid: apply a sigmoid to the scores first; for targets in [0, 1].
        normalize_groups: how to transform each group first. `standardized`: scale targets to mean 0 and deviation 1 (0
            if all are equal). `ranks`: replace targets by their ranks, from 1/d for the smallest to 1. `centered`:
            subtract the group's mean from scores and from targets. None: no transformation.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; a target is outside [0, 1] with `sigmoid`; or both `sigmoid` and
            `normalize_groups` are set.

    >>> import torch
    >>> mse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    if normalize_groups is not None:
        check_choice("normalize_groups", normalize_groups, Normalization)
        if sigmoid:
            raise ValueError(
                f"normalize_groups is {normalize_groups!r} and sigmoid is True, expected one of them: such targets "
                "leave [0, 1]"
            )
    batch = groups(
        scores,
        target=target,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        between_0_and_1=sigmoid,
    )
    predicted = batch.scores.sigmoid() if sigmoid else batch.scores
    truth = _relative(batch, normalize_groups).to(predicted.dtype)
    if normalize_groups == "centered":
        predicted = predicted - _means(predicted, batch)
    return pointwise(batch, (predicted - truth).square(), reduction)


def _relative(batch: Groups, normalization: Normalization | None) -> Tensor:
    target = batch.truth.double()
    if normalization == "ranks":
        return exact_ranks(target, mask=batch.mask, descending=False, normalized=True, check_finite=batch.finite)
    if normalization is None:
        return batch.truth
    apart = target - _means(target, batch)
    if normalization == "centered":
        return apart
    varied = is_ordered(target, batch.weight).unsqueeze(-1)  # else rounding of the mean looks like a deviation
    deviation = _means(apart.square(), batch).sqrt()
    return (apart / deviation.where(varied, 1.0)).where(varied, 0.0)


def _means(values: Tensor, batch: Groups) -> Tensor:
    """Return the mean of each group, (..., 1)."""
    weight = batch.weight.to(values.dtype)
    total = weight.sum(-1, keepdim=True)
    return (values.where(weight > 0, 0.0) * weight).sum(-1, keepdim=True) / total.where(total > 0, 1.0)
