"""What losses make of their arguments before they compute: masked labels, ordered groups, soft ranks."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import NotFiniteError, check_scores

__all__ = ["at_least_single", "both_ways", "is_ordered", "present", "soft_ranks", "transposed"]


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


def transposed(matrices: Tensor) -> Tensor:
    """(..., C, n) of (..., n, C)."""
    return matrices.mT


def both_ways(matrices: Tensor) -> Tensor:
    """(2, ..., d, d): as they are, and transposed."""
    return torch.stack([matrices, matrices.mT])
