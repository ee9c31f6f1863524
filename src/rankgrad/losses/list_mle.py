"""ListMLE and p-ListMLE: the likelihood of the order of the targets."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, is_ordered, reduced, within
from rankgrad.losses._pairs import log_cumulative_sum_exp
from rankgrad.ranks import places

__all__ = ["list_mle"]


def list_mle(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    top_heavy: bool = False,
) -> Tensor:
    r"""Sampling items by the softmax of their scores should give the order of their targets, the largest first.

    $\sum_i w_i \alpha_i \log \sum_{j : y^*_j \leq y^*_i} e^{y_j - y_i}$ for each group, averaged over groups: with
    w and $\alpha$ of 1, it is the negative log of the probability that sampling without replacement, by the softmax of
    the scores, gives the order of the targets (Plackett-Luce; ListMLE, Xia et al. 2008). With `top_heavy`,
    $\alpha_i \propto 2^{d - \mathrm{rk}(y^*)_i} - 1$ with a mean of 1 (p-ListMLE, Lan et al. 2014).

    Items with equal targets are treated as if each were the first of them, and share their mean $\alpha$, so that equal
    scores are optimal. `plackett_luce` is the likelihood of label ranks, in which absent labels are never sampled.
    Groups whose targets are all equal have no order and are ignored. It takes O(d log d) time.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no example.
        weights: w, of that shape, relative to the group's largest.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        top_heavy: give earlier positions larger weights.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> list_mle(torch.zeros(3), torch.tensor([2, 0, 1])).exp()  # one of 3, then one of 2
    tensor(6.)
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
    target = batch.truth.masked_fill(~batch.exists, torch.inf)  # masked items come last and are not in any sum
    highest = batch.scores.detach().masked_fill(~batch.exists, -torch.inf).amax(-1, keepdim=True)
    # Without the largest, so that an offset costs no precision; a group without scores has no largest.
    values = (batch.scores - highest.nan_to_num(neginf=0.0)).masked_fill(~batch.exists, 0.0)
    below = log_cumulative_sum_exp(values.gather(-1, target.argsort(dim=-1)))
    larger, not_smaller = places(batch.truth, batch.exists)
    count = batch.exists.sum(-1, keepdim=True)
    left = below.gather(-1, (count - larger - 1).clamp(min=0))  # from the last item with the same target down
    weight = within(batch.weight)
    if top_heavy:
        begin, end, last = (torch.exp2(-number.double()) for number in (larger, not_smaller, count))
        early = ((begin - end) / (not_smaller - larger).clamp(min=1) - last).clamp(min=0) * batch.exists
        total = early.sum(-1, keepdim=True)
        weight = weight * (early * count / total.where(total > 0, 1.0)).to(weight.dtype)
    return reduced(batch, ((left - values) * weight).sum(-1), reduction, counts=is_ordered(batch.truth, batch.weight))
