"""The Spearman loss: squared differences between ranks from a sorter and the ranks of the target."""

from torch import Tensor

from rankgrad.losses._inputs import AnySorter, Reduction, check_weights_of_pairs, groups, rank_distance

__all__ = ["spearman"]


def spearman(
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
) -> Tensor:
    r"""Scores should have the order of their targets.

    $\frac{6}{d (d^2 - 1)} \|f(y) - \mathrm{rk}(y^*)\|^2$ for each group of d, averaged over groups: SoDeep, Eq. 4, up
    to its factor (Eq. 4 is a sum, which grows with d and with the batch). With an exact sorter and no ties, it is
    $1 - r_s$. A group whose targets are all equal has no order and is ignored.

    Args:
        scores: y, any shape.
        target: $y^*$, of that shape; tied targets share their average rank.
        mask: of that shape, boolean, False where there is no example; d is then the number of existing examples.
        weights: of that shape, weight of each squared error in its group's mean. With weights, the loss is not 1 minus
            the weighted correlation of `rankgrad.metrics.spearman`, which also applies weights to the means and
            variances of ranks.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> import torch
    >>> scores, target = torch.tensor([0.1, 0.9, 0.5]), torch.tensor([10, 20, 30])
    >>> spearman(scores, target, sorter="straight_through")  # ranks 3, 1, 2 for 3, 2, 1: one pair is swapped
    tensor(0.5000)
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
    return rank_distance(batch, sorter, reduction)
