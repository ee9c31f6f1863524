"""Precision at K, exact."""

from torch import Tensor

from rankops.checks import check_count, check_labels, check_scores
from rankops.metrics.weights import relative_weights
from rankops.ranks import places

__all__ = ["precision_at_k"]


def precision_at_k(
    scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, weights: Tensor | None = None, k: int = 5
) -> Tensor:
    """Compute the share of the first K places that go to examples which have the class.

    Equal scores share the places that they take together.

    Args:
        scores: (..., n, C).
        labels: (..., n, C), boolean, or integers 0 and 1.
        mask: (..., n, C) boolean, False where an example does not count for a class.
        weights: (..., n, C), how much each positive counts, relative to the heaviest of all.
        k: K, at least 1.

    Returns:
        (..., C), float64.

    Raises:
        TypeError: scores are not floating point.
        ValueError: shapes differ or are empty, a score that is not finite, labels that are anything but 0 and 1,
            negative weights, `k` below 1.

    >>> import torch
    >>> scores, labels = torch.tensor([[0.9], [0.5], [0.7], [0.1]]), torch.tensor([[1], [1], [0], [0]])
    >>> precision_at_k(scores, labels, k=2)
    tensor([0.5000], dtype=torch.float64)
    """
    check_labels(scores, labels, mask=mask)
    check_scores(scores, mask=mask)
    check_count("k", k)
    weight = relative_weights(scores, mask, weights).double() * labels.bool()
    above, up_to = (place.mT for place in places(scores.double().mT, None if mask is None else mask.mT))
    inside = ((k - above).clamp(min=0).double() / (up_to - above).clamp(min=1)).clamp(max=1.0)
    return (weight * inside).sum(-2) / k
