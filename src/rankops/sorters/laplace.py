"""Soft ranks as sums of Laplace distribution functions of score differences, in O(d log d)."""

import torch
from torch import Tensor

from rankops.checks import check_positive
from rankops.sorters.base import Sorter
from rankops.sorters.laplace_sums import sums_of_others
from rankops.sorters.standardize import largest, standardized

__all__ = ["Laplace", "laplace_ranks"]


class Laplace(Sorter):
    r"""Expected ranks under Laplace noise: smooth gradients that reach far, O(d log d), any length, no training.

    $\hat r_i = 1 + \sum_{j \neq i} F\left(\frac{s_j - s_i}{b\,\mathrm{std}(s)}\right)$, with
    $F(t) = 1 - \frac12 e^{-t}$ for $t \ge 0$ and $\frac12 e^t$ below, the distribution function of Laplace.

    This is exactly the all-pairs sum. After a sort, each side of a score is a sum that decays from one neighbor to the
    next, so time and memory grow like d log d and d, whatever the scores' scale, offset and distances.

    Args:
        softness: b, the width of the noise, in standard deviations of the vector (or in the scores' own unit).
        standardize: measure differences in standard deviations, so that scale does not matter.
        detach: hold the standard deviation constant in the gradient; see `Sigmoid`.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `softness` not positive; see `rank_along` for a call's.

    >>> Laplace(softness=0.1, standardize=False)(torch.tensor([0.5, 0.45, 2.0]))
    tensor([2.3033, 2.6967, 1.0000])
    """

    def __init__(self, *, softness: float = 0.2, standardize: bool = True, detach: bool = True):
        super().__init__()
        check_positive("softness", softness)
        self.softness = softness
        self.standardize = standardize
        self.detach = detach
        self.scale_invariant = standardize
        self.exact_gradient = not (standardize and detach)

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if self.standardize:
            scores = standardized(scores, mask, detach=self.detach)
        return laplace_ranks(scores, mask, self.softness)

    def extra_repr(self) -> str:
        return f"softness={self.softness}, standardize={self.standardize}, detach={self.detach}"


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
