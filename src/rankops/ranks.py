"""The rank convention of the whole project: descending, from 1 (the largest score) to d, ties averaged."""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = [
    "NotFiniteError",
    "any_of",
    "check_mask",
    "check_not_negative",
    "check_scores",
    "check_tensors",
    "places",
    "rank_along",
    "ranks",
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


def rank_along(
    compute: Callable[[Tensor, Tensor | None], Tensor],
    scores: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    descending: bool = True,
    normalised: bool = False,
    check_finite: bool = True,
    length: int | None = None,
) -> Tensor:
    """What every way of ranking does around its own computation: the contract of all sorters and of `ranks`.

    Args:
        compute: takes scores (..., d) and a mask of that shape or None to descending ranks 1..d of the same shape;
            scores are float32 or float64, and 0 where the mask is False; called without autocast.
        scores: any shape, floating point; never modified. Half precision is ranked in float32, and the ranks are
            float32 too, because bfloat16 ends at 256 whole numbers and float16 at 2,048.
        dim: the dimension to rank along.
        mask: boolean, of the scores' shape, False where there is no score: ranks there are 0, no gradient reaches
            them, whatever stands there is ignored, and the others are ranked as if they were alone.
        descending: rank 1 for the largest score, otherwise for the smallest.
        normalised: divide by d (by the number of scores that the mask leaves).
        check_finite: refuse NaN and infinity, which waits for the device. Without it, and always under
            `torch.compile` and `torch.func.vmap`, where values cannot be looked at, one of them makes all ranks of
            its vector NaN.
        length: d, where it is fixed.

    Raises:
        TypeError, ValueError: see `check_scores` and `check_mask`; a mask where the length is fixed.
    """
    check_scores(scores, length=length, dim=dim, finite=False)
    if mask is not None:
        check_mask(scores, mask)
        if length is not None:
            raise ValueError(f"a mask is given to a sorter of fixed length {length}: choose one of any length")
    check_finite = check_finite and _seen_finite(scores, mask)
    values = scores.movedim(dim, -1)
    values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    there = None if mask is None else mask.movedim(dim, -1)
    finite = None
    if not check_finite:
        finite = torch.isfinite(values)
        finite = (finite if there is None else finite | ~there).all(-1, keepdim=True)
        values = values.where(finite, 0.0)
    if there is not None:
        values = values.masked_fill(~there, 0.0)
    with torch.autocast(values.device.type, enabled=False):  # bfloat16 has no 257
        found = compute(values if descending else -values, there).to(values.dtype)
    if normalised:
        found = found / (values.shape[-1] if there is None else there.sum(-1, keepdim=True).clamp(min=1))
    if finite is not None:
        found = found.where(finite, torch.nan)
    if there is not None:
        found = found.masked_fill(~there, 0.0)
    return found.movedim(-1, dim)


def places(scores: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """How many scores are larger, and how many are larger or equal: a tied group fills the places in between.

    Args:
        scores: (..., d), finite where the mask is True.
        mask: (..., d) boolean, False where there is no score, or None.

    Returns:
        Two tensors (..., d), int64; 0 where the mask is False.

    >>> places(torch.tensor([0.3, 2.0, 0.3]))
    (tensor([1, 0, 1]), tensor([3, 1, 3]))
    """
    values = scores.detach().contiguous()
    if mask is not None:
        values = values.masked_fill(~mask, -torch.inf)
    ascending = values.sort(dim=-1).values
    larger = values.shape[-1] - torch.searchsorted(ascending, values, right=True)
    not_smaller = values.shape[-1] - torch.searchsorted(ascending, values, right=False)
    return (larger, not_smaller) if mask is None else (larger * mask, not_smaller * mask)


def _exact(scores: Tensor, mask: Tensor | None) -> Tensor:
    larger, not_smaller = places(scores, mask)
    # In float64, because float32 does not hold every number up to 2 d of very long vectors.
    return ((larger + not_smaller + 1).double() / 2).to(scores.dtype)


def ranks(
    scores: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    descending: bool = True,
    normalised: bool = False,
    check_finite: bool = True,
) -> Tensor:
    r"""Exact ranks with ties averaged; no gradient flows through them. Called as every sorter is.

    $r_i = 1 + \#\{j : s_j > s_i\} + \frac12 \#\{j \neq i : s_j = s_i\}$, so the largest score has rank 1
    and the smallest d (SoDeep, Section 3.1, which divides by d).

    Args:
        scores, dim, mask, descending, normalised, check_finite: see `rank_along`.

    Returns:
        Ranks, of the shape of `scores`; float32, or float64 for scores of float64.

    Raises:
        TypeError, ValueError: see `rank_along`.

    >>> ranks(torch.tensor([0.3, 2.0, 0.3, -1.0]))
    tensor([2.5000, 1.0000, 2.5000, 4.0000])
    >>> ranks(torch.tensor([0.3, 2.0, 0.3, -1.0]), mask=torch.tensor([True, True, False, True]))
    tensor([2., 1., 0., 3.])
    """
    return rank_along(
        _exact, scores, dim=dim, mask=mask, descending=descending, normalised=normalised, check_finite=check_finite
    )
