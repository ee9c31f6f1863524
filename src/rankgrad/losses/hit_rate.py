"""The hit rate as a loss: a soft step on the first positive's rank, in both directions between images and captions."""

import torch
from torch import Tensor

from rankgrad.checks import check_count, check_positive
from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["hit_rate"]


def hit_rate(
    scores: Tensor,
    positives: Tensor,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    k: int = 1,
    temperature: float = 1.0,
) -> Tensor:
    r"""In each row and column, a positive should be among the first K.

    $1 - \sigma\left( (K + \frac12 - f(Y_i)_p) / \tau \right)$ with p the positive ranked first, averaged over the rows
    (image to text) and the columns (text to image) of the score matrix Y: SoDeep, Eq. 8, with a soft step halfway
    between the positions K and K + 1. With an exact sorter and no ties, it tends to 1 - R@K as $\tau$ tends to 0.

    Args:
        scores: Y, (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; see `rankgrad.losses`.
        mask: of that shape, boolean, False for pairs to ignore.
        weights: of that shape; a row has the weight of its largest positive.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.
        k: K, at least 1.
        temperature: $\tau$, the width of the step in positions.

    Returns:
        A scalar; with `none`, (..., 2, d), one value per row and per column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `k` is below 1, or `temperature` is not positive.

    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.0, 0.8, 0.1], [0.7, 0.3, 0.5]])  # the last row is led by another
    >>> hit_rate(scores, torch.eye(3), sorter="straight_through", temperature=0.01)
    tensor(0.1667)
    """
    batch = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    check_count("k", k)
    check_positive("temperature", temperature)
    positive = batch.truth
    places = soft_ranks(batch, sorter)
    first = places.masked_fill(~positive, torch.inf).amin(-1).where(positive.any(-1), 0.0)
    heaviest = batch.weight.masked_fill(~positive, 0.0).amax(-1)
    heaviest = heaviest * (batch.exists.sum(-1) > 1)  # a single score is always first
    return reduced(batch, torch.sigmoid((first - k - 0.5) / temperature), reduction, counts=heaviest)
