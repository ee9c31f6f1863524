"""Measure a model on slices of its test split: by class, by number of labels, and by columns of the data."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad import lookup
from rankgrad.datasets.tables.roles import SLICE
from rankgrad.evaluation import Statistic, evaluate
from rankgrad.io.parquet import FOLD, columns_of, is_number, parquet_file, read_table, said

__all__ = ["Slice", "slices", "statistics"]

FEWEST = 30  # fewest rows of a slice
MOST = 30  # most values of a column that the user names for slices
VALUES = 6  # most values of a column for one slice per value; numbers with more values are cut into thirds
RESAMPLES = 100  # few, to save time: a version has a dozen slices
NO_SLICES = {"id", "group", "within", "family", "gallery", "weight", FOLD}


@dataclass(frozen=True)
class Slice:
    """A slice of a test split, with the main metric on it and the 95% interval over examples."""

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
    """Return the slices of a test split, the worst value first, and slices with an undefined metric last.

    Args:
        task: the name of the task.
        metric: a metric of the task.
        predictions: a run's predictions for the rows of `test`, by all its seeds.
        test: the split; columns with one number or word per row make slices, except the targets.
        seed: the seed whose predictions are used.
    """
    table = read_table(predictions, columns_of(predictions))
    table, measured = table.filter(pa.array(table["seed"].to_numpy() == seed)), []
    judge = lookup.find("tasks", task)()
    sign = -1 if judge.metric_named(metric).lower_is_better else 1
    for name, (rows, statistic) in statistics(judge, metric, table, test).items():
        row = evaluate(name, {seed: statistic}, resamples=RESAMPLES, seed=1)[0]
        measured.append(Slice(metric, name, rows, *row.interval))
    return sorted(measured, key=lambda part: (math.isnan(part.value), sign * part.value))


def statistics(judge: Any, metric: str, predictions: pa.Table, split: Path) -> dict[str, tuple[int, Statistic]]:
    """Return the number of rows of each slice, and its metric as a `Statistic` over rows or groups.

    Slices with fewer than 30 rows, or with one group, are left out.

    Args:
        judge: the task.
        metric: a metric of the task.
        predictions: one model's predictions for rows of the split.
        split: see `slices`.
    """
    measured, of_slice = {}, judge.of_slices(predictions)
    for name, rows in _slices(judge, predictions["id"].to_pylist(), split):
        statistic = _only(metric, of_slice(rows))
        if len(rows) >= FEWEST and statistic.examples > 1:
            # Two slices may get the same name: a column may be called `class`, or its numbers may print the same.
            while name in measured:
                name += "'"
            measured[name] = len(rows), statistic
    return measured


def _only(metric: str, statistic: Statistic) -> Statistic:
    column = statistic.names.index(metric)
    return replace(statistic, names=[metric], of_rows=lambda rows: statistic.of_rows(rows)[[column]])


def _slices(judge: Any, ids: list[Any], split: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each slice and its row numbers, in the order of `ids`."""
    targets = {*judge.reads.truth, *judge.reads.optional}
    with parquet_file(split) as file:
        schema = file.schema_arrow
    lists = [name for name in ("label_ranks", "labels") if name in targets and name in schema.names]
    columns = [field.name for field in schema if field.name not in targets | NO_SLICES and _is_scalar(field.type)]
    table = read_table(split, ["id", *lists, *columns])
    numbers = {row_id: number for number, row_id in enumerate(table["id"].to_pylist())}
    table = table.take(pa.array([numbers[row_id] for row_id in ids]))
    for name in lists:
        present = np.stack(table[name].to_numpy()) > 0
        classes = said(split, "classes") or range(present.shape[1])
        for label, has_label in zip(classes, present.T, strict=True):
            yield f"class: {label}", np.flatnonzero(has_label)
        yield from _by_value("labels", present.sum(1))
    for name in columns:
        values = table[name].to_numpy(zero_copy_only=False)
        if name.startswith(SLICE):
            counts = Counter(values[pd.notna(values)])
            for value, _ in counts.most_common(MOST) if len(counts) > 1 else ():
                yield f"{name.removeprefix(SLICE)}: {value}", np.flatnonzero(values == value)
        else:
            yield from _by_value(name, values)


def _is_scalar(column: pa.DataType) -> bool:
    return is_number(column) or pa.types.is_boolean(column) or pa.types.is_string(column)


def _by_value(name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    distinct = np.unique(values[pd.notna(values)])
    if len(distinct) <= VALUES:
        for value in distinct if len(distinct) > 1 else []:
            yield f"{name}: {value}", np.flatnonzero(values == value)
    elif values.dtype.kind in "iuf":
        for low, high in pairwise(np.quantile(distinct, [0, 1 / 3, 2 / 3, 1])):
            yield f"{name}: {low:.3g} to {high:.3g}", np.flatnonzero((values >= low) & (values <= high))
