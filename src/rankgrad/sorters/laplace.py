"""Soft ranks as sums of Laplace distribution functions of score differences, in O(d log d)."""

from torch import Tensor

from rankgrad.laplace_sums import laplace_ranks
from rankgrad.sorters._base import NoisySorter
from rankgrad.standardize import standard_deviation, standardized

__all__ = ["Laplace"]


class Laplace(NoisySorter):
    r"""Expected ranks under Laplace noise: smooth, long-range gradients; O(d log d), any length, no training.

    $\hat r_i = 1 + \sum_{j \neq i} F\left(\frac{s_j - s_i}{b\,\mathrm{std}(s)}\right)$, with
    $F(t) = 1 - \frac12 e^{-t}$ for $t \ge 0$ and $\frac12 e^t$ below, the distribution function of Laplace.

    This is the soft rank of LapSum (Struski et al. 2025), for scores in standard deviations; expected ranks under noise
    go back to SoftRank (Taylor et al. 2008), with normal noise. The result is the exact sum over all pairs. After
    sorting, the sum on each side of a score decays from one neighbor to the next, so it takes O(d log d) time and O(d)
    memory, for any scale, offset, and distances of the scores.

    Args:
        softness: b, the width of the noise, in standard deviations of the vector (or in the scores' own unit).
        standardize: measure differences in standard deviations, so that scale does not matter.
        detach: treat the standard deviation as a constant in the gradient. Then raising a score never worsens its own
            rank or improves another's; in the true derivative, a quarter of these signs are wrong.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `softness` is not positive; see `rank_along` for errors of a call.

    >>> import torch
    >>> Laplace(softness=0.1, standardize=False)(torch.tensor([0.5, 0.45, 2.0]))
    tensor([2.3033, 2.6967, 1.0000])
    """

    def __init__(self, *, softness: float = 0.2, standardize: bool = True, detach: bool = True):
        super().__init__(softness=softness, standardize=standardize, detach=detach)

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if self.standardize and self.detach:
            return laplace_ranks(scores, mask, self.softness * standard_deviation(scores.detach(), mask))
        if self.standardize:
            scores = standardized(scores, mask, detach=False)
        return laplace_ranks(scores, mask, self.softness)
