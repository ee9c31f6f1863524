"""Checks of what a caller passes: each raises an error that names the argument, what was found and what to do."""

from numbers import Integral, Real

import torch
from torch import Tensor

__all__ = [
    "NotFiniteError",
    "any_of",
    "check_count",
    "check_finite",
    "check_gains",
    "check_label_ranks",
    "check_labels",
    "check_mask",
    "check_not_negative",
    "check_positive",
    "check_positives",
    "check_scores",
    "check_target",
    "check_tensors",
    "is_ordered",
]


# What a GPU's failure is, as against a tensor that is not to be looked at. PyTorch before 2.8 knows the first alone.
_FAILURES = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))


class NotFiniteError(ValueError):
    """Scores are NaN or infinite."""


def _seen(flags: Tensor) -> bool | None:
    """Whether any is True; None where values cannot be looked at: compiled, and under `torch.func.vmap`."""
    if torch.compiler.is_compiling():
        return None
    try:
        return bool(flags.any())  # once: a GPU is waited for
    except _FAILURES:
        raise
    except RuntimeError:  # vmap refuses it
        return None


def any_of(flags: Tensor) -> bool:
    """Whether any is True; False where values cannot be looked at: compiled, and under `torch.func.vmap`."""
    return bool(_seen(flags))


def check_scores(
    scores: Tensor, *, length: int | None = None, dim: int = -1, mask: Tensor | None = None, finite: bool = True
) -> None:
    """Refuses what cannot be ranked, with a message that says what was found and what was expected.

    Args:
        scores: any shape, floating point.
        length: the d that is required, where it is fixed.
        dim: the dimension of size d.
        mask: boolean, of the scores' shape; where it is False, a score may be anything.
        finite: whether a score that is NaN or infinite is refused.

    Raises:
        TypeError: scores are not a real floating-point tensor.
        ValueError: no such dimension or an empty one, another length than `length`; `NotFiniteError`: a score that is
            NaN or infinite.

    >>> check_scores(torch.zeros(4, 10), length=32)
    Traceback (most recent call last):
    ...
    ValueError: scores have length 10 in shape (4, 10), expected 32: give vectors of that length, or another sorter
    """
    if not torch.is_tensor(scores) or not scores.is_floating_point():
        found = scores.dtype if torch.is_tensor(scores) else type(scores).__name__
        advice = "take a real part, or an absolute value" if "complex" in str(found) else "convert them with .float()"
        raise TypeError(f"scores are {found}, expected a floating-point tensor: {advice}")
    if not isinstance(dim, int):
        raise TypeError(f"dim is {dim!r}, expected one whole number")
    if scores.dim() == 0:
        raise ValueError("scores have shape (), expected (..., d) with d of at least 1")
    if not -scores.dim() <= dim < scores.dim():
        raise ValueError(f"dim is {dim}, but scores have shape {tuple(scores.shape)}: expected one of its dimensions")
    if scores.shape[dim] == 0:
        where = "expected (..., d)" if dim in (-1, scores.dim() - 1) else f"expected a dimension {dim} of size d,"
        raise ValueError(f"scores have shape {tuple(scores.shape)}, {where} with d of at least 1")
    if length is not None and scores.shape[dim] != length:
        raise ValueError(
            f"scores have length {scores.shape[dim]} in shape {tuple(scores.shape)}, expected {length}: "
            "give vectors of that length, or another sorter"
        )
    if finite:
        _seen_finite(scores, mask)


def _seen_finite(scores: Tensor, mask: Tensor | None) -> bool:
    """Refuses scores that are NaN or infinite; False where they cannot be looked at."""
    bad = ~torch.isfinite(scores)
    if mask is not None:
        check_mask(scores, mask)
        bad = bad & mask
    seen = _seen(bad)
    if seen:
        where = tuple(bad.nonzero()[0].tolist())
        raise NotFiniteError(
            f"scores hold {scores[where].item()} at {where} and {int(bad.sum())} non-finite values in all, "
            "expected finite ones: look for a diverged model or an overflow before the sorter"
        )
    return seen is not None


def check_tensors(**given: Tensor) -> None:
    """Refuses what is no tensor.

    Raises:
        TypeError: it names the argument, and how to make one.

    >>> check_tensors(labels=[1, 0])
    Traceback (most recent call last):
    ...
    TypeError: labels are of type list, expected a tensor: torch.as_tensor makes one
    """
    for name, value in given.items():
        if not torch.is_tensor(value):
            raise TypeError(f"{name} are of type {type(value).__name__}, expected a tensor: torch.as_tensor makes one")


def check_not_negative(label_ranks: Tensor) -> None:
    """Refuses label ranks that are negative or NaN.

    Raises:
        ValueError: it names the first of them, and where it is.

    >>> check_not_negative(torch.tensor([[1, -1]]))
    Traceback (most recent call last):
    ...
    ValueError: label_ranks hold -1 at (0, 1), expected 0 (absent) or more: leave out what is not known
    """
    bad = ~(label_ranks >= 0)
    if any_of(bad):
        where = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"label_ranks hold {label_ranks[where].item()} at {where}, expected 0 (absent) or more: leave out what is "
            "not known"
        )


def check_mask(scores: Tensor, mask: Tensor) -> None:
    """Refuses a mask that is not boolean or not of the scores' shape.

    Raises:
        TypeError, ValueError: these two.

    >>> check_mask(torch.zeros(2, 3), torch.ones(3, dtype=torch.bool))
    Traceback (most recent call last):
    ...
    ValueError: mask has shape (3,) and scores (2, 3): expected the same, True where there is a score
    """
    if not torch.is_tensor(mask) or mask.dtype != torch.bool:
        found = mask.dtype if torch.is_tensor(mask) else type(mask).__name__
        raise TypeError(f"mask is {found}, expected a boolean tensor, True where there is a score")
    if mask.shape != scores.shape:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} and scores {tuple(scores.shape)}: "
            "expected the same, True where there is a score"
        )


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


def check_label_ranks(scores: Tensor, label_ranks: Tensor) -> None:
    """Refuses what is no scores with label ranks.

    Raises:
        TypeError: scores are not a floating-point tensor, or label ranks no tensor.
        ValueError: different or empty shapes, or a label rank that is negative or NaN; these are looked for on a CPU
            alone: each step would wait for a GPU.

    >>> check_label_ranks(torch.zeros(1, 2), torch.tensor([[1, -1]]))
    Traceback (most recent call last):
    ...
    ValueError: label_ranks hold -1 at (0, 1), expected 0 (absent) or more: leave out what is not known
    """
    check_scores(scores, finite=False)
    check_tensors(label_ranks=label_ranks)
    if scores.shape != label_ranks.shape or scores.numel() == 0:
        raise ValueError(
            f"scores {tuple(scores.shape)} and label_ranks {tuple(label_ranks.shape)}: expected one shape (..., K), "
            "not empty"
        )
    if label_ranks.device.type == "cpu":
        check_not_negative(label_ranks)


def check_positive(name: str, value: float) -> None:
    """Refuses an option that is no positive number within what float32 can work with; the error names it.

    Raises:
        TypeError, ValueError: it is not.

    >>> check_positive("softness", 0.0)
    Traceback (most recent call last):
    ...
    ValueError: softness is 0.0, expected a positive number, from 1e-12 to 1e12
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}, expected a positive number")
    if not 1e-12 <= value <= 1e12:
        raise ValueError(f"{name} is {value}, expected a positive number, from 1e-12 to 1e12")


def check_finite(values: Tensor, what: str) -> None:
    """Refuses predictions (n, ...) that are not numbers.

    Raises:
        FloatingPointError: a value is not finite; the message names its row.

    >>> check_finite(torch.tensor([[0.0], [float("nan")]]), "score")
    Traceback (most recent call last):
    ...
    FloatingPointError: row 1: its score is not finite ([nan]): train again with a smaller learning rate
    """
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise FloatingPointError(
            f"row {row}: its {what} is not finite ({values[row].tolist()}): train again with a smaller learning rate"
        )
