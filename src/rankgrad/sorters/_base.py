"""The base class of sorters: how they are called, and which properties they declare."""

from torch import Tensor, nn

from rankgrad.checks import check_positive
from rankgrad.ranks import rank_along

__all__ = ["NoisySorter", "Sorter"]


class Sorter(nn.Module):
    """Map scores to soft ranks, 1 for the largest score; see `rank_along` for the arguments of a call.

    A subclass implements `soft_ranks` and declares its properties, which tests check for each sorter.

    Attributes:
        length: the number of scores that it takes, or None for any. A sorter of fixed length takes no mask, and does
            not have to support `torch.func.vmap` or `torch.compile` as a whole.
        equivariant: permuting the scores permutes the ranks.
        shift_invariant, scale_invariant: adding a number to all scores, or multiplying them by a positive number, does
            not change ranks.
        exact_gradient: autograd returns the derivative of what `forward` computes. If not, the class documents which
            derivative it returns.
    """

    length: int | None = None
    equivariant: bool = True
    shift_invariant: bool = True
    scale_invariant: bool = True
    exact_gradient: bool = True

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Return descending ranks 1..d along the last dimension.

        Args:
            scores: (..., d), finite, float32 or float64, and 0 where the mask is False.
            mask: (..., d) boolean or None.

        Returns:
            (..., d); values where the mask is False are ignored.
        """
        raise NotImplementedError

    def forward(
        self,
        scores: Tensor,
        *,
        dim: int = -1,
        mask: Tensor | None = None,
        descending: bool = True,
        normalized: bool = False,
        check_finite: bool = True,
    ) -> Tensor:
        return rank_along(
            self.soft_ranks,
            scores,
            dim=dim,
            mask=mask,
            descending=descending,
            normalized=normalized,
            check_finite=check_finite,
            length=self.length,
        )

    def imitation_loss(self, scores: Tensor, ranks: Tensor) -> Tensor:
        """Return the loss of pretraining: L1 on normalized ranks (SoDeep, Section 3.2).

        Args:
            scores, ranks: (..., d), scores and their exact ranks.

        Returns:
            A scalar.
        """
        return (self(scores) - ranks).abs().mean() / scores.shape[-1]


class NoisySorter(Sorter):
    """Expected ranks under noise with a fixed width.

    Args:
        softness: b, the width of the noise, in standard deviations of the vector (or in the scores' own unit).
        standardize: measure differences in standard deviations, so that scale does not matter.
        detach: treat the standard deviation as a constant in the gradient.
    """

    def __init__(self, *, softness: float, standardize: bool, detach: bool):
        super().__init__()
        check_positive("softness", softness)
        self.softness, self.standardize, self.detach = softness, standardize, detach
        self.scale_invariant, self.exact_gradient = standardize, not (standardize and detach)

    def extra_repr(self) -> str:
        return f"softness={self.softness}, standardize={self.standardize}, detach={self.detach}"
