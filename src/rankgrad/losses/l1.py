"""L1, the mean absolute error of regression."""

from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, pointwise

__all__ = ["l1"]


def l1(
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
) -> Tensor:
    r"""Every score should equal its target.

    $\frac1n \sum_i |y_i - y^*_i|$ over all scores, not over groups: the baseline of SoDeep, Section 4.2.1, and its
    auxiliary loss, which keeps scores in the range on which the sorter was trained.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no score.
        weights: of that shape, weight of each error in the mean over all errors.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        sigmoid: apply a sigmoid to the scores first; for targets in [0, 1].

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; or a target is outside [0, 1] with `sigmoid`.

    >>> import torch
    >>> l1(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 4.0]))
    tensor(1.2500)
    """
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
    return pointwise(batch, (predicted - batch.truth.to(predicted.dtype)).abs(), reduction)
