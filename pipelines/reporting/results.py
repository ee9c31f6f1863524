"""Read what stages wrote: results as tables with one row a number, histories, and one form for every number."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["best_epoch", "history", "number", "read_comparisons", "read_run", "read_runs", "read_sorters"]


def read_runs(folder: str | Path = "metrics/runs") -> pd.DataFrame:
    """Return the metrics of all runs: columns `run`, `seed`, `metric`, `value`, `low`, `high`.

    A row without a seed is the mean over seeds with its 95 % interval. Each seed has a row too, without an interval.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: a file is not what `evaluate` writes; the message names the file.
    """
    rows = []
    for path in _files(folder):
        for metric, leaf in _leaves(_read(path), path):
            bounds = {name: _number(leaf, name, f"{path}: {metric}") for name in ("value", "low", "high")}
            rows.append({"run": path.stem, "seed": pd.NA, "metric": metric} | bounds)
            seeds = _field(leaf, "seeds", f"{path}: {metric}", kind=dict)
            for seed in seeds:
                value = _number(seeds, seed, f"{path}: {metric}.seeds")
                rows.append({"run": path.stem, "seed": int(seed), "metric": metric, "value": value})
    return _table(rows, ["run", "seed", "metric", "value", "low", "high"], seed="Int64")


def read_sorters(folder: str | Path = "metrics/sorters") -> pd.DataFrame:
    """Return the measures of all sorters: columns `sorter`, `metric`, `value`, `low`, `high`.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: a file is not what `benchmark_sorters` writes; the message names the file.
    """
    rows = []
    for path in _files(folder):
        for metric, leaf in _leaves(_read(path), path):
            bounds = {
                name: _number(leaf, name, f"{path}: {metric}") for name in ("value", "low", "high") if name in leaf
            }
            rows.append({"sorter": path.stem, "metric": metric} | bounds)
    return _table(rows, ["sorter", "metric", "value", "low", "high"])


def read_comparisons(folder: str | Path = "metrics/comparisons") -> pd.DataFrame:
    """Return a row for each run that is compared with a baseline.

    Columns: `comparison`, `question`, `metric`, `baseline`, `run`, `value`, `difference`, `low` and `high` (the 95 %
    interval of the difference), `p` and `seeds`.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: a file is not what `compare` writes; the message names the file.
    """
    names = ["comparison", "question", "metric", "baseline", "run", "value", "difference", "low", "high", "p", "seeds"]
    rows = []
    for path in _files(folder):
        content = _read(path)
        about = {name: _field(content, name, str(path), kind=str) for name in ("question", "metric", "baseline")}
        for run, result in _field(content, "runs", str(path), kind=dict).items():
            if run == about["baseline"]:
                continue
            where = f"{path}: runs.{run}"
            difference = _field(result, "difference", where, kind=dict)
            low, middle, high = (_number(difference, name, f"{where}.difference") for name in ("low", "value", "high"))
            row = {"comparison": path.stem, "run": run, "difference": middle, "low": low, "high": high}
            rows.append(about | row | {name: _number(result, name, where) for name in ("value", "p", "seeds")})
    return _table(rows, names, seeds="int64")


def read_run(folder: str | Path) -> dict[str, Any]:
    """Return `run.json` of `models/runs/<run>`.

    It has the `seeds`, which of them is the `best` on validation, the `validation` metric of each, the chosen `setting`
    and what was `tried`.

    Raises:
        FileNotFoundError, ValueError: no such file, or it is not what `train` writes.
    """
    path = Path(folder) / "run.json"
    content = _read(path)
    for name, kind in (("seeds", list), ("best", int), ("validation", dict), ("setting", dict), ("tried", list)):
        _field(content, name, str(path), kind=kind)
    return content


def history(folder: str | Path) -> pd.DataFrame:
    """Return the training history of `models/runs/<run>/seed<k>` or `models/sorters/<sorter>`, one row an epoch.

    Raises:
        FileNotFoundError, ValueError: no `history.csv`, or it is not a whole one.
    """
    path = Path(folder) / "history.csv"
    try:
        table = pd.read_csv(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; make it with `dvc repro`") from None
    except ValueError as error:  # pandas' parser errors among them
        raise ValueError(f"{path}: not a table ({error}); make it again with `dvc repro`") from error
    if missing := [name for name in ("epoch", "loss", "learning_rate", "best") if name not in table]:
        raise ValueError(f"{path}: no column {', '.join(missing)}; make it again with `dvc repro`")
    if not (table["best"] == 1).any():
        raise ValueError(f"{path}: no epoch is marked as the best; make it again with `dvc repro`")
    return table


def best_epoch(history: pd.DataFrame) -> pd.Series:
    """Return the row of the epoch whose weights were kept.

    >>> int(best_epoch(pd.DataFrame({"epoch": [1, 2, 3], "best": [1, 1, 0]}))["epoch"])
    2
    """
    return history[history["best"] == 1].iloc[-1]


def number(
    value: float, low: float | None = None, high: float | None = None, *, digits: int | None = None, sign: bool = False
) -> str:
    """Return a number, with its interval if it has one, in the form of every table.

    Args:
        digits: decimals; by default 3, and 1 where a value exceeds 1 (median ranks).
        sign: write a plus, as for differences.

    >>> number(0.5338, 0.513, 0.555), number(3, 2.5, 3), number(-0.0001, sign=True), number(math.nan)
    ('0.534 (0.513 to 0.555)', '3.0 (2.5 to 3.0)', '+0.000', '')
    """
    parts = [part for part in (value, low, high) if part is not None and not pd.isna(part)]
    if not parts or pd.isna(value):
        return ""
    if digits is None:
        digits = 1 if max(map(abs, parts)) > 1 else 3
    shown = [f"{round(part, digits) + 0.0:{'+' if sign else ''}.{digits}f}" for part in parts]  # + 0.0: no -0.000
    return shown[0] if len(shown) < 3 else f"{shown[0]} ({shown[1]} to {shown[2]})"


def _files(folder: str | Path) -> list[Path]:
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; make it with `dvc repro`")
    return sorted(Path(folder).glob("*.json"))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; make it with `dvc repro`") from None
    except ValueError as error:  # bytes that are no text among them
        raise ValueError(f"{path}: not JSON ({error}); make it again with `dvc repro`") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {type(content).__name__}, expected a JSON object; make it again with `dvc repro`")
    return content


def _leaves(values: dict[str, Any], path: Path, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each metric by its dotted name: a dict with `value`. A bare number becomes one."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "value" not in value:
            yield from _leaves(value, path, f"{name}.")
        else:
            yield name, value if isinstance(value, dict) else {"value": value}


def _field(content: Any, name: str, where: str, *, kind: type) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get(name), kind):
        found = repr(content.get(name)) if isinstance(content, dict) and name in content else "nothing"
        expected = getattr(kind, "__name__", "number")
        raise ValueError(f"{where}.{name}: found {found}, expected {expected}; make it again with `dvc repro`")
    return content[name]


def _number(content: Any, name: str, where: str) -> float:
    if isinstance(content, dict) and name in content and content[name] is None:
        return math.nan
    return _field(content, name, where, kind=int | float)


def _table(rows: list[dict[str, Any]], columns: list[str], **kinds: str) -> pd.DataFrame:
    numbers = dict.fromkeys({"value", "low", "high", "difference", "p"} & set(columns), "float64")
    return pd.DataFrame(rows, columns=columns).astype(numbers | kinds)
