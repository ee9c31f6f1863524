"""Average precision itself as a loss: ranks among the positives over ranks among all, from a sorter."""

from collections.abc import Callable

from torch import Tensor

from rankops.checks import check_labels
from rankops.losses.inputs import present, soft_ranks, transposed
from rankops.metrics.weights import relative_weights

__all__ = ["average_precision"]


def average_precision(
    scores: Tensor,
    labels: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""In each class, the examples that have it should come first, and the top places count most.

    $1 - \frac1P \sum_{i \in P} \frac{f(y_P)_i}{f(y)_i}$ with f(y) the ranks among all n examples and f(y_P) those among
    the P positives: 1 minus average precision (SoDeep, Eqs. 5-6) when the sorter is exact, averaged over classes.
    `mean_average_precision` makes the mean rank of the positives small, in which all places count alike; here those at
    the top count most, as in the metric. With soft ranks no precision counts for more than 1. Classes without a
    positive or without a negative are left out; if all are, the value is 0 without gradient.

    Args:
        scores: y, (..., n, C).
        labels: (..., n, C), boolean, or integers 0 and 1.
        sorter: f, of any length: takes scores (..., C, n) and `mask` to ranks (..., C, n), 1 for the largest.
        mask: (..., n, C) boolean, False where an example does not count for a class.
        weights: (..., n, C), how much the precision at each positive counts.

    Returns:
        A scalar.

    Raises:
        TypeError: scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, groups of one example, labels that are anything but 0 and 1, negative
            weights, or what the sorter refuses: scores that are not finite, a mask if it is of fixed length.

    >>> import torch
    >>> from rankops.ranks import ranks
    >>> scores, labels = torch.tensor([[0.9], [0.5], [0.7], [0.1]]), torch.tensor([[1], [1], [0], [0]])
    >>> average_precision(scores, labels, sorter=ranks)  # 1 - (1 / 1 + 2 / 3) / 2
    tensor(0.1667)
    """
    check_labels(scores, labels, least=2, mask=mask)
    weight = relative_weights(scores, mask, weights).mT  # (..., C, n)
    exists = present(labels, mask).mT
    positives = labels.bool().mT & exists
    weight = weight * positives
    among_all = soft_ranks(sorter, scores, mask, arranged=transposed)
    # Soft ranks among the positives, which lie closer together, can be larger than those among all: a precision above
    # 1 would reward positives for lying close together.
    precision = (sorter(scores.mT, mask=positives) / among_all.where(positives, 1.0)).clamp(max=1)
    total = weight.sum(-1).to(precision.dtype)
    both_kinds = (total > 0) & (exists & ~positives).any(-1)
    lost = 1 - (precision * weight).sum(-1) / total.where(both_kinds, 1.0)
    return lost.where(both_kinds, 0.0).sum() / both_kinds.sum().clamp(min=1)
