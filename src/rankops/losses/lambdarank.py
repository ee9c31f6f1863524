"""LambdaRank and LambdaLoss: pairs weighed by what their order means for NDCG."""

import math
from typing import Literal

import torch
from torch import Tensor

from rankops.checks import check_choice, check_count
from rankops.losses.inputs import Reduction, groups, is_ordered, reduced
from rankops.losses.pairs import logistic
from rankops.metrics.gains import Gain, check_relevance, gains_of, ideal, reading_order

__all__ = ["lambdarank"]

Weighting = Literal["lambdarank", "ndcg_loss2", "ndcg_loss2++"]
SHARE = 10.0  # of NDCG-Loss2 in NDCG-Loss2++, from the paper


def lambdarank(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    k: int | None = None,
    gain: Gain = "exponential",
    weighting: Weighting = "lambdarank",
) -> Tensor:
    r"""Each score should be larger than every score of a smaller target, the more so the more NDCG gains by it.

    $\sum_{y^*_i > y^*_j} \Delta_{ij} |G_i - G_j| \log_2(1 + e^{y_j - y_i})$ for each group, averaged over groups, with
    $G = (2^{y^*} - 1) / \mathrm{IDCG}$, r the place of a score at present, $D(r) = \log_2(1 + r)$, and
    (Wang et al. 2018, the LambdaLoss framework):

    - `lambdarank`: $\Delta_{ij} = |1 / D(r_i) - 1 / D(r_j)|$, by which NDCG changes when the two change places
      (Burges et al. 2006).
    - `ndcg_loss2`: $\Delta_{ij} = 1 / D(|r_i - r_j|) - 1 / D(|r_i - r_j| + 1)$, an upper bound of 1 - NDCG.
    - `ndcg_loss2++`: the first plus 10 times the second.

    No gradient flows through places. Equal scores take places from the smallest gain. A group without any gain, or
    whose targets are all equal, is left out. It takes memory in proportion to d^2. `ndcg` needs no pairs: it has NDCG
    itself, of soft ranks.

    Args:
        scores, target: y and $y^*$, one shape; a target is how relevant each is, 0 for not at all.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape, by which gains are multiplied.
        dim, reduction, check_finite: see `rankops.losses`.
        k: how many places count: 1 / D is 0 beyond, and a pair needs one of its two within; None for all.
        gain: `exponential`, or `linear` for $y^*$ instead of $2^{y^*} - 1$.
        weighting: see above.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a group.

    Raises:
        TypeError, ValueError: see `rankops.losses`; groups of one, a target that is negative, or too large for an
            exponential gain, `k` that is no whole number of at least 1, an unknown `gain` or `weighting`.

    >>> lambdarank(torch.tensor([0.0, 0.0]), torch.tensor([0, 1]))  # (1 - 1 / log2(3)) log2(2)
    tensor(0.3691)
    """
    given = groups(scores, target=target, dim=dim, mask=mask, weights=weights, check_finite=check_finite, least=2)
    check_relevance(target, gain, mask=mask, check_finite=check_finite)
    check_choice("weighting", weighting, Weighting)
    if k is not None:
        check_count("k", k)
    gains = gains_of(given.truth, given.weight, gain)
    best = ideal(gains, k).unsqueeze(-1)
    gains = gains / best.where(best > 0, 1.0)
    place = 1 + reading_order(given.scores, gains, given.exists).argsort(dim=-1)
    inside = torch.ones_like(place, dtype=torch.bool) if k is None else place <= k
    discount = (1 / torch.log2(1 + place.to(gains.dtype))).where(inside, 0.0)
    pairs = given.truth.unsqueeze(-1) > given.truth.unsqueeze(-2)  # [..., i, j]
    pairs = pairs & given.exists.unsqueeze(-1) & given.exists.unsqueeze(-2)
    pairs = pairs & (inside.unsqueeze(-1) | inside.unsqueeze(-2))
    weight = torch.zeros_like(pairs, dtype=gains.dtype)
    if weighting != "ndcg_loss2":
        weight = weight + (discount.unsqueeze(-1) - discount.unsqueeze(-2)).abs()
    if weighting != "lambdarank":
        apart = (place.unsqueeze(-1) - place.unsqueeze(-2)).abs().clamp(min=1).to(gains.dtype)
        closer = 1 / torch.log2(1 + apart) - 1 / torch.log2(2 + apart)
        weight = weight + (closer if weighting == "ndcg_loss2" else SHARE * closer)
    weight = weight * (gains.unsqueeze(-1) - gains.unsqueeze(-2)).abs() * pairs
    counts = is_ordered(given.truth, given.exists) & (best.squeeze(-1) > 0)
    return reduced(given, logistic(given.scores, weight) / math.log(2), reduction, counts=counts)
