"""The Plackett-Luce likelihood of the order of the present labels."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced, within
from rankgrad.losses._pairs import in_float64, log_cumulative_sum_exp

__all__ = ["plackett_luce"]


def plackett_luce(
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
    r"""Sampling labels by the softmax of their scores should give their order, the most important first.

    $\sum_{u : r_u > 0} \log \sum_{v : r_v \le r_u} e^{f_v - f_u}$, averaged over the batch: the negative logarithm of
    $\prod_u e^{f_u} / \sum_v e^{f_v}$, the probability that sampling without replacement, by the softmax of the scores,
    gives the present labels in their order (Plackett 1975; ListMLE, Xia et al. 2008, on the top of the list). Absent
    labels are never chosen but stay in every denominator, so even the last present label is compared with them. The
    loss is the sum over present labels, not a mean, because the sum is the likelihood; examples with more present
    labels have more weight.

    Tied labels are treated as if each were the first of them: all have the denominator from before any of them is
    chosen (Breslow's form in survival analysis). So no order among them is preferred, and equal scores are optimal;
    $e^{-value}$ is then below the probability of any order of them. If all ranks are 0 or 1, it is the cross-entropy of
    each example, times the number of its present labels.

    An example with no present labels adds 0 without gradient.

    Args:
        scores: f, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape; the term of each present label is multiplied by its weight relative to the group's
            largest.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`.

    >>> plackett_luce(torch.zeros(1, 4), torch.tensor([[0, 2, 0, 1]])).exp()  # one of 4, then one of 3
    tensor(12.)
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
    label_ranks, order = batch.truth.contiguous().sort(dim=-1)
    scores = in_float64(batch.scores.where(batch.exists, -torch.inf)).gather(-1, order)
    last = torch.searchsorted(label_ranks, label_ranks, right=True) - 1  # the last position with the same rank
    costs = log_cumulative_sum_exp(scores).gather(-1, last) - scores
    costs = costs.where(label_ranks > 0, 0.0) * within(batch.weight).gather(-1, order)
    return reduced(batch, costs.sum(-1).to(batch.scores.dtype), reduction)
