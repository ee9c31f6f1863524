"""Kept results: `studies/made/<study>/results.csv`, a row a number, with `made_by.json`, which says what made them.

The columns are `run`, `seed`, `fold`, `metric`, `value`, `low` and `high`. A row without a seed is over all seeds, one
without a fold over all folds; `low` and `high` are the 95 % interval. `metric` is the name of a metric, or

- `<metric> minus <baseline>`: the difference from a run, paired by seed and test example; `p of ...` is its p value;
- `setting.<place>`: the value that was chosen from a grid;
- `validation`: what it was chosen by.
"""

import csv
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from pipelines.reporting.results import leaves, or_nan
from rankgrad.io.atomic import replaced_folder

__all__ = [
    "Row", "Study", "compared_rows", "machine", "read", "read_rows", "rows_of", "write",
    "write_rows",
]  # fmt: skip

FOLDER = Path("studies/made")
TABLE, MADE_BY, SUM = "results.csv", "made_by.json", "sha256_of_results"
MADE = {"commit": str, "params": dict, "hashes": dict, "machine": dict}


class Row(NamedTuple):
    """A number of a study."""

    run: str
    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    seed: int | None = None
    fold: int | None = None


COLUMNS = ("run", "seed", "fold", "metric", "value", "low", "high")
KINDS = {"seed": int, "fold": int, "value": float, "low": float, "high": float}


@dataclass(frozen=True, eq=False)
class Study:
    """Results of runs that stand beside each other, and what made them.

    Attributes:
        name: its folder below studies/made/.
        rows: in the order of the file.
        made_by: `commit`, `params`, `hashes` of what went in, `machine`, and what else is to be known.
    """

    name: str
    rows: list[Row]
    made_by: dict[str, Any]

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, int | None, int | None], Row]:
        return {_place(row): row for row in self.rows}

    @cached_property
    def _parts(self) -> dict[tuple[str, str], list[Row]]:
        parts: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            parts.setdefault((row.run, row.metric), []).append(row)
        return parts

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(row.run for row in self.rows))

    def has(self, run: str, metric: str) -> bool:
        return (run, metric, None, None) in self._by_place

    def leaf(self, run: str, metric: str) -> tuple[float, float, float]:
        """Return a metric over all seeds and folds, with its interval.

        Raises:
            ValueError: it was not kept.
        """
        if not self.has(run, metric):
            raise ValueError(f"{FOLDER / self.name / TABLE}: no {metric} of {run}: keep the study again")
        row = self._by_place[run, metric, None, None]
        return row.value, row.low, row.high

    def by_seed(self, run: str, metric: str) -> dict[int, float]:
        """Return a metric of each seed, over all folds."""
        rows = self._parts.get((run, metric), ())
        return {row.seed: row.value for row in rows if row.seed is not None and row.fold is None}

    def by_fold(self, run: str, metric: str) -> dict[int, float]:
        """Return a metric of each fold, over all seeds."""
        rows = self._parts.get((run, metric), ())
        return {row.fold: row.value for row in rows if row.fold is not None and row.seed is None}


def read(name: str) -> Study:
    """Return a kept study.

    Raises:
        FileNotFoundError: it was not kept.
        ValueError: its files are not what `write` writes; the message names file and line.
    """
    table, made_by = FOLDER / name / TABLE, FOLDER / name / MADE_BY
    rows = read_rows(table)
    try:
        about = json.loads(made_by.read_text()) if made_by.is_file() else {}
    except ValueError as error:  # bytes that are no text among them
        raise ValueError(f"{made_by}: not JSON ({error}): `git checkout {made_by}`") from error
    _check_about(made_by, about)
    if about.get(SUM) != (found := _sum(table)):
        raise ValueError(
            f"{table}: its SHA-256 is {found}, expected {about.get(SUM)} of {made_by}: `git checkout {FOLDER / name}`"
        )
    return Study(name, rows, about)


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table, with errors as `read`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; studies/made/README.md says how it is made")
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            if (columns := next(lines, [])) != list(COLUMNS):
                raise ValueError(f"columns {', '.join(columns)}, expected {', '.join(COLUMNS)}")
            return _checked(map(_row, lines))
        except (ValueError, csv.Error) as error:  # bytes that are no text among them
            raise ValueError(f"{path}: line {lines.line_num}: {error}: `git checkout {path}`") from error


def _row(cells: list[str]) -> Row:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells, expected {len(COLUMNS)}")
    found: dict[str, Any] = dict(zip(COLUMNS, cells, strict=True))
    for column, kind in KINDS.items():
        try:
            found[column] = kind(found[column]) if found[column] else Row._field_defaults[column]
        except (ValueError, KeyError) as error:
            raise ValueError(f"{column} is {found[column]!r}, expected a number") from error
    return Row(**found)


def _checked(rows: Iterable[Row]) -> list[Row]:
    """Return rows; raise ValueError if there is none, or a number is there twice, is none or not in its interval."""
    of_place: dict[tuple[str, str, int | None, int | None], Row] = {}
    for row in rows:
        for column in ("run", "metric"):
            if not (name := getattr(row, column)) or name != name.strip() or not name.isprintable():
                raise ValueError(f"{column} is {name!r}, expected a name without spaces around it")
        if not math.isfinite(row.value):
            raise ValueError(f"value of {row} is {row.value}, expected a finite number")
        bounded = not (math.isnan(row.low) and math.isnan(row.high))
        if bounded and not -math.inf < row.low <= row.value <= row.high < math.inf:
            raise ValueError(f"{row}: expected a value between low and high, or neither of them")
        if _place(row) in of_place:
            raise ValueError(f"{row} is of a number that is there twice, expected a row a number")
        of_place[_place(row)] = row
    if not of_place:
        raise ValueError("no rows, expected at least one")
    return list(of_place.values())


def _place(row: Row) -> tuple[str, str, int | None, int | None]:
    return row.run, row.metric, row.seed, row.fold


def write(name: str, rows: Iterable[Row], made_by: Mapping[str, Any]) -> Path:
    """Write a study whole, in place of the one that has its name, and return its folder.

    Raises:
        ValueError: what made it is not told, or a number is there twice, is none or outside its interval.
    """
    _check_about(FOLDER / name / MADE_BY, made_by)
    with replaced_folder(FOLDER / name) as folder:
        write_rows(folder / TABLE, rows)
        about = {**made_by, SUM: _sum(folder / TABLE)}
        (folder / MADE_BY).write_text(json.dumps(about, indent=1) + "\n")
    return FOLDER / name


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as a table, with errors as `write`."""
    try:
        checked = _checked(rows)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    table = pd.DataFrame(checked, columns=list(Row._fields)).astype({"seed": "Int64", "fold": "Int64"})
    table[list(COLUMNS)].to_csv(path, index=False)


def rows_of(run: str, metrics: Mapping[str, Any]) -> list[Row]:
    """Return the rows of what `evaluate` or a benchmark measured: nested metrics, each a number or a leaf.

    What is not defined has no row.

    >>> rows_of("mse", {"recall": {"at_1": {"value": 0.5, "low": 0.4, "high": 0.6, "seeds": {"1": 0.5}}}})[1]
    Row(run='mse', metric='recall.at_1', value=0.5, low=nan, high=nan, seed=1, fold=None)
    """
    rows: list[Row] = []
    for metric, leaf in leaves(metrics):
        rows.append(Row(run, metric, or_nan(leaf["value"]), or_nan(leaf.get("low")), or_nan(leaf.get("high"))))
        rows += [Row(run, metric, or_nan(value), seed=int(seed)) for seed, value in leaf.get("seeds", {}).items()]
    return [row for row in rows if not math.isnan(row.value)]


def compared_rows(comparison: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a comparison, as metrics/comparisons has it: differences and their p, if defined."""
    rows, name = [], f"{comparison['metric']} minus {comparison['baseline']}"
    for run, found in comparison["runs"].items():
        if "difference" in found:
            gain = found["difference"]
            rows += [Row(run, name, gain["value"], gain["low"], gain["high"]), Row(run, f"p of {name}", found["p"])]
    return [row for row in rows if not math.isnan(row.value)]


def machine() -> dict[str, str | int | None]:
    """Return what figures of time depend on: hardware, threads, versions; and the date."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    """Return the processor's name if the system has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _check_about(path: Path, about: Any) -> None:
    for key, kind in MADE.items():
        if not isinstance(about, Mapping) or not isinstance(about.get(key), kind):
            raise ValueError(f"{path}: {key} is missing or no {kind.__name__}, expected {', '.join(MADE)}")
