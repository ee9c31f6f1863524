"""Multi-label soft margin, the binary cross-entropy of each label."""

from torch import Tensor
from torch.nn import functional

from rankgrad.losses._inputs import Reduction, groups, pointwise

__all__ = ["multilabel_soft_margin"]


def multilabel_soft_margin(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
    r"""Present labels should have positive scores, and absent ones negative scores.

    $-y^* \log \sigma(y) - (1 - y^*) \log(1 - \sigma(y))$, averaged over all labels, as torch defines it: the
    baseline of SoDeep, Section 4.2.2, and there the auxiliary loss of `sodeep_mean_average_precision`.

    Args:
        scores: y, any shape.
        labels: $y^*$, of that shape, 0 and 1 of any type.
        mask: of that shape, boolean, False for labels to ignore.
        weights: of that shape, weight of each label in the mean over all labels.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`.

    >>> import torch
    >>> multilabel_soft_margin(torch.zeros(2, 3), torch.tensor([[1, 0, 0], [0, 1, 1]])).exp()
    tensor(2.)
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
    right = batch.scores.where(batch.truth, -batch.scores)
    return pointwise(batch, -functional.logsigmoid(right), reduction)
