"""The Plackett-Luce likelihood of the order of the present labels."""

import torch
from torch import Tensor

from rankops.checks import check_label_ranks
from rankops.losses.inputs import at_least_single

__all__ = ["plackett_luce"]


def plackett_luce(scores: Tensor, label_ranks: Tensor) -> Tensor:
    r"""The present labels should be drawn in their order, the most important first, from all that are left.

    $\sum_{u : r_u > 0} \log \sum_{v : r_v \le r_u} e^{f_v - f_u}$, averaged over the batch: the negative logarithm of
    $\prod_u e^{f_u} / \sum_v e^{f_v}$, the probability that a draw without replacement, by the softmax of the scores,
    gives the present labels in their order (Plackett 1975; ListMLE, Xia et al. 2008, on the top of the list). Absent
    labels are never drawn but always there to be drawn, so the last present label is held against them. It is a sum
    over the present labels, not a mean, because the sum is the likelihood; examples with more of them weigh more.

    Tied labels are drawn as if each were the first of them: all have the denominator that is there before any of them
    is drawn (Breslow's form in survival analysis). So nothing depends on an order among them, and at best they score
    alike; $e^{-value}$ is then below the probability of any order of them. With ranks 0 and 1 alone it is the
    cross-entropy of each example, times the number of its present labels.

    An example with no label present adds 0 and has no gradient.

    Args:
        scores: f, (..., K); -inf says that a label cannot be there.
        label_ranks: r, (..., K), 0 = absent, larger = more important.

    Returns:
        A scalar, float32 or float64.

    Raises:
        TypeError, ValueError: see `rankops.checks.check_label_ranks`.

    >>> plackett_luce(torch.zeros(1, 4), torch.tensor([[0, 2, 0, 1]])).exp()  # one of 4, then one of 3
    tensor(12.)
    """
    check_label_ranks(scores, label_ranks)
    scores = at_least_single(scores)
    left = label_ranks.unsqueeze(-2) <= label_ranks.unsqueeze(-1)  # [..., u, v]: v is left when u is drawn
    # Differences, not scores: no digits are lost where all scores are large, and u itself is exactly 0.
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., u, v] = f_v - f_u
    # A label that is never drawn may score -inf, whose gradient would be 0 times infinity.
    differences = differences.where((label_ranks > 0).unsqueeze(-1), 0.0)
    costs = torch.logsumexp(differences.masked_fill(~left, -torch.inf), dim=-1)
    return costs.where(label_ranks > 0, 0.0).sum(-1).mean()
