"""Ranks as sums over all pairs of scores: of Laplace distribution functions in O(n log n), of sigmoids in O(n^2)."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from rankgrad.checks import value_of
from rankgrad.ranks import sorted_descending
from rankgrad.sorters._standardize import largest

__all__ = ["before_and_after", "laplace_ranks", "pairwise_ranks", "sums_of_others", "with_signature"]

BLOCK = 16
FURTHEST = 37.0  # no sum of float64 sees e^-37
LONGEST = BLOCK * FURTHEST  # its exponential is finite, and so are those times numbers of float32


def sums_of_others(
    positions: Tensor, weights: Tensor | None, width: Tensor | float = 1.0, begins: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Return sums over all other points, $\sum_{j \neq i} \pm w_j e^{-|p_j - p_i| / b}$, in O(n).

    By cumulative sums of $w e^{p / b}$ in float64, of the whole vector where that is finite, else within blocks. Only
    differences of positions are used, so neither an offset nor a point far away costs precision. The derivative is
    written out, as sums of the same kind: from the gaps between neighbors, autograd would compute each entry as a
    difference of sums over many pairs, and lose the signs of small ones.

    Args:
        positions: p, (..., n), descending.
        weights: w, (..., n), or (kinds, ..., n); None if all are 1.
        width: b, (..., 1) or a number; held constant in the gradient.
        begins: (..., n) boolean, True where a part begins: then points of one part alone are summed, and positions
            descend within parts alone. None for one part.

    Returns:
        Two tensors of the weights' shape: signed, plus for points after i and minus for those before; and unsigned.

    >>> sums_of_others(torch.tensor([0.0, -2.0]), torch.tensor([3.0, 5.0]))
    (tensor([ 0.6767, -0.4060]), tensor([0.6767, 0.4060]))
    """
    return _SumsOfOthers.apply(positions, weights, width, begins)


def with_signature(forward: Callable) -> Callable:
    """Work out a signature once: each call of an autograd function would, which takes as long as some operations."""
    forward.__signature__ = inspect.signature(forward)  # ty: ignore[missing-attribute]
    return forward


class _SumsOfOthers(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(
        positions: Tensor, weights: Tensor | None, width: Tensor | float, begins: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        growth = _growth(positions, width) if begins is None else None
        sums = _blockwise(positions, weights, width, begins) if growth is None else _cumulative(growth, weights)
        return _signed_and_unsigned(*sums, (positions if weights is None else weights).dtype)

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float, Tensor | None], output: tuple[Tensor, ...]
    ) -> None:
        positions, weights, width, begins = inputs
        ctx.set_materialize_grads(False)
        ctx.width = None if torch.is_tensor(width) else width
        ctx.save_for_backward(positions, weights, width if torch.is_tensor(width) else None, begins, *output)

    @staticmethod
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        positions, weights, width, begins, signed, unsigned = ctx.saved_tensors
        width = ctx.width if width is None else width
        pull = to_weights = None
        for gradient, sums, turned in ((gradients[0], unsigned, False), (gradients[1], signed, True)):
            if gradient is None:
                continue
            minus, plus = sums_of_others(positions, gradient, width, begins)
            others = -minus if turned else plus
            one = torch.addcmul(others if weights is None else weights * others, gradient, sums, value=-1) / width
            pull = one if pull is None else pull + one
            if ctx.needs_input_grad[1]:
                to_these = plus if turned else -minus
                to_weights = to_these if to_weights is None else to_weights + to_these
        if pull is not None and (pull.shape, pull.dtype) != (positions.shape, positions.dtype):
            pull = pull.sum_to_size(positions.shape).to(positions.dtype)
        return pull, to_weights, None, None


def _signed_and_unsigned(before: Tensor, after: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return (after - before).to(dtype), before.add_(after).to(dtype)


def before_and_after(positions: Tensor, weights: Tensor | None, width: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the weighted sums over the points before each, and over those after it, in float64, without a graph."""
    growth = _growth(positions, width)
    return _blockwise(positions, weights, width) if growth is None else _cumulative(growth, weights)


def _growth(positions: Tensor, width: Tensor | float) -> Tensor | None:
    """Return $e^{(p_1 - p_i) / b}$ in float64; None where one is too large, or where reading it waits for a device."""
    if positions.device.type != "cpu" or not positions.numel():
        return None
    places = positions.double()
    along = (places[..., :1] - places).div_(width)
    longest = value_of(along[..., -1].amax())
    return None if longest is None or not longest < LONGEST else along.exp_()


def _cumulative(growth: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the weighted sums over the points before each, and over those after it, in float64.

    In place where it can be: of long vectors, new memory takes as long as the arithmetic.
    """
    grown, shrunk = (growth, growth.reciprocal()) if weights is None else (weights * growth, weights / growth)
    before = grown.cumsum(-1).sub_(grown).div_(growth)
    return before, shrunk.flip(-1).cumsum(-1).flip(-1).sub_(shrunk).mul_(growth)


def _blockwise(
    positions: Tensor, weights: Tensor | None, width: Tensor | float, begins: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sums of `_cumulative` whatever the distances, and without a look at values."""
    gaps = (positions[..., :-1] - positions[..., 1:]).double().div_(width).clamp(max=FURTHEST)
    if begins is not None:
        gaps = gaps.masked_fill_(begins[..., 1:], FURTHEST)
    length = positions.shape[-1]
    further = -length % BLOCK if length > BLOCK else 0
    ways = torch.nn.functional.pad(torch.stack([gaps, gaps.flip(-1)]), (1, further))
    if weights is None:
        both = torch.ones_like(ways)
    else:
        both = torch.stack([weights, weights.flip(-1)]).double()
        both = torch.nn.functional.pad(both, (0, further)) if further else both
        ways = ways.unflatten(0, (2, *[1] * (weights.dim() - positions.dim())))
    before, after = _sums_before(ways, both)[..., :length]
    return before, after.flip(-1)


def _sums_before(gaps: Tensor, values: Tensor) -> Tensor:
    """Return $y_1 = 0$ and $y_i = e^{-g_i} (v_{i-1} + y_{i-1})$, by cumulative sums of $v e^{p}$ within blocks.

    Args:
        gaps: g, (..., n), float64, from 0 to `FURTHEST`; the first is 0.
        values: v, (..., n), float64.
    """
    length = gaps.shape[-1]
    if length > BLOCK:
        if further := -length % BLOCK:
            gaps, values = (torch.nn.functional.pad(part, (0, further)) for part in (gaps, values))
        gaps, values = (part.unflatten(-1, (-1, BLOCK)) for part in (gaps, values))
    along = gaps.cumsum(-1)  # from the last point of the block before
    growth = along.exp()
    grown = (values * growth).cumsum(-1)
    if length <= BLOCK:
        return torch.nn.functional.pad(grown[..., :-1], (1, 0)).div_(growth)
    totals = grown[..., -1] / growth[..., -1]  # of each block, at its last point
    totals += _sums_before(along[..., -1].clamp(max=FURTHEST), totals)
    handed_on = torch.nn.functional.pad(totals[..., :-1], (1, 0)).unsqueeze(-1)
    earlier = torch.cat([handed_on, grown[..., :-1] + handed_on], -1)
    return earlier.div_(growth).flatten(-2)[..., :length]


def laplace_ranks(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> Tensor:
    """Return the sum of `Laplace` over the scores that the mask leaves.

    Args:
        scores: (..., d), finite.
        mask: (..., d) boolean or None.
        width: b in the unit of the scores, (..., 1) or a number; held constant in the gradient.
    """
    length, pairs = scores.shape[-1], scores.numel() * scores.shape[-1]
    # A GPU makes millions of pairs in the time in which it starts the operations of the sums.
    if length <= 128 and pairs <= 2**15 if scores.device.type == "cpu" else pairs <= 2**22:
        return _PairRanks.apply(scores, mask, width)
    if mask is not None:  # absent scores go next to the largest, where they widen no gap
        scores = scores.where(mask, largest(scores, mask))
    return _Ranks.apply(scores, mask, width)[0]


class _Ranks(torch.autograd.Function):
    """The ranks of long vectors, sorted once: the gradient is of the same order, and a sum of the same kind."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> tuple[Tensor | None, ...]:
        ordered, order = sorted_descending(scores)
        if mask is None:
            weights, places = None, torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        else:
            weights = mask.to(scores.dtype).gather(-1, order)
            places = 1 + weights.cumsum(-1) - weights
        growth = _growth(ordered, width)
        sums = _blockwise(ordered, weights, width) if growth is None else _cumulative(growth, weights)
        signed, unsigned = _signed_and_unsigned(*sums, scores.dtype)
        ranks = torch.zeros_like(signed).scatter(-1, order, torch.add(places, signed, alpha=0.5))
        return ranks, ordered, order, weights, unsigned, ordered.new_empty(0) if growth is None else growth

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float], output: tuple[Tensor | None, ...]
    ) -> None:
        scores, _, width = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(one for one in output[1:] if one is not None))
        ctx.width = None if torch.is_tensor(width) else width
        ctx.save_for_backward(scores, width if torch.is_tensor(width) else None, *output[1:])

    @staticmethod
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        scores, width, ordered, order, weights, unsigned, growth = ctx.saved_tensors
        width = ctx.width if width is None else width
        gradient = gradients[0].gather(-1, order)
        if torch.is_grad_enabled():  # a second derivative may be asked for: sums with a graph
            ordered = scores.gather(-1, order)
            _, unsigned = sums_of_others(ordered, weights, width)
            _, others = sums_of_others(ordered, gradient, width)
        else:
            both = _cumulative(growth, gradient) if growth.numel() else _blockwise(ordered, gradient, width)
            others = both[0].add_(both[1]).to(gradient.dtype)
        pull = torch.addcmul(others if weights is None else weights * others, gradient, unsigned, value=-1)
        return torch.zeros_like(pull).scatter(-1, order, pull / (2 * width)), None, None


class _PairRanks(torch.autograd.Function):
    """The ranks of short vectors by all pairs: fewer operations, each of more numbers."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> Tensor:
        ahead = (scores.unsqueeze(-2) - scores.unsqueeze(-1)) / _wide(width)  # [..., i, j]: s_j - s_i
        beats = ahead.abs().neg_().expm1_().copysign(ahead)  # 2 F - 1
        if mask is None:
            return torch.add((scores.shape[-1] + 1) / 2, beats.sum(-1), alpha=0.5)
        return (mask.sum(-1, keepdim=True) + 1 + (beats * mask.unsqueeze(-2)).sum(-1)) / 2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float], output: Tensor) -> None:
        scores, mask, width = inputs
        ctx.width = None if torch.is_tensor(width) else width
        ctx.save_for_backward(scores, mask, width if torch.is_tensor(width) else None)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        scores, mask, width = ctx.saved_tensors
        width = ctx.width if width is None else width
        near = (-((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / _wide(width)).abs()).exp()
        pulls = near * (gradient.unsqueeze(-2) - gradient.unsqueeze(-1))
        if mask is not None:
            pulls = pulls * (mask.unsqueeze(-2) & mask.unsqueeze(-1))
        return pulls.sum(-1) / (2 * width), None, None


def _wide(width: Tensor | float) -> Tensor | float:
    return width.unsqueeze(-1) if torch.is_tensor(width) else width


def pairwise_ranks(scores: Tensor, mask: Tensor | None, steepness: float) -> Tensor:
    r"""Return $1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i))$ over the j that the mask leaves."""
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., i, j] = s_j - s_i
    beats = torch.sigmoid(steepness * differences)
    if mask is not None:
        beats = beats * mask.unsqueeze(-2)
    # The diagonal adds sigmoid(0) = 1/2, which stands in for the 1 of the formula's j = i.
    return 0.5 + beats.sum(-1)
