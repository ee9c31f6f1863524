"""The recall loss: a triplet margin on ranks from a sorter, both ways between images and captions."""

from collections.abc import Callable

from torch import Tensor

from rankops.checks import check_positive, check_positives
from rankops.losses.inputs import both_ways, present, soft_ranks
from rankops.metrics.weights import relative_weights

__all__ = ["recall"]


def recall(
    scores: Tensor,
    positives: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    margin: float = 1.0,
    hardest: bool = True,
) -> Tensor:
    r"""In each row and each column, a positive should be ranked above every negative, by a margin of places.

    $\max_{c} \max(0, \alpha + f(Y_i)_p - f(Y_i)_c)$ over the negatives c, averaged over all positives p of the rows
    (image to text) and of the columns (text to image) of the score matrix Y: SoDeep, Eqs. 9-10. Positives of a row
    without a negative are left out; if all are, the value is 0 without gradient.

    Args:
        scores: Y, (..., d, d), row = image, column = text.
        positives: (..., d, d) boolean, which pairs belong together; at least one in each row and column.
        sorter: f, takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        mask: (..., d, d) boolean, False where a pair is neither right nor wrong; rows and columns may then be without
            a positive, and are left out.
        weights: (..., d, d), how much each positive counts.
        margin: $\alpha$, in places.
        hardest: only the negative that is ranked highest counts (Eq. 10); otherwise the mean over negatives.

    Returns:
        A scalar.

    Raises:
        TypeError: scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are not square, d of 1, positives that are not boolean or lack one in a row or
            column, a negative `margin`, or what the sorter refuses: scores that are not finite, another d than its
            length.

    >>> import torch
    >>> from rankops.ranks import ranks
    >>> own = torch.eye(3, dtype=torch.bool)
    >>> recall(torch.tensor([[9.0, 1.0, 2.0], [0.0, 8.0, 1.0], [2.0, 0.0, 9.0]]), own, sorter=ranks)
    tensor(0.)
    """
    check_positives(scores, positives, mask=mask)
    check_positive("margin", margin, or_zero=True)
    weight = both_ways(relative_weights(scores, mask, weights))
    exists = present(positives, mask)
    places = soft_ranks(sorter, scores, mask, arranged=both_ways)
    own = both_ways(positives & exists)
    where = own.nonzero(as_tuple=True)  # one entry a positive: p in all
    rivals = both_ways(~positives & exists)[where[:-1]]  # (p, d), the negatives of its row
    violations = (margin + places[where].unsqueeze(-1) - places[where[:-1]]).relu().masked_fill(~rivals, 0.0)
    each = violations.amax(-1) if hardest else violations.sum(-1) / rivals.sum(-1).clamp(min=1)
    share = (weight[where] * rivals.any(-1)).to(each.dtype)
    whole = share.sum()
    return (each * share).sum() / whole.where(whole > 0, 1.0)
