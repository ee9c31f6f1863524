"""Cross-entropy between a softmax and the set of present labels."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced

__all__ = ["multilabel_cross_entropy"]


def multilabel_cross_entropy(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
    r"""The softmax should spread its probability evenly over the present labels.

    $-\sum_j p_j \log \mathrm{softmax}(f)_j$ with $p_j = 1 / |Y|$ on the present labels and 0 elsewhere, averaged over
    the batch (RLSEP, Eq. 1). An example with no present labels has no such p; it adds 0 without gradient.

    Args:
        scores: f, any shape.
        label_ranks: of that shape, 0 = absent, anything larger = present.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape; $p_j$ of present labels is proportional to them.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`.

    >>> multilabel_cross_entropy(torch.zeros(1, 4), torch.tensor([[2, 1, 0, 0]])).exp()
    tensor(4.)
    """
    batch = groups(
        scores,
        label_ranks=label_ranks,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    present = batch.truth > 0
    logits = batch.scores if mask is None else batch.scores.masked_fill(~batch.exists, -torch.inf)
    logits = logits.where(present.any(-1, keepdim=True), 0.0)  # otherwise all may be -inf, which gives NaN
    share = batch.weight * present
    total = share.sum(-1, keepdim=True)
    logarithms = torch.log_softmax(logits, dim=-1).where(present, 0.0)
    return reduced(batch, -(share / total.where(total > 0, 1.0) * logarithms).sum(-1), reduction)
