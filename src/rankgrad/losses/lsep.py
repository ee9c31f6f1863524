"""LSEP, the log-sum-exp pairwise loss on label sets."""

from dataclasses import replace

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced
from rankgrad.losses._pairs import log_one_plus_sum

__all__ = ["lsep"]


def lsep(
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
    r"""Every present label should score higher than every absent one; their order does not matter.

    $\log(1 + \sum_{u \in Y, v \notin Y} e^{f_v - f_u})$, averaged over the batch (RLSEP, Eq. 3, after Li et al. 2017):
    RLSEP with equal ranks for all present labels. An example with no present labels, or only present labels, adds 0.

    Args:
        scores: f, any shape.
        label_ranks: of that shape, 0 = absent, anything larger = present.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape; the term of a pair is multiplied by both weights, relative to the group's largest.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        pairs: t, the number of random pairs per example to use; see `rlsep`.
        generator: chooses the pairs; required if `pairs` is set.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rlsep`.

    >>> lsep(torch.tensor([[3.0, 9.0, 0.0]]), torch.tensor([[1, 2, 0]])).item() < 0.05
    True
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
    batch = replace(batch, truth=(batch.truth > 0).int())
    return reduced(batch, log_one_plus_sum(batch, pairs, generator), reduction)
