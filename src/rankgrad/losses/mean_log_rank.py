"""The logarithm of a soft rank as a loss, both ways between images and captions."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["mean_log_rank"]


def mean_log_rank(
    scores: Tensor,
    positives: Tensor,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
) -> Tensor:
    r"""In each row and each column, positives should come first; each halving of a rank is worth the same.

    $\frac{1}{|P|} \left( \sum_{p \in P} \log f(Y_i)_p - \log |P|! \right)$ with P the positives, averaged over the rows
    (image to text) and the columns (text to image) of the score matrix Y. $|P|!$ is the product of their ranks when
    they come first. `info_nce` is the logarithm of an exponential soft rank; this is that of the sorter's, which counts
    a negative once at most, however high it scores.

    Args:
        scores: Y, (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; at least one in each row, and in
            each column of a square matrix. Other columns may have none: further negatives. What has none is left out.
        mask: of that shape, boolean, False where a pair is neither right nor wrong; rows may then have no positive too.
        weights: of that shape, how much the logarithm of each positive's rank counts in its row; a row counts by its
            heaviest positive.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`; `none` gives (..., 2, d), of each row and
            of each column, with d the larger of n and m.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a row and one a column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; m of 1, a row without a positive, or a column of a
            square matrix.

    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.0, 0.8, 0.1], [0.7, 0.3, 0.5]])  # the last row is led by another
    >>> mean_log_rank(scores, torch.eye(3), sorter="straight_through").exp()  # the sixth root of 2
    tensor(1.1225)
    """
    given = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    worth = given.weight * given.truth
    places = soft_ranks(given, sorter).clamp(min=1)  # a soft rank may lie a little below 1
    best = torch.arange(1, places.shape[-1] + 1, device=places.device).to(places.dtype).log()
    lost = (worth * places.where(given.truth, 1.0).log()).sum(-1) - (worth.sort(descending=True).values * best).sum(-1)
    total = worth.sum(-1)
    some = (total > 0) & (given.exists & ~given.truth).any(-1)
    return reduced(given, lost / total.where(some, 1.0), reduction, counts=some * worth.amax(-1))
