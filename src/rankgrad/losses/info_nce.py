"""InfoNCE, the cross-entropy of a softmax over similarities, in both directions between images and captions."""

from torch import Tensor
from torch.nn import functional

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, groups, reduced

__all__ = ["info_nce"]


def info_nce(
    scores: Tensor,
    positives: Tensor,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    temperature: float = 0.05,
) -> Tensor:
    r"""In each row and column, a softmax should give a positive the highest probability.

    $\log \left( 1 + \sum_c e^{(Y_{ic} - Y_{ip}) / \tau} \right)$ over the negatives c, averaged over the positives p of
    a row, then over the rows (image to text) and the columns (text to image) of the score matrix Y (van den Oord et al.
    2018, Eq. 4; both ways as in CLIP, Radford et al. 2021): the logarithm of an exponential soft rank.

    Args:
        scores: Y, similarities (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; see `rankgrad.losses`.
        mask: of that shape, boolean, False for pairs to ignore.
        weights: of that shape, weight of each positive in its row; a row has the weight of its largest positive.
        group_weights, reduction, check_finite: see `rankgrad.losses`.
        temperature: $\tau$, in units of similarity.

    Returns:
        A scalar; with `none`, (..., 2, d), one value per row and per column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `temperature` is not positive.

    >>> import torch
    >>> info_nce(torch.zeros(4, 4), torch.eye(4)).exp()  # a guess among four
    tensor(4.)
    """
    batch = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    check_positive("temperature", temperature)
    negatives = batch.exists & ~batch.truth
    logits = batch.scores / temperature
    # A row without a negative may have any number, since it is ignored.
    rivals = logits.masked_fill(~negatives & negatives.any(-1, keepdim=True), -float("inf")).logsumexp(-1, keepdim=True)
    worth = batch.weight * batch.truth
    # Like softplus, but without its threshold, beyond which it has no curvature.
    lost = (worth * -functional.logsigmoid((logits - rivals).where(batch.truth, 0.0))).sum(-1)
    total = worth.sum(-1)
    counts = (total > 0) & negatives.any(-1)
    return reduced(batch, lost / total.where(counts, 1.0), reduction, counts=counts * worth.amax(-1))
