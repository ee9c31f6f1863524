"""Soft ranks as sums over all pairs of scores: Laplace distribution functions in O(n log n), sigmoids in O(n^2)."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from rankgrad.checks import value_of
from rankgrad.ranks import sorted_descending
from rankgrad.standardize import largest

__all__ = ["before_and_after", "laplace_ranks", "pairwise_ranks", "sums_of_others", "with_signature"]

BLOCK = 16
FURTHEST = 37.0  # e^-37 is too small to change a sum in float64
LONGEST = BLOCK * FURTHEST  # its exponential is finite, also times any float32 number


def sums_of_others(
    positions: Tensor, weights: Tensor | None, width: Tensor | float = 1.0, begins: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Return sums over all other points, $\sum_{j \neq i} \pm w_j e^{-|p_j - p_i| / b}$, in O(n).

    The sums come from cumulative sums of $w e^{p / b}$ in float64: over the whole vector if that is finite, otherwise
    within blocks. Only differences of positions matter, so that an offset or a distant point costs no precision. The
    derivative is written out, as sums of the same form, because autograd would compute each entry as a difference of
    sums over many pairs and lose the signs of small entries.

    Args:
        positions: p, (..., n), descending.
        weights: w, (..., n), or (kinds, ..., n); None if all are 1.
        width: b, (..., 1) or a number; constant in the gradient.
        begins: (..., n) boolean, True where a part begins: sums are taken within parts, and positions descend within
            each part. None for a single part.

    Returns:
        Two tensors of the weights' shape: signed (plus for points after i, minus for points before it) and unsigned.

    >>> sums_of_others(torch.tensor([0.0, -2.0]), torch.tensor([3.0, 5.0]))
    (tensor([ 0.6767, -0.4060]), tensor([0.6767, 0.4060]))
    """
    return _SumsOfOthers.apply(positions, weights, width, begins)


def with_signature(forward: Callable) -> Callable:
    """Compute the signature once, because an autograd function would compute it at each call, which is slow."""
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
        before, after = _before_and_after(growth, positions, weights, width, begins)
        dtype = positions.dtype if weights is None else weights.dtype
        return _signed_and_unsigned(before, after, dtype)

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float, Tensor | None], output: tuple[Tensor, ...]
    ) -> None:
        positions, weights, width, begins = inputs
        ctx.set_materialize_grads(False)
        _save(ctx, width, positions, weights, begins, *output)

    @staticmethod
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        width, positions, weights, begins, signed, unsigned = _saved(ctx)
        pull = to_weights = None
        # The derivative of the signed sum is an unsigned sum, and vice versa.
        for gradient, sums, is_signed in ((gradients[0], unsigned, True), (gradients[1], signed, False)):
            if gradient is None:
                continue
            minus, plus = sums_of_others(positions, gradient, width, begins)
            pull_of_others = plus if is_signed else -minus
            if weights is not None:
                pull_of_others = weights * pull_of_others
            to_positions = torch.addcmul(pull_of_others, gradient, sums, value=-1) / width
            pull = to_positions if pull is None else pull + to_positions
            if ctx.needs_input_grad[1]:
                of_sum = -minus if is_signed else plus
                to_weights = of_sum if to_weights is None else to_weights + of_sum
        # Several kinds of weights share the same positions.
        if pull is not None and (pull.shape, pull.dtype) != (positions.shape, positions.dtype):
            pull = pull.sum_to_size(positions.shape).to(positions.dtype)
        return pull, to_weights, None, None


def _signed_and_unsigned(before: Tensor, after: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return (after - before).to(dtype), before.add_(after).to(dtype)


def _save(ctx, width: Tensor | float, *tensors: Tensor | None) -> None:
    """Save a width, a tensor or a number, and tensors for the backward pass."""
    ctx.width = None if torch.is_tensor(width) else width
    ctx.save_for_backward(width if torch.is_tensor(width) else None, *tensors)


def _saved(ctx) -> tuple:
    """Return the width and the tensors that `_save` saved."""
    width, *tensors = ctx.saved_tensors
    return ctx.width if width is None else width, *tensors


def before_and_after(positions: Tensor, weights: Tensor | None, width: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the weighted sums over the points before each point, and after it, in float64, without a graph."""
    return _before_and_after(_growth(positions, width), positions, weights, width)


def _before_and_after(
    growth: Tensor | None,
    positions: Tensor,
    weights: Tensor | None,
    width: Tensor | float,
    begins: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if growth is None:
        return _blockwise(positions, weights, width, begins)
    return _cumulative(growth, weights)


def _growth(positions: Tensor, width: Tensor | float) -> Tensor | None:
    """Return $e^{(p_1 - p_i) / b}$ in float64; None if a value is too large, or if checking would wait for a device."""
    if positions.device.type != "cpu" or not positions.numel():
        return None
    places = positions.double()
    along = (places[..., :1] - places).div_(width)
    longest = value_of(along[..., -1].amax())
    return None if longest is None or not longest < LONGEST else along.exp_()


def _cumulative(growth: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the weighted sums over the points before each point, and after it, in float64.

    Works in place if possible, because for long vectors, allocating memory takes as long as the arithmetic.
    """
    if weights is None:
        grown, shrunk = growth, growth.reciprocal()
    else:
        grown, shrunk = weights * growth, weights / growth
    before = grown.cumsum(-1).sub_(grown).div_(growth)
    after = shrunk.flip(-1).cumsum(-1).flip(-1).sub_(shrunk).mul_(growth)
    return before, after


def _blockwise(
    positions: Tensor, weights: Tensor | None, width: Tensor | float, begins: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sums of `_cumulative` for any distances, without reading values."""
    # Distances between neighbors; points of different parts do not affect each other.
    gaps = (positions[..., :-1] - positions[..., 1:]).double().div_(width).clamp(max=FURTHEST)
    if begins is not None:
        gaps = gaps.masked_fill_(begins[..., 1:], FURTHEST)
    # From the left and from the right at the same time, in whole blocks.
    length = positions.shape[-1]
    missing = -length % BLOCK if length > BLOCK else 0
    gaps = torch.nn.functional.pad(torch.stack([gaps, gaps.flip(-1)]), (1, missing))
    if weights is None:
        values = torch.ones_like(gaps)
    else:
        values = torch.stack([weights, weights.flip(-1)]).double()
        if missing:
            values = torch.nn.functional.pad(values, (0, missing))
        kinds = [1] * (weights.dim() - positions.dim())
        gaps = gaps.unflatten(0, (2, *kinds))
    before, after = _sums_before(gaps, values)[..., :length]
    return before, after.flip(-1)


def _sums_before(gaps: Tensor, values: Tensor) -> Tensor:
    """Return $y_1 = 0$ and $y_i = e^{-g_i} (v_{i-1} + y_{i-1})$, by cumulative sums of $v e^{p}$ within blocks.

    Args:
        gaps: g, (..., n), float64, from 0 to `FURTHEST`; the first is 0.
        values: v, (..., n), float64.
    """
    length = gaps.shape[-1]
    if length > BLOCK:
        if missing := -length % BLOCK:
            gaps = torch.nn.functional.pad(gaps, (0, missing))
            values = torch.nn.functional.pad(values, (0, missing))
        gaps = gaps.unflatten(-1, (-1, BLOCK))
        values = values.unflatten(-1, (-1, BLOCK))
    # Within each block, starting from the last point of the previous block.
    along = gaps.cumsum(-1)
    growth = along.exp()
    grown = (values * growth).cumsum(-1)
    if length <= BLOCK:
        return torch.nn.functional.pad(grown[..., :-1], (1, 0)).div_(growth)
    # The sum of each block at its last point, including all previous blocks.
    totals = grown[..., -1] / growth[..., -1]
    totals += _sums_before(along[..., -1].clamp(max=FURTHEST), totals)
    # Each block begins with the sum of the previous blocks.
    handed_on = torch.nn.functional.pad(totals[..., :-1], (1, 0)).unsqueeze(-1)
    earlier = torch.cat([handed_on, grown[..., :-1] + handed_on], -1)
    return earlier.div_(growth).flatten(-2)[..., :length]


def laplace_ranks(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> Tensor:
    """Return the sum of `Laplace` over the scores where the mask is True.

    Args:
        scores: (..., d), finite.
        mask: (..., d) boolean or None.
        width: b in the unit of the scores, (..., 1) or a number; constant in the gradient.
    """
    length, pairs = scores.shape[-1], scores.numel() * scores.shape[-1]
    # A GPU computes millions of pairs in the time it takes to launch the operations of the sums.
    are_few = length <= 128 and pairs <= 2**15 if scores.device.type == "cpu" else pairs <= 2**22
    if are_few:
        return _PairRanks.apply(scores, mask, width)
    if mask is not None:  # put absent scores next to the largest, where they do not change gaps
        scores = scores.where(mask, largest(scores, mask))
    return _Ranks.apply(scores, mask, width)[0]


class _Ranks(torch.autograd.Function):
    """Ranks of long vectors, which are sorted once; the gradient is a sum of the same form in the same order."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> tuple[Tensor | None, ...]:
        ordered, order = sorted_descending(scores)
        if mask is None:
            weights = None
            places = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        else:
            weights = mask.to(scores.dtype).gather(-1, order)
            places = 1 + weights.cumsum(-1) - weights
        growth = _growth(ordered, width)
        before, after = _before_and_after(growth, ordered, weights, width)
        signed, unsigned = _signed_and_unsigned(before, after, scores.dtype)
        # Half of the signed sum is the difference of a soft rank from the exact rank.
        soft = torch.add(places, signed, alpha=0.5)
        ranks = torch.zeros_like(signed).scatter(-1, order, soft)
        return ranks, ordered, order, weights, unsigned, ordered.new_empty(0) if growth is None else growth

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float], output: tuple[Tensor | None, ...]
    ) -> None:
        scores, _, width = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(tensor for tensor in output[1:] if tensor is not None))
        _save(ctx, width, scores, *output[1:])

    @staticmethod
    def backward(ctx, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        width, scores, ordered, order, weights, unsigned, growth = _saved(ctx)
        gradient = gradients[0].gather(-1, order)
        if torch.is_grad_enabled():  # a second derivative may follow, so build a graph
            ordered = scores.gather(-1, order)
            _, unsigned = sums_of_others(ordered, weights, width)
            _, pull_of_others = sums_of_others(ordered, gradient, width)
        else:
            before, after = _before_and_after(growth if growth.numel() else None, ordered, gradient, width)
            pull_of_others = before.add_(after).to(gradient.dtype)
        if weights is not None:
            pull_of_others = weights * pull_of_others
        pull = torch.addcmul(pull_of_others, gradient, unsigned, value=-1)
        return torch.zeros_like(pull).scatter(-1, order, pull / (2 * width)), None, None


class _PairRanks(torch.autograd.Function):
    """Ranks of short vectors from all pairs, with fewer but larger operations."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor | float) -> Tensor:
        ahead = (scores.unsqueeze(-2) - scores.unsqueeze(-1)) / _wide(width)  # [..., i, j]: s_j - s_i
        beats = ahead.abs().neg_().expm1_().copysign(ahead)  # 2 F - 1
        if mask is None:
            return torch.add((scores.shape[-1] + 1) / 2, beats.sum(-1), alpha=0.5)
        count = mask.sum(-1, keepdim=True)
        return (count + 1 + (beats * mask.unsqueeze(-2)).sum(-1)) / 2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor | None, Tensor | float], output: Tensor) -> None:
        scores, mask, width = inputs
        _save(ctx, width, scores, mask)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        width, scores, mask = _saved(ctx)
        apart = (scores.unsqueeze(-2) - scores.unsqueeze(-1)) / _wide(width)
        near = (-apart.abs()).exp()
        pulls = near * (gradient.unsqueeze(-2) - gradient.unsqueeze(-1))
        if mask is not None:
            pulls = pulls * (mask.unsqueeze(-2) & mask.unsqueeze(-1))
        return pulls.sum(-1) / (2 * width), None, None


def _wide(width: Tensor | float) -> Tensor | float:
    return width.unsqueeze(-1) if torch.is_tensor(width) else width


def pairwise_ranks(scores: Tensor, mask: Tensor | None, steepness: float) -> Tensor:
    r"""Return $1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i))$ over the j where the mask is True."""
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., i, j] = s_j - s_i
    beats = torch.sigmoid(steepness * differences)
    if mask is not None:
        beats = beats * mask.unsqueeze(-2)
    # The diagonal adds sigmoid(0) = 1/2, which stands in for the 1 of the formula's j = i.
    return 0.5 + beats.sum(-1)
