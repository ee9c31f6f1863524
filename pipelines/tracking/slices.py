"""How good a model is on parts of its test split: by class, by number of labels, and by columns of the data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankgrad import lookup
from rankgrad.evaluation import Statistic, by_fold, by_group, evaluate
from rankgrad.io.parquet import FOLD, columns_of, read_table, said

__all__ = ["Slice", "slices", "statistics"]

FEWEST = 30  # rows of a slice
VALUES = 6  # of a column whose values are slices; a number with more is cut into thirds
RESAMPLES = 100  # rough, and in time: a version has a dozen slices
NO_SLICES = {"id", "group", "family", "gallery", "weight", FOLD}


@dataclass(frozen=True)
class Slice:
    """A part of a test split, with the judged metric on it and the 95 % interval over examples."""

    metric: str
    name: str  # such as `class: cat` or `zoom: 0.9 to 1.1`
    rows: int
    value: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float, float]:
        return self.value, self.low, self.high


def slices(task: str, metric: str, predictions: Path, test: Path, *, seed: int) -> list[Slice]:
    """Return the slices of a test split, the lowest value first; last those on which the metric is not defined.

    Args:
        task: name.
        metric: of the task.
        predictions: of a run, on the rows of `test`, of all its seeds.
        test: the split; its columns of one number or word a row make slices, but for the truth.
        seed: of the training whose predictions count.
    """
    table = read_table(predictions, columns_of(predictions))
    table, found = table.filter(pa.array(table["seed"].to_numpy() == seed)), []
    for name, (rows, part) in statistics(lookup.find("tasks", task)(), metric, table, test).items():
        row = evaluate(name, {seed: part}, resamples=RESAMPLES, seed=1)[0]
        found.append(Slice(metric, name, rows, *row.interval))
    return sorted(found, key=lambda one: (math.isnan(one.value), one.value))


def statistics(judge: Any, metric: str, predictions: pa.Table, split: Path) -> dict[str, tuple[int, Statistic]]:
    """Return how many rows each slice has, and the metric as a function of which of them count, or groups of them.

    Slices of fewer than 30 rows, or of one group, are none.

    Args:
        judge: the task.
        metric: of the task.
        predictions: of one model, on rows of the split.
        split: see `slices`.
    """
    whole, group = by_fold(judge.scored, predictions), judge.group_of(predictions)
    found, place = {}, whole.names.index(metric)
    for name, rows in _parts(judge, predictions["id"].to_pylist(), split):
        part = Statistic([metric], len(rows), lambda own, rows=rows: whole.of_rows(rows[own])[[place]])
        part = part if group is None else by_group(part, group[rows])
        if len(rows) >= FEWEST and part.examples > 1:
            # A column may be called as the classes are, or have numbers that look alike.
            while name in found:
                name += "'"
            found[name] = len(rows), part
    return found


def _parts(judge: Any, ids: list[Any], test: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the row numbers, in the order of `ids`, of each slice."""
    truth = set(judge.reads.truth) | set(judge.reads.optional)
    schema = pq.read_schema(test)
    lists = [name for name in ("label_ranks", "labels") if name in truth and name in schema.names]
    columns = [one.name for one in schema if one.name not in truth | NO_SLICES and _is_scalar(one.type)]
    table = read_table(test, ["id", *lists, *columns])
    order = {own: number for number, own in enumerate(table["id"].to_pylist())}
    table = table.take(pa.array([order[own] for own in ids]))
    for name in lists:
        present = np.stack(table[name].to_numpy()) > 0
        classes = said(test, "classes") or range(present.shape[1])
        for label, own in zip(classes, present.T, strict=True):
            yield f"class: {label}", np.flatnonzero(own)
        yield from _by_value("labels", present.sum(1))
    for name in columns:
        yield from _by_value(name, table[name].to_numpy(zero_copy_only=False))


def _is_scalar(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return is_number or pa.types.is_boolean(kind) or pa.types.is_string(kind)


def _by_value(name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    known = np.unique(values[~_missing(values)])
    if len(known) <= VALUES:
        for value in known if len(known) > 1 else []:
            yield f"{name}: {value}", np.flatnonzero(values == value)
    elif values.dtype.kind in "iuf":
        for low, high in pairwise(np.quantile(known, [0, 1 / 3, 2 / 3, 1])):
            yield f"{name}: {low:.3g} to {high:.3g}", np.flatnonzero((values >= low) & (values <= high))


def _missing(values: np.ndarray) -> np.ndarray:
    return np.isnan(values) if values.dtype.kind == "f" else np.array([value is None for value in values])
