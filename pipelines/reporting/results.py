"""Read the output of trainings, and format every number in tables with `cell`."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from pipelines.config import Settings
from pipelines.config.schema import Comparison
from rankgrad.datasets.files.folds import described_folds
from rankgrad.io.parquet import FOLD, read_table

__all__ = [
    "UNDEFINED",
    "best_on_validation",
    "cell",
    "folds_of",
    "history",
    "markdown",
    "read_run",
    "rivals_are_chosen_on",
    "validation_of",
]

UNDEFINED = "undefined"  # a metric that has no value, such as Spearman of targets that are all equal


def read_run(folder: str | Path) -> dict[str, Any]:
    """Return `run.json` of `models/runs/<run>`.

    It has the `seeds`, the `best` one on validation, the `validation` metric of each, the chosen `setting`, and the
    settings that were `tried`.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: it is not valid JSON or lacks a key; the message names the file.
    """
    path = Path(folder) / "run.json"
    _check_exists(path)
    try:
        content = json.loads(path.read_text())
    except ValueError as error:  # also if it is not text
        raise ValueError(f"{path}: not JSON ({error}); recreate it with `dvc repro`") from error
    missing = {"seeds", "best", "validation", "setting", "tried"} - set(content)
    if missing:
        raise ValueError(f"{path}: missing {', '.join(sorted(missing))}; recreate it with `dvc repro`")
    return content


def history(folder: str | Path) -> pd.DataFrame:
    """Return the history in `models/runs/<run>/seed<k>` or `models/sorters/<sorter>`; raise errors as `read_run`."""
    path = Path(folder) / "history.csv"
    _check_exists(path)
    try:
        table = pd.read_csv(path)
    except ValueError as error:  # pandas' parser errors are ValueErrors
        raise ValueError(f"{path}: not a table ({error}); recreate it with `dvc repro`") from error
    if missing := [name for name in ("phase", "epoch", "loss", "learning_rate", "best") if name not in table]:
        raise ValueError(f"{path}: no column {', '.join(missing)}; recreate it with `dvc repro`")
    return table


def validation_of(run: str) -> float:
    """Return the mean validation metric of a run over its seeds; larger is better."""
    return fmean(read_run(f"models/runs/{run}")["validation"].values())


def best_on_validation(runs: Iterable[str]) -> str:
    return max(runs, key=validation_of)


def rivals_are_chosen_on(params: Settings, comparison: Comparison) -> str:
    """Return the split on which the strongest rival is chosen: validation if all rivals are runs, else the test split.

    Other programs and BM25 predict only the test split; the choice is then in favor of the rivals.
    """
    return "validation" if all(name in params.runs for name in comparison.rivals) else "the test split"


def folds_of(params: Settings, run: str) -> str:
    """Describe the folds in a run's predictions; return "" if there are no folds or no predictions."""
    dataset, predictions = params.datasets[params.runs[run].dataset], Path(f"predictions/{run}.parquet")
    if dataset.folds is None or not predictions.is_file():
        return ""
    rows = Counter(read_table(predictions, [FOLD])[FOLD].to_pylist())
    of_seed = [count // len(params.runs[run].seeds) for count in rows.values()]
    return described_folds(of_seed, dataset.built().split_group)


def cell(
    value: float, low: float = math.nan, high: float = math.nan, *, digits: int | None = None, sign: bool = False
) -> str:
    """Return a number, with its interval if it has one, formatted for tables.

    Args:
        value: the number.
        low, high: its interval; NaN for none.
        digits: decimals; by default 3, or 1 if the value exceeds 1 (median ranks).
        sign: write a plus sign, as for differences, except before 0.

    >>> cell(0.5338, 0.513, 0.555), cell(3, 2.5, 3), cell(-0.0001, sign=True), cell(math.nan)
    ('0.534 (0.513 to 0.555)', '3.0 (2.5 to 3.0)', '0.000', 'undefined')
    """
    if math.isnan(value):
        return UNDEFINED
    numbers = [number for number in (value, low, high) if not math.isnan(number)]
    if digits is None:
        digits = 1 if abs(value) > 1 else 3
    texts = []
    for number in numbers:
        rounded = round(number, digits) + 0.0  # + 0.0: no -0.000
        texts.append(f"{rounded:{'+' if sign and rounded else ''},.{digits}f}")
    return texts[0] if len(texts) < 3 else f"{texts[0]} ({texts[1]} to {texts[2]})"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, one line per row.

    >>> print(markdown(["loss", "L1"], [["mse", "0.1"]]), end="")
    | loss | L1 |
    | --- | --- |
    | mse | 0.1 |
    """
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, ["---"] * len(columns), *rows))


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder; create it with `dvc repro`")
