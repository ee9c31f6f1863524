"""Sums over concordant and discordant pairs of a group, in O(n log n)."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from rankgrad.groups import comparable, within
from rankgrad.ranks import exact_ranks

__all__ = ["pairs_of"]

AT_ONCE = 500_000  # number of values to sort in one call
FEW = 8  # up to this number of values, compare all pairs


def pairs_of(
    metric: str,
    scores: Tensor,
    target: Tensor,
    mask: Tensor | None,
    weights: Tensor | None,
    dim: int,
    *,
    top_heavy: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return sums of the weights of pairs, (...) each, and which groups have an order.

    The sums are over concordant pairs, discordant pairs, pairs with different scores, and pairs with different targets.
    """
    weight, first, second, defined = comparable(metric, scores, target, mask, weights, dim)
    factors = [within(weight)]  # scaled, because products of four small weights would vanish
    if top_heavy:
        closeness = 1 / exact_ranks(second, mask=None if mask is None else mask.movedim(dim, -1)).clamp(min=1)
        factors.append(factors[0] * closeness)
    length = first.shape[-1]
    if not first.numel():  # no group
        none = weight.sum(-1)
        return none, none, none, none, defined
    height = max(1, AT_ONCE // length)
    blocks = [values.reshape(-1, length).split(height) for values in (first, second, *factors)]
    sums = []
    for first_block, second_block, *factor_blocks in zip(*blocks, strict=True):
        sums.append(torch.stack(_sums(first_block, second_block, factor_blocks)))
    concordant, discordant, of_first, of_second = torch.cat(sums, dim=-1).view(4, *defined.shape)
    return concordant, discordant, of_first, of_second, defined


def _sums(first: Tensor, second: Tensor, factors: list[Tensor]) -> list[Tensor]:
    r"""Sum the weights of concordant pairs, discordant pairs, and pairs with different first or second values.

    Without subtractions, so that small weights keep their precision next to ties with large weights.

    Args:
        first, second: (groups, n).
        factors: (groups, n) each. The weight of a pair is $w_i w_j$, or with two factors $w_i c_j + c_i w_j$.
    """
    first, order = first.sort(dim=-1, stable=True)
    second, *factors = (values.gather(-1, order) for values in (second, *factors))
    of_first = _different(first, factors)
    directions = []
    for descending in (True, False):
        ordered, order = second.sort(dim=-1, stable=True, descending=descending)
        moved = [values.gather(-1, order) for values in factors]
        # Positions in the order of the second values, listed in the order of the first; they increase among ties.
        numbers = first.gather(-1, order).argsort(dim=-1, stable=True)
        directions.append(_falling(numbers, [values.gather(-1, numbers) for values in moved]))
    return [*directions, of_first, _different(ordered, moved)]


def _both_ways(factors: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(factors, reversed(factors), strict=True)


def _different(ordered: Tensor, factors: list[Tensor]) -> Tensor:
    """Sum the weights of pairs of different values, (groups,), for sorted values (groups, n)."""
    at = torch.arange(ordered.shape[-1], device=ordered.device).expand(ordered.shape)
    begins = at.where(pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True), 0).cummax(-1).values
    totals = []
    for factor, other in _both_ways(factors):
        below = pad(factor.cumsum(-1), (1, -1)).gather(-1, begins)
        totals.append((below * other).sum(-1))
    return torch.stack(totals).sum(0)


def _falling(numbers: Tensor, factors: list[Tensor]) -> Tensor:
    """Sum the weights of pairs whose later number is the smaller one, (groups,), in O(n log n).

    Each step separates the smaller half of the numbers from the larger half, and sums the pairs between the halves.

    Args:
        numbers: (groups, n), each a permutation of 0 to n - 1.
        factors: (groups, n) each.
    """
    groups, length = numbers.shape
    size, blocks = length, 1
    while size > FEW:
        size, blocks = -(-size // 2), 2 * blocks
    at = torch.arange(size * blocks, device=numbers.device)
    # Positions added to make the halves even have no weight.
    numbers = torch.cat([numbers, at[length:].expand(groups, -1)], dim=-1)
    factors = [pad(factor, (0, len(at) - length)) for factor in factors]
    total = torch.zeros_like(factors[0][:, 0])
    size = len(at)
    while blocks > 1:
        half = size // 2
        large = numbers.view(groups, -1, size) >= half
        larger = large.cumsum(-1)  # their number up to each position
        places = torch.where(large, larger + (half - 1), at[:size] - larger) + at[::size, None]
        order = torch.zeros_like(numbers).scatter(-1, places.flatten(1), at.expand(groups, -1))
        numbers, larger, *factors = (values.gather(-1, order) for values in (numbers, larger.flatten(1), *factors))
        numbers = (numbers.view(groups, -1, 2, half) - at[:size:half, None]).flatten(1)
        larger = larger.view(groups, -1, 2, half)[:, :, 0]
        halves = [factor.view(groups, -1, 2, half) for factor in factors]
        for factor, other in _both_ways(halves):
            before = pad(factor[:, :, 1].cumsum(-1), (1, 0)).gather(-1, larger)
            total = total + (before * other[:, :, 0]).sum((-2, -1))
        size, blocks = half, blocks // 2
    numbers, *factors = (values.view(groups, -1, size) for values in (numbers, *factors))
    for apart in range(1, size):
        falls = numbers[..., :-apart] > numbers[..., apart:]
        for factor, other in _both_ways(factors):
            total = total + (factor[..., :-apart] * other[..., apart:] * falls).sum((-2, -1))
    return total
