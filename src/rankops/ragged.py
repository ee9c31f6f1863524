"""Lists of different lengths, padded for losses, metrics and sorters, which all take a mask."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rankops.checks import check_tensors, check_values

__all__ = ["pad_groups"]


def pad_groups(values: Tensor, sizes: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
    """Pad lists that stand one after another to the length of the longest.

    This and `mask` is the way to pass lists of different lengths; no loss takes sizes or segments. Of sorted query
    numbers, `torch.unique_consecutive(query, return_counts=True)[1]` are the sizes.

    Args:
        values: (n, ...) of any type, the lists of all groups, joined: scores, targets, weights or features.
        sizes: one whole number a group, the length of its list. It may be 0: that row is masked throughout, losses
            leave it out of their mean, and metrics are NaN there.

    Returns:
        The values (groups, longest, ...), 0 where there is none, with the gradient of `values`; and the mask
        (groups, longest), True where there is one.

    Raises:
        TypeError: `values` is no tensor, or sizes are no whole numbers.
        ValueError: no group, a negative size, or sizes that do not add up to n.

    >>> scores, mask = pad_groups(torch.tensor([0.1, 0.9, 0.5]), [2, 1])
    >>> scores
    tensor([[0.1000, 0.9000],
            [0.5000, 0.0000]])
    >>> mask
    tensor([[ True,  True],
            [ True, False]])
    """
    check_tensors(values=values)
    counts = torch.as_tensor(sizes, device=values.device)
    if counts.dim() != 1 or not len(counts) or values.dim() == 0:
        raise ValueError(
            f"sizes has shape {tuple(counts.shape)} and values {tuple(values.shape)}, expected (groups,) with at least "
            "one and (n, ...)"
        )
    if counts.dtype == torch.bool or counts.is_floating_point() or counts.is_complex():
        raise TypeError(f"sizes is {counts.dtype}, expected whole numbers, the length of each list")
    check_values("sizes", counts, counts < 0, "at least 0, the length of a list")
    if (total := int(counts.sum())) != len(values):
        raise ValueError(
            f"sizes adds up to {total}, expected {len(values)}, the number of values: one size a list, in their order"
        )
    mask = torch.arange(int(counts.max()), device=values.device) < counts.unsqueeze(-1)
    padded = values.new_zeros(*mask.shape, *values.shape[1:])
    return padded.index_put((mask,), values), mask
