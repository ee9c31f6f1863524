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
    r"""Compute how early the relevant items come, the more relevant the earlier.

    $\frac{1}{\mathrm{IDCG}} \sum_i \frac{g_i}{\log_2(1 + \mathrm{rk}(y)_i)}$ over the first k places, with the gain
    $g = 2^{y^*} - 1$ (or $y^*$) and IDCG the sum for the best order. Equal scores share the mean of the discounts of
    the places that they take together, as in scikit-learn.

    Args:
        scores, target: y and $y^*$, one shape; a target is how relevant each is, 0 for not at all.
        dim: the dimension of a group.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, by which gains are multiplied.
        k: how many places count; None for all.
        gain: `exponential` or `linear`.

    Returns:
        One value per group, float64, from 0 to 1; NaN where nothing has a gain.

    Raises:
        TypeError: scores that are not floating point, a mask or weights of another type.
        ValueError: shapes differ or are empty, a score that is not finite, a target that is negative or not finite, or
            too large for an exponential gain, negative weights, `k` below 1, an unknown `gain`.

    >>> ndcg(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 1, 0]))  # 1 / log2(3)
    tensor(0.6309, dtype=torch.float64)
    """
    batch = groups(scores, exact=True, target=target, dim=dim, mask=mask, weights=weights)
    if k is not None:
        check_count("k", k)
    check_relevance(target, gain, mask=mask)
    gains = gains_of(batch.truth, batch.weight, gain)
    above, up_to = places(batch.scores, batch.mask)
    length = scores.shape[dim]
    discount = 1 / torch.log2(torch.arange(2, length + 2, device=scores.device, dtype=torch.float64))
    if k is not None:
        discount[k:] = 0
    until = torch.nn.functional.pad(discount.cumsum(0), (1, 0))  # the first 0, 1, ... places together
    share = (until[up_to] - until[above]) / (up_to - above).clamp(min=1)
    return (gains * share).sum(-1) / ideal(gains, k)
