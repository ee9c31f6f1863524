"""Check the arguments of losses and metrics: groups of scores, masks, and weights."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rankgrad.checks import (
    check_finite_scores,
    check_floating,
    check_group_size,
    check_label_ranks,
    check_labels,
    check_mask,
    check_positives,
    check_real,
    check_scores,
    check_shapes,
    check_target,
    check_tensors,
    check_values,
    signed,
)
from rankgrad.ranks import places

__all__ = ["Groups", "among_first", "comparable", "groups", "ordinal", "relative_weights", "within"]


def relative_weights(
    scores: Tensor, mask: Tensor | None, weights: Tensor | None, *, check_finite: bool = True
) -> Tensor:
    """Return the weight of each score relative to the largest.

    Args:
        scores: any shape.
        mask: a checked mask, False where there is no score; None if no score is missing.
        weights: of the scores' shape, finite and not negative; None for equal weights.
        check_finite: read the weights.

    Returns:
        Relative weights of the scores' shape, float32 or float64; 0 where the mask is False.

    Raises:
        TypeError, ValueError: weights have the wrong shape or type, or are negative or infinite.

    >>> relative_weights(torch.zeros(3), torch.tensor([True, True, False]), torch.tensor([0.5, 2.0, 3.0]))
    tensor([0.2500, 1.0000, 0.0000])
    """
    kind = torch.promote_types(scores.dtype, torch.float32)
    if weights is None:
        return torch.ones_like(scores, dtype=kind) if mask is None else mask.to(kind)
    check_floating(weights=weights)
    check_shapes("(..., d)", dims=0, empty=True, weights=weights, scores=scores)
    # Keep their type until they are proportions, because float64 has a larger range than float32.
    kept = weights.to(torch.promote_types(weights.dtype, kind))
    kept = kept if mask is None else kept.masked_fill(~mask, 0.0)
    if check_finite:
        check_values("weights", weights, ~(torch.isfinite(kept) & (kept >= 0)), "a finite number of at least 0")
    # Only proportions matter, and sums of very large or very small weights would overflow or vanish.
    largest = kept.amax() if kept.numel() else kept.sum()
    return (kept / largest.where(largest > 0, 1.0)).to(kind)


def within(weight: Tensor) -> Tensor:
    """Return weights (..., d) relative to the largest of their group, so that their products do not vanish.

    >>> within(torch.tensor([[0.25, 0.5], [0.0, 0.0]]))
    tensor([[0.5000, 1.0000],
            [0.0000, 0.0000]])
    """
    heaviest = weight.amax(-1, keepdim=True)
    return weight / heaviest.where(heaviest > 0, 1.0)


def ordinal(values: Tensor) -> Tensor:
    """Return numbers that float64 can represent, in the same order within each group as values (..., d) of any type.

    A 64-bit integer, such as a timestamp in nanoseconds, becomes the number of smaller values; others do not change.

    >>> ordinal(2**53 + torch.tensor([1, 0, 1, 2]))
    tensor([1, 0, 1, 3])
    """
    return values.shape[-1] - places(values)[1] if values.dtype in (torch.int64, torch.uint64) else values


def _ordinal_along(values: Tensor, dim: int, mask: Tensor | None) -> Tensor:
    values = values if mask is None else values.where(mask, 0)
    return ordinal(values.movedim(dim, -1)).movedim(-1, dim)


def comparable(
    metric: str, scores: Tensor, target: Tensor, mask: Tensor | None, weights: Tensor | None, dim: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return weights, scores, and targets for a rank correlation, and for which groups it is defined.

    Args:
        metric: name of the metric, for errors.
        scores, target: tensors of the same shape.
        mask, weights: of that shape, or None.
        dim: the dimension of a group, with n items.

    Returns:
        Weights; scores and target (..., n) as float64 in the same order; and (...) whether each group has two
        different scores and two different targets.

    Raises:
        TypeError: scores or weights are not floating point, the target is complex, or the mask is not boolean.
        ValueError: shapes differ, a value is not finite, or weights are negative.

    >>> comparable("Spearman", torch.tensor([[1.0, 1.0], [3.0, 2.0]]), torch.eye(2), None, None, -1)[-1]
    tensor([False,  True])
    """
    check_scores(scores, dim=dim, finite=False)
    check_real(target=target)
    check_shapes("(..., n)", empty=True, scores=scores, target=target)
    if mask is not None:
        check_mask(scores, mask)
    weight = relative_weights(scores.double(), mask, weights).detach().movedim(dim, -1)
    counts = weight > 0
    defined = counts.sum(-1) >= 2
    compared = []
    for name, values in (("scores", scores), ("target", target)):
        # An item with weight 0 still has a rank, so its values must be finite; a masked item has none.
        wrong = ~torch.isfinite(values) & (True if mask is None else mask)
        check_values(name, values, wrong, f"a finite number: {metric} is undefined")
        values = _ordinal_along(values.detach(), dim, mask).movedim(dim, -1).double()
        largest = values.masked_fill(~counts, -torch.inf).amax(-1)
        defined = defined & (largest != values.masked_fill(~counts, torch.inf).amin(-1))
        compared.append(values)
    return weight, compared[0], compared[1], defined


@dataclass(frozen=True)
class Groups:
    """The checked inputs of a loss or a metric, with each group along the last dimension.

    Attributes:
        scores: (..., d), float32 or float64, 0 where the mask is False.
        truth: (..., d); floating point for `target`, boolean for `labels` and `positives`; for `label_ranks` the type
            that was passed, or signed integers. 0 or False where the mask is False.
        weight: (..., d), of the scores' type: weight of each score, 0 where the mask is False; the largest is 1.
        exists: (..., d) boolean, True where the mask is True; all True without a mask.
        mask: (..., d) boolean, or None: the mask for a sorter.
        finite: whether scores and truth are known to be finite.
        group_weights: (...), weight of each group in a mean over groups, as passed; None for equal weights.
    """

    scores: Tensor
    truth: Tensor
    weight: Tensor
    exists: Tensor
    mask: Tensor | None
    finite: bool
    group_weights: Tensor | None = None


def groups(
    scores: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    check_finite: bool = True,
    least: int = 1,
    between_0_and_1: bool = False,
    order: bool = False,
    exact: bool = False,
    **truth: Tensor,
) -> Groups:
    """Check the arguments of a loss or a metric, and move its groups to the last dimension.

    Args:
        scores: any shape.
        dim: the dimension of a group.
        mask: boolean, of the scores' shape, False where there is no score; values are ignored there.
        weights: of the scores' shape, finite and not negative: weight of each score.
        group_weights: of the groups' shape: weight of each group in a mean over groups; a loss checks the values.
        check_finite: read values, and raise for scores that are not finite, invalid targets, and invalid weights. This
            waits for the device. Without it, and always under `torch.compile` and `torch.func.vmap`, where values
            cannot be read, the loss of such values is undefined, usually NaN.
        least: the smallest allowed group; with a mask, smaller groups are ignored instead.
        between_0_and_1: whether targets must be in [0, 1].
        order: whether only the order of targets and label ranks matters, not their magnitude, see `ordinal`.
        exact: whether it is for a metric: compute in float64 and without gradient, whatever the types.
        truth: of the scores' shape, by the name of its type: `target` (any numbers), `labels` (0 and 1), `label_ranks`
            (0 = absent, larger = more important), or `positives` (0 and 1, (..., n, m)). For `positives`, rows and
            columns are searched: groups are (..., 2, d, d), the matrix and its transpose, with d the larger of n and
            m, and a mask for missing entries.

    Raises:
        TypeError: scores are not floating point, the mask is not boolean, or an argument is not a tensor.
        ValueError: shapes differ, a group is empty or too small, a target requires a gradient, a value is invalid (see
            above), or an integer target is beyond 2^53 and its magnitude matters.

    >>> given = groups(torch.zeros(3, 2), dim=0, target=torch.ones(3, 2, dtype=torch.int64))
    >>> given.scores.shape, given.truth.dtype
    (torch.Size([2, 3]), torch.float64)
    """
    ((kind, values),) = truth.items()
    check_scores(scores, dim=dim, finite=False)
    check_tensors(**truth)
    if group_weights is not None:
        check_tensors(group_weights=group_weights)
    if exact:
        scores, values = scores.detach().double(), values.detach()
    values = _checked(
        kind, scores, values, dim, mask, order=order, between_0_and_1=between_0_and_1, check_finite=check_finite
    )
    if mask is None:
        check_group_size(scores, dim=dim, least=least)
    finite = check_finite and check_finite_scores(scores, mask)
    weight = relative_weights(scores, mask, weights, check_finite=check_finite)
    weight = weight.detach() if exact else weight
    scores = scores.to(weight.dtype)
    if mask is not None:
        scores, values = scores.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0)
    exists = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    if kind == "positives":
        mask = exists if scores.shape[-1] != scores.shape[-2] else mask
        scores, values, weight, exists = map(_both_ways, (scores, values, weight, exists))
    else:
        scores, values, weight, exists = (tensor.movedim(dim, -1) for tensor in (scores, values, weight, exists))
    mask = None if mask is None else exists
    return Groups(scores, values, weight, exists, mask=mask, finite=finite, group_weights=group_weights)


def _checked(
    kind: str, scores: Tensor, values: Tensor, dim: int, mask: Tensor | None, *, order: bool, between_0_and_1: bool,
    check_finite: bool,
) -> Tensor:  # fmt: skip
    """Return targets in a type whose values can be compared."""
    if kind == "target":
        check_target(scores, values, between_0_and_1=between_0_and_1, mask=mask, check_finite=check_finite)
        if order:
            values = _ordinal_along(values, dim, mask)
        elif check_finite and values.dtype in (torch.int64, torch.uint64):
            rounded = (values.double().abs() >= 2**53) & (True if mask is None else mask)
            check_values("target", values, rounded, "an integer below 2^53, the limit of float64: subtract the "
                         "smallest target")  # fmt: skip
        return values if values.is_floating_point() else values.double()  # float32 represents integers only up to 2^24
    if kind == "label_ranks":
        check_label_ranks(scores, values, mask=mask, check_finite=check_finite)
        values = signed(values)
        return _ordinal_along(values, dim, mask) if order else values
    check = check_labels if kind == "labels" else check_positives
    check(scores, values, mask=mask, check_finite=check_finite)
    return values.bool()


def _both_ways(matrix: Tensor) -> Tensor:
    """Return matrices (..., n, m) and their transposes, (..., 2, d, d), padded with 0 to the larger size d."""
    n, m = matrix.shape[-2:]
    square = matrix if n == m else pad(matrix, (0, max(0, n - m), 0, max(0, m - n)))
    return torch.stack([square, square.mT], -3)


def among_first(batch: Groups, k: int) -> Tensor:
    """Return the fraction of each score (..., d) that is among the first k, float64; tied scores share places.

    >>> among_first(groups(torch.tensor([0.9, 0.5, 0.5, 0.1]), labels=torch.ones(4)), 2)
    tensor([1.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    above, up_to = places(batch.scores, batch.mask)
    return ((k - above).clamp(min=0).double() / (up_to - above).clamp(min=1)).clamp(max=1.0)
