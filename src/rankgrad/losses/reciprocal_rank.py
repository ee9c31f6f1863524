"""The reciprocal rank as a loss, with ranks from a sorter."""

from torch import Tensor

from rankgrad.losses._inputs import AnySorter, Reduction, groups, reduced, soft_ranks

__all__ = ["reciprocal_rank"]


def reciprocal_rank(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
) -> Tensor:
    r"""A positive should come first.

    $1 - \max_{i \in P} \frac{w_i}{f(y)_i} / \max_{i \in P} w_i$ over the positives P of each group, averaged over
    groups: 1 minus the MRR if the sorter is exact and there are no ties. Only the positive ranked first has to rise.
    Groups without a positive (of nonzero weight), or without a negative, are ignored.

    Args:
        scores, labels: y, and 0 and 1 of any type, one shape.
        mask: of that shape, boolean, False where there is no example.
        weights: w, of that shape, how much it is worth to find each positive.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`; f is the sorter.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> import torch
    >>> reciprocal_rank(torch.tensor([0.9, 0.7, 0.1]), torch.tensor([0, 1, 1]), sorter="straight_through")  # 1 - 1 / 2
    tensor(0.5000)
    """
    batch = groups(
        scores,
        labels=labels,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    places = soft_ranks(batch, sorter).clamp(min=1)  # a soft rank may be slightly below 1
    worth = batch.weight.to(places.dtype) * batch.truth
    most = worth.amax(-1)
    both_kinds = (most > 0) & (batch.exists & ~batch.truth).any(-1)
    reached = (worth / places).amax(-1) / most.where(both_kinds, 1.0)
    return reduced(batch, 1 - reached, reduction, counts=both_kinds)
