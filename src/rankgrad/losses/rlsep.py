"""RLSEP, the ranked log-sum-exp pairwise loss."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced
from rankgrad.losses._pairs import log_one_plus_sum

__all__ = ["rlsep"]


def rlsep(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    pairs: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Every label should score higher than every less important one.

    $\log(1 + \sum_{(u, v) \in \zeta} e^{f_v - f_u})$ with $\zeta \subseteq \{(u, v) : r_u > r_v\}$, averaged over the
    batch (RLSEP, Eq. 6). If all ranks are 0 or 1, it is LSEP. An example without pairs (no label present, or all tied)
    adds 0 without gradient.

    Args:
        scores: f, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important; ties are not compared.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape; the term of a pair is multiplied by both weights, relative to the group's largest.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        pairs: t, the number of random pairs per example to use, in O(K^2) memory; None for all pairs, in O(K) memory.
            Examples with fewer pairs use all of them.
        generator: chooses the pairs; required if `pairs` is set.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; `pairs` is below 1, or there is no generator for it.

    >>> loss = rlsep(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2, 1, 0]]))
    >>> torch.isclose(loss, torch.tensor([-1.0, -1.0, -2.0]).exp().sum().log1p())
    tensor(True)
    """
    batch = groups(
        scores,
        label_ranks=label_ranks,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    return reduced(batch, log_one_plus_sum(batch, pairs, generator), reduction)
