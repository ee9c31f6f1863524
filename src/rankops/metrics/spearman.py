"""Spearman's rank correlation, exact."""

import torch
from torch import Tensor

from rankops.ranks import ranks

__all__ = ["spearman"]


def spearman(scores: Tensor, target: Tensor) -> Tensor:
    r"""How well the order of the scores agrees with that of the targets.

    $r_s$, the Pearson correlation of ranks, ties averaged; without ties it is
    $1 - \frac{6 \|\mathrm{rk}(y) - \mathrm{rk}(y^*)\|^2}{n (n^2 - 1)}$ (SoDeep, Section 3.2.1).

    Args:
        scores: y, (..., n).
        target: $y^*$, (..., n).

    Returns:
        (...), float64, from -1 to 1.

    Raises:
        ValueError: shapes differ, fewer than two examples, one that is not finite, or scores or targets that are all
            equal.

    >>> spearman(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor(0.5000, dtype=torch.float64)
    """
    if scores.shape != target.shape or scores.dim() == 0:
        raise ValueError(f"scores {tuple(scores.shape)} and target {tuple(target.shape)}: expected one shape (..., n)")
    length = scores.shape[-1]
    if length < 2:
        raise ValueError(f"Spearman is undefined: {length} examples in {tuple(scores.shape)}, expected at least 2")
    centred = []
    for name, given in (("scores", scores), ("target", target)):
        values = given.detach().double()
        finite = torch.isfinite(values)
        if not bool(finite.all()):
            where = tuple((~finite).nonzero()[0].tolist())
            raise ValueError(f"Spearman is undefined: {name} hold {values[where].item()} at {where}, expected numbers")
        equal = (values == values[..., :1]).all(-1)
        if bool(equal.any()):
            where = tuple(equal.nonzero()[0].tolist())
            raise ValueError(
                f"Spearman is undefined: {name} are all {values[where][0].item()}{f' at {where}' if where else ''}, "
                "expected at least two different ones"
            )
        centred.append(ranks(values) - (length + 1) / 2)
    first, second = centred
    norms = (first.square().sum(-1) * second.square().sum(-1)).sqrt()
    return ((first * second).sum(-1) / norms).clamp(-1.0, 1.0)
