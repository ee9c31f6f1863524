"""What losses hold scores against, refused where it makes no sense, with a message that says what to do."""

import math
from collections.abc import Callable
from numbers import Integral

import torch
from torch import Tensor

from rankops.ranks import NotFiniteError, any_of, check_mask, check_scores, check_tensors

__all__ = [
    "both_ways", "check_count", "check_gains", "check_labels", "check_positives", "check_target",
    "counted", "gains_of", "ideal", "is_ordered", "present", "soft_ranks", "transposed",
]  # fmt: skip


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


def check_target(
    scores: Tensor, target: Tensor, *, between_0_and_1: bool = False, least: int = 1, mask: Tensor | None = None
) -> None:
    """Refuses targets of another shape than the scores', not finite, that want a gradient, or in groups below `least`.

    What stands where the mask is False is not looked at.

    Raises:
        TypeError: `target` is not a floating-point tensor.
        ValueError: everything else.

    >>> check_target(torch.zeros(2), torch.tensor([0.5, float("nan")]))
    Traceback (most recent call last):
    ...
    ValueError: target holds nan at (1,), expected finite: look at its row, or leave it out
    """
    check_tensors(scores=scores, target=target)
    if scores.shape != target.shape or scores.numel() == 0 or scores.dim() == 0:
        raise ValueError(
            f"scores {tuple(scores.shape)} and target {tuple(target.shape)}: expected one shape (..., d), not empty"
        )
    if scores.shape[-1] < least:
        raise ValueError(
            f"scores have groups of {scores.shape[-1]} in shape {tuple(scores.shape)}, which leave nothing to compare: "
            f"expected groups of at least {least} along the last dimension"
        )
    if target.requires_grad:
        raise ValueError("target requires a gradient, and gets none: pass target.detach()")
    if not target.is_floating_point():
        raise TypeError(f"target is {target.dtype}, expected a floating-point tensor: convert it with .float()")
    bad = ~torch.isfinite(target)
    if between_0_and_1:
        bad = bad | (target < 0) | (target > 1)
    if mask is not None:
        check_mask(scores, mask)
        bad = bad & mask
    if any_of(bad):
        where = tuple(bad.nonzero()[0].tolist())
        expected = "finite: look at its row"
        if between_0_and_1:
            expected = "in [0, 1], which is all that a sigmoid reaches: scale it"
        raise ValueError(f"target holds {target[where].item()} at {where}, expected {expected}, or leave it out")


def check_labels(scores: Tensor, labels: Tensor, *, least: int = 1, mask: Tensor | None = None) -> None:
    """Refuses labels that are not 0 or 1, of another shape than the scores', or of fewer than `least` examples.

    What stands where the mask is False is not looked at.

    Raises:
        ValueError: any of these.

    >>> check_labels(torch.zeros(2, 1), torch.tensor([[0], [2]]))
    Traceback (most recent call last):
    ...
    ValueError: labels hold 2 at (1, 0), expected 0 or 1
    """
    check_tensors(scores=scores, labels=labels)
    if scores.shape != labels.shape or scores.numel() == 0 or scores.dim() < 2:
        raise ValueError(
            f"scores {tuple(scores.shape)} and labels {tuple(labels.shape)}: "
            "expected one shape (..., n, C) of n examples and C classes, not empty"
        )
    if scores.shape[-2] < least:
        raise ValueError(
            f"scores have groups of {scores.shape[-2]} example in shape {tuple(scores.shape)}, which leave nothing to "
            f"compare: expected (..., n, C) with n of at least {least}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels are {labels.dtype}, expected booleans, or integers 0 and 1: convert them with .bool()"
        )
    wrong = (labels != 0) & (labels != 1)
    if mask is not None:
        check_mask(scores, mask)
        wrong = wrong & mask
    if any_of(wrong):
        where = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"labels hold {labels[where].item()} at {where}, expected 0 or 1")


def check_positives(scores: Tensor, positives: Tensor, *, mask: Tensor | None = None) -> None:
    """Refuses positives that are no boolean square matrices of the scores' shape, or lack one in a row or column.

    With a mask, a row or column may be without.

    Raises:
        ValueError: any of these.

    >>> check_positives(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    Traceback (most recent call last):
    ...
    ValueError: positives hold no True in row 1: expected at least one in each row and each column
    """
    check_tensors(scores=scores, positives=positives)
    if scores.shape != positives.shape or scores.dim() < 2 or scores.shape[-1] != scores.shape[-2]:
        raise ValueError(
            f"scores {tuple(scores.shape)} and positives {tuple(positives.shape)}: expected one shape (..., d, d)"
        )
    if scores.numel() == 0 or scores.shape[-1] == 1:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}, which leaves nothing to compare: "
            "expected (..., d, d) with d of at least 2, not empty"
        )
    if positives.dtype != torch.bool:
        raise ValueError(f"positives are {positives.dtype}, expected booleans: convert them with .bool()")
    if mask is not None:
        check_mask(scores, mask)
        return
    for name, found in (("row", positives.any(-1)), ("column", positives.any(-2))):
        if any_of(~found):
            *group, where = (~found).nonzero()[0].tolist()
            matrix = f" of matrix {tuple(group)}" if group else ""
            raise ValueError(
                f"positives hold no True in {name} {where}{matrix}: expected at least one in each row and each column"
            )


def is_ordered(target: Tensor, weight: Tensor) -> Tensor:
    """Which groups (...) hold at least two different targets, of those (..., d) whose weight is not 0.

    >>> is_ordered(torch.tensor([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0]]), torch.tensor([1.0, 1.0, 0.0]))
    tensor([ True, False])
    """
    counts = weight > 0
    largest = target.masked_fill(~counts, -torch.inf).amax(-1)
    return largest > target.masked_fill(~counts, torch.inf).amin(-1)


def check_gains(target: Tensor, mask: Tensor | None, *, gain: str, k: int | None) -> None:
    """Refuses what has no discounted cumulative gain.

    Raises:
        ValueError: a target that is negative, or above 60 for an exponential gain; an unknown `gain`; `k` below 1.

    >>> check_gains(torch.tensor([1.0, -2.0]), None, gain="linear", k=None)
    Traceback (most recent call last):
    ...
    ValueError: target holds -2.0 at (1,), expected a relevance of at least 0
    """
    if gain not in ("exponential", "linear"):
        raise ValueError(f"gain is {gain!r}, expected 'exponential' or 'linear'")
    if k is not None:
        check_count(k)
    known = target if mask is None else target.masked_fill(~mask, 0.0)
    for bad, expected in (
        (known < 0, "a relevance of at least 0"),
        ((known > 60) & (gain == "exponential"), "at most 60, or gain='linear': 2 to its power is the gain"),
    ):
        if any_of(bad):
            where = tuple(bad.nonzero()[0].tolist())
            raise ValueError(f"target holds {target[where].item()} at {where}, expected {expected}")


def gains_of(target: Tensor, weight: Tensor, gain: str) -> Tensor:
    """What each (..., d) gains when it comes first, times its weight."""
    known = target.to(weight.dtype).where(weight > 0, 0.0)
    return weight * (torch.expm1(known * math.log(2)) if gain == "exponential" else known)


def ideal(gains: Tensor, k: int | None) -> Tensor:
    """The discounted cumulative gain (...) of the best order of gains (..., d), of its first k places.

    >>> ideal(torch.tensor([0.0, 1.0, 3.0]), 1)
    tensor(3.)
    """
    ordered = gains.sort(dim=-1, descending=True).values[..., :k]
    places = torch.arange(1, ordered.shape[-1] + 1, device=gains.device, dtype=gains.dtype)
    return (ordered / torch.log2(1 + places)).sum(-1)


def both_ways(matrices: Tensor) -> Tensor:
    """(2, ..., d, d): as they are, and transposed."""
    return torch.stack([matrices, matrices.mT])


def check_count(k: int) -> None:
    """Refuses a number of places that is not a whole number of at least 1.

    Raises:
        TypeError, ValueError: it is not.

    >>> check_count(0)
    Traceback (most recent call last):
    ...
    ValueError: k is 0, expected at least 1
    """
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"k is {k!r}, expected a whole number of at least 1")
    if k < 1:
        raise ValueError(f"k is {k}, expected at least 1")
