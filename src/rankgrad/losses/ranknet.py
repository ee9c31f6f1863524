"""RankNet: the logistic loss of pairs with different relevance."""

from torch import Tensor

from rankgrad.losses._inputs import Reduction, check_weights_of_pairs, groups, reduced, within
from rankgrad.losses._pairs import Pair, logistic, sums_over_pairs

__all__ = ["ranknet"]


def ranknet(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
    r"""In each pair, the item with the larger target should have the larger score.

    $\sum_{y^*_i > y^*_j} w_i w_j \log(1 + e^{y_j - y_i}) / \sum_{y^*_i > y^*_j} w_i w_j$ for each group, averaged over
    groups (Burges et al. 2005). `pairwise_logistic` is the same on label ranks, with a weight for near ties;
    `lambdarank` weights a pair by its effect on NDCG. Groups whose targets are all equal are ignored.

    Args:
        scores, target: y and $y^*$, of the same shape.
        mask: of that shape, boolean, False where there is no example.
        weights: w, of that shape; the weight of a pair is the product of both.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> import torch
    >>> ranknet(torch.tensor([2.0, 1.0, 1.0]), torch.tensor([3, 0, 0]))  # log(1 + e^-1)
    tensor(0.3133)
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
    check_weights_of_pairs(batch, weights)
    weight = within(batch.weight)

    def rows(scores: Pair, truth: Pair, weight: Pair) -> tuple[Tensor, ...]:
        pairs = weight[0] * weight[1] * (truth[0] > truth[1])
        return logistic(scores, pairs), pairs.sum(-1)

    cost, total = sums_over_pairs(rows, batch.scores, batch.truth, weight)
    return reduced(batch, cost / total.where(total > 0, 1.0), reduction, counts=total > 0)
