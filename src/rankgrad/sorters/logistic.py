"""Soft ranks as sums of logistic functions of score differences, and the inverse of such a sum."""

import torch
from torch import Tensor
from torch.nn import functional

from rankgrad.laplace_sums import pairwise_ranks, with_signature
from rankgrad.sorters._base import NoisySorter
from rankgrad.standardize import standardized

__all__ = ["Logistic"]

STEPS = 12  # of Newton's method, at least twice the number ever needed for full precision


class Logistic(NoisySorter):
    r"""Expected ranks under logistic noise: separates positions better than `Laplace`; O(d^2), any length, no training.

    $\hat r_i = 1 + \sum_{j \neq i} \sigma\left(\frac{s_j - s_i}{b\,\mathrm{std}(s)}\right)$: SoDeep, Eqs. 11-12, with
    $\lambda = 1 / b$. Expected ranks under noise go back to SoftRank (Taylor et al. 2008), with normal noise.

    In `soft_permutation`, it separates positions even if scores are still close: the derivative of $\sigma$ at its
    quantile i/d is i/d (1 - i/d), which differs between positions. The derivative of Laplace's F is min(i, d - i)/d,
    which pushes all scores of the upper half equally, and all of the lower half.

    Args:
        softness: b, the width of the noise, in standard deviations of the vector (or in the scores' own unit).
        standardize: measure differences in standard deviations, so that scale does not matter.
        detach: treat the standard deviation as a constant in the gradient; see `Laplace`.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `softness` is not positive; see `rank_along` for errors of a call.

    >>> Logistic(softness=0.1, standardize=False)(torch.tensor([0.5, 0.45, 2.0]))
    tensor([2.3775, 2.6225, 1.0000])
    """

    def __init__(self, *, softness: float = 0.1, standardize: bool = True, detach: bool = True):
        super().__init__(softness=softness, standardize=standardize, detach=detach)

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if self.standardize:
            scores = standardized(scores, mask, detach=self.detach)
        return pairwise_ranks(scores, mask, 1 / self.softness)


class LogisticLevels(torch.autograd.Function):
    r"""Where $G(t) = \sum_i \sigma((s_i - t) / b)$ takes each of (..., K) levels: (..., K), in float64, by Newton.

    The gradient is the derivative of the implicit function, $\partial t / \partial s_i = \sigma'_i / \sum_j \sigma'_j$,
    as a softmax of $\log \sigma'$, which is finite where all vanish.
    """

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor, levels: Tensor, start: Tensor) -> Tensor:
        """Begin at `start`, where the sum of `Laplace` takes the levels: at most a width or so away, at any gap."""
        roots, values, wide = start, scores.double().unsqueeze(-2), width.unsqueeze(-1)
        for _ in range(STEPS):
            apart = (values - roots.unsqueeze(-1)) / wide
            beyond = torch.sigmoid(-apart.abs())  # of the part of a score that is beyond t
            near = beyond * (1 - beyond)
            # Not the sum less its level: near a whole number, the difference would have no digit.
            signed, above = torch.where(apart > 0, -beyond, beyond), (apart > 0).double()
            if mask is not None:
                near, signed, above = (tensor * mask.unsqueeze(-2) for tensor in (near, signed, above))
            excess = (above.sum(-1) - levels) + signed.sum(-1)
            step = excess / near.sum(-1).clamp(min=torch.finfo(near.dtype).tiny)
            roots = roots + width * step.clamp(-1, 1)
        return roots

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:3], output)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        scores, mask, width, roots = ctx.saved_tensors
        apart = (scores.unsqueeze(-2) - roots.unsqueeze(-1)) / width.unsqueeze(-1)
        near = functional.logsigmoid(apart) + functional.logsigmoid(-apart)
        if mask is not None:
            near = near.masked_fill(~mask.unsqueeze(-2), torch.finfo(near.dtype).min)
        pull = (torch.softmax(near, -1) * gradients[0].unsqueeze(-1)).sum(-2)
        return pull.to(scores.dtype), None, None, None, None
