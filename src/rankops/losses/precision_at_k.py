"""Precision at K as a loss: soft steps on the ranks of the positives, from a sorter."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import check_count, check_labels, check_positive
from rankops.losses.inputs import present, soft_ranks, transposed
from rankops.metrics.weights import relative_weights

__all__ = ["precision_at_k"]


def precision_at_k(
    scores: Tensor,
    labels: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int = 5,
    temperature: float = 1.0,
) -> Tensor:
    r"""In each class, the first K places should be taken by examples that have it.

    $1 - \frac{1}{\min(K, P)} \sum_{i: y^*_i = 1} \sigma((K + \frac12 - f(y)_i) / \tau)$ with P the number of
    positives, averaged over classes: with an exact sorter it tends to 1 - P@K as $\tau$ tends to 0, where there are K
    positives. Classes without a positive or without a negative are left out; if all are, the value is 0 without
    gradient.

    Args:
        scores: y, (..., n, C).
        labels: $y^*$, (..., n, C), boolean, or integers 0 and 1.
        sorter: f, takes scores (..., C, n) to ranks (..., C, n), 1 for the largest, and `mask`, where one is given.
        mask: (..., n, C) boolean, False where an example does not count for a class.
        weights: (..., n, C), how much each positive counts; P is then the sum, and min(K, P) that of the K heaviest.
        k: K, at least 1.
        temperature: $\tau$, the width of the step in places.

    Returns:
        A scalar.

    Raises:
        TypeError: `k` is no whole number; scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, groups of one example, labels that are anything but 0 and 1, negative
            weights, `k` below 1, a `temperature` that is not positive, or what the sorter refuses.

    >>> from rankops.ranks import ranks
    >>> scores, labels = torch.tensor([[0.9], [0.5], [0.7], [0.1]]), torch.tensor([[1], [1], [0], [0]])
    >>> precision_at_k(scores, labels, sorter=ranks, k=2, temperature=0.01)  # the second is at place 3
    tensor(0.5000)
    """
    check_labels(scores, labels, least=2, mask=mask)
    check_count("k", k)
    check_positive("temperature", temperature)
    weight = relative_weights(scores, mask, weights).mT * labels.bool().mT  # (..., C, n)
    exists = present(labels, mask).mT
    places = soft_ranks(sorter, scores, mask, arranged=transposed)
    inside = (torch.sigmoid((k + 0.5 - places) / temperature) * weight).sum(-1)
    most = weight.sort(dim=-1, descending=True).values[..., :k].sum(-1).to(inside.dtype)
    both_kinds = (most > 0) & (exists & ~labels.bool().mT).any(-1)
    return (1 - inside / most.where(both_kinds, 1.0)).where(both_kinds, 0.0).sum() / both_kinds.sum().clamp(min=1)
