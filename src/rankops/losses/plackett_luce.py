"""The Plackett-Luce likelihood of the order of the present labels."""

import torch
from torch import Tensor

from rankops.losses.inputs import Reduction, groups, reduced, within

__all__ = ["plackett_luce"]


def plackett_luce(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
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
        scores: f, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important.
        mask: of that shape, boolean, False where a label is not known or cannot be there.
        weights: of that shape, by which, relative to a group's heaviest, the term of each present label is multiplied.
        dim, reduction, check_finite: see `rankops.losses`.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a group.

    Raises:
        TypeError, ValueError: see `rankops.losses`.

    >>> plackett_luce(torch.zeros(1, 4), torch.tensor([[0, 2, 0, 1]])).exp()  # one of 4, then one of 3
    tensor(12.)
    """
    given = groups(scores, label_ranks=label_ranks, dim=dim, mask=mask, weights=weights, check_finite=check_finite)
    label_ranks, present = given.truth, given.truth > 0
    left = label_ranks.unsqueeze(-2) <= label_ranks.unsqueeze(-1)  # [..., u, v]: v is left when u is drawn
    left = left & given.exists.unsqueeze(-2)
    # Differences, not scores: no digits are lost where all scores are large, and u itself is exactly 0.
    differences = given.scores.unsqueeze(-2) - given.scores.unsqueeze(-1)  # [..., u, v] = f_v - f_u
    # Unchecked, a label that is never drawn may score -inf, whose gradient would be 0 times infinity.
    differences = differences.where(present.unsqueeze(-1), 0.0)
    # What is not drawn keeps all entries: logsumexp of none would have no gradient.
    costs = torch.logsumexp(differences.masked_fill(~left & present.unsqueeze(-1), -torch.inf), dim=-1)
    return reduced(given, (costs.where(present, 0.0) * within(given.weight)).sum(-1), reduction)
