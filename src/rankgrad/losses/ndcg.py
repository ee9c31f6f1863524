"""Normalized discounted cumulative gain as a loss, with ranks from a sorter."""

import torch
from torch import Tensor

from rankgrad.checks import check_count, check_positive
from rankgrad.gains import Gain, check_relevance, gains_of, ideal
from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["ndcg"]


def ndcg(
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
    k: int | None = None,
    temperature: float = 1.0,
    gain: Gain = "exponential",
) -> Tensor:
    r"""More relevant items should come earlier.

    $1 - \frac{1}{\mathrm{IDCG}} \sum_i \frac{g_i}{\log_2(1 + f(y)_i)}$ for each group, averaged over groups, with the
    gain $g = 2^{y^*} - 1$ (or $y^*$) and IDCG the sum for the best order. With a cutoff k, each term is multiplied by
    $\sigma((k + \frac12 - f(y)_i) / \tau)$, a soft step between the positions k and k + 1. Groups without any gain are
    ignored. This is ApproxNDCG (Qin et al. 2010) with ranks from any sorter; theirs are sums of sigmoids.

    Args:
        scores, target: y and $y^*$, of the same shape; the target is the relevance, 0 for irrelevant.
        mask: of that shape, boolean, False where a group has no example.
        weights: of that shape; each gain is multiplied by its weight.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        k: the number of positions to consider; None for all.
        temperature: $\tau$, the width of the step in positions.
        gain: `exponential` or `linear`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; a target is negative or too large for an exponential gain, `k` is
            not a whole number of at least 1, `temperature` is not positive, or `gain` is unknown.

    >>> ndcg(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 1, 0]), sorter="straight_through")  # 1 - 1 / log2(3)
    tensor(0.3691)
    """
    batch = groups(
        scores,
        target=target,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    check_relevance(target, gain, mask=mask, check_finite=check_finite)
    if k is not None:
        check_count("k", k)
    check_positive("temperature", temperature)
    gains = gains_of(batch.truth, batch.weight, gain)
    # A soft rank may be slightly below 1, where the logarithm would leave its range.
    places = soft_ranks(batch, sorter).clamp(min=1)
    discounted = gains.to(places.dtype) / torch.log2(1 + places)
    if k is not None:
        discounted = discounted * torch.sigmoid((k + 0.5 - places) / temperature)
    best = ideal(gains, k).to(places.dtype)
    any_gain = best > 0
    return reduced(batch, 1 - discounted.sum(-1) / best.where(any_gain, 1.0), reduction, counts=any_gain)
