"""The Spearman loss: ranks from a sorter against the ranks of the target."""

from collections.abc import Callable

from torch import Tensor

from rankops.checks import check_target
from rankops.losses.inputs import rank_distance

__all__ = ["spearman"]


def spearman(
    scores: Tensor,
    target: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Scores should have the order of their targets.

    $\frac{6}{d (d^2 - 1)} \|f(y) - \mathrm{rk}(y^*)\|^2$ for each group of d, averaged over groups: SoDeep, Eq. 4, up
    to its factor (Eq. 4 sums, and would grow with d and with the batch). With an exact sorter and nothing tied it is
    $1 - r_s$. A group whose targets are all equal has no order and is left out; if all are, the value is 0 without
    gradient.

    Args:
        scores: y, (..., d), a group along the last dimension.
        target: $y^*$, (..., d); tied ones share their average rank.
        sorter: f, takes scores (..., d) to ranks (..., d), 1 for the largest, and `mask`, where one is given.
        mask: (..., d) boolean, False where a group has no example; d is then the number of those it has.
        weights: (..., d), how much each squared error counts within its group.

    Returns:
        A scalar.

    Raises:
        TypeError: scores or a target, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, groups of one, a target that is not finite, negative weights, or what
            the sorter refuses: scores that are not finite, groups of another length than its own.

    >>> import torch
    >>> from rankops.sorters.handcrafted import Handcrafted
    >>> scores, target = torch.tensor([0.1, 0.9, 0.5]), torch.tensor([10.0, 30.0, 20.0])
    >>> spearman(scores, target, sorter=Handcrafted(steepness=100.0)) < 1e-6
    tensor(True)
    """
    check_target(scores, target, least=2, mask=mask)
    return rank_distance(scores, target, sorter=sorter, mask=mask, weights=weights)
