"""The pairwise logistic loss on label ranks, with an optional larger weight for near ties."""

import torch
from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, check_weights_of_pairs, groups, reduced, within
from rankgrad.losses._pairs import Pair, logistic, sums_over_pairs

__all__ = ["pairwise_logistic"]


def pairwise_logistic(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    adjacent: float = 1.0,
) -> Tensor:
    r"""In each pair, the more important label should score higher.

    $\sum_{(u, v) \in \zeta} w_{uv} \log(1 + e^{f_v - f_u}) / \sum_{(u, v) \in \zeta} w_{uv}$ with
    $\zeta = \{(u, v) : r_u > r_v\}$, averaged over the batch (RankNet's cost, Burges et al. 2005). RLSEP (Eq. 6) takes
    one logarithm of the sum over all pairs, which the worst pair dominates; here, each pair has its own logarithm.

    Near ties, $r_u = r_v + 1$ with both labels present, have the weight $w_{uv}$ = `adjacent`; all other pairs have 1.
    A present and an absent label are never a near tie, even if the present label has rank 1: such a pair is about
    presence, not order. An example without pairs (no label present, or all tied) adds 0 without gradient.

    Args:
        scores: f, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important, without gaps; ties are not compared.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape; $w_{uv}$ is multiplied by the product of both.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        adjacent: weight of a near tie, relative to other pairs.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `adjacent` is not a positive number.

    >>> scores, label_ranks = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2, 1, 0]])
    >>> near, far = torch.tensor([-1.0, -2.0]).exp().log1p()  # two pairs with a difference of 1, one with 2
    >>> torch.isclose(pairwise_logistic(scores, label_ranks), (2 * near + far) / 3)
    tensor(True)
    >>> torch.isclose(pairwise_logistic(scores, label_ranks, adjacent=4.0), (5 * near + far) / 6)
    tensor(True)
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
    check_weights_of_pairs(batch, weights)
    check_positive("adjacent", adjacent)

    def rows(scores: Pair, label_ranks: Pair, weight: Pair) -> tuple[Tensor, ...]:
        upper, lower = label_ranks
        pairs = weight[0] * weight[1] * (upper > lower)
        if adjacent != 1:
            pairs = torch.where((upper == lower + 1) & (lower > 0), adjacent * pairs, pairs)
        return logistic(scores, pairs), pairs.sum(-1)

    cost, total = sums_over_pairs(rows, batch.scores, batch.truth, within(batch.weight))
    return reduced(batch, cost / total.where(total > 0, 1.0), reduction)
