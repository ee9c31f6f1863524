"""Lists of different lengths, padded for losses, metrics and sorters, which all take a mask."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rankops.checks import check_tensors, check_values

__all__ = ["pad_groups"]


def pad_groups(
    values: Tensor, *, sizes: Sequence[int] | Tensor | None = None, query: Sequence[int] | Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Pad the lists of a table to the length of the longest.

    This and `mask` is the way to pass lists of different lengths; no loss takes sizes or segments. Say by name which of
    the two you have: the numbers of rows, or for each row the number of its list.

    Args:
        values: (n, ...) of any type, the rows of all lists: scores, targets, weights or features.
        sizes: one whole number a list, its length, where lists stand one after another. It may be 0: that list is
            masked throughout, losses leave it out of their mean, and metrics are NaN there.
        query: (n,) whole numbers, in any order, equal where rows belong to one list.

    Returns:
        The values (lists, longest, ...), 0 where there is none, with the gradient of `values`; and the mask
        (lists, longest), True where there is one. Lists stand in the order of their sizes, or of `query.unique()`,
        and within a list, rows in that of `values`.

    Raises:
        TypeError: not one of `sizes` and `query` is given, `values` is no tensor, or they are no whole numbers.
        ValueError: no list, a negative size, sizes that do not add up to n, or not one number of a query for each row.

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
        found = "none" if sizes is None else "both"
        raise TypeError(
            f"{found} of sizes and query given, expected one: the length of each list, or the list of each row"
        )
    if query is not None:
        numbers = _whole("query", query, values)
        if len(numbers) != len(values):
            raise ValueError(f"query has {len(numbers)} numbers, expected {len(values)}, one for each row of values")
        values, counts = values[numbers.argsort(stable=True)], numbers.unique(return_counts=True)[1]
    else:
        counts = _whole("sizes", sizes, values)
        check_values("sizes", counts, counts < 0, "at least 0, the length of a list")
        if (total := sum(counts.tolist())) != len(values):  # beyond 2^63 too
            raise ValueError(
                f"sizes adds up to {total}, expected {len(values)}, the number of values: one size a list, in their "
                "order; pass the list of each row as query"
            )
    mask = torch.arange(int(counts.max()), device=values.device) < counts.unsqueeze(-1)
    padded = values.new_zeros(*mask.shape, *values.shape[1:])
    return padded.index_put((mask,), values), mask


def _whole(name: str, given: Sequence[int] | Tensor | None, values: Tensor) -> Tensor:
    try:
        numbers = torch.as_tensor(given, device=values.device)
    except (TypeError, ValueError, RuntimeError) as error:  # text, or what is no list
        raise TypeError(
            f"{name} is a {type(given).__name__} that is no list of whole numbers: number them with "
            "numpy.unique(..., return_inverse=True)[1]"
        ) from error
    if numbers.dim() != 1 or not len(numbers) or values.dim() == 0:
        raise ValueError(
            f"{name} has shape {tuple(numbers.shape)} and values {tuple(values.shape)}, expected a vector that is not "
            "empty, and (n, ...)"
        )
    if numbers.dtype == torch.bool or numbers.is_floating_point() or numbers.is_complex():
        raise TypeError(f"{name} is {numbers.dtype}, expected whole numbers")
    return numbers.view(torch.int64) if numbers.dtype == torch.uint64 else numbers.long()  # as many different ones
