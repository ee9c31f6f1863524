"""Pad lists of different lengths for losses, metrics, and sorters, which all take a mask."""

from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.checks import check_tensors, check_values

__all__ = ["pad_groups"]

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def pad_groups(
    values: Tensor, *, sizes: Iterable[int] | Tensor | None = None, query: Iterable[int] | Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Pad the lists of a table to the length of the longest.

    Use this and `mask` to pass lists of different lengths; losses take neither sizes nor segments. Pass either `sizes`,
    the length of each list, or `query`, the list of each row. Both can be a list, a tensor, an array, a column of a
    table (its index is ignored), or any other ordered collection of whole numbers.

    Args:
        values: (n, ...) of any type, the rows of all lists: scores, targets, weights, or features.
        sizes: the length of each list, for lists stored one after another. A length of 0 gives a fully masked list;
            losses ignore it, and metrics are NaN there. Do not pass pandas' `value_counts`, which has a different order
            than the lists.
        query: (n,) whole numbers in any order, equal for the rows of one list.

    Returns:
        The padded values (lists, longest, ...), 0 where there is no row, differentiable with respect to `values`; and
        the mask (lists, longest), True where there is a row. If all lists are empty, longest is 1. Lists are in the
        order of `sizes` or of `query.unique()`, and the rows of a list in the order of `values`.

    Raises:
        TypeError: both or neither of `sizes` and `query` are passed, they are not ordered whole numbers, or `values` is
            not a tensor.
        ValueError: there are no lists, a size is negative, sizes do not add up to n, or `query` does not have one
            number per row.

    >>> scores, mask = pad_groups(torch.tensor([0.1, 0.9, 0.5]), sizes=[2, 1])
    >>> scores
    tensor([[0.1000, 0.9000],
            [0.5000, 0.0000]])
    >>> mask
    tensor([[ True,  True],
            [ True, False]])
    >>> pad_groups(torch.tensor([0.1, 0.9, 0.5]), query=[7, 3, 7])[0]
    tensor([[0.9000, 0.0000],
            [0.1000, 0.5000]])
    """
    check_tensors(values=values)
    if (sizes is None) == (query is None):
        passed = "none" if sizes is None else "both"
        raise TypeError(
            f"{passed} of sizes and query given, expected exactly one: the length of each list, or the list of each row"
        )
    if query is not None:
        numbers = _whole("query", query, values)
        if len(numbers) != len(values):
            raise ValueError(f"query has {len(numbers)} numbers, expected {len(values)}, one for each row of values")
        values, counts = values[numbers.argsort(stable=True)], numbers.unique(return_counts=True)[1]
    else:
        counts = _whole("sizes", sizes, values)
        check_values("sizes", counts, counts < 0, "at least 0, the length of a list")
        if (total := sum(counts.tolist())) != len(values):  # correct even beyond 2^63
            raise ValueError(
                f"sizes adds up to {total}, expected {len(values)}, the number of values: pass the size of each list, "
                "in order, or the list of each row as query"
            )
    # At least 1, so that the dimension of groups is not empty.
    mask = torch.arange(max(1, int(counts.max())), device=values.device) < counts.unsqueeze(-1)
    if values.dtype in _SIGNED:  # as signed numbers with the same bits, which PyTorch can index
        return _padded(values.view(_SIGNED[values.dtype]), mask).view(values.dtype), mask
    return _padded(values, mask), mask


def _padded(values: Tensor, mask: Tensor) -> Tensor:
    return values.new_zeros(*mask.shape, *values.shape[1:]).index_put((mask,), values)


def _whole(name: str, source: Any, values: Tensor) -> Tensor:
    """Return whole numbers as int64; different uint64 numbers stay different."""
    numbers = source if torch.is_tensor(source) else _from_array(name, _array(name, source))
    if numbers.dim() != 1 or not len(numbers) or values.dim() == 0:
        raise ValueError(
            f"{name} has shape {tuple(numbers.shape)} and values {tuple(values.shape)}, expected a vector that is not "
            "empty, and (n, ...)"
        )
    if numbers.dtype == torch.bool or numbers.is_floating_point() or numbers.is_complex():
        raise TypeError(f"{name} is {numbers.dtype}, expected whole numbers")
    numbers = numbers.to(values.device)
    return numbers.view(torch.int64) if numbers.dtype == torch.uint64 else numbers.long()


def _array(name: str, source: Any) -> np.ndarray:
    """Return the values of a list, a column of a table, an iterator, etc., in order."""
    kind = type(source).__name__
    if isinstance(source, (Set, Mapping, str, bytes)) or not (
        isinstance(source, Iterable) or hasattr(source, "__array__")
    ):
        raise TypeError(f"{name} is a {kind}, expected whole numbers in order, such as a list or a tensor")
    try:
        array = np.asarray(source if hasattr(source, "__array__") else list(source))
    except ValueError as error:  # lists of different lengths
        raise TypeError(f"{name} is a {kind}, expected a list of whole numbers: {error}") from error
    if name == "sizes" and _is_value_counts(source, array):
        raise TypeError(
            f"sizes is a {kind} from value_counts, ordered from the longest list to the shortest, expected the order "
            "of the rows: pass the list of each row as query, or .to_numpy() if lists really have this order"
        )
    return array


def _is_value_counts(source: Any, array: np.ndarray) -> bool:
    """Return whether sizes look like pandas' `value_counts`, whose sum is right even if the order is wrong."""
    of_table = type(getattr(source, "index", None)).__name__ == "RangeIndex"
    if getattr(source, "name", None) != "count" or of_table or array.dtype.kind not in "iu":
        return False
    return bool((array[1:] <= array[:-1]).all() and (array[1:] < array[:-1]).any())


def _from_array(name: str, array: np.ndarray) -> Tensor:
    if array.dtype == object and all(isinstance(number, Integral) for number in array.flat):
        array = np.array(array.tolist())  # of the smallest type that fits all values
    if array.dtype.kind not in "biufc":
        advice = "pass the length of each list"
        if name == "query":
            advice = "number them with numpy.unique(..., return_inverse=True)[1]"
        raise TypeError(f"{name} has type {array.dtype}, expected whole numbers: {advice}")
    # A contiguous copy in this machine's byte order, because torch takes no other.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
