"""What losses make of their arguments before they compute: weights, masked labels, soft ranks."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import NotFiniteError, any_of, check_mask, check_scores

__all__ = ["both_ways", "counted", "present", "soft_ranks", "transposed"]


def counted(scores: Tensor, mask: Tensor | None, weights: Tensor | None) -> Tensor:
    """How much each score counts: its weight relative to the largest, or 1, and 0 where the mask is False.

    Args:
        scores: any shape.
        mask: boolean, of the scores' shape, False where there is no score; None if all are there.
        weights: of the scores' shape, finite and not negative; None if all count alike.

    Returns:
        Of the scores' shape, float32 or float64.

    Raises:
        TypeError, ValueError: a mask or weights of another shape or type, negative or infinite weights.

    >>> counted(torch.zeros(3), torch.tensor([True, True, False]), torch.tensor([0.5, 2.0, 3.0]))
    tensor([0.2500, 1.0000, 0.0000])
    """
    kind = torch.promote_types(scores.dtype, torch.float32)
    if mask is not None:
        check_mask(scores, mask)
    if weights is None:
        return torch.ones_like(scores, dtype=kind) if mask is None else mask.to(kind)
    if not torch.is_tensor(weights) or not weights.is_floating_point():
        found = weights.dtype if torch.is_tensor(weights) else type(weights).__name__
        raise TypeError(f"weights are {found}, expected a floating-point tensor")
    if weights.shape != scores.shape:
        raise ValueError(f"weights {tuple(weights.shape)} and scores {tuple(scores.shape)}: expected one shape")
    # In their own type until they are proportions: what double precision holds may leave single precision's range.
    kept = weights.to(torch.promote_types(weights.dtype, kind))
    kept = kept if mask is None else kept.masked_fill(~mask, 0.0)
    bad = ~(torch.isfinite(kept) & (kept >= 0))
    if any_of(bad):
        where = tuple(bad.nonzero()[0].tolist())
        raise ValueError(f"weights hold {weights[where].item()} at {where}, expected finite numbers of at least 0")
    # Only proportions matter, and sums of very large or very small ones would leave their range.
    largest = kept.amax() if kept.numel() else kept.sum()
    return (kept / largest.where(largest > 0, 1.0)).to(kind)


def present(labels: Tensor, mask: Tensor | None) -> Tensor:
    """Which labels count, of their shape: where the mask is True, or all."""
    return torch.ones_like(labels, dtype=torch.bool) if mask is None else mask


def soft_ranks(
    sorter: Callable[..., Tensor], scores: Tensor, mask: Tensor | None, *,
    arranged: Callable[[Tensor], Tensor] = lambda given: given,
) -> Tensor:  # fmt: skip
    """Ranks from a sorter; it is handed a mask only where there is one, so that any function of scores will do.

    Args:
        sorter: takes scores (..., d) to ranks (..., d).
        scores, mask: as the loss was given them.
        arranged: makes of each what the sorter is handed, such as its transpose.

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
