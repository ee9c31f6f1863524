"""The handcrafted sorter: ranks as sums of sigmoids of score differences."""

import torch
from torch import Tensor, nn

from rankops.ranks import check_scores

__all__ = ["Handcrafted"]


class Handcrafted(nn.Module):
    r"""Soft ranks without training: $\hat r_i = 1 + \sum_{j \neq i} \sigma(\lambda (s_j - s_i))$.

    SoDeep, Eqs. 11-12 (which give 0..d-1; here 1..d). Any length; permutation-equivariant and shift-invariant; its
    sharpness depends on the scale of the scores.

    Args:
        steepness: $\lambda$; the paper uses 10.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `steepness` not positive; scores that are not finite.

    >>> Handcrafted(steepness=100.0)(torch.tensor([0.5, -1.0, 2.0]))
    tensor([2., 3., 1.])
    """

    def __init__(self, *, steepness: float = 10.0):
        super().__init__()
        if not steepness > 0:
            raise ValueError(f"steepness is {steepness}, expected a positive number")
        self.steepness = steepness

    def forward(self, scores: Tensor) -> Tensor:
        check_scores(scores)
        differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # [..., i, j] = s_j - s_i
        # The diagonal adds sigmoid(0) = 1/2, which stands in for the 1 of the formula's j = i.
        return 0.5 + torch.sigmoid(self.steepness * differences).sum(-1)

    def extra_repr(self) -> str:
        return f"steepness={self.steepness}"
