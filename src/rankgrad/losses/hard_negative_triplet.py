"""The triplet loss with hard negatives, on similarities, in both directions between images and captions."""

from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, groups, triplets

__all__ = ["hard_negative_triplet"]


def hard_negative_triplet(
    scores: Tensor,
    positives: Tensor,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    margin: float = 0.2,
    hardest: bool = True,
) -> Tensor:
    r"""In each row and column, positives should score higher than every negative by a margin.

    $\max_{c} \max(0, \alpha + Y_{ic} - Y_{ip})$ over the negatives c, averaged over all positives p of the rows (image
    to text) and of the columns (text to image) of the score matrix Y (VSE++, Faghri et al. 2017, Eq. 6, up to its
    factor): the baseline of SoDeep, Section 4.2.3. Positives in a row without a negative are ignored.

    Args:
        scores: Y, similarities (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; see `rankgrad.losses`.
        mask: of that shape, boolean, False for pairs to ignore.
        weights: of that shape, weight of each positive.
        group_weights, reduction, check_finite: see `rankgrad.losses`.
        margin: $\alpha$, in units of similarity.
        hardest: use only the negative with the highest score; otherwise the mean over negatives.

    Returns:
        A scalar; with `none`, (..., 2, d), one value per row and per column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `margin` is negative.

    >>> import torch
    >>> own = torch.eye(2, dtype=torch.bool)
    >>> hard_negative_triplet(torch.tensor([[0.9, 0.5], [0.0, 0.6]]), own)  # 0.5 is too near to 0.6 alone: 0.1 / 4
    tensor(0.0250)
    """
    batch = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    check_positive("margin", margin, or_zero=True)
    return triplets(
        batch,
        batch.scores,
        lambda positive, negatives: margin + negatives - positive,
        hardest=hardest,
        reduction=reduction,
    )
