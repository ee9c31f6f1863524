"""The rank convention of the project: descending, from 1 (the largest score) to d, with ties averaged."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.checks import check_mask, check_scores, largest_magnitude

__all__ = ["dense_ranks", "exact_ranks", "places", "rank_along", "sorted_descending", "unit_of"]

__getattr__ = partial(lookup.no_attribute, "ranks")


UNIT = 1024.0


def rank_along(
    compute: Callable[[Tensor, Tensor | None], Tensor],
    scores: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    descending: bool = True,
    normalized: bool = False,
    check_finite: bool = True,
    length: int | None = None,
) -> Tensor:
    """Rank scores along a dimension with `compute`: the contract of all sorters and of `exact_ranks`.

    Args:
        compute: maps scores (..., d) and a mask of that shape, or None, to descending ranks 1..d of the same shape.
            Scores are float32 or float64, and 0 where the mask is False; autocast is off. A vector whose differences
            could overflow is divided by a power of 2.
        scores: any shape, floating point; never modified. Half-precision scores are ranked in float32 and get float32
            ranks, because bfloat16 represents whole numbers only up to 256, and float16 up to 2,048.
        dim: the dimension to rank along.
        mask: boolean, of the scores' shape, False where there is no score. Ranks there are 0 without a gradient; scores
            there are ignored, as if they did not exist.
        descending: rank 1 is the largest score if True, otherwise the smallest.
        normalized: divide ranks by d, the number of scores where the mask is True.
        check_finite: raise for NaN and infinity, which waits for the device. Without the check, and always under
            `torch.compile` and `torch.func.vmap`, where values cannot be read, such a score makes all ranks of its
            vector NaN.
        length: d, if it is fixed.

    Raises:
        TypeError, ValueError: see `check_scores` and `check_mask`; or a mask is passed although the length is fixed.
    """
    check_scores(scores, length=length, dim=dim, finite=False)
    if mask is not None:
        check_mask(scores, mask)
        if length is not None:
            raise ValueError(f"mask is set, but the sorter takes exactly {length} scores: use a sorter for any length")
    largest = largest_magnitude(scores, mask) if check_finite else None
    last = dim in (-1, scores.dim() - 1)  # for short vectors, every operation counts
    values = scores if last else scores.movedim(dim, -1)
    mask = mask if mask is None or last else mask.movedim(dim, -1)
    result = _ranked(compute, values, mask, largest, descending)
    if normalized:
        result = result / (values.shape[-1] if mask is None else mask.sum(-1, keepdim=True).clamp(min=1))
    if mask is not None:
        result = result.masked_fill(~mask, 0.0)
    return result if last else result.movedim(-1, dim)


def _ranked(
    compute: Callable[..., Tensor], scores: Tensor, mask: Tensor | None, largest: float | None, descending: bool
) -> Tensor:
    """Rank scores (..., d), converted to a type and range that `compute` takes. Unchecked NaN and infinity give NaN."""
    values = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    finite = None
    if largest is None:
        finite = torch.isfinite(values)
        finite = (finite if mask is None else finite | ~mask).all(-1, keepdim=True)
        values = values.where(finite, 0.0)
    if mask is not None:
        values = values.masked_fill(~mask, 0.0)
    if (unit := unit_of(values, largest)) is not None:
        values = values / unit
    kind = values.device.type
    autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)  # not available for "meta"
    with torch.autocast(kind, enabled=False) if autocast else nullcontext():  # bfloat16 cannot represent 257
        result = compute(values if descending else -values, mask).to(values.dtype)
    return result if finite is None else result.where(finite, torch.nan)


def unit_of(scores: Tensor, largest: float | None) -> Tensor | None:
    """Return the divisor of scores (..., d) that prevents overflow when they are compared.

    Args:
        scores: float32 or float64, finite.
        largest: the largest magnitude, or None if unknown.

    Returns:
        (..., 1), 1 or a power of 2, with room for 1,000 standard deviations; None if no vector needs a divisor.

    >>> unit_of(torch.tensor([[3e38, -3e38], [1.0, 2.0]]), 3e38).tolist()
    [[1024.0], [1.0]]
    """
    most = torch.finfo(scores.dtype).max / UNIT
    if largest is not None and largest <= most:
        return None
    return 1 + (UNIT - 1) * (scores.detach().abs().amax(-1, keepdim=True) > most).to(scores.dtype)


def places(scores: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Count the scores that are larger, and those that are larger or equal; tied scores take the places in between.

    Args:
        scores: (..., d), finite where the mask is True.
        mask: (..., d) boolean, False where there is no score, or None.

    Returns:
        Two tensors (..., d), int64; 0 where the mask is False.

    >>> places(torch.tensor([0.3, 2.0, 0.3]))
    (tensor([1, 0, 1]), tensor([3, 1, 3]))
    """
    values = scores.detach() if mask is None else scores.detach().masked_fill(~mask, -torch.inf)
    values, order = sorted_descending(values)
    length = values.shape[-1]
    at = torch.arange(length, device=values.device).expand(values.shape)
    changes = values[..., 1:] != values[..., :-1]
    # Where each group of equal scores begins, and where it ends.
    begins = at.where(torch.nn.functional.pad(changes, (1, 0), value=True), 0).cummax(-1).values
    ends = (at + 1).where(torch.nn.functional.pad(changes, (0, 1), value=True), length)
    ends = ends.flip(-1).cummin(-1).values.flip(-1)
    larger, not_smaller = (torch.zeros_like(order).scatter(-1, order, count) for count in (begins, ends))
    return (larger, not_smaller) if mask is None else (larger * mask, not_smaller * mask)


def sorted_descending(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sort values without NaN in descending order (stable), and return them with their old positions, both (..., d).

    Sorts the bits of floating-point numbers as whole numbers, which need no check for NaN; on a CPU, this takes two
    thirds of the time.

    >>> sorted_descending(torch.tensor([-0.0, 2.0, 0.0, -1.0]))
    (tensor([ 2., -0.,  0., -1.]), tensor([1, 0, 2, 3]))
    """
    if not values.is_floating_point():
        return values.sort(dim=-1, descending=True, stable=True)
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    bits = values.view(integer)
    sign = bits >> (torch.iinfo(integer).bits - 1)  # -1 or 0
    size = bits & torch.iinfo(integer).max
    order = size.bitwise_xor_(sign).sub_(sign).argsort(dim=-1, descending=True, stable=True)
    return values.gather(-1, order), order


def dense_ranks(sizes: Tensor) -> Tensor:
    """Compute label ranks of sizes (n, K): 0 where the size is 0, then 1, 2, ... upwards; equal sizes have equal ranks.

    >>> dense_ranks(torch.tensor([[8.0, 0.0, 12.0, 8.0]]))
    tensor([[1, 0, 2, 1]])
    """
    values, order = sizes.sort(dim=-1)
    new = torch.cat([values[..., :1] != 0, values[..., 1:] != values[..., :-1]], dim=-1)
    return torch.zeros_like(order).scatter(-1, order, new.cumsum(-1))


def exact_ranks(
    scores: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    descending: bool = True,
    normalized: bool = False,
    check_finite: bool = True,
) -> Tensor:
    r"""Compute exact ranks with ties averaged; no gradient flows through them. Has the same arguments as a sorter.

    $r_i = 1 + \#\{j : s_j > s_i\} + \frac12 \#\{j \neq i : s_j = s_i\}$, so the largest score has rank 1
    and the smallest has rank d (SoDeep, Section 3.1, which divides by d).

    Args:
        scores, dim, mask, descending, normalized, check_finite: see `rank_along`.

    Returns:
        Ranks, of the shape of `scores`; float32, or float64 for scores of float64.

    Raises:
        TypeError, ValueError: see `rank_along`; or more than 2^23 scores along `dim` are not float64.

    >>> exact_ranks(torch.tensor([0.3, 2.0, 0.3, -1.0]))
    tensor([2.5000, 1.0000, 2.5000, 4.0000])
    >>> exact_ranks(torch.tensor([0.3, 2.0, 0.3, -1.0]), mask=torch.tensor([True, True, False, True]))
    tensor([2., 1., 0., 3.])
    """
    return rank_along(
        _exact, scores, dim=dim, mask=mask, descending=descending, normalized=normalized, check_finite=check_finite
    )


def _exact(scores: Tensor, mask: Tensor | None) -> Tensor:
    if scores.dtype == torch.float32 and scores.shape[-1] > 2**23:
        raise ValueError(
            f"scores has length {scores.shape[-1]} in shape {tuple(scores.shape)}, expected at most 2^23, beyond which "
            "float32 cannot represent every rank: convert them with .double()"
        )
    larger, not_smaller = places(scores, mask)
    # In float64, because float32 cannot represent every whole number up to 2 d for very long vectors.
    return ((larger + not_smaller + 1).double() / 2).to(scores.dtype)
