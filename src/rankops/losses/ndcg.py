"""Normalized discounted cumulative gain as a loss, with ranks from a sorter."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import check_count, check_positive, check_target
from rankops.losses.inputs import soft_ranks
from rankops.metrics.gains import Gain, gains_of, ideal
from rankops.metrics.weights import relative_weights

__all__ = ["ndcg"]


def ndcg(
    scores: Tensor,
    target: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = None,
    temperature: float = 1.0,
    gain: Gain = "exponential",
) -> Tensor:
    r"""Relevant items should come early, the more relevant the earlier.

    $1 - \frac{1}{\mathrm{IDCG}} \sum_i \frac{g_i}{\log_2(1 + f(y)_i)}$ for each group, averaged over groups, with the
    gain $g = 2^{y^*} - 1$ (or $y^*$) and IDCG the sum for the best order. Cut off at k, each term is multiplied by
    $\sigma((k + \frac12 - f(y)_i) / \tau)$, a soft step between the places k and k + 1. A group without any gain is
    left out; if all are, the value is 0 without gradient.

    Args:
        scores: y, (..., d), a group along the last dimension.
        target: $y^*$, (..., d), how relevant each is, 0 for not at all.
        sorter: f, takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        mask: (..., d) boolean, False where a group has no example.
        weights: (..., d), by which gains are multiplied.
        k: how many places count; None for all.
        temperature: $\tau$, the width of the step in places.
        gain: `exponential` or `linear`.

    Returns:
        A scalar.

    Raises:
        TypeError: `k` is no whole number; scores, a target, a mask or weights of another type than above, or no
            tensors.
        ValueError: shapes differ or are empty, a target that is negative or not finite, or too large for an exponential
            gain, negative weights, `k` below 1, a `temperature` that is not positive, an unknown `gain`, or what the
            sorter refuses.

    >>> from rankops.ranks import ranks
    >>> ndcg(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.0, 1.0, 0.0]), sorter=ranks)  # 1 - 1 / log2(3)
    tensor(0.3691)
    """
    check_target(scores, target, mask=mask)
    if k is not None:
        check_count("k", k)
    check_positive("temperature", temperature)
    gains = gains_of(target, relative_weights(scores, mask, weights), gain, mask)
    # A soft rank may lie a little below 1, where the logarithm would leave its range.
    places = soft_ranks(sorter, scores, mask).clamp(min=1)
    discounted = gains.to(places.dtype) / torch.log2(1 + places)
    if k is not None:
        discounted = discounted * torch.sigmoid((k + 0.5 - places) / temperature)
    best = ideal(gains, k).to(places.dtype)
    any_gain = best > 0
    return (1 - discounted.sum(-1) / best.where(any_gain, 1.0)).where(any_gain, 0.0).sum() / any_gain.sum().clamp(min=1)
