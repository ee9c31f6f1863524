"""ListNet: cross-entropy between the softmax of the scores and the softmax of the targets."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced

__all__ = ["listnet"]


def listnet(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
    r"""Each item should have the same probability of coming first by its score as by its target.

    $-\sum_i p_i \log \mathrm{softmax}(y)_i$ with $p \propto w e^{y^*}$ for each group, averaged over groups: the
    top-one ListNet (Cao et al. 2007), where an item's probability of coming first is the softmax of its score. Only
    differences of targets matter, and they should be on the order of 1: grades 0 to 4, not prices.
    `multilabel_cross_entropy` uses the same probability for all present labels.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no example.
        weights: w, of that shape.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> scores, target = torch.zeros(3), torch.tensor([2, 0, 1])
    >>> listnet(scores, target).exp()  # all three the same
    tensor(3.)
    """
    batch = groups(
        scores,
        target=target,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    anything = batch.weight.amax(-1, keepdim=True) == 0  # a softmax without entries would be 0 / 0
    # Put the weight into the exponent, so that an item with weight matters even if its target is far below the largest.
    kind = torch.promote_types(batch.truth.dtype, batch.weight.dtype)
    weighted = batch.truth.to(kind) + batch.weight.to(kind).log()
    share = torch.softmax(weighted.masked_fill(anything, 0.0), dim=-1).to(batch.scores.dtype)
    first = torch.log_softmax(batch.scores.masked_fill(~(batch.exists | anything), -torch.inf), dim=-1)
    return reduced(batch, -(share * first.where(share != 0, 0.0)).sum(-1), reduction)
