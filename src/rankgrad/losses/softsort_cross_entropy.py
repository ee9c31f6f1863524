"""Cross-entropy between a soft permutation of soft ranks (SoftSort) and the true permutation."""

import torch
from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import AnySorter, Reduction, groups, is_ordered, reduced, soft_ranks
from rankgrad.losses._pairs import Pair, sums_over_pairs
from rankgrad.places import ranks_of_places, shares_of_places
from rankgrad.ranks import places

__all__ = ["softsort_cross_entropy"]

LEAST = 1e-20  # lower limit of a probability, so that its logarithm has a finite gradient


def softsort_cross_entropy(
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
    temperature: float = 0.5,
) -> Tensor:
    r"""Each score should take the position of its target.

    $-\frac{1}{d \sum_i w_i} \sum_{k, i} w_i \left[ T_{ki} \log P_{ki} + (1 - T_{ki}) \log(1 - P_{ki}) \right]$ for each
    group of d, averaged over groups. P is the `permutation_of_ranks` of the scores (position k, score i), and T that of
    the targets, where equal targets share their positions. This is the loss of sorting benchmarks (Grover et al. 2019;
    Petersen et al. 2021). Groups whose targets are all equal are ignored.

    If this is the only loss, a network learns faster with `Laplace(standardize=False)`: the network expresses
    confidence by spreading its scores, which a standardizing sorter ignores.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no example.
        weights: w, of that shape, weight of each score's positions.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        temperature: temperature of the soft permutation, in positions.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups have one score, or `temperature` is not positive.

    >>> scores, target = torch.tensor([0.1, 0.9, 0.5]), torch.tensor([10, 30, 20])
    >>> softsort_cross_entropy(scores, target, sorter="straight_through", temperature=0.01).round(decimals=4)
    tensor(0.)
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
    check_positive("temperature", temperature)
    ranks, weight = soft_ranks(batch, sorter), batch.weight
    ordered, taken = ranks_of_places(ranks, batch.exists)
    numbers = torch.arange(ranks.shape[-1], device=ranks.device).expand(ranks.shape)

    def rows(
        number: Pair, ordered: Pair, ranks: Pair, taken: Pair, exists: Pair, begin: Pair, end: Pair, weight: Pair
    ) -> tuple[Tensor, ...]:
        shares = shares_of_places((ordered[0], ranks[1]), (taken[0], exists[1]), temperature)  # [..., k, i]
        at = number[0]
        true = ((begin[1] <= at) & (at < end[1])).to(shares.dtype) / (end[1] - begin[1]).clamp(min=1)
        costs = -(true * torch.log(shares + LEAST) + (1 - true) * torch.log(1 - shares + LEAST))
        return ((costs * taken[0] * weight[1].to(costs.dtype)).sum(-1),)

    begin_end = places(batch.truth, batch.mask)
    (cost,) = sums_over_pairs(rows, numbers, ordered, ranks, taken, batch.exists, *begin_end, weight)
    total = (weight.sum(-1) * batch.exists.sum(-1)).to(cost.dtype)
    value = cost / total.where(total > 0, 1.0)
    return reduced(batch, value, reduction, counts=is_ordered(batch.truth, batch.weight))
