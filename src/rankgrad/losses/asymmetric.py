"""The asymmetric loss: a focal loss with less weight on absent labels than on present ones."""

import torch
from torch import Tensor
from torch.nn import functional

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, groups, pointwise

__all__ = ["asymmetric"]


def asymmetric(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    gamma_present: float = 0.0,
    gamma_absent: float = 4.0,
    shift: float = 0.05,
) -> Tensor:
    r"""Present labels should have positive scores; absent labels with low scores are ignored.

    $-(1 - p)^{\gamma_+} \log p$ with $p = \sigma(y)$ for a present label, and $-p_m^{\gamma_-} \log(1 - p_m)$ with
    $p_m = \max(p - m, 0)$ for an absent one, averaged over all labels (Ridnik et al. 2021, Eqs. 4-7). It was designed
    for images with few of many possible labels.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        mask: of that shape, boolean, False for labels to ignore.
        weights: of that shape, weight of each label in the mean over all labels.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        gamma_present, gamma_absent: $\gamma_+$ and $\gamma_-$, 0 or more.
        shift: m, 0 or more; absent labels with a probability up to m are ignored.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; an option is negative, or `shift` is 1 or more.

    >>> asymmetric(torch.tensor([0.0, -3.0]), torch.tensor([1, 0]))  # half of log 2: the absent one does not count
    tensor(0.3466)
    """
    batch = groups(
        scores,
        labels=labels,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    for name, value in (("gamma_present", gamma_present), ("gamma_absent", gamma_absent), ("shift", shift)):
        check_positive(name, value, or_zero=True)
    if shift >= 1:
        raise ValueError(f"shift is {shift}, expected less than 1: it is subtracted from a probability")
    present = -(gamma_present * functional.logsigmoid(-batch.scores)).exp() * functional.logsigmoid(batch.scores)
    wrong = (batch.scores.sigmoid() - shift).clamp(min=0)
    log_shift = torch.full_like(batch.scores, shift).log()
    right = torch.logaddexp(functional.logsigmoid(-batch.scores), log_shift).clamp(max=0)  # log(1 - p_m)
    # A power below 1 has no derivative at 0, where the loss is 0 anyway.
    absent = -wrong.where(wrong > 0, 1.0).pow(gamma_absent) * right
    return pointwise(batch, present.where(batch.truth, absent), reduction)
