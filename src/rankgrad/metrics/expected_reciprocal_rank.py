"""Expected reciprocal rank, exact."""

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.gains import check_grade, reading_order, satisfaction
from rankgrad.groups import groups
from rankgrad.lookup import renamed_arguments

__all__ = ["expected_reciprocal_rank"]


@renamed_arguments("metrics.expected_reciprocal_rank")
def expected_reciprocal_rank(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = None,
    max_grade: float = 4.0,
) -> Tensor:
    r"""Compute expected reciprocal rank: the mean of 1 / the position at which a reader is satisfied (ERR).

    $\sum_{r=1}^{k} \frac1r R_{(r)} \prod_{s<r} (1 - R_{(s)})$ with $R_{(r)}$ the probability
    $R = (2^{y^*} - 1) / 2^{g}$ that the item at position r satisfies, g the highest grade of the scale (Chapelle et al.
    2009). A reader who is never satisfied adds 0. Of equal scores, the item that satisfies least is read first.

    Args:
        scores: y, any shape.
        target: $y^*$, of that shape, the relevance, from 0 to `max_grade`.
        dim: the dimension of a group, such as the documents of a query.
        mask: of that shape, boolean, False where there is nothing to rank.
        weights: of that shape; probabilities are multiplied by them, relative to the largest of the group.
        k: the number of positions to read; None for all.
        max_grade: g, the highest grade of the scale, whether or not it occurs.

    Returns:
        One value per group, float64, from 0 to 1; 0 if nothing is relevant, NaN if everything is masked.

    Raises:
        TypeError, ValueError: see `rankgrad.metrics`; a target is negative or above `max_grade`, `k` is below 1, or
            `max_grade` is not positive.

    >>> expected_reciprocal_rank(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 4, 0]))  # 15 / 16 at the second place
    tensor(0.4688, dtype=torch.float64)
    """
    batch = groups(scores, exact=True, target=target, dim=dim, mask=mask, weights=weights)
    check_grade(target, max_grade, mask=mask)
    if k is not None:
        check_count("k", k)
    satisfied = satisfaction(batch.truth, batch.weight, max_grade)
    satisfied = satisfied.gather(-1, reading_order(batch.scores, satisfied, batch.exists))[..., :k]
    read_on = torch.nn.functional.pad((1 - satisfied).cumprod(-1), (1, 0), value=1.0)[..., :-1]
    at = torch.arange(1, satisfied.shape[-1] + 1, device=satisfied.device)
    return (satisfied * read_on / at).sum(-1).where(batch.exists.any(-1), torch.nan)
