"""SoDeep's loss for recall: a triplet loss on ranks from a sorter, in both directions between images and captions."""

from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import AnySorter, Reduction, groups, soft_ranks, triplets

__all__ = ["sodeep_recall"]


def sodeep_recall(
    scores: Tensor,
    positives: Tensor,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    margin: float = 1.0,
    hardest: bool = True,
) -> Tensor:
    r"""Positives should rank above every negative by a margin of positions; for 1 - recall see `hit_rate`.

    $\max_{c} \max(0, \alpha + f(Y_i)_p - f(Y_i)_c)$ over the negatives c, averaged over all positives p of the rows
    (image to text) and of the columns (text to image) of the score matrix Y: SoDeep, Eqs. 9-10. Positives in a row
    without a negative are ignored.

    Args:
        scores: Y, (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; see `rankgrad.losses`.
        mask: of that shape, boolean, False for pairs to ignore.
        weights: of that shape, weight of each positive.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        margin: $\alpha$, in positions.
        hardest: use only the negative ranked highest (Eq. 10); otherwise the mean over negatives.

    Returns:
        A scalar; with `none`, (..., 2, d), one value per row and per column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `margin` is negative.

    >>> import torch
    >>> own = torch.eye(3, dtype=torch.bool)
    >>> sodeep_recall(torch.tensor([[9.0, 1.0, 2.0], [0.0, 8.0, 1.0], [2.0, 0.0, 9.0]]), own, sorter="straight_through")
    tensor(0.)
    """
    batch = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    check_positive("margin", margin, or_zero=True)
    return triplets(
        batch,
        soft_ranks(batch, sorter),
        lambda positive, negatives: margin + positive - negatives,
        hardest=hardest,
        reduction=reduction,
    )
