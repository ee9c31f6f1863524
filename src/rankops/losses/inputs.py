"""What losses make of their arguments before they compute: masked labels, ordered groups, soft ranks."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import NotFiniteError, check_scores
from rankops.metrics.weights import relative_weights
from rankops.ranks import ranks

__all__ = ["at_least_single", "both_ways", "is_ordered", "present", "rank_distance", "soft_ranks", "transposed"]


def at_least_single(scores: Tensor) -> Tensor:
    """Convert half precision to float32, which sums over many pairs need.

    >>> at_least_single(torch.zeros(2, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def present(labels: Tensor, mask: Tensor | None) -> Tensor:
    """Return which labels count, of their shape: where the mask is True, or all."""
    return torch.ones_like(labels, dtype=torch.bool) if mask is None else mask


def is_ordered(target: Tensor, weight: Tensor) -> Tensor:
    """Return which groups (...) hold at least two different targets, of those (..., d) whose weight is not 0.

    >>> is_ordered(torch.tensor([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0]]), torch.tensor([1.0, 1.0, 0.0]))
    tensor([ True, False])
    """
    counts = weight > 0
    largest = target.masked_fill(~counts, -torch.inf).amax(-1)
    return largest > target.masked_fill(~counts, torch.inf).amin(-1)


def soft_ranks(
    sorter: Callable[..., Tensor],
    scores: Tensor,
    mask: Tensor | None,
    *,
    arranged: Callable[[Tensor], Tensor] = lambda given: given,
) -> Tensor:
    """Rank by a sorter. It is passed a mask only if there is one, so that any function of scores will do.

    Args:
        sorter: takes scores (..., d) to ranks (..., d).
        scores, mask: as the loss was given them.
        arranged: makes of each what the sorter is given, such as its transpose.

    Raises:
        ValueError: what the sorter refuses; a score that is not finite is named by its place in `scores`.
    """
    try:
        return sorter(arranged(scores)) if mask is None else sorter(arranged(scores), mask=arranged(mask))
    except NotFiniteError:
        check_scores(scores, mask=mask)
        raise


def rank_distance(
    scores: Tensor, target: Tensor, *, sorter: Callable[..., Tensor], mask: Tensor | None, weights: Tensor | None
) -> Tensor:
    r"""Return $\frac{6}{d (d^2 - 1)} \|f(y) - \mathrm{rk}(y^*)\|^2$ of each group that has an order, averaged.

    Args:
        scores, target: (..., d), checked.
        sorter: takes scores (..., d) to ranks (..., d).
        mask, weights: (..., d) or None.

    Returns:
        A scalar; 0 without gradient if no group has two different targets.
    """
    weight = relative_weights(scores, mask, weights)
    soft = soft_ranks(sorter, scores, mask)
    # In float64, because half precision does not hold every rank.
    true = ranks(target.double(), mask=mask).to(soft.dtype)
    length = scores.shape[-1] if mask is None else mask.sum(-1).clamp(min=2)
    total = weight.sum(-1)
    errors = ((soft - true).square() * weight).sum(-1) / total.where(total > 0, 1.0)
    ordered = is_ordered(target, weight)
    return (errors * 6 / (length**2 - 1)).where(ordered, 0.0).sum() / ordered.sum().clamp(min=1)


def transposed(matrices: Tensor) -> Tensor:
    """(..., C, n) of (..., n, C)."""
    return matrices.mT


def both_ways(matrices: Tensor) -> Tensor:
    """(2, ..., d, d): as they are, and transposed."""
    return torch.stack([matrices, matrices.mT])
