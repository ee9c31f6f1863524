"""Normalized discounted cumulative gain, exact."""

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.gains import Gain, check_relevance, gains_of, ideal
from rankgrad.groups import groups
from rankgrad.ranks import places

__all__ = ["ndcg"]


def ndcg(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = None,
    gain: Gain = "exponential",
) -> Tensor:
    r"""Compute the normalized discounted cumulative gain: 1 if more relevant items always come first, less otherwise.

    $\frac{1}{\mathrm{IDCG}} \sum_i \frac{g_i}{\log_2(1 + \mathrm{rk}(y)_i)}$ over the first k positions, with the gain
    $g = 2^{y^*} - 1$ (or $y^*$) and IDCG the sum for the best order. Tied scores each get the mean discount of
    the positions they occupy together, as in scikit-learn.

    Args:
        scores, target: $y$ and $y^*$, of the same shape; the target is the relevance, 0 for irrelevant.
        dim: the dimension of a group, such as the documents of a query.
        mask: boolean, of the scores' shape; False where there is no item.
        weights: of the scores' shape; each gain is multiplied by its weight.
        k: the number of positions to consider; None for all.
        gain: `exponential` or `linear`.

    Returns:
        One value per group, float64, from 0 to 1; NaN for a group in which every gain is 0.

    Raises:
        TypeError: scores are not floating point, or mask or weights have the wrong type.
        ValueError: shapes differ or are empty, a score is not finite, a target is negative, not finite, or too large
            for an exponential gain, a weight is negative, `k` is below 1, or `gain` is unknown.

    >>> ndcg(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 1, 0]))  # 1 / log2(3)
    tensor(0.6309, dtype=torch.float64)
    """
    # Exact: in float64, without a gradient.
    batch = groups(scores, exact=True, target=target, dim=dim, mask=mask, weights=weights)
    if k is not None:
        check_count("k", k)
    check_relevance(target, gain, mask=mask)
    gains = gains_of(batch.truth, batch.weight, gain)
    begin, end = places(batch.scores, batch.mask)  # tied scores fill the positions begin, ..., end - 1
    places_plus_1 = torch.arange(2, scores.shape[dim] + 2, device=scores.device, dtype=torch.float64)
    discount = 1 / torch.log2(places_plus_1)
    if k is not None:
        discount[k:] = 0
    cumulative = torch.nn.functional.pad(discount.cumsum(0), (1, 0))  # [j]: sum of the first j discounts
    mean_discount = (cumulative[end] - cumulative[begin]) / (end - begin).clamp(min=1)  # both are 0 where masked
    return (gains * mean_discount).sum(-1) / ideal(gains, k)  # 0 / 0 = NaN without any gain
