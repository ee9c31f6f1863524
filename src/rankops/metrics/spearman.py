"""Spearman's rank correlation, exact."""

import torch
from torch import Tensor

from rankops.losses.inputs import counted
from rankops.ranks import ranks

__all__ = ["different_values", "spearman"]


def spearman(scores: Tensor, target: Tensor, *, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
    r"""How well the order of the scores agrees with that of the targets.

    $r_s$, the Pearson correlation of ranks, ties averaged; without ties it is
    $1 - \frac{6 \|\mathrm{rk}(y) - \mathrm{rk}(y^*)\|^2}{n (n^2 - 1)}$ (SoDeep, Section 3.2.1).

    Args:
        scores: y, (..., n).
        target: $y^*$, (..., n).
        mask: (..., n) boolean, False where there is no example; the others are ranked without it.
        weights: (..., n), how much each example counts in the means, variances and covariance of the ranks.

    Returns:
        (...), float64, from -1 to 1; of several groups, NaN for those without two different scores or targets.

    Raises:
        TypeError: a mask or weights of another type.
        ValueError: shapes differ, one that is not finite, negative weights; of a single group, fewer than two examples,
            or scores or targets that are all equal.

    >>> spearman(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor(0.5000, dtype=torch.float64)
    """
    weight, *both, defined = different_values("Spearman", scores, target, mask, weights)
    centerd = []
    for values in both:
        placed = ranks(values, mask=mask)
        centerd.append(placed - (placed * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True))
    first, second = centerd
    norms = ((weight * first.square()).sum(-1) * (weight * second.square()).sum(-1)).sqrt()
    found = (weight * first * second).sum(-1) / norms.where(defined, 1.0)
    return found.clamp(-1.0, 1.0).where(defined, torch.nan)


def different_values(
    name: str, scores: Tensor, target: Tensor, mask: Tensor | None, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights, scores and target (..., n) in float64, 0 where the mask is False; and which groups (...) have a value.

    Raises:
        TypeError, ValueError: see `spearman`; `name` is the correlation's.
    """
    for what, given in (("scores", scores), ("target", target)):
        if not torch.is_tensor(given) or not given.is_floating_point():
            found = given.dtype if torch.is_tensor(given) else type(given).__name__
            raise TypeError(f"{what} are {found}, expected a floating-point tensor: convert them with .double()")
    if scores.shape != target.shape or scores.dim() == 0:
        raise ValueError(f"scores {tuple(scores.shape)} and target {tuple(target.shape)}: expected one shape (..., n)")
    weight = counted(scores.double(), mask, weights)
    counts = weight > 0
    several = counts.sum(-1)
    fewest = int(several.min()) if counts.numel() else 0
    defined = several >= 2
    if fewest < 2 and (scores.dim() == 1 or not counts.numel()):
        raise ValueError(f"{name} is undefined: {fewest} examples in {tuple(scores.shape)}, expected at least 2")
    known = []
    for what, given in (("scores", scores), ("target", target)):
        # What counts for nothing has a place all the same.
        values = given.detach().double()
        values = values if mask is None else values.masked_fill(~mask, 0.0)
        finite = torch.isfinite(values)
        if not bool(finite.all()):
            where = tuple((~finite).nonzero()[0].tolist())
            raise ValueError(f"{name} is undefined: {what} hold {values[where].item()} at {where}, expected numbers")
        largest = values.masked_fill(~counts, -torch.inf).amax(-1)
        equal = largest == values.masked_fill(~counts, torch.inf).amin(-1)
        if scores.dim() == 1 and bool(equal):
            raise ValueError(
                f"{name} is undefined: {what} are all {largest.item()}, expected at least two different ones"
            )
        defined = defined & ~equal
        known.append(values)
    return weight, known[0], known[1], defined
