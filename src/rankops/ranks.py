"""The rank convention of the whole project: descending, from 1 (the largest score) to d, ties averaged."""

import torch
from torch import Tensor

__all__ = ["check_scores", "ranks"]


def check_scores(scores: Tensor, *, length: int | None = None) -> None:
    """Refuses what cannot be ranked, with a message that says what was found and what was expected.

    Args:
        scores: any shape (..., d), floating point.
        length: the d that is required, where it is fixed.

    Raises:
        TypeError: scores are not a floating-point tensor.
        ValueError: no last dimension, another length than `length`, or a score that is NaN or infinite.

    >>> check_scores(torch.zeros(4, 10), length=32)
    Traceback (most recent call last):
    ...
    ValueError: scores have length 10 in shape (4, 10), expected 32: give vectors of that length, or another sorter
    """
    if not torch.is_tensor(scores) or not scores.is_floating_point():
        found = scores.dtype if torch.is_tensor(scores) else type(scores).__name__
        raise TypeError(f"scores are {found}, expected a floating-point tensor: convert them with .float()")
    if scores.dim() == 0 or scores.shape[-1] == 0:
        raise ValueError(f"scores have shape {tuple(scores.shape)}, expected (..., d) with d of at least 1")
    if length is not None and scores.shape[-1] != length:
        raise ValueError(
            f"scores have length {scores.shape[-1]} in shape {tuple(scores.shape)}, expected {length}: "
            "give vectors of that length, or another sorter"
        )
    finite = torch.isfinite(scores)
    if not bool(finite.all()):
        where = tuple((~finite).nonzero()[0].tolist())
        raise ValueError(
            f"scores hold {scores[where].item()} at {where} and {int((~finite).sum())} non-finite values in all, "
            "expected finite ones: look for a diverged model or an overflow before the sorter"
        )


def ranks(scores: Tensor, *, normalised: bool = False) -> Tensor:
    r"""Exact descending ranks with ties averaged; no gradient flows through them.

    $r_i = 1 + \#\{j : s_j > s_i\} + \frac12 \#\{j \neq i : s_j = s_i\}$, so the largest score has rank 1
    and the smallest d (SoDeep, Section 3.1, which divides by d).

    Args:
        scores: (..., d), floating point and finite.
        normalised: divide by d, so that ranks lie in (0, 1].

    Returns:
        Ranks, of the shape and dtype of `scores`.

    Raises:
        TypeError, ValueError: see `check_scores`.

    >>> ranks(torch.tensor([0.3, 2.0, 0.3, -1.0]))
    tensor([2.5000, 1.0000, 2.5000, 4.0000])
    """
    check_scores(scores)
    values = scores.detach().contiguous()
    length = values.shape[-1]
    ascending = values.sort(dim=-1).values
    below = torch.searchsorted(ascending, values, right=False)
    not_above = torch.searchsorted(ascending, values, right=True)
    # Ascending, a tied group fills the places below + 1 .. not_above; the average of both ends is its rank.
    # In float64, because half precision does not hold every number up to 2 d.
    result = length + 1 - (below + not_above + 1).double() / 2
    return (result / length if normalised else result).to(scores.dtype)
