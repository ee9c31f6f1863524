"""RLSEP, the ranked log-sum-exp pairwise loss."""

import torch
from torch import Tensor

from rankops.checks import check_label_ranks
from rankops.losses.pairs import log_one_plus_sum, some_of

__all__ = ["rlsep"]


def rlsep(
    scores: Tensor, label_ranks: Tensor, *, pairs: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    r"""Every label should score higher than every less important one.

    $\log(1 + \sum_{(u, v) \in \zeta} e^{f_v - f_u})$ with $\zeta \subseteq \{(u, v) : r_u > r_v\}$, averaged over the
    batch (RLSEP, Eq. 6). With ranks 0 and 1 alone it is LSEP. An example without any pair (no label present, or all
    tied) adds 0 and has no gradient.

    Args:
        scores: f, (..., K).
        label_ranks: r, (..., K), 0 = absent, larger = more important; ties are not compared.
        pairs: t, how many random pairs of each example to use; all of them by default, and where there are fewer.
        generator: draws the pairs; needed when `pairs` is given.

    Returns:
        A scalar, float32 or float64.

    Raises:
        TypeError, ValueError: see `rankops.checks.check_label_ranks`; `pairs` below 1, or without a generator.

    >>> loss = rlsep(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2, 1, 0]]))
    >>> torch.isclose(loss, torch.tensor([-1.0, -1.0, -2.0]).exp().sum().log1p())
    tensor(True)
    """
    check_label_ranks(scores, label_ranks)
    ordered = label_ranks.unsqueeze(-1) > label_ranks.unsqueeze(-2)  # [..., u, v]: r_u > r_v
    return log_one_plus_sum(scores, some_of(ordered, pairs, generator)).mean()
