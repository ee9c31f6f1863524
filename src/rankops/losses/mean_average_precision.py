"""The mean average precision loss: ranks of the positives, from a sorter."""

from collections.abc import Callable

from torch import Tensor

from rankops.targets import check_labels

__all__ = ["mean_average_precision"]


def mean_average_precision(
    scores: Tensor, labels: Tensor, *, sorter: Callable[[Tensor], Tensor], weight_by: str = "classes"
) -> Tensor:
    r"""In each class, the examples that have it should come before those that do not.

    $\frac1n \left( \frac1P \langle f(y_c), y^*_c \rangle - \frac{P + 1}{2} \right)$ for each class c: how far the mean
    rank of its P positives among the n examples is above the least possible, so that a perfect order gives 0 and
    classes of different sizes can be compared. Weighted by the number of positives it is
    $\sum_c \langle f(y_c), y^*_c \rangle$ (SoDeep, Eq. 7) up to a factor and a constant, in which frequent classes
    count for more. Classes without a positive or without a negative are left out; if all are, the value is 0 without
    gradient.

    Args:
        scores: y, (..., n, C).
        labels: $y^*$, (..., n, C), boolean, or integers 0 and 1.
        sorter: f, takes scores (..., C, n) to ranks (..., C, n), 1 for the largest.
        weight_by: `classes`, all alike, as in the metric, or `positives`, as in Eq. 7.

    Returns:
        A scalar.

    Raises:
        ValueError: shapes differ or are empty, groups of one example, labels that are anything but 0 and 1, an unknown
            `weight_by`, or what the sorter refuses: scores that are not finite, another n than its length.

    >>> import torch
    >>> from rankops.ranks import ranks
    >>> scores, labels = torch.tensor([[0.9], [0.5], [0.7], [0.1]]), torch.tensor([[1], [1], [0], [0]])
    >>> mean_average_precision(scores, labels, sorter=ranks)  # ranks 1 and 3 instead of 1 and 2: (2 - 1.5) / 4
    tensor(0.1250)
    """
    check_labels(scores, labels, least=2)
    if weight_by not in ("classes", "positives"):
        raise ValueError(f"weight_by is {weight_by!r}, expected 'classes' or 'positives'")
    positives = labels.bool().mT  # (..., C, n)
    length = positives.shape[-1]
    count = positives.sum(-1)
    # Divided by n before the sum, which would overflow in half precision.
    mean_rank = (sorter(scores.mT) / length * positives).sum(-1) / count.clamp(min=1)
    above_least = mean_rank - (count + 1).to(mean_rank.dtype) / (2 * length)
    both_kinds = (count > 0) & (count < length)
    weight = (both_kinds if weight_by == "classes" else count * both_kinds).to(mean_rank.dtype)
    return (above_least * weight).sum() / weight.sum().clamp(min=1)
