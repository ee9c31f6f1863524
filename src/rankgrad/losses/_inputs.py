"""Code that all losses share: ranks from a sorter, and the reduction over groups."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.checks import check_choice, check_instance, check_real, check_values, value_of
from rankgrad.groups import Groups, groups, within
from rankgrad.losses._functions import check_ranking, name_of
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Sorter

__all__ = [
    "AnySorter",
    "Groups",
    "Reduction",
    "check_weights_of_pairs",
    "groups",
    "is_ordered",
    "pointwise",
    "rank_distance",
    "reduced",
    "soft_ranks",
    "triplets",
    "within",
]

Reduction = Literal["mean", "sum", "none"]
# None for Laplace(softness=0.2), the name of a sorter that needs no training, a `Sorter`, or any differentiable
# function from scores (..., d) to ranks (..., d), 1 for the largest, that also takes `mask` if one is passed, see
# `check_ranking`.
AnySorter = Callable[..., Tensor] | str | None


LONG = 1000  # largest group for which float32 ranks are precise to about 1e-4 positions


def soft_ranks(batch: Groups, sorter: AnySorter, *, mask: Tensor | None = None, differences: bool = False) -> Tensor:
    """Rank each group with a sorter.

    Args:
        batch: the groups.
        sorter: see `AnySorter`. It receives a mask only if there is one, so any function of scores is allowed; its
            ranks are ignored where the mask is False.
        mask: (..., d) boolean, replaces the groups' own mask in order to rank only part of each group.
        differences: whether differences of neighboring ranks matter. If so, this package's sorters rank long groups in
            float64; others do not, because their weights may not support it.

    Raises:
        TypeError: the sorter is a class, its ranks are not a floating-point tensor, or it takes no mask although there
            is one.
        ValueError: the name is unknown, the function has no gradient or does not give rank 1 to the largest score, the
            sorter rejects its input, or ranks have the wrong shape or are not finite.

    >>> soft_ranks(groups(torch.tensor([0.1, 0.9]), target=torch.ones(2)), torch.nn.ReLU)
    Traceback (most recent call last):
    ...
    TypeError: sorter is the class ReLU, expected a sorter: pass an instance, ReLU(...)
    >>> soft_ranks(groups(torch.tensor([0.1, 0.9]), target=torch.ones(2)), "laplase")
    Traceback (most recent call last):
    ...
    ValueError: sorter is 'laplase', expected a sorter or the name of one: cnn, ...; did you mean laplace?
    """
    chosen = _sorter(sorter, batch.scores.device)
    mask = batch.mask if mask is None else mask
    options: dict[str, Any] = {} if mask is None else {"mask": mask}
    if isinstance(chosen, Sorter) and not batch.finite:
        options["check_finite"] = False
    check_ranking(chosen, batch.scores, masked=mask is not None)
    ours = type(chosen).__module__.startswith("rankgrad.sorters.")
    precise = differences and ours and batch.scores.shape[-1] > LONG
    result = chosen(batch.scores.double() if precise else batch.scores, **options)
    name = name_of(chosen)
    _check_ranks(result, batch.scores, name)
    if isinstance(chosen, Sorter):  # its ranks are 0 where the mask is False
        return result
    result = result if mask is None else result.masked_fill(~mask, 0.0)
    if batch.finite:
        check_values(f"sorter is {name}, whose rank", result, ~torch.isfinite(result), "a finite number")
    return result


def _check_ranks(result: Any, scores: Tensor, name: str) -> None:
    if not torch.is_tensor(result) or not result.is_floating_point():
        kind = result.dtype if torch.is_tensor(result) else type(result).__name__
        raise TypeError(f"sorter is {name}, whose ranks are {kind}, expected a floating-point tensor")
    if result.shape != scores.shape:
        raise ValueError(
            f"sorter is {name}, whose ranks have shape {tuple(result.shape)}, expected the shape of its scores, "
            f"{tuple(scores.shape)}"
        )
    if torch.is_grad_enabled() and scores.requires_grad and not result.requires_grad:
        raise ValueError(f"sorter is {name}, whose ranks have no gradient: {_INSTEAD}")


_INSTEAD = "use StraightThrough() for exact ranks with a gradient, or rankgrad.metrics to measure"


def _sorter(sorter: AnySorter, device: torch.device) -> Callable[..., Tensor]:
    if sorter is None or isinstance(sorter, str):
        return _named("laplace" if sorter is None else sorter, device)
    check_instance("sorter", sorter)
    if sorter is exact_ranks:
        raise ValueError(f"sorter is the function exact_ranks, which has no gradient: {_INSTEAD}")
    if not callable(sorter):
        raise TypeError(f"sorter is a {type(sorter).__name__}, expected a sorter, such as Laplace(), or its name")
    return sorter


# Loaded sorters, by name and device; `torch.compile` can read from a dictionary.
_LOADED: dict[tuple[str, str], Callable[..., Tensor]] = {}


def _named(name: str, device: torch.device) -> Callable[..., Tensor]:
    if (name, str(device)) not in _LOADED:
        _load(name, device)
    return _LOADED[name, str(device)]


def _load(name: str, device: torch.device) -> None:
    if torch.compiler.is_compiling():
        raise RuntimeError(
            "a sorter cannot be loaded by name during compilation: call the loss once first, or pass a sorter"
        )
    from rankgrad.sorters import load_sorter  # only needed for names: it reads weights

    names = lookup.choices("sorters")
    if name not in names:
        raise ValueError(
            f"sorter is {name!r}, expected a sorter or the name of one: {', '.join(names)}"
            f"{lookup.did_you_mean(name, names) or '; load a folder or an address with load_sorter'}"
        )
    _LOADED[name, str(device)] = load_sorter(name, device=device)


def check_weights_of_pairs(batch: Groups, weights: Tensor | None) -> None:
    """Raise if weights belong to whole pairs of scores, such as preferences, because they would have no effect.

    Args:
        batch: the groups. Only groups of two are checked, and only if values can be read.
        weights: the weights passed to the loss, or None.

    Raises:
        ValueError: both scores of each group have the same weight, but groups have different weights.

    >>> weights = torch.tensor([[1.0, 1.0], [9.0, 9.0]])
    >>> check_weights_of_pairs(groups(torch.zeros(2, 2), target=torch.eye(2), weights=weights), weights)
    Traceback (most recent call last):
    ...
    ValueError: weights are equal within each group of two and differ between groups, expected weights within groups:
    to weight whole groups, pass group_weights=weights.select(dim, 0)
    """
    if weights is None or not batch.finite or batch.weight.shape[-1] != 2:
        return
    first, second = batch.weight[batch.exists.all(-1)].unbind(-1)
    if first.numel() and value_of((first == second).all() & (first != first[0]).any()):
        raise ValueError(
            "weights are equal within each group of two and differ between groups, expected weights within groups: to "
            "weight whole groups, pass group_weights=weights.select(dim, 0)"
        )


def reduced(batch: Groups, values: Tensor, reduction: Reduction, *, counts: Tensor | None = None) -> Tensor:
    """Reduce one value per group. Every loss ends with this function.

    Args:
        batch: the groups. Groups without any weight, such as fully masked ones, are ignored.
        values: (...).
        reduction: `mean` over groups, weighted by `group_weights`, `sum`, or `none` for the values. The value of an
            ignored group is 0 without gradient; so is the mean if all groups are ignored.
        counts: (...), boolean, False for more groups to ignore, or numbers, the weight of each group in the mean; None
            for equal weights.

    Raises:
        TypeError: `reduction` is a tensor.
        ValueError: `reduction` is unknown; or `group_weights` are passed without `mean`, have the wrong shape, are
            negative, or are not finite.

    >>> mask = torch.tensor([[True], [True], [False]])
    >>> given, values = groups(torch.zeros(3, 1), labels=mask, mask=mask), torch.tensor([1.0, 2.0, torch.nan])
    >>> reduced(given, values, "mean"), reduced(given, values, "none")
    (tensor(1.5000), tensor([1., 2., 0.]))
    >>> weighed = groups(torch.zeros(3, 1), labels=mask, mask=mask, group_weights=torch.tensor([3.0, 1.0, 1.0]))
    >>> reduced(weighed, values, "mean")
    tensor(1.2500)
    """
    present = batch.weight.amax(-1) != 0  # unchecked NaN weights are not ignored, so that they show in the result
    counts = present if counts is None else counts * present
    values = values.where(counts > 0, 0.0)
    if (of_groups := _of_groups(batch, values, reduction)) is not None:
        return _mean(values, _relative(counts * of_groups))
    return values if reduction == "none" else values.sum() if reduction == "sum" else _mean(values, counts)


def _of_groups(batch: Groups, values: Tensor, reduction: Reduction) -> Tensor | None:
    """Check the reduction, and return the weight of each group in the mean; None for equal weights."""
    if torch.is_tensor(reduction):
        raise TypeError(
            "reduction is a tensor, expected 'mean' or 'sum' or 'none': pass weights of groups as group_weights"
        )
    check_choice("reduction", reduction, Reduction)
    weight = batch.group_weights
    if weight is None:
        return None
    check_real(group_weights=weight)
    if reduction != "mean":
        raise ValueError(f"reduction is {reduction!r}, expected 'mean', because group_weights are weights in the mean")
    if weight.shape != values.shape:
        raise ValueError(
            f"group_weights has shape {tuple(weight.shape)}, expected {tuple(values.shape)}, one weight per group"
        )
    weight = weight.to(values.device, torch.float64)
    if batch.finite:
        check_values("group_weights", weight, ~((weight >= 0) & weight.isfinite()), "0 or a finite number above")
    return weight


def _relative(weight: Tensor) -> Tensor:
    """Return weights relative to the largest, because sums of very large or small weights would overflow or vanish."""
    largest = weight.detach().amax() if weight.numel() else weight.sum()
    return weight / largest.where(largest > 0, 1.0)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    share = weight.to(values.dtype)
    total = share.sum()
    return (values * share).sum() / total.where(total > 0, 1.0)


def is_ordered(target: Tensor, weight: Tensor) -> Tensor:
    """Return whether each group (...) has at least two different targets (..., d) with nonzero weight.

    >>> is_ordered(torch.tensor([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0]]), torch.tensor([1.0, 1.0, 0.0]))
    tensor([ True, False])
    """
    counts = weight > 0
    largest = target.masked_fill(~counts, -torch.inf).amax(-1)
    return largest > target.masked_fill(~counts, torch.inf).amin(-1)


def rank_distance(batch: Groups, sorter: AnySorter, reduction: Reduction) -> Tensor:
    r"""Return $\frac{6}{d (d^2 - 1)} \|f(y) - \mathrm{rk}(y^*)\|^2$ of each group that has an order, reduced."""
    soft = soft_ranks(batch, sorter)
    # In float64, because half precision cannot represent every rank.
    target = batch.truth.double()
    true = exact_ranks(target, mask=batch.mask, check_finite=batch.finite).to(soft.dtype)
    length = batch.exists.sum(-1).clamp(min=2)
    total = batch.weight.sum(-1)
    errors = ((soft - true).square() * batch.weight).sum(-1) / total.where(total > 0, 1.0)
    return reduced(batch, errors * 6 / (length**2 - 1), reduction, counts=is_ordered(target, batch.weight))


def pointwise(batch: Groups, errors: Tensor, reduction: Reduction) -> Tensor:
    """Reduce an error (..., d) of each score; the mean is over all scores, not over groups."""
    errors = errors.where(batch.weight != 0, 0.0)  # 0 times infinity is NaN
    if (of_groups := _of_groups(batch, errors[..., 0], reduction)) is not None:
        return _mean(errors, _relative(batch.weight * of_groups.unsqueeze(-1)))
    if reduction == "mean":
        return _mean(errors, batch.weight)
    total = batch.weight.sum(-1)
    return reduced(batch, (errors * batch.weight).sum(-1) / total.where(total > 0, 1.0), reduction)


def triplets(
    batch: Groups,
    values: Tensor,
    violation: Callable[[Tensor, Tensor], Tensor],
    *,
    hardest: bool,
    reduction: Reduction,
) -> Tensor:
    """Reduce the margin violations of negatives in the rows of positives: a mean over all positives.

    Args:
        batch: groups of `positives`.
        values: (..., d), their scores or ranks.
        violation: maps the values of positives (p, 1) and of their whole rows (p, d) to (p, d), positive where a
            negative violates the margin.
        hardest: use only the worst negative; otherwise the mean over negatives.
    """
    positions = batch.truth.nonzero(as_tuple=True)  # one entry per positive: p in total
    rivals = (batch.exists & ~batch.truth)[positions[:-1]]  # (p, d), the negatives of its row
    violations = violation(values[positions].unsqueeze(-1), values[positions[:-1]]).relu().masked_fill(~rivals, 0.0)
    each = violations.amax(-1) if hardest else violations.sum(-1) / rivals.sum(-1).clamp(min=1)
    share = (batch.weight[positions] * rivals.any(-1)).to(each.dtype)
    nothing = torch.zeros_like(values)
    total = nothing.index_put(positions, share).sum(-1)
    means = nothing.index_put(positions, each * share).sum(-1) / total.where(total > 0, 1.0)
    return reduced(batch, means, reduction, counts=total)
