"""Recall at K as a loss: a soft step on the rank of the first positive, both ways between images and captions."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import check_count, check_positive, check_positives
from rankops.losses.inputs import both_ways, soft_ranks
from rankops.metrics.weights import relative_weights

__all__ = ["recall_at_k"]


def recall_at_k(
    scores: Tensor,
    positives: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int = 1,
    temperature: float = 1.0,
) -> Tensor:
    r"""In each row and each column, some positive should be among the first K.

    $1 - \sigma\left( (K + \frac12 - f(Y_i)_p) / \tau \right)$ with p the positive that is ranked first, averaged over
    the rows (image to text) and the columns (text to image) of the score matrix Y: SoDeep, Eq. 8, its step made soft,
    halfway between the places K and K + 1. With an exact sorter and nothing tied it tends to 1 - R@K as $\tau$
    tends to 0.

    Args:
        scores: Y, (..., d, d), row = image, column = text.
        positives: (..., d, d) boolean, which pairs belong together; at least one in each row and column.
        sorter: f, takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        mask: (..., d, d) boolean, False where a pair is neither right nor wrong; rows and columns may then be without
            a positive, and are left out.
        weights: (..., d, d); a row counts by the weight of its heaviest positive.
        k: K, at least 1.
        temperature: $\tau$, the width of the step in places.

    Returns:
        A scalar.

    Raises:
        TypeError: `k` is no whole number; scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are not square, d of 1, positives that are not boolean or lack one in a row or
            column, `k` below 1, `temperature` not positive, or what the sorter refuses: scores that are not finite,
            another d than its length.

    >>> from rankops.ranks import ranks
    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.0, 0.8, 0.1], [0.7, 0.3, 0.5]])  # the last row is led by another
    >>> recall_at_k(scores, torch.eye(3, dtype=torch.bool), sorter=ranks, temperature=0.01)
    tensor(0.1667)
    """
    check_positives(scores, positives, mask=mask)
    check_count("k", k)
    check_positive("temperature", temperature)
    own = both_ways(positives if mask is None else positives & mask)
    weight = both_ways(relative_weights(scores, mask, weights)).masked_fill(~own, 0.0).amax(-1)
    places = soft_ranks(sorter, scores, mask, arranged=both_ways)
    any_own = own.any(-1)
    first = places.masked_fill(~own, torch.inf).amin(-1).where(any_own, 0.0)
    share = weight.to(places.dtype)
    whole = share.sum()
    return (torch.sigmoid((first - k - 0.5) / temperature) * share).sum() / whole.where(whole > 0, 1.0)
