"""Apply a project's own metrics (`own/metrics`) to the predictions of a task."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad import lookup

__all__ = ["RESAMPLES", "Lists", "judging", "of_lists", "over_rows", "takes", "within_rows"]

RESAMPLES = 64  # computed in one call


@dataclass(frozen=True)
class Lists:
    """Predictions and their truth in the form of metrics, with lists along the last dimension.

    Attributes:
        scores, truth: (n, d).
        mask: (n, d), False where there is no score; None if there are no gaps.
        rows: the number of the row of predictions of each list (n,); None if each list covers all d rows.
        counts: whether each list has something to compare (n,); None if all have.
    """

    scores: Tensor
    truth: Tensor
    mask: Tensor | None = None
    rows: Tensor | None = None
    counts: Tensor | None = None


def takes(folder: str, name: str) -> list[str]:
    """Return the argument names of a component, such as one in `own/`."""
    return list(inspect.signature(lookup.find(folder, name, where=f"{folder}.{name}")).parameters)


def judging(truth: str | None) -> dict[str, bool]:
    """Return the project's own metrics with this second argument by name, and whether lower is better.

    A file sets the latter by `lower_is_better = True`.
    """
    names = {}
    for name in lookup.own_files("metrics"):
        if takes("metrics", name)[1:2] == [truth]:
            names[name] = bool(getattr(lookup.module("metrics", name), "lower_is_better", False))
    return names


def of_lists(name: str, lists: Lists, weights: Tensor | None = None) -> Tensor:
    """Return the value of a project's own metric for each list, float64.

    Args:
        name: the name of the metric.
        lists: (n, d).
        weights: the weight of each score, or None.

    Raises:
        ValueError: the data have a mask or weights but the metric has no such argument, or it does not return one
            number per list.
    """
    options: dict[str, Tensor] = {}
    if lists.mask is not None and not bool(lists.mask.all()):
        options["mask"] = lists.mask
    if weights is not None:
        options["weights"] = weights
    file, parameters = lookup.own_file("metrics", name), takes("metrics", name)
    for option in options:
        if option not in parameters:
            raise ValueError(f"{file}: {name} has no argument {option}, which this dataset needs: add it")
    values: Any = lookup.find("metrics", name)(lists.scores, lists.truth, **options)
    returned, expected = getattr(values, "shape", type(values).__name__), lists.scores.shape[:-1]
    if returned != expected:
        raise ValueError(f"{file}: {name} returns {returned}, expected one number per list, {expected}")
    return values.double()


def over_rows(name: str, lists: Lists, weight: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return the mean of a metric over lists that cover all rows, as a function of row numbers."""

    def of_rows(rows: np.ndarray) -> np.ndarray:
        means = []
        for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1])).split(RESAMPLES):
            # A metric may require the shape (lists, d): the lists of all resamples follow one another.
            scores, truth = lists.scores[:, chosen].flatten(0, 1), lists.truth[:, chosen].flatten(0, 1)
            mask = None if lists.mask is None else lists.mask[:, chosen].flatten(0, 1)
            weights = None if weight is None else torch.from_numpy(weight)[chosen].repeat(len(lists.scores), 1)
            values = of_lists(name, Lists(scores, truth, mask), weights)
            means.append(values.unflatten(0, (len(lists.scores), len(chosen))).nanmean(0))
        return torch.cat(means).numpy().reshape(rows.shape[:-1])

    return of_rows


def within_rows(name: str, parts: Iterable[Lists], rows: int) -> np.ndarray:
    """Return a metric of lists that belong to one row each (rows,); NaN for rows with nothing to compare."""
    values = torch.full((rows,), torch.nan, dtype=torch.float64)
    for lists in parts:
        of_part = of_lists(name, lists)
        values[lists.rows] = of_part if lists.counts is None else of_part.where(lists.counts, torch.nan)
    return values.numpy()
