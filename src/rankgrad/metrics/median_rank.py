"""The ranks of the first positives in retrieval, exact, and their median."""

import torch
from torch import Tensor

from rankgrad.checks import check_positives, check_scores

__all__ = ["first_positive_ranks", "median_rank"]


def median_rank(scores: Tensor, positives: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Compute the median rank of the first positive over rows; for an even number, the mean of the middle two.

    Args:
        scores, positives, mask: see `first_positive_ranks`.

    Returns:
        A scalar, float64; NaN without rows.

    Raises:
        TypeError, ValueError: see `first_positive_ranks`.

    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.7, 0.3, 0.5]])
    >>> median_rank(scores, torch.tensor([[True, False, False], [False, False, True]]))
    tensor(1.5000, dtype=torch.float64)
    """
    ordered = first_positive_ranks(scores, positives, mask=mask).double().sort().values
    if not len(ordered):
        return ordered.new_full((), torch.nan)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def first_positive_ranks(scores: Tensor, positives: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Compute the position at which each row finds its first positive; 1 is the top.

    The position is 1 + the number of negatives that score at least as high as the best positive, so ties count against
    the positive.

    Args:
        scores: (n, m), of n queries and m items to find.
        positives: (n, m), 0 and 1 of any type, at least one 1 in each row.
        mask: (n, m) boolean, False for pairs to ignore.

    Returns:
        (n,), int64.

    Raises:
        TypeError: scores are not floating point, or an argument is not a tensor.
        ValueError: shapes differ, are not (n, m), or are empty, a score is not finite, a positive is not 0 or 1, or a
            row has no positive.

    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.7, 0.3, 0.5]])
    >>> first_positive_ranks(scores, torch.tensor([[True, False, False], [False, False, True]]))
    tensor([1, 2])
    """
    check_positives(scores, positives, both_ways=False, mask=mask)
    check_scores(scores, mask=mask)
    positives = positives.bool()
    if mask is not None:
        positives, scores = positives & mask, scores.masked_fill(~mask, -torch.inf)
    best = scores.masked_fill(~positives, -torch.inf).amax(1, keepdim=True)
    return 1 + ((scores >= best) & ~positives).sum(1)
