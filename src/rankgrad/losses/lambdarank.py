"""LambdaRank and LambdaLoss: pairs weighted by their effect on NDCG."""

import math
from typing import Literal

import torch
from torch import Tensor

from rankgrad.checks import check_choice, check_count
from rankgrad.gains import Gain, check_relevance, gains_of, ideal, reading_order
from rankgrad.losses._inputs import Reduction, groups, is_ordered, reduced
from rankgrad.losses._pairs import Pair, logistic, sums_over_pairs

__all__ = ["lambdarank"]

Weighting = Literal["lambdarank", "ndcg_loss2", "ndcg_loss2++"]
SHARE = 10.0  # weight of NDCG-Loss2 in NDCG-Loss2++, from the paper


def lambdarank(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    k: int | None = None,
    truncation: int | None = None,
    gain: Gain = "exponential",
    weighting: Weighting = "lambdarank",
) -> Tensor:
    r"""Each score should be larger than the scores of smaller targets; pairs are weighted by their effect on NDCG.

    $\sum_{y^*_i > y^*_j} \Delta_{ij} |G_i - G_j| \log_2(1 + e^{y_j - y_i})$ for each group, averaged over groups, with
    $G = (2^{y^*} - 1) / \mathrm{IDCG}$, r the current position of a score, $D(r) = \log_2(1 + r)$, and (Wang et al.
    2018, the LambdaLoss framework):

    - `lambdarank`: $\Delta_{ij} = |1 / D(r_i) - 1 / D(r_j)|$, the change of NDCG if the two swap positions (Burges et
      al. 2006).
    - `ndcg_loss2`: $\Delta_{ij} = 1 / D(|r_i - r_j|) - 1 / D(|r_i - r_j| + 1)$, an upper bound of 1 - NDCG.
    - `ndcg_loss2++`: the first plus 10 times the second.

    No gradient flows through positions. Equal scores are ordered by increasing gain. Groups without any gain, or with
    equal targets, are ignored. `ndcg` needs no pairs: it is NDCG with soft ranks.

    Args:
        scores, target: y and $y^*$, of the same shape; the target is the relevance, 0 for irrelevant.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape; each gain is multiplied by its weight.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        k: the number of positions to consider: 1 / D is 0 after position k, and pairs need at least one score among the
            first k; None for all.
        truncation: pairs need at least one score among this number of first positions, but 1 / D does not change
            (LightGBM's `lambdarank_truncation_level`); None for all pairs. With `k` or `truncation`, time grows with d
            times that number, not with $d^2$.
        gain: `exponential`, or `linear` for $y^*$ instead of $2^{y^*} - 1$.
        weighting: see above.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups have one score, a target is negative or too large for an
            exponential gain, `k` or `truncation` is not a whole number of at least 1, or `gain` or `weighting` is
            unknown.

    >>> lambdarank(torch.tensor([0.0, 0.0]), torch.tensor([0, 1]))  # (1 - 1 / log2(3)) log2(2)
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
        least=2,
    )
    check_relevance(target, gain, mask=mask, check_finite=check_finite)
    check_choice("weighting", weighting, Weighting)
    for name, places in (("k", k), ("truncation", truncation)):
        if places is not None:
            check_count(name, places)
    gains = gains_of(batch.truth, batch.weight, gain)
    best = ideal(gains, k).unsqueeze(-1)
    gains = gains / best.where(best > 0, 1.0)
    order = reading_order(batch.scores, gains, batch.exists, truth=batch.truth)
    position = 1 + order.argsort(dim=-1)
    inside = torch.ones_like(position, dtype=torch.bool) if k is None else position <= k
    discount = (1 / torch.log2(1 + position.to(gains.dtype))).where(inside, 0.0)
    within = min(k or position.shape[-1], truncation or position.shape[-1])

    def costs(scores: Pair, truth: Pair, gain: Pair, position: Pair, discount: Pair, exists: Pair) -> Tensor:
        """Return the sum of the costs of each row's pairs, (..., b)."""
        both_exist = exists[0] & exists[1]
        # If both scores are within, the pair occurs twice.
        pairs = (truth[0] > truth[1]) & both_exist | ((truth[0] < truth[1]) & both_exist & (position[1] > within))
        weight = torch.zeros_like(pairs, dtype=gains.dtype)
        if weighting != "ndcg_loss2":
            weight = weight + (discount[0] - discount[1]).abs()
        if weighting != "lambdarank":
            apart = (position[0] - position[1]).abs().clamp(min=1).to(gains.dtype)
            closer = 1 / torch.log2(1 + apart) - 1 / torch.log2(2 + apart)
            weight = weight + (closer if weighting == "ndcg_loss2" else SHARE * closer)
        weight = weight * (gain[0] - gain[1]).abs() * pairs
        sign = (
            torch.sign(truth[0].double() - truth[1].double()).to(scores[0].dtype)
            if within < position[1].shape[-1]
            else 1
        )
        return logistic((scores[0] * sign, scores[1] * sign), weight)

    values = (batch.scores, batch.truth, gains, position, discount, batch.exists)
    if within < position.shape[-1]:
        first = order[..., :within]
        rows = ((value.gather(-1, first).unsqueeze(-1), value.unsqueeze(-2)) for value in values)
        cost = costs(*rows).sum(-1)
    else:
        (cost,) = sums_over_pairs(lambda *pairs: (costs(*pairs),), *values)
    counts = is_ordered(batch.truth, batch.exists) & (best.squeeze(-1) > 0)
    return reduced(batch, cost / math.log(2), reduction, counts=counts)
