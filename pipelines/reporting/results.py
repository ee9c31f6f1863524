"""Read what stages wrote: results as tables with one row a number, histories, and one form for every number."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = [
    "UNDEFINED", "best_epoch", "history", "leaves", "markdown", "number", "or_nan", "read_comparisons", "read_run",
    "read_runs", "read_sorters", "shown",
]  # fmt: skip

UNDEFINED = "undefined"  # a metric that has no value, such as Spearman of targets that are all equal
BOUNDS = ("value", "low", "high")


def read_runs(folder: str | Path = "metrics/runs") -> pd.DataFrame:
    """Return the metrics of all runs: columns `run`, `seed`, `metric`, `value`, `low`, `high`.

    A row without a seed is the mean over seeds with its 95 % interval. Each seed has a row too, without an interval.

    Raises:
        FileNotFoundError: the file or folder does not exist.
        ValueError: a file is not what its stage writes; the message names the file.
    """
    rows = []
    for path, metric, leaf in _of_files(folder):
        where = f"{path}: {metric}"
        row = {"run": path.stem, "seed": pd.NA, "metric": metric}
        rows.append(row | {name: _number(leaf, name, where) for name in BOUNDS})
        seeds = _field(leaf, "seeds", where, kind=dict)
        rows += [row | {"seed": int(seed), "value": _number(seeds, seed, f"{where}.seeds")} for seed in seeds]
    return _table(rows, "run", "seed", "metric", *BOUNDS).astype({"seed": "Int64"})


def read_sorters() -> pd.DataFrame:
    """Return the measures of all sorters, with errors as `read_runs`: `sorter`, `metric`, `value`, `low`, `high`."""
    rows = [
        {"sorter": path.stem, "metric": metric}
        | {name: _number(leaf, name, f"{path}: {metric}") for name in BOUNDS if name in leaf}
        for path, metric, leaf in _of_files("metrics/sorters")
    ]
    return _table(rows, "sorter", "metric", *BOUNDS)


def read_comparisons() -> pd.DataFrame:
    """Return a row for each run that is compared with a baseline, with errors as `read_runs`.

    Columns: `comparison`, `question`, `metric`, `baseline`, `run`, `value`, `difference`, `low` and `high` (the 95 %
    interval of the difference), `p` and `seeds`.
    """
    about, rows = ("question", "metric", "baseline"), []
    for path in _files("metrics/comparisons"):
        content = _read(path)
        row = {"comparison": path.stem} | {name: _field(content, name, str(path), kind=str) for name in about}
        for run, result in _field(content, "runs", str(path), kind=dict).items():
            if run != row["baseline"]:
                where = f"{path}: runs.{run}"
                gain = _field(result, "difference", where, kind=dict)
                value, low, high = (_number(gain, name, f"{where}.difference") for name in BOUNDS)
                numbers = {name: _number(result, name, where) for name in ("value", "p", "seeds")}
                rows.append(row | numbers | {"run": run, "difference": value, "low": low, "high": high})
    names = ("comparison", *about, "run", "value", "difference", "low", "high", "p", "seeds")
    return _table(rows, *names).astype({"seeds": "int64"})


def read_run(folder: str | Path) -> dict[str, Any]:
    """Return `run.json` of `models/runs/<run>`, with errors as `read_runs`.

    It has the `seeds`, which of them is the `best` on validation, the `validation` metric of each, the chosen `setting`
    and what was `tried`.
    """
    path = Path(folder) / "run.json"
    content = _read(path)
    for name, kind in {"seeds": list, "best": int, "validation": dict, "setting": dict, "tried": list}.items():
        _field(content, name, str(path), kind=kind)
    return content


def history(folder: str | Path) -> pd.DataFrame:
    """Return the history of `models/runs/<run>/seed<k>` or `models/sorters/<sorter>`, with errors as `read_runs`."""
    path = Path(folder) / "history.csv"
    _check_exists(path)
    try:
        table = pd.read_csv(path)
    except ValueError as error:  # pandas' parser errors among them
        raise ValueError(f"{path}: not a table ({error}); make it again with `dvc repro`") from error
    if missing := [name for name in ("phase", "epoch", "loss", "learning_rate", "best") if name not in table]:
        raise ValueError(f"{path}: no column {', '.join(missing)}; make it again with `dvc repro`")
    return table


def best_epoch(history: pd.DataFrame) -> pd.Series:
    """Return the row of the epoch whose weights were kept.

    >>> int(best_epoch(pd.DataFrame({"epoch": [1, 2, 3], "best": [1, 1, 0]}))["epoch"])
    2
    """
    return history[history["best"] == 1].iloc[-1]


def number(
    value: float, low: float = math.nan, high: float = math.nan, *, digits: int | None = None, sign: bool = False
) -> str:
    """Return a number, with its interval if it has one, in the form of every table; "" for NaN.

    Args:
        digits: decimals; by default 3, and 1 where a value exceeds 1 (median ranks).
        sign: write a plus, as for differences; none before 0.

    >>> number(0.5338, 0.513, 0.555), number(3, 2.5, 3), number(-0.0001, sign=True), number(math.nan)
    ('0.534 (0.513 to 0.555)', '3.0 (2.5 to 3.0)', '0.000', '')
    """
    parts = [] if math.isnan(value) else [part for part in (value, low, high) if not math.isnan(part)]
    if digits is None:
        digits = 1 if max(map(abs, parts), default=0) > 1 else 3
    rounded = [round(part, digits) + 0.0 for part in parts]  # + 0.0: no -0.000
    shown = [f"{part:{'+' if sign and part else ''}.{digits}f}" for part in rounded]
    return f"{shown[0]} ({shown[1]} to {shown[2]})" if len(shown) == 3 else "".join(shown[:1])


def shown(value: float, low: float = math.nan, high: float = math.nan, **options: Any) -> str:
    """Return a number as `number` does, and what is not defined by that word.

    >>> shown(0.5), shown(math.nan)
    ('0.500', 'undefined')
    """
    return number(value, low, high, **options) or UNDEFINED


def or_nan(value: float | None) -> float:
    """Return a number of a file of metrics, in which null, or none at all, stands for NaN: JSON has no such number."""
    return math.nan if value is None else value


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, a line each.

    >>> print(markdown(["loss", "L1"], [["mse", "0.1"]]), end="")
    | loss | L1 |
    | --- | --- |
    | mse | 0.1 |
    """
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, ["---"] * len(columns), *rows))


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder; make it with `dvc repro`")


def _files(folder: str | Path) -> list[Path]:
    _check_exists(Path(folder))
    return sorted(Path(folder).glob("*.json"))


def _read(path: Path) -> dict[str, Any]:
    _check_exists(path)
    try:
        content = json.loads(path.read_text())
    except ValueError as error:  # bytes that are no text among them
        raise ValueError(f"{path}: not JSON ({error}); make it again with `dvc repro`") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {type(content).__name__}, expected a JSON object; make it again with `dvc repro`")
    return content


def leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield nested metrics by their dotted names: dicts with `value`. A bare number becomes one."""
    for key, value in block.items():
        if isinstance(value, dict) and "value" not in value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, dict) else {"value": value}


def _of_files(folder: str | Path) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    for path in _files(folder):
        yield from ((path, *leaf) for leaf in leaves(_read(path)))


def _field(content: Any, name: str, where: str, *, kind: Any) -> Any:
    if not isinstance(content, dict) or name not in content or not isinstance(content[name], kind):
        found = repr(content[name]) if isinstance(content, dict) and name in content else "nothing"
        expected = getattr(kind, "__name__", "number")
        raise ValueError(f"{where}.{name}: found {found}, expected {expected}; make it again with `dvc repro`")
    return content[name]


def _number(content: Any, name: str, where: str) -> float:
    return or_nan(_field(content, name, where, kind=int | float | None))


def _table(rows: list[dict[str, Any]], *columns: str) -> pd.DataFrame:
    numbers = {"value", "low", "high", "difference", "p"} & set(columns)
    return pd.DataFrame(rows, columns=list(columns)).astype(dict.fromkeys(numbers, "float64"))
