"""InfoNCE, the cross-entropy of a softmax over similarities, both ways between images and captions."""

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
    r"""In each row and each column, a positive should be the likeliest answer.

    $\log \left( 1 + \sum_c e^{(Y_{ic} - Y_{ip}) / \tau} \right)$ over the negatives c, averaged over the positives p of
    a row, then over the rows (image to text) and the columns (text to image) of the score matrix Y (van den Oord et al.
    2018, Eq. 4; both ways as in CLIP, Radford et al. 2021): the logarithm of an exponential soft rank.

    Args:
        scores: Y, similarities (..., n, m), row = image, column = text.
        positives: of that shape, 1 for pairs that belong together and 0 for others; at least one in each row, and in
            each column of a square matrix. Other columns may have none: further negatives. What has none is left out.
        mask: of that shape, boolean, False where a pair is neither right nor wrong; rows may then have no positive too.
        weights: of that shape, how much each positive counts in its row; a row counts by that of its heaviest positive.
        group_weights, reduction, check_finite: see `rankgrad.losses`; `none` gives (..., 2, d), of each row and of each
            column, with d the larger of n and m.
        temperature: $\tau$, in units of similarity.

    Returns:
        A scalar, of the scores' type and at least float32; with `none`, one value a row and one a column.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; m of 1, a row without a positive, or a column of a
            square matrix, a `temperature` that is not positive.

    >>> import torch
    >>> info_nce(torch.zeros(4, 4), torch.eye(4)).exp()  # a guess among four
    tensor(4.)
    """
    given = groups(
        scores, positives=positives, mask=mask, weights=weights, group_weights=group_weights, check_finite=check_finite
    )
    check_positive("temperature", temperature)
    negatives = given.exists & ~given.truth
    logits = given.scores / temperature
    # Where a row has no negative, any number does: it does not count.
    rivals = logits.masked_fill(~negatives & negatives.any(-1, keepdim=True), -float("inf")).logsumexp(-1, keepdim=True)
    worth = given.weight * given.truth
    # As softplus, without its threshold, beyond which it has no curvature.
    lost = (worth * -functional.logsigmoid((logits - rivals).where(given.truth, 0.0))).sum(-1)
    total = worth.sum(-1)
    some = (total > 0) & negatives.any(-1)
    return reduced(given, lost / total.where(some, 1.0), reduction, counts=some * worth.amax(-1))
