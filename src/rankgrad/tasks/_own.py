"""Metrics of a project's own, `own/metrics`, on the predictions of a task."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad import lookup

__all__ = ["Lists", "judging", "of_lists", "over_rows", "takes", "within_rows"]

RESAMPLES = 64  # measured at once


@dataclass(frozen=True)
class Lists:
    """Predictions as metrics compare them with a truth, along the last dimension.

    Attributes:
        scores, truth: (n, d).
        mask: (n, d), False where there is no score; None where all are there.
        rows: of which row of the predictions each list is (n,); None if each list runs over all rows, d of them.
        counts: which lists have anything to measure (n,); None for all.
    """

    scores: Tensor
    truth: Tensor
    mask: Tensor | None = None
    rows: Tensor | None = None
    counts: Tensor | None = None


def takes(folder: str, name: str) -> list[str]:
    """Return the names of the arguments of a component of the project's own."""
    return list(inspect.signature(lookup.find(folder, name, where=f"{folder}.{name}")).parameters)


def judging(truth: str | None) -> dict[str, bool]:
    """Return the names of the project's own metrics whose second argument is this truth, and whether lower is better.

    A file says the latter by `lower_is_better = True`.
    """
    names = {}
    for name in lookup.own_files("metrics"):
        if takes("metrics", name)[1:2] == [truth]:
            names[name] = bool(getattr(lookup.module("metrics", name), "lower_is_better", False))
    return names


def of_lists(name: str, lists: Lists, weights: Tensor | None = None) -> Tensor:
    """Return a metric of the project's own of each list, float64.

    Args:
        name: of the metric.
        lists: (n, d).
        weights: how much each score counts, or None.

    Raises:
        ValueError: it does not take a mask or weights where there are some, or does not return one number per list.
    """
    options: dict[str, Tensor] = {}
    if lists.mask is not None and not bool(lists.mask.all()):
        options["mask"] = lists.mask
    if weights is not None:
        options["weights"] = weights
    file, parameters = lookup.own_file("metrics", name), takes("metrics", name)
    for option in options:
        if option not in parameters:
            raise ValueError(f"{file}: {name} takes no {option}, which these data have; give it the argument {option}")
    values: Any = lookup.find("metrics", name)(lists.scores, lists.truth, **options)
    returned, expected = getattr(values, "shape", type(values).__name__), lists.scores.shape[:-1]
    if returned != expected:
        raise ValueError(f"{file}: {name} returns {returned}, expected one number per list, {expected}")
    return values.double()


def over_rows(name: str, lists: Lists, weight: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return a metric of lists that run over all rows, as a function of which rows count: its mean over the lists."""

    def of_rows(rows: np.ndarray) -> np.ndarray:
        means = []
        for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1])).split(RESAMPLES):
            # As (lists, d), which a metric may not do without: those of all resamples one after another.
            scores, truth = lists.scores[:, chosen].flatten(0, 1), lists.truth[:, chosen].flatten(0, 1)
            mask = None if lists.mask is None else lists.mask[:, chosen].flatten(0, 1)
            weights = None if weight is None else torch.from_numpy(weight)[chosen].repeat(len(lists.scores), 1)
            values = of_lists(name, Lists(scores, truth, mask), weights)
            means.append(values.unflatten(0, (len(lists.scores), len(chosen))).nanmean(0))
        return torch.cat(means).numpy().reshape(rows.shape[:-1])

    return of_rows


def within_rows(name: str, parts: Iterable[Lists], rows: int) -> np.ndarray:
    """Return a metric of lists that are of one row each (rows,); NaN of rows that have nothing to measure."""
    values = torch.full((rows,), torch.nan, dtype=torch.float64)
    for lists in parts:
        of_part = of_lists(name, lists)
        values[lists.rows] = of_part if lists.counts is None else of_part.where(lists.counts, torch.nan)
    return values.numpy()
