"""Exact ranks in the forward pass, the gradient of soft ranks in the backward pass."""

from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.laplace_sums import laplace_ranks
from rankgrad.ranks import exact_ranks
from rankgrad.sorters._base import Sorter
from rankgrad.standardize import standard_deviation

__all__ = ["StraightThrough"]


class StraightThrough(Sorter):
    r"""Exact ranks forward, the gradient of `Laplace` backward; O(d log d), any length, no training.

    A loss receives the exact ranks, while each score still gets a gradient from all scores near it. The gradient is not
    the derivative of these ranks, but of $\hat r$ from `Laplace(softness=gradient_softness)`, with a constant standard
    deviation.

    Args:
        gradient_softness: b of the soft ranks that provide the gradient, in standard deviations of the scores.
        softness: b of the ranks themselves; 0 for exact ranks.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: `gradient_softness` is not positive, or `softness` is negative; see `rank_along` for errors of a
            call.

    >>> import torch
    >>> scores = torch.tensor([0.5, 0.4, 2.0], requires_grad=True)
    >>> ranks = StraightThrough()(scores)
    >>> ranks.tolist(), torch.autograd.grad(ranks[0], scores)[0].sign().tolist()
    ([2.0, 3.0, 1.0], [-1.0, 1.0, 1.0])
    """

    exact_gradient = False

    def __init__(self, *, gradient_softness: float = 0.2, softness: float = 0.0):
        super().__init__()
        check_positive("gradient_softness", gradient_softness)
        check_positive("softness", softness, or_zero=True)
        self.gradient_softness = gradient_softness
        self.softness = softness

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        deviation = standard_deviation(scores.detach(), mask)
        soft = laplace_ranks(scores, mask, self.gradient_softness * deviation)
        if self.softness == 0:
            values = exact_ranks(scores, mask=mask, check_finite=False)
        else:
            values = laplace_ranks(scores.detach(), mask, self.softness * deviation)
        return values + (soft - soft.detach())

    def extra_repr(self) -> str:
        return f"gradient_softness={self.gradient_softness}, softness={self.softness}"
