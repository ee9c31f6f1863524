"""The handcrafted sorter: ranks as sums of sigmoids of score differences."""

from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.laplace_sums import pairwise_ranks
from rankgrad.sorters._base import Sorter

__all__ = ["Handcrafted"]


class Handcrafted(Sorter):
    r"""Sums of sigmoids of score differences (SoDeep), sharper for wider scores; O(d^2), any length, no training.

    $\hat r_i = 1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i))$: SoDeep, Eqs. 11-12 (which give 0..d-1; here 1..d).

    Args:
        steepness: $\lambda$; the paper uses 10.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `steepness` is not positive; see `rank_along` for errors of a call.

    >>> import torch
    >>> Handcrafted(steepness=100.0)(torch.tensor([0.5, -1.0, 2.0]))
    tensor([2., 3., 1.])
    """

    scale_invariant = False

    def __init__(self, *, steepness: float = 10.0):
        super().__init__()
        check_positive("steepness", steepness)
        self.steepness = steepness

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return pairwise_ranks(scores, mask, self.steepness)

    def extra_repr(self) -> str:
        return f"steepness={self.steepness}"
