"""Soft permutations and soft sorting, from the ranks of any sorter."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankops.checks import check_mask, check_positive, check_shapes

__all__ = ["soft_permutation", "soft_sort"]


def soft_permutation(ranks: Tensor, *, temperature: float = 0.1, mask: Tensor | None = None) -> Tensor:
    r"""Compute how much of each place is taken by each score.

    $P_{kj} \propto e^{-|r_{[k]} - r_j| / \tau}$ with $r_{[k]}$ the k-th smallest rank; each row adds up to 1.

    This is SoftSort (Prillo and Eisenschlos 2020, Eq. 3) on ranks instead of scores, so that the temperature means the
    same at any scale. With exact ranks it tends to the permutation matrix that sorts as $\tau$ tends to 0; tied scores
    share the places that they take together. It takes memory in proportion to d^2.

    Args:
        ranks: r, (..., d), 1 for the first place; from a sorter.
        temperature: $\tau$, in places.
        mask: (..., d) boolean, False where there is no score. Such entries take no place, and the last places stay
            empty (rows of zeros).

    Returns:
        P, (..., d, d): [..., k - 1, j].

    Raises:
        TypeError, ValueError: `temperature` not positive; a mask of another type or shape.

    >>> soft_permutation(torch.tensor([2.0, 1.0, 3.0]), temperature=0.01).round()
    tensor([[0., 1., 0.],
            [1., 0., 0.],
            [0., 0., 1.]])
    """
    check_positive("temperature", temperature)
    if mask is None:
        ordered = ranks.sort(dim=-1).values
        return torch.softmax(-(ordered.unsqueeze(-1) - ranks.unsqueeze(-2)).abs() / temperature, -1)
    check_mask(ranks, mask)
    count = mask.sum(-1, keepdim=True)
    taken = torch.arange(ranks.shape[-1], device=ranks.device) < count
    ordered = ranks.masked_fill(~mask, torch.inf).sort(dim=-1).values.where(taken, 0.0)
    closeness = -(ordered.unsqueeze(-1) - ranks.unsqueeze(-2)).abs() / temperature
    # Rows of empty places keep all entries: a row without any would be 0 / 0.
    shares = torch.softmax(closeness.masked_fill(taken.unsqueeze(-1) & ~mask.unsqueeze(-2), -torch.inf), -1)
    return shares.masked_fill(~(taken.unsqueeze(-1) & mask.unsqueeze(-2)), 0.0)


def soft_sort(
    values: Tensor,
    *,
    sorter: Callable[..., Tensor],
    scores: Tensor | None = None,
    temperature: float = 0.1,
    mask: Tensor | None = None,
) -> Tensor:
    """Sort values by their scores, the largest first: `soft_permutation` times the values.

    Args:
        values: (..., d); gradients reach them.
        sorter: takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        scores: (..., d), to sort by; the values themselves if None.
        temperature: see `soft_permutation`.
        mask: (..., d) boolean, False where there is no value: the last places are then 0.

    Returns:
        (..., d).

    Raises:
        TypeError, ValueError: values and scores of different shapes; see `soft_permutation`, and the sorter's.

    >>> from rankops.sorters.straight_through import StraightThrough
    >>> soft_sort(torch.tensor([0.1, 0.7, 0.3]), sorter=StraightThrough())
    tensor([0.7000, 0.3000, 0.1000])
    """
    by = values if scores is None else scores
    check_shapes("(..., d)", empty=True, values=values, scores=by)
    ranks = sorter(by) if mask is None else sorter(by, mask=mask)
    known = values if mask is None else values.masked_fill(~mask, 0.0)
    shares = soft_permutation(ranks, temperature=temperature, mask=mask)
    kind = torch.promote_types(shares.dtype, known.dtype)
    # Not `@`, which autocast would round to half precision.
    return (shares.to(kind) * known.to(kind).unsqueeze(-2)).sum(-1)
