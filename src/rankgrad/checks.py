"""Check arguments. Every error reads `<argument> is <found>, expected <this>: <what to do>`."""

import math
from numbers import Integral, Real
from typing import Any, get_args

import torch
from torch import Tensor

__all__ = [
    "NotFiniteError",
    "check_choice",
    "check_count",
    "check_finite",
    "check_finite_scores",
    "check_floating",
    "check_group_size",
    "check_instance",
    "check_label_ranks",
    "check_labels",
    "check_mask",
    "check_positive",
    "check_positives",
    "check_real",
    "check_scores",
    "check_shapes",
    "check_target",
    "check_tensors",
    "check_values",
    "largest_magnitude",
    "signed",
    "value_of",
]

# Errors of a failing GPU, which do not mean that a tensor's values cannot be read.
_FAILURES = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))  # PyTorch 2.8 has both


class NotFiniteError(ValueError):
    """Scores are NaN or infinite."""


def check_values(
    name: str, values: Tensor, wrong: Tensor, expected: str, *, error: type[Exception] = ValueError
) -> bool:
    """Raise if a value is wrong; the error names the first wrong value and its index.

    Args:
        name: name of the argument.
        values: the argument.
        wrong: boolean tensor of the same shape, True for wrong values.
        expected: allowed values, and what to do about wrong ones.
        error: the exception to raise.

    Returns:
        Whether values could be read. They cannot under `torch.compile` and `torch.func.vmap`.

    >>> check_values("labels", torch.tensor([[0], [2]]), torch.tensor([[False], [True]]), "0 or 1")
    Traceback (most recent call last):
    ...
    ValueError: labels[1, 0] is 2, expected 0 or 1
    """
    any_wrong = _any(wrong)
    if any_wrong:
        index = wrong.nonzero()[0].tolist()
        more = int(wrong.sum()) - 1
        suffix = f"[{', '.join(map(str, index))}]" if index else ""
        raise error(
            f"{name}{suffix} is {values[tuple(index)].item()}"
            f"{f' ({more} more are wrong)' if more else ''}, expected {expected}"
        )
    return any_wrong is not None


def _any(flags: Tensor) -> bool | None:
    """Return whether any flag is True; None if values cannot be read."""
    return value_of(flags.any())  # only once, because it waits for the GPU


def value_of(value: Tensor) -> Any:
    """Return a scalar's value; None if values cannot be read (in compiled code and under `torch.func.vmap`)."""
    if torch.compiler.is_compiling():
        return None
    try:
        return value.item()
    except _FAILURES:
        raise
    except RuntimeError:  # from vmap
        return None


def check_tensors(**tensors: Tensor) -> None:
    """Raise a TypeError if an argument is not a tensor, or is sparse or nested.

    >>> check_tensors(labels=[1, 0])
    Traceback (most recent call last):
    ...
    TypeError: labels is a list, expected a tensor: convert it with torch.as_tensor
    """
    for name, value in tensors.items():
        if not torch.is_tensor(value):
            raise TypeError(f"{name} is a {type(value).__name__}, expected a tensor: convert it with torch.as_tensor")
        if value.is_nested or value.layout != torch.strided:
            layout, advice = ("nested", "pad it and pass a mask") if value.is_nested else ("sparse", "use .to_dense()")
            raise TypeError(f"{name} is a {layout} tensor, expected a dense one: {advice}")


def check_floating(**tensors: Tensor) -> None:
    """Raise a TypeError if an argument is not a floating-point tensor.

    >>> check_floating(target=torch.tensor([1, 0]))
    Traceback (most recent call last):
    ...
    TypeError: target is torch.int64, expected a floating-point tensor: convert it with .float()
    """
    check_real(**tensors)
    for name, value in tensors.items():
        if not value.is_floating_point():
            raise TypeError(f"{name} is {value.dtype}, expected a floating-point tensor: convert it with .float()")


def check_real(**tensors: Tensor) -> None:
    """Raise a TypeError if an argument is not a tensor of real numbers in a type that PyTorch can compute with.

    >>> check_real(target=torch.tensor([1j]))
    Traceback (most recent call last):
    ...
    TypeError: target is torch.complex64, expected real numbers: take its real part or absolute value
    """
    check_tensors(**tensors)
    for name, value in tensors.items():
        if value.is_complex():
            raise TypeError(f"{name} is {value.dtype}, expected real numbers: take its real part or absolute value")
        if value.is_floating_point() and value.element_size() < 2:  # float8 is stored, not computed with
            raise TypeError(f"{name} is {value.dtype}, which cannot be compared: convert it with .float()")


def signed(values: Tensor) -> Tensor:
    """Return whole numbers in a type that PyTorch can compare, add, and search; other values do not change.

    PyTorch lacks these operations for uint16, uint32, and uint64, and some for booleans. A uint64 of 2^63 or more
    becomes negative.

    >>> signed(torch.tensor([1, 65535], dtype=torch.uint16))
    tensor([    1, 65535])
    """
    return values.long() if values.dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64) else values


def check_shapes(expected: str, *, dims: int = 1, leading: bool = True, empty: bool = False, **tensors: Tensor) -> None:
    """Raise if two tensors differ in shape, have another number of dimensions than `dims`, or are empty.

    Args:
        expected: the shape, for the error.
        dims: the number of dimensions.
        leading: allow more dimensions before these.
        empty: allow tensors without any value.
        tensors: two of them, by name.

    Raises:
        TypeError: an argument is not a tensor.
        ValueError: the shapes do not match.

    >>> check_shapes("(n, m)", dims=2, scores=torch.zeros(2, 3), positives=torch.zeros(3, 2))
    Traceback (most recent call last):
    ...
    ValueError: scores (2, 3) and positives (3, 2): expected one shape (n, m), not empty
    """
    check_tensors(**tensors)
    first, second = tensors.values()
    fits = first.dim() >= dims if leading else first.dim() == dims
    if first.shape != second.shape or not fits or (first.numel() == 0 and not empty):
        shapes = " and ".join(f"{name} {tuple(value.shape)}" for name, value in tensors.items())
        raise ValueError(f"{shapes}: expected one shape {expected}{'' if empty else ', not empty'}")


def check_scores(
    scores: Tensor, *, length: int | None = None, dim: int = -1, mask: Tensor | None = None, finite: bool = True
) -> None:
    """Check that scores can be ranked.

    Args:
        scores: any shape, floating point.
        length: d if it is fixed.
        dim: the dimension of size d.
        mask: a checked mask; scores are ignored where it is False.
        finite: also check that no score is NaN or infinite.

    Raises:
        TypeError: scores are not a real floating-point tensor.
        ValueError: the dimension does not exist or is empty, or its size is not `length`.
        NotFiniteError: a score is NaN or infinite.

    >>> check_scores(torch.zeros(4, 10), length=32)
    Traceback (most recent call last):
    ...
    ValueError: scores has length 10 in shape (4, 10), expected 32: pass vectors of that length or use another sorter
    """
    check_floating(scores=scores)
    shape = tuple(scores.shape)
    if not isinstance(dim, int):
        raise TypeError(f"dim is {dim!r}, expected one whole number")
    if not shape:
        raise ValueError("scores has shape (), expected (..., d) with d of at least 1")
    if not -len(shape) <= dim < len(shape):
        raise ValueError(f"dim is {dim}, expected a dimension of scores, which has shape {shape}")
    if shape[dim] == 0:
        raise ValueError(f"scores has shape {shape}, expected a size of at least 1 along dimension {dim}")
    if length is not None and shape[dim] != length:
        raise ValueError(
            f"scores has length {shape[dim]} in shape {shape}, expected {length}: pass vectors of that length or use "
            "another sorter"
        )
    if finite:
        check_finite_scores(scores, mask)


def check_finite_scores(scores: Tensor, mask: Tensor | None) -> bool:
    """Raise if a score is NaN or infinite where a checked mask is True; return whether values could be read."""
    return largest_magnitude(scores, mask) is not None


def largest_magnitude(scores: Tensor, mask: Tensor | None) -> float | None:
    """Return the largest |score| where a checked mask is True; None if values cannot be read.

    Raises:
        NotFiniteError: a score is NaN or infinite there.

    >>> largest_magnitude(torch.tensor([1.0, -3.0, torch.nan]), torch.tensor([True, True, False]))
    3.0
    """
    values = scores.detach() if mask is None else scores.detach().masked_fill(~mask, 0.0)
    result = value_of(values.abs().amax()) if values.numel() else 0.0
    if result is not None and not math.isfinite(result):
        expected = "a finite number: look for a diverged model or an overflow, or leave it out with mask"
        check_values("scores", scores, ~torch.isfinite(values), expected, error=NotFiniteError)
    return result


def check_mask(scores: Tensor, mask: Tensor) -> None:
    """Raise if a mask is not boolean or does not have the scores' shape.

    >>> check_mask(torch.zeros(2, 3), torch.ones(3, dtype=torch.bool))
    Traceback (most recent call last):
    ...
    ValueError: mask has shape (3,), expected that of scores, (2, 3): True where there is a score
    """
    check_tensors(mask=mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"mask is {mask.dtype}, expected a boolean tensor: True where there is a score")
    if mask.shape != scores.shape:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, expected that of scores, {tuple(scores.shape)}: True where there is "
            "a score"
        )


def check_target(
    scores: Tensor,
    target: Tensor,
    *,
    between_0_and_1: bool = False,
    mask: Tensor | None = None,
    check_finite: bool = True,
) -> None:
    """Check the target of a regression; values are ignored where the mask is False.

    Args:
        scores, target: one shape; targets are real numbers of any type.
        between_0_and_1: whether targets lie in [0, 1].
        mask: of that shape, boolean, or None.
        check_finite: read the values.

    Raises:
        TypeError: `target` is complex or not a tensor.
        ValueError: shapes differ, or a target is not finite, is out of range, or requires a gradient.

    >>> check_target(torch.zeros(2), torch.tensor([0.5, float("nan")]))
    Traceback (most recent call last):
    ...
    ValueError: target[1] is nan, expected a finite number: correct it, or leave it out with mask
    """
    check_shapes("(..., d)", empty=True, scores=scores, target=target)
    check_real(target=target)
    if target.requires_grad:
        raise ValueError("target requires a gradient, expected one that does not: pass target.detach()")
    wrong, expected = ~torch.isfinite(target), "a finite number: correct it, or leave it out with mask"
    if between_0_and_1:
        wrong, expected = wrong | (target < 0) | (target > 1), "a number in [0, 1], the range of a sigmoid: scale it"
    _check_where(scores, "target", target, wrong, expected, mask=mask, check_finite=check_finite)


def check_labels(scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, check_finite: bool = True) -> None:
    """Check labels of 0 and 1, of any type; values are ignored where the mask is False.

    Args:
        scores, labels: one shape.
        mask: of that shape, boolean, or None.
        check_finite: read the values.

    Raises:
        TypeError: labels are complex or not a tensor.
        ValueError: shapes differ, or a label is not 0 or 1.

    >>> check_labels(torch.zeros(2, 1), torch.tensor([[0], [2]]))
    Traceback (most recent call last):
    ...
    ValueError: labels[1, 0] is 2, expected 0 or 1
    """
    check_shapes("(..., d)", empty=True, scores=scores, labels=labels)
    check_real(labels=labels)
    wrong = (labels != 0) & (labels != 1)
    _check_where(scores, "labels", labels, wrong, "0 or 1", mask=mask, check_finite=check_finite)


def _check_where(
    scores: Tensor,
    name: str,
    values: Tensor,
    wrong: Tensor,
    expected: str,
    *,
    mask: Tensor | None,
    check_finite: bool,
) -> None:
    if mask is not None:
        check_mask(scores, mask)
    if check_finite:
        check_values(name, values, wrong if mask is None else wrong & mask, expected)


def check_group_size(scores: Tensor, *, dim: int = -1, least: int = 1) -> None:
    """Raise if groups of scores are too small to compare anything.

    >>> check_group_size(torch.zeros(2, 1), least=2)
    Traceback (most recent call last):
    ...
    ValueError: scores has groups of 1 along dimension -1 of shape (2, 1), expected at least 2: pass the right dim
    """
    if scores.shape[dim] < least:
        raise ValueError(
            f"scores has groups of {scores.shape[dim]} along dimension {dim} of shape {tuple(scores.shape)}, expected "
            f"at least {least}: pass the right dim"
        )


def check_positives(
    scores: Tensor,
    positives: Tensor,
    *,
    both_ways: bool = True,
    mask: Tensor | None = None,
    check_finite: bool = True,
) -> None:
    """Check the positive pairs of a score matrix: booleans, or 0 and 1 of any type.

    Args:
        scores, positives: (..., n, m) with a positive in each row.
        both_ways: whether columns are searched too. Then there must be at least two columns; without a mask, each
            column of a square matrix needs a positive, and with a mask, rows may lack one. Otherwise the shape is
            (n, m).
        mask: of the same shape, boolean, or None.
        check_finite: read the values.

    Raises:
        TypeError: positives are complex or not a tensor.
        ValueError: shapes are wrong, a positive is not 0 or 1, or a row or column has no positive.

    >>> check_positives(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    Traceback (most recent call last):
    ...
    ValueError: positives has no True in row 1, expected at least one in each row and column
    """
    form = "(..., n, m)" if both_ways else "(n, m)"
    check_shapes(form, dims=2, leading=both_ways, empty=True, scores=scores, positives=positives)
    shape = tuple(scores.shape)
    if both_ways and shape[-1] == 1:
        raise ValueError(
            f"scores and positives have shape {shape}, expected (..., n, m) with m of at least 2: a row with one score "
            "leaves nothing to compare"
        )
    check_real(positives=positives)
    wrong = (positives != 0) & (positives != 1)
    _check_where(scores, "positives", positives, wrong, "True or False", mask=mask, check_finite=check_finite)
    if not check_finite or (mask is not None and both_ways):
        return
    sides = {"row": -1, "column": -2} if both_ways and shape[-1] == shape[-2] else {"row": -1}
    positives = positives.bool() if mask is None else positives.bool() & mask
    for name, dim in sides.items():
        without = ~positives.any(dim)
        if _any(without):
            *matrix, number = without.nonzero()[0].tolist()
            raise ValueError(
                f"positives has no True in {name} {number}{f' of matrix {tuple(matrix)}' if matrix else ''}, expected "
                f"at least one in each {' and '.join(sides)}"
            )


def check_label_ranks(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    mask: Tensor | None = None,
    check_finite: bool = True,
) -> None:
    """Check label ranks of multi-label ranking; values are ignored where the mask is False.

    Args:
        scores, label_ranks: one shape; label ranks are real numbers of any type.
        mask: of that shape, boolean, or None.
        check_finite: read the values.

    Raises:
        TypeError: label ranks are complex or not a tensor.
        ValueError: shapes differ, or a label rank is negative, NaN or infinite.

    >>> check_label_ranks(torch.zeros(1, 2), torch.tensor([[1, -1]]))
    Traceback (most recent call last):
    ...
    ValueError: label_ranks[0, 1] is -1, expected 0 (absent) or more: exclude unknown labels with mask
    """
    check_shapes("(..., K)", empty=True, scores=scores, label_ranks=label_ranks)
    check_real(label_ranks=label_ranks)
    comparable = signed(label_ranks)
    wrong = ~((comparable >= 0) & torch.isfinite(comparable))
    largest = ", below 2^63" if label_ranks.dtype == torch.uint64 else ""
    expected = f"0 (absent) or more{largest}: exclude unknown labels with mask"
    _check_where(scores, "label_ranks", label_ranks, wrong, expected, mask=mask, check_finite=check_finite)


def check_instance(name: str, value: Any) -> None:
    """Raise if a class is passed instead of an instance.

    >>> check_instance("sorter", torch.nn.ReLU)
    Traceback (most recent call last):
    ...
    TypeError: sorter is the class ReLU, expected a sorter: pass an instance, ReLU(...)
    """
    if isinstance(value, type):
        raise TypeError(
            f"{name} is the class {value.__name__}, expected a {name}: pass an instance, {value.__name__}(...)"
        )


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise if an option is not one of the values of a `Literal`.

    >>> from typing import Literal
    >>> check_choice("gain", "cubic", Literal["exponential", "linear"])
    Traceback (most recent call last):
    ...
    ValueError: gain is 'cubic', expected 'exponential' or 'linear'
    """
    if value not in get_args(choices):
        raise ValueError(f"{name} is {value!r}, expected {' or '.join(map(repr, get_args(choices)))}")


def check_count(name: str, value: int) -> None:
    """Raise if an option is not a whole number of at least 1.

    >>> check_count("k", 0)
    Traceback (most recent call last):
    ...
    ValueError: k is 0, expected at least 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is {value!r}, expected a whole number of at least 1")
    if value < 1:
        raise ValueError(f"{name} is {value}, expected at least 1")


def check_positive(name: str, value: float, *, or_zero: bool = False) -> None:
    """Raise if an option is not a positive number in a range that float32 can handle.

    >>> check_positive("softness", 0.0)
    Traceback (most recent call last):
    ...
    ValueError: softness is 0.0, expected a positive number from 1e-12 to 1e12
    """
    expected = f"{'0 or ' if or_zero else ''}a positive number from 1e-12 to 1e12"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}, expected {expected}")
    if not 1e-12 <= value <= 1e12 and not (or_zero and value == 0):
        raise ValueError(f"{name} is {value}, expected {expected}")


def check_finite(values: Tensor, name: str) -> None:
    """Raise if predictions (n, ...) are not finite; the error names the row.

    Raises:
        FloatingPointError: a value is NaN or infinite.

    >>> check_finite(torch.tensor([[0.0], [float("nan")]]), "score")
    Traceback (most recent call last):
    ...
    FloatingPointError: row 1: its score is not finite ([nan]): train again with a smaller learning rate
    """
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise FloatingPointError(
            f"row {row}: its {name} is not finite ({values[row].tolist()}): train again with a smaller learning rate"
        )
