"""The logarithm of a soft rank as a loss, in both directions between images and captions."""

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
    r"""In each row and column, positives should come first; halving a rank always reduces the loss equally.

    $\frac{1}{|P|} \left( \sum_{p \in P} \log f(Y_i)_p - \log |P|! \right)$ with P the positives, averaged over the rows
    (image to text) and the columns (text to image) of the score matrix Y. $|P|!$ is the product of the positives' ranks
    if they come first. `info_nce` is the logarithm of an exponential soft rank; this loss uses the sorter's rank, to
    which each negative adds at most 1, however high its score.

    Args:
        scores: Y, (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; see `rankgrad.losses`.
        mask: of that shape, boolean, False for pairs to ignore.
        weights: of that shape, weight of the logarithm of each positive's rank in its row; a row has the weight of its
            largest positive.
        group_weights, reduction, sorter, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar; with `none`, (..., 2, d), one value per row and per column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`.

    >>> scores = torch.tensor([[0.9, 0.1, 0.2], [0.0, 0.8, 0.1], [0.7, 0.3, 0.5]])  # the last row is led by another
    >>> mean_log_rank(scores, torch.eye(3), sorter="straight_through").exp()  # the sixth root of 2
    tensor(1.1225)
    """
    batch = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    worth = batch.weight * batch.truth
    places = soft_ranks(batch, sorter).clamp(min=1)  # a soft rank may be slightly below 1
    best = torch.arange(1, places.shape[-1] + 1, device=places.device).to(places.dtype).log()
    lost = (worth * places.where(batch.truth, 1.0).log()).sum(-1) - (worth.sort(descending=True).values * best).sum(-1)
    total = worth.sum(-1)
    counts = (total > 0) & (batch.exists & ~batch.truth).any(-1)
    return reduced(batch, lost / total.where(counts, 1.0), reduction, counts=counts * worth.amax(-1))
