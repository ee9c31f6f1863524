"""LSEP, the log-sum-exp pairwise loss on label sets."""

import torch
from torch import Tensor

from rankops.checks import check_label_ranks
from rankops.losses.pairs import log_one_plus_sum, some_of

__all__ = ["lsep"]


def lsep(
    scores: Tensor, label_ranks: Tensor, *, pairs: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    r"""Every present label should score higher than every absent one; their order does not matter.

    $\log(1 + \sum_{u \in Y, v \notin Y} e^{f_v - f_u})$, averaged over the batch (RLSEP, Eq. 3, after Li et al. 2017):
    RLSEP with all present labels of equal rank. An example with no label present, or all of them, adds 0.

    Args:
        scores: f, (..., K).
        label_ranks: (..., K), 0 = absent, anything larger = present.
        pairs: t, how many random pairs of each example to use; all of them by default.
        generator: draws the pairs; needed when `pairs` is given.

    Returns:
        A scalar, float32 or float64.

    Raises:
        TypeError, ValueError: as `rlsep`.

    >>> lsep(torch.tensor([[3.0, 9.0, 0.0]]), torch.tensor([[1, 2, 0]])).item() < 0.05
    True
    """
    check_label_ranks(scores, label_ranks)
    present = label_ranks > 0
    return log_one_plus_sum(scores, some_of(present.unsqueeze(-1) & ~present.unsqueeze(-2), pairs, generator)).mean()
