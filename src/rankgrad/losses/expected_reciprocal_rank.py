"""Expected reciprocal rank as a loss, with ranks from a sorter."""

import torch
from torch import Tensor

from rankgrad.checks import check_count, check_positive
from rankgrad.gains import check_grade, satisfaction
from rankgrad.laplace_sums import sums_of_others
from rankgrad.lookup import renamed_arguments
from rankgrad.losses._inputs import AnySorter, Reduction, groups, is_ordered, reduced, soft_ranks

__all__ = ["expected_reciprocal_rank"]

SURE = -100.0  # log of a fraction of readers that is practically 0, since the log of 0 cannot be summed


@renamed_arguments("losses.expected_reciprocal_rank")
def expected_reciprocal_rank(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    sorter: AnySorter = None,
    check_finite: bool = True,
    k: int | None = None,
    max_grade: float = 4.0,
    temperature: float = 0.5,
) -> Tensor:
    r"""A reader who starts at the top should be satisfied early.

    $1 - \sum_i \frac{R_i}{f(y)_i} \prod_{j \neq i} (1 - R_j)^{a_{ij}}$ for each group, averaged over groups, with
    $R = (2^{y^*} - 1) / 2^{g}$ the probability of satisfying the reader and $a_{ij} = F((f(y)_i - f(y)_j) / \tau)$ for
    reading j before i, where F is the distribution function of `Laplace`. If the sorter is exact and there are no ties,
    this tends to 1 minus ERR (Chapelle et al. 2009) as $\tau$ tends to 0. It takes $O(d \log d)$ time. With a cutoff k,
    each term is multiplied by $\sigma((k + \frac12 - f(y)_i) / \tau)$. The loss does not reach 0. Groups whose targets
    are all equal are ignored.

    Args:
        scores, target: y and $y^*$, of the same shape; the target is the relevance, from 0 to `max_grade`.
        mask: of that shape, boolean, False where there is no example.
        weights: of that shape; probabilities are multiplied by them, relative to the largest of the group.
        dim, group_weights, reduction, sorter, check_finite: see `rankgrad.losses`; f is the sorter.
        k: the number of positions to read; None for all.
        max_grade: g, the highest grade of the scale, whether or not it occurs.
        temperature: $\tau$, the difference of positions beyond which one is read before the other.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score, a target that is negative or above
            `max_grade`, `k` that is not a whole number of at least 1, a `max_grade` or `temperature` that is not
            positive.

    >>> scores, target = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 4, 0])
    >>> expected_reciprocal_rank(scores, target, sorter="straight_through")  # 1 - 15 / 16 / 2
    tensor(0.5312)
    """
    batch = groups(
        scores,
        target=target,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
        least=2,
    )
    check_grade(target, max_grade, mask=mask, check_finite=check_finite)
    check_positive("temperature", temperature)
    if k is not None:
        check_count("k", k)
    satisfied = satisfaction(batch.truth, batch.weight, max_grade)
    places = soft_ranks(batch, sorter, differences=True).clamp(min=1)  # a soft rank may be slightly below 1
    order = places.detach().argsort(dim=-1, stable=True)
    ordered, satisfied = places.gather(-1, order), satisfied.gather(-1, order)
    unsatisfied = torch.log1p(-satisfied.double()).clamp(min=SURE)
    signed, _ = sums_of_others(-ordered, unsatisfied, temperature)
    left = (unsatisfied.cumsum(-1) - unsatisfied + signed / 2).exp().to(ordered.dtype)
    visible = 1.0 if k is None else torch.sigmoid((k + 0.5 - ordered) / temperature)
    reached = (satisfied * left / ordered * visible).sum(-1)
    return reduced(batch, (1 - reached).to(batch.scores.dtype), reduction, counts=is_ordered(batch.truth, batch.weight))
