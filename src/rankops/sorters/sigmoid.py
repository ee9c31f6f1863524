"""Soft ranks as sums of sigmoids of score differences in standard deviations."""

from torch import Tensor

from rankops.checks import check_positive
from rankops.sorters._base import Sorter
from rankops.sorters._laplace_sums import pairwise_ranks
from rankops.sorters._standardize import standardized

__all__ = ["Sigmoid"]


class Sigmoid(Sorter):
    r"""The handcrafted sorter on standardized scores, equally sharp at any scale; O(d^2), any length, no training.

    $\hat r_i = 1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i) / \mathrm{std}(s))$, after SoDeep, Eqs. 11-12.

    Args:
        steepness: $\lambda$, per standard deviation. 35 is as accurate at d = 100 as SoDeep's trained LSTM.
        detach: hold the standard deviation constant in the gradient. The gradient is then the derivative of the
            formula for a fixed $\mathrm{std}(s)$: raising a score never hurts its own rank nor helps another's.
            Otherwise it is the true derivative, which has a quarter of those signs wrong.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `steepness` not positive; see `rank_along` for a call's.

    >>> import torch
    >>> Sigmoid()(torch.tensor([0.5, -1.0, 2.0]))
    tensor([2., 3., 1.])
    """

    def __init__(self, *, steepness: float = 35.0, detach: bool = True):
        super().__init__()
        check_positive("steepness", steepness)
        self.steepness = steepness
        self.detach = detach
        self.exact_gradient = not detach

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return pairwise_ranks(standardized(scores, mask, detach=self.detach), mask, self.steepness)

    def extra_repr(self) -> str:
        return f"steepness={self.steepness}, detach={self.detach}"
