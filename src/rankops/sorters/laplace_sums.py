"""Ranks as sums over all pairs of scores: of Laplace distribution functions in O(n log n), of sigmoids in O(n^2)."""

import torch
from torch import Tensor

from rankops.sorters.standardize import largest

__all__ = ["decayed_sums", "laplace_ranks", "pairwise_ranks", "sums_of_others"]


class _DecayedSums(torch.autograd.Function):
    """The sums of `decayed_sums`. The derivative is a sum of the same kind, so that no pass has to be kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(decay: Tensor, values: Tensor) -> Tensor:
        sums, factor = values.clone(), torch.nn.functional.pad(decay, (1, 0))
        length, step = values.shape[-1], 1
        while step < length:  # after each pass a sum reaches twice as far back
            sums = torch.cat([sums[..., :step], sums[..., step:] + factor[..., step:] * sums[..., :-step]], -1)
            factor = torch.cat([factor[..., :step], factor[..., step:] * factor[..., :-step]], -1)
            step *= 2
        return sums

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        decay, sums = ctx.saved_tensors
        to_values = _DecayedSums.apply(decay.flip(-1), gradient.flip(-1)).flip(-1)
        return to_values[..., 1:] * sums[..., :-1], to_values


def decayed_sums(decay: Tensor, values: Tensor) -> Tensor:
    r"""Return $y_1 = v_1$ and $y_i = v_i + a_{i-1}\, y_{i-1}$, by doubling: $\log_2 n$ passes over whole tensors.

    With decays in [0, 1] nothing is ever divided or subtracted, so nothing overflows or cancels.

    Args:
        decay: a, (..., n - 1).
        values: v, (..., n).

    Returns:
        y, (..., n).

    >>> decayed_sums(torch.tensor([0.5, 0.5]), torch.tensor([8.0, 0.0, 1.0]))
    tensor([8., 4., 3.])
    """
    shape = torch.broadcast_shapes(decay.shape[:-1], values.shape[:-1])
    return _DecayedSums.apply(decay.expand(*shape, -1), values.expand(*shape, -1))


def sums_of_others(gaps: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return $\sum_j w_j e^{-|u_j - u_i|}$ for each point, over those before it and over those after it.

    Args:
        gaps: (..., n - 1), the distances of neighboring points, not negative.
        weights: w, (..., n).

    Returns:
        Two tensors (..., n): before, 0 for the first point, and after, 0 for the last.

    >>> before, after = sums_of_others(torch.tensor([2.0]).log(), torch.tensor([3.0, 5.0]))
    >>> before, after
    (tensor([0.0000, 1.5000]), tensor([2.5000, 0.0000]))
    """
    decay = torch.exp(-gaps)
    both = torch.stack([weights, weights.flip(-1).expand_as(weights)])
    ways = torch.stack([decay, decay.flip(-1)])
    if weights.dim() > decay.dim():
        ways = ways.reshape(2, *[1] * (weights.dim() - decay.dim()), *decay.shape)
    sums = torch.nn.functional.pad(ways * decayed_sums(ways, both)[..., :-1], (1, 0))
    return sums[0], sums[1].flip(-1)


def laplace_ranks(scores: Tensor, mask: Tensor | None, softness: float) -> Tensor:
    """Return the sum of `Laplace` without its standard deviation, over the scores that the mask leaves."""
    if mask is not None:  # absent scores go next to the largest, where they widen no gap
        scores = scores.where(mask, largest(scores, mask))
    ordered = scores.sort(dim=-1, descending=True, stable=True)
    weights = torch.ones_like(scores) if mask is None else mask.to(scores.dtype).gather(-1, ordered.indices)
    soft = _SortedRanks.apply(ordered.values, weights, softness)
    return torch.zeros_like(soft).scatter(-1, ordered.indices, soft)


class _SortedRanks(torch.autograd.Function):
    r"""Ranks of scores that are sorted, largest first; weights are 1, or 0 where there is no score.

    Only gaps between neighbors are used, so neither an offset nor a score far away costs precision. The derivative is
    written out, $(J^\top g)_k = \frac{1}{2b} \sum_{i \neq k} e^{-|s_i - s_k| / b} (w_k g_i - w_i g_k)$: through the
    gaps, autograd would compute each entry as a difference of sums over many pairs, and lose the signs of small ones.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, weights: Tensor, softness: float) -> Tensor:
        before, after = sums_of_others((scores[..., :-1] - scores[..., 1:]) / softness, weights)
        return 1 + (weights.cumsum(-1) - weights) + (after - before) / 2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.softness = inputs[2]

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        scores, weights = ctx.saved_tensors
        gaps = (scores[..., :-1] - scores[..., 1:]) / ctx.softness
        before, after = sums_of_others(gaps, torch.stack([gradient, weights]))
        pulled, around = before + after
        return (weights * pulled - gradient * around) / (2 * ctx.softness), None, None


def pairwise_ranks(scores: Tensor, mask: Tensor | None, steepness: float) -> Tensor:
    r"""Return $1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i))$ over the j that the mask leaves."""
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., i, j] = s_j - s_i
    beats = torch.sigmoid(steepness * differences)
    if mask is not None:
        beats = beats * mask.unsqueeze(-2)
    # The diagonal adds sigmoid(0) = 1/2, which stands in for the 1 of the formula's j = i.
    return 0.5 + beats.sum(-1)
