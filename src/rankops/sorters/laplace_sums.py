"""Sums over all pairs of points on a line that fall off exponentially with distance, in O(n log n)."""

import torch
from torch import Tensor

__all__ = ["decayed_sums", "sums_of_others"]


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
