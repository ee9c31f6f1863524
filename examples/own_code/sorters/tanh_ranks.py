"""An example of your own sorter: the number of larger scores, counted by a hyperbolic tangent."""

import torch
from torch import Tensor

from rankgrad.sorters import Sorter

__all__ = ["TanhRanks"]


class TanhRanks(Sorter):
    r"""$\hat r_i = \frac12 + \sum_j \frac12 \left(1 + \tanh\frac{s_j - s_i}{w}\right)$, in O(d^2).

    Args:
        width: w, in the scores' own unit.

    >>> TanhRanks(width=0.1)(torch.tensor([0.5, -1.0, 2.0]))
    tensor([2., 3., 1.])
    """

    scale_invariant = False

    def __init__(self, *, width: float = 1.0):
        super().__init__()
        self.width = width

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        beaten = (
            1 + torch.tanh((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / self.width)
        ) / 2  # [..., i, j]: j above i
        return 0.5 + (beaten if mask is None else beaten * mask.unsqueeze(-2)).sum(-1)
