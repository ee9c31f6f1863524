"""Results: a table with one row per number, and the CSV file that every stage and study writes.

A row without a seed covers all seeds, a row without a fold all folds; `low` and `high` are the 95% interval.
`metric` is the name of a metric, or `<metric> minus <baseline>` for the difference from a run, paired by seed and test
example; `p of ...` is the p value of that difference.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["COLUMNS", "Results", "Row", "minus", "read", "rows_of", "write"]

COLUMNS = ("run", "seed", "fold", "split", "metric", "value", "low", "high")
KINDS = {"seed": int, "fold": int, "value": float, "low": float, "high": float}

Key = tuple[str, str, int | None, int | None]


class Row(NamedTuple):
    """A value and its interval: NaN for an undefined metric or interval."""

    run: str
    metric: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seed: int | None = None
    fold: int | None = None
    split: str = "test"

    @property
    def interval(self) -> tuple[float, float, float]:
        """The value and its bounds."""
        return self.value, self.low, self.high

    @property
    def key(self) -> Key:
        """The key of a row; no two rows share it."""
        return self.run, self.metric, self.seed, self.fold


def minus(metric: str, baseline: str) -> str:
    """Return the name of the difference between a run's metric and a baseline's."""
    return f"{metric} minus {baseline}"


@dataclass(frozen=True, eq=False)
class Results:
    """The rows of one or several files, with access by run and metric.

    Attributes:
        source: file or folder, for error messages.
        rows: the rows, in the order of the files.
    """

    source: str
    rows: list[Row]

    @cached_property
    def _by_key(self) -> dict[Key, Row]:
        return {row.key: row for row in self.rows}

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], list[Row]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.run, row.metric), []).append(row)
        return groups

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(row.run for row in self.rows))

    def has(self, run: str, metric: str) -> bool:
        return (run, metric, None, None) in self._by_key

    def row(self, run: str, metric: str) -> Row:
        """Return a metric over all seeds and folds.

        Raises:
            ValueError: there is no such row.
        """
        if not self.has(run, metric):
            raise ValueError(f"{self.source}: has no {metric} of {run}: recreate it with `dvc repro`")
        return self._by_key[run, metric, None, None]

    def leaf(self, run: str, metric: str) -> tuple[float, float, float]:
        """Return value, low and high of a metric over all seeds and folds; raises the same errors as `row`."""
        return self.row(run, metric).interval

    def of_run(self, run: str, seed: int | None = None) -> list[Row]:
        """Return all metrics of a run, over its seeds or of one seed."""
        return [row for row in self.rows if row.run == run and row.seed == seed and row.fold is None]

    def by_seed(self, run: str, metric: str) -> dict[int, float]:
        """Return a metric for each seed, over all folds."""
        rows = self._by_metric.get((run, metric), [])
        return {row.seed: row.value for row in rows if row.seed is not None and row.fold is None}

    def by_fold(self, run: str, metric: str) -> dict[int, float]:
        """Return a metric for each fold, over all seeds."""
        rows = self._by_metric.get((run, metric), [])
        return {row.fold: row.value for row in rows if row.fold is not None and row.seed is None}


def read(path: str | Path) -> Results:
    """Return the rows of a file, or of all CSV files of a folder.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: a file does not have the form that `write` writes; the message names the file and the line.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder; create it with `dvc repro`")
    files = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    rows: list[Row] = []
    for file in files:
        rows += _rows_of(file)
    return Results(str(path), rows)


def _rows_of(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            header = next(lines, [])
            # Accept results from before the column existed.
            if header not in (list(COLUMNS), [column for column in COLUMNS if column != "split"]):
                raise ValueError(f"columns {', '.join(header)}, expected {', '.join(COLUMNS)}")
            return _checked(_row(header, cells) for cells in lines)
        except (ValueError, csv.Error) as error:  # includes bytes that are not UTF-8
            raise ValueError(f"{path}: line {lines.line_num}: {error}; recreate it with `dvc repro`") from error


def _row(header: list[str], cells: list[str]) -> Row:
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells, expected {len(header)}")
    values: dict[str, Any] = dict(zip(header, cells, strict=True))
    for column, kind in KINDS.items():
        text = values.pop(column)
        if text:  # an empty cell is the default: NaN, or no seed or fold
            try:
                values[column] = kind(text)
            except ValueError as error:
                raise ValueError(f"{column} is {text!r}, expected a number") from error
    return Row(**values)


def _checked(rows: Iterable[Row]) -> list[Row]:
    """Return the rows after checking them.

    Raises:
        ValueError: there are no rows, a key occurs twice, a value is infinite, or `low` is above `high`.
    """
    by_key: dict[Key, Row] = {}
    for row in rows:
        for column, name in (("run", row.run), ("metric", row.metric)):
            if not name or name != name.strip() or not name.isprintable():
                raise ValueError(f"{column} is {name!r}, expected a name without spaces around it")
        if math.isinf(row.value):
            raise ValueError(f"value of {row} is {row.value}, expected a finite number")
        has_interval = not (math.isnan(row.low) and math.isnan(row.high))
        if has_interval and not -math.inf < row.low <= row.high < math.inf:
            raise ValueError(f"{row}: expected low <= high, or neither of them")
        if row.key in by_key:
            raise ValueError(
                f"{row} has the same run, metric, seed, and fold as another row, expected one row for them"
            )
        by_key[row.key] = row
    if not by_key:
        raise ValueError("no rows, expected at least one")
    return list(by_key.values())


def rows_of(run: str, measured: Mapping[str, Any], prefix: str = "") -> Iterator[Row]:
    """Yield rows from nested results; each value is a number, or a triple of value, low, and high.

    >>> [row.metric for row in rows_of("lstm", {"l1": (0.2, 0.1, 0.3), "gradient": {"vanishing": 0.0}})]
    ['l1', 'gradient.vanishing']
    """
    for name, value in measured.items():
        if isinstance(value, Mapping):
            yield from rows_of(run, value, f"{prefix}{name}.")
        else:
            interval = value if isinstance(value, tuple) else (float(value),)
            yield Row(run, f"{prefix}{name}", *interval)


def write(path: str | Path, rows: Iterable[Row]) -> None:
    """Write rows as a CSV file; NaN and None are empty cells.

    Raises:
        ValueError: there are no rows, a key occurs twice, a value is infinite, or `low` is above `high`.
    """
    try:
        rows = _checked(rows)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for row in rows:
            cells = (getattr(row, column) for column in COLUMNS)
            table.writerow(["" if cell is None or cell != cell else cell for cell in cells])
