"""SoDeep's Spearman loss on the label ranks of RLSEP."""

from torch import Tensor

from rankgrad.losses._inputs import AnySorter, Reduction, groups, rank_distance

__all__ = ["spearman_of_label_ranks"]


def spearman_of_label_ranks(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
) -> Tensor:
    r"""The labels of an example should have the order of their label ranks, with absent labels tied in the last place.

    $\frac{6}{K (K^2 - 1)} \|f(y) - \mathrm{rk}(r)\|^2$ for each example, averaged over examples: SoDeep, Eq. 4, as in
    `spearman`, but a group is the labels of an example, not a batch of examples. Tied labels, including all absent
    ones, share their average rank. With an exact sorter and distinct scores, the loss cannot reach 0: t tied labels
    cost at least $t (t^2 - 1) / (2 K (K^2 - 1))$. With a soft sorter, it reaches 0 if tied labels have equal scores.
    Examples without any order (no label present, or all tied) are ignored.

    Args:
        scores: y, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important.
        mask: of that shape, boolean, False for labels to ignore; K is then the number of the others.
        weights: of that shape, weight of each squared error within its group.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> import torch
    >>> scores, label_ranks = torch.tensor([[0.1, 0.9, 0.5, 0.5]]), torch.tensor([[1, 2, 0, 0]])
    >>> spearman_of_label_ranks(scores, label_ranks, sorter="straight_through")  # 4, 1, 2.5, 2.5 for 2, 1, 3.5, 3.5
    tensor(0.6000)
    """
    # Larger label ranks are more important, like larger targets, so both are ranked from the top.
    batch = groups(
        scores,
        label_ranks=label_ranks,
        order=True,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    return rank_distance(batch, sorter, reduction)
