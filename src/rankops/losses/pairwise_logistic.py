"""The pairwise logistic loss on label ranks, which may look harder at near ties."""

from torch import Tensor
from torch.nn import functional

from rankops.checks import check_label_ranks, check_positive
from rankops.losses.inputs import at_least_single

__all__ = ["pairwise_logistic"]


def pairwise_logistic(scores: Tensor, label_ranks: Tensor, *, adjacent: float = 1.0) -> Tensor:
    r"""Every label should score higher than every less important one, and every pair counts by itself.

    $\sum_{(u, v) \in \zeta} w_{uv} \log(1 + e^{f_v - f_u}) / \sum_{(u, v) \in \zeta} w_{uv}$ with
    $\zeta = \{(u, v) : r_u > r_v\}$, averaged over the batch (RankNet's cost, Burges et al. 2005). Where RLSEP
    (Eq. 6) has one logarithm around all pairs, and so follows the worst of them, here each pair has its own.

    Near ties, $r_u = r_v + 1$ with both labels present, have $w_{uv}$ = `adjacent`; all others have 1. A present label
    against an absent one is no near tie, not even where its rank is 1: one asks which of two is larger, the other
    whether something is there. An example without any pair (no label present, or all tied) adds 0 and has no gradient.

    Args:
        scores: f, (..., K); -inf says that a label cannot be there.
        label_ranks: r, (..., K), 0 = absent, larger = more important, without gaps; ties are not compared.
        adjacent: how many times as much a near tie weighs.

    Returns:
        A scalar, float32 or float64.

    Raises:
        TypeError, ValueError: see `rankops.checks.check_label_ranks`; an `adjacent` that is no positive number.

    >>> import torch
    >>> scores, label_ranks = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2, 1, 0]])
    >>> near, far = torch.tensor([-1.0, -2.0]).exp().log1p()  # two pairs with a difference of 1, one with 2
    >>> torch.isclose(pairwise_logistic(scores, label_ranks), (2 * near + far) / 3)
    tensor(True)
    >>> torch.isclose(pairwise_logistic(scores, label_ranks, adjacent=4.0), (5 * near + far) / 6)
    tensor(True)
    """
    check_label_ranks(scores, label_ranks)
    check_positive("adjacent", adjacent)
    scores = at_least_single(scores)
    upper, lower = label_ranks.unsqueeze(-1), label_ranks.unsqueeze(-2)  # [..., u, v]: r_u and r_v
    weights = (upper > lower).to(scores.dtype)
    if adjacent != 1:
        weights = weights.masked_fill((upper == lower + 1) & (upper > lower) & (lower > 0), adjacent)
    # As softplus, log(1 + exp(-x)) without overflow, but without its threshold, beyond which it has no curvature.
    # What is no pair is blanked before, not after: absent labels may score -inf.
    differences = (scores.unsqueeze(-1) - scores.unsqueeze(-2)).where(upper > lower, 0.0)
    costs = -functional.logsigmoid(differences)
    total = weights.sum((-2, -1))
    return ((costs * weights).sum((-2, -1)) / total.where(total > 0, 1.0)).mean()
