"""Choose pairs whose first score should be higher, and sum over them without overflow."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from rankgrad.checks import check_count
from rankgrad.laplace_sums import sums_of_others, with_signature
from rankgrad.losses._inputs import Groups, within

__all__ = [
    "Pair",
    "at_once",
    "in_float64",
    "log_cumulative_sum_exp",
    "log_one_plus_sum",
    "logistic",
    "some_of",
    "sums_over_pairs",
]

Pair = tuple[Tensor, Tensor]  # of i or u (..., b, 1), and of j or v (..., 1, d)
LOWEST = -1e30  # of an exponent: e to that power is 0


def some_of(pairs: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Keep at most `count` random pairs of each example.

    Args:
        pairs: (..., K, K) boolean, the pairs.
        count: t.
        generator: chooses the pairs on its own device, so that CPU and GPU choose the same.

    Raises:
        ValueError: `count` is below 1, or there is no generator.

    >>> kept = some_of(torch.ones(2, 3, 3, dtype=torch.bool), 4, torch.Generator().manual_seed(0))
    >>> kept.sum((1, 2))
    tensor([4, 4])
    """
    check_count("pairs", count)
    if generator is None:
        raise ValueError("generator is None, expected one to choose pairs: pass torch.Generator().manual_seed(...)")
    flat = pairs.flatten(-2)
    if count >= flat.shape[-1]:
        return pairs
    keys = torch.rand(flat.shape, generator=generator, device=generator.device).to(flat.device)
    chosen = keys.masked_fill(~flat, -1.0).topk(count, dim=-1).indices
    return (flat & torch.zeros_like(flat).scatter(-1, chosen, True)).view_as(pairs)


def log_one_plus_sum(batch: Groups, count: int | None, generator: torch.Generator | None) -> Tensor:
    r"""$\log(1 + \sum_{(u, v)} w_u w_v e^{f_v - f_u})$ over pairs (u, v) where u has the larger truth.

    All pairs take O(K log K) time and O(K) memory. Their sum factorizes into
    $\sum_u w_u e^{-f_u} \sum_{v : r_v < r_u} w_v e^{f_v}$, and the inner sums are cumulative sums in the order of r.
    Some pairs take O(K^2).

    Args:
        batch: groups of K scores f, with truth r, any numbers. The largest weight w of a group is 1.
        count, generator: see `some_of`.

    Returns:
        (...), float32 or float64, 0 for groups without pairs.

    Raises:
        ValueError: see `some_of`.
    """
    if count is None:
        return _over_all(batch)
    scores, weight = batch.scores, within(batch.weight).log()
    pairs = batch.truth.unsqueeze(-1) > batch.truth.unsqueeze(-2)  # [..., u, v]: u should score higher than v
    pairs = some_of(pairs & batch.exists.unsqueeze(-2), count, generator)
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., u, v] = f_v - f_u
    differences = differences + (weight.unsqueeze(-2) + weight.unsqueeze(-1))
    exponents = differences.masked_fill(~pairs, -torch.inf).flatten(-2)
    # The 1 is added as another exponent, 0, so that large differences cannot overflow.
    return torch.logsumexp(functional.pad(exponents, (1, 0)), dim=-1)


def _over_all(batch: Groups) -> Tensor:
    ordered, order = batch.truth.sort(dim=-1)
    scores, weight = in_float64(batch.scores), in_float64(within(batch.weight).log())
    rival, upper = (values.gather(-1, order) for values in (weight + scores, weight - scores))
    ordered = ordered.contiguous()
    first = torch.searchsorted(ordered, ordered)  # the first position with this truth
    exponents = log_cumulative_sum_exp(rival).gather(-1, (first - 1).clamp(min=0)) + upper
    exponents = exponents.masked_fill(first == 0, -torch.inf)
    return torch.logsumexp(functional.pad(exponents, (1, 0)), dim=-1).to(batch.scores.dtype)


def in_float64(exponents: Tensor) -> Tensor:
    """Return exponents (...) whose cumulative sums keep precision, and have gradients even for minus infinity.

    >>> in_float64(torch.tensor([2.0, -torch.inf]))
    tensor([ 2.0000e+00, -1.0000e+30], dtype=torch.float64)
    """
    return exponents.double().clamp(min=LOWEST)


def log_cumulative_sum_exp(values: Tensor) -> Tensor:
    """Return `values.logcumsumexp(-1)` with finite second derivatives.

    >>> log_cumulative_sum_exp(torch.zeros(3)).exp()
    tensor([1., 2., 3.])
    """
    return _LogCumulativeSumExp.apply(values)


class _LogCumulativeSumExp(torch.autograd.Function):
    """`logcumsumexp` with a gradient that is differentiable even where the incoming gradient is 0, unlike PyTorch's."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(values: Tensor) -> Tensor:
        return values.logcumsumexp(-1)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> Tensor:
        (gradient,), (values, sums) = gradients, ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may follow: e^(v_i - S_k) over k >= i
            signed, unsigned = sums_of_others(sums.flip(-1), gradient.flip(-1))
            return (values - sums).exp() * (gradient + ((unsigned - signed) / 2).flip(-1))
        least, sizes = torch.finfo(gradient.dtype).min, gradient.abs().log()
        positive, negative = (
            ((sizes.where(kind, least) - sums).flip(-1).logcumsumexp(-1).flip(-1) + values).exp()
            for kind in (gradient > 0, gradient < 0)
        )
        return positive - negative


def at_once(device: torch.device) -> int:
    """Return the number of pairs to hold in memory; a GPU computes millions in the time of a kernel launch.

    >>> at_once(torch.device("cpu"))
    524288
    """
    return 2**19 if device.type == "cpu" else 2**24


def sums_over_pairs(rows: Callable[..., tuple[Tensor, ...]], *values: Tensor) -> tuple[Tensor, ...]:
    """Sum the results of `rows` over all i, in O(d) memory.

    If there are too many pairs to hold in memory, they are computed block by block, together with their gradient; then
    there are no second derivatives, and `torch.func.vmap` does not work. Compiled code holds all pairs.

    Args:
        rows: maps each of the values, as a pair of i (..., b, 1) and j (..., 1, d), to tensors (..., b).
        values: (..., d), all of the same shape.

    Returns:
        The sums of what `rows` returns: (...).

    >>> sums_over_pairs(lambda x: ((x[0] * x[1]).sum(-1),), torch.tensor([1.0, 2.0, 3.0]))
    (tensor(36.),)
    """
    height = max(1, at_once(values[0].device) // max(1, values[0].numel()))
    if values[0].shape[-1] <= height or torch.compiler.is_compiling():
        return _block(rows, slice(None), values)
    return _Blocks.apply(rows, height, *values)


def _block(rows: Callable[..., tuple[Tensor, ...]], block: slice, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Sum over the pairs of a block of rows with all columns."""
    pairs = [(value[..., block].unsqueeze(-1), value.unsqueeze(-2)) for value in values]
    return tuple(result.sum(-1) for result in rows(*pairs))


class _Blocks(torch.autograd.Function):
    """Compute sums together with their gradients, so that nothing else of a block is kept.

    `torch.utils.checkpoint` keeps small tensors of each block, which fragment memory: a hundred blocks would take ten
    times the memory of one.
    """

    @staticmethod
    def forward(ctx: Any, rows: Callable[..., tuple[Tensor, ...]], height: int, *values: Tensor) -> tuple[Tensor, ...]:
        needs = ctx.needs_input_grad[2:]
        leaves = [value.detach().requires_grad_(needed) for value, needed in zip(values, needs, strict=True)]
        learned = [leaf for leaf in leaves if leaf.requires_grad]
        sums: list[Tensor] = []
        gradients: list[list[Tensor]] = []
        for begin in range(0, values[0].shape[-1], height):
            with torch.set_grad_enabled(bool(learned)):
                results = _block(rows, slice(begin, begin + height), leaves)
            if not sums:
                sums = [torch.zeros_like(result) for result in results]
                for _ in results:
                    gradients.append([torch.zeros_like(leaf) for leaf in learned])
            for number, result in enumerate(results):
                sums[number] += result.detach()
                if result.requires_grad:
                    ones = torch.ones_like(result)  # groups do not depend on each other
                    slopes = torch.autograd.grad(result, learned, ones, retain_graph=True, materialize_grads=True)
                    for total, slope in zip(gradients[number], slopes, strict=True):
                        total += slope
        ctx.learned, ctx.count = [leaf.requires_grad for leaf in leaves], len(sums)
        ctx.save_for_backward(*chain.from_iterable(gradients))
        return tuple(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        # For each sum, its gradient with respect to each leaf that needs one is saved.
        width = len(ctx.saved_tensors) // ctx.count
        scaled = []
        for leaf in range(width):
            of_leaf = ctx.saved_tensors[leaf::width]
            scaled.append(sum(above.unsqueeze(-1) * slope for above, slope in zip(upstream, of_leaf, strict=True)))
        learned = iter(scaled)
        return None, None, *(next(learned) if needed else None for needed in ctx.learned)


def logistic(scores: Pair, weight: Tensor) -> Tensor:
    r"""$w_{uv} \log(1 + e^{f_v - f_u})$, summed over v.

    Args:
        scores: f, of u (..., b, 1) and of v (..., 1, K).
        weight: w, (..., b, K); [..., u, v] is the weight of the pair where u should score higher than v, 0 for no pair.

    Returns:
        (..., b), with the scores' type.

    >>> scores = torch.tensor([1.0, 1.0])
    >>> logistic((scores.unsqueeze(1), scores), torch.tensor([[0.0, 1.0], [0.0, 0.0]])).exp()
    tensor([2., 1.])
    """
    # Masked before the difference is used, because an unchecked score of an impossible label may be -inf.
    differences = (scores[0] - scores[1]).where(weight > 0, 0.0)
    # Like softplus, log(1 + exp(-x)) without overflow, but without its threshold, beyond which it has no curvature.
    return -(functional.logsigmoid(differences) * weight).sum(-1)
