"""The triplet margin with hard negatives, on similarities, both ways between images and captions."""

from torch import Tensor

from rankops.checks import check_positive, check_positives
from rankops.losses.inputs import at_least_single, both_ways

__all__ = ["hard_negative_triplet"]


def hard_negative_triplet(scores: Tensor, positives: Tensor, *, margin: float = 0.2, hardest: bool = True) -> Tensor:
    r"""In each row and each column, a positive should score higher than every negative, by a margin.

    $\max_{c} \max(0, \alpha + Y_{ic} - Y_{ip})$ over the negatives c, averaged over all positives p of the rows (image
    to text) and of the columns (text to image) of the score matrix Y (VSE++, Faghri et al. 2017, Eq. 6, up to its
    factor): the baseline of SoDeep, Section 4.2.3. Positives of a row without a negative are left out; if all are, the
    value is 0 without gradient.

    Args:
        scores: Y, similarities (..., d, d), row = image, column = text.
        positives: (..., d, d) boolean, which pairs belong together; at least one in each row and column.
        margin: $\alpha$, in units of similarity.
        hardest: only the negative that scores highest counts; otherwise the mean over negatives.

    Returns:
        A scalar, float32 or float64.

    Raises:
        ValueError: shapes differ or are not square, d of 1, positives that are not boolean or lack one in a row or
            column, or a negative `margin`.

    >>> import torch
    >>> own = torch.eye(2, dtype=torch.bool)
    >>> hard_negative_triplet(torch.tensor([[0.9, 0.5], [0.0, 0.6]]), own)  # 0.5 is too near to 0.6 alone: 0.1 / 4
    tensor(0.0250)
    """
    check_positives(scores, positives)
    check_positive("margin", margin, or_zero=True)
    similarities = both_ways(at_least_single(scores))
    own = both_ways(positives)
    where = own.nonzero(as_tuple=True)  # one entry a positive: p in all
    rivals = ~own[where[:-1]]  # (p, d), the negatives of its row
    violations = margin + similarities[where[:-1]] - similarities[where].unsqueeze(-1)
    violations = violations.relu().masked_fill(~rivals, 0.0)
    each = violations.amax(-1) if hardest else violations.sum(-1) / rivals.sum(-1).clamp(min=1)
    return each.sum() / rivals.any(-1).sum().clamp(min=1)
