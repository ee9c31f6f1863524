"""Coverage error, exact: the position of the last positive."""

from torch import Tensor

from rankgrad.groups import groups
from rankgrad.ranks import places

__all__ = ["coverage_error"]


def coverage_error(scores: Tensor, labels: Tensor, *, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    r"""Compute the number of positions, from the top, that contain all positives.

    $\max_{i \in P} \#\{j : y_j \geq y_i\}$ over the positives P; the best value is their number (Tsoumakas et al.
    2010, and scikit-learn). Equal scores count against a positive.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the labels of an example.
        mask: of that shape, boolean, False where there is nothing to rank.

    Returns:
        One value per group, float64; NaN for a group without a positive.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`.

    >>> import torch
    >>> coverage_error(torch.tensor([0.9, 0.7, 0.5, 0.1]), torch.tensor([1, 0, 1, 0]))
    tensor(3., dtype=torch.float64)
    """
    batch = groups(scores, exact=True, labels=labels, dim=dim, mask=mask)
    _, not_smaller = places(batch.scores, batch.mask)
    deepest = (not_smaller * batch.truth).amax(-1).double()
    return deepest.where(deepest > 0, float("nan"))
