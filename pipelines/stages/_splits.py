"""The splits of a dataset as a task reads them, for each fold if there are folds."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.config import Settings
from pipelines.running.runner import FEATURES
from rankgrad.datasets.files.folds import cut, folds_of
from rankgrad.datasets.files.splits import Split
from rankgrad.io.parquet import FOLD

__all__ = ["data_of", "joined_folds", "splits_of"]


@contextmanager
def splits_of(
    params: Settings, dataset: str, task: Any, names: Sequence[str]
) -> Generator[dict[int | None, dict[str, Split]]]:
    """Return splits by fold and name; with a single fold None if the dataset has no folds."""
    options = {"threads": params.compute.threads, "memory": params.compute.memory}
    FEATURES.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FEATURES.parent) as scratch:
        by_fold: dict[int | None, dict[str, Split]] = {}
        for fold in params.datasets[dataset].fold_numbers:
            folder = data_of(params, dataset, fold, Path(scratch) / str(fold), names)
            by_fold[fold] = {name: task.load(folder, name, **options) for name in names}
        yield by_fold


def data_of(params: Settings, dataset: str, fold: int | None, folder: Path, names: Sequence[str]) -> Path:
    """Return the folder of a fold's splits: `folder`, where they are written, or the dataset's own without folds."""
    data, folds = Path("data") / dataset, params.datasets[dataset].folds
    if fold is None or folds is None:
        return data
    cut(data, folder, names, fold=fold, folds=folds)
    return folder


def joined_folds(dataset: str, tables: dict[int | None, pa.Table]) -> pa.Table:
    """Return the predictions of all folds in the order of the test split, with a column for the fold."""
    if None in tables:
        return tables[None]
    fold_of_row = folds_of(f"data/{dataset}/test.parquet")
    numbered = []
    for fold, table in tables.items():
        rows = np.flatnonzero(fold_of_row == fold)
        ids = pa.array(rows[table["id"].to_numpy()], pa.int64())
        table = table.set_column(table.column_names.index("id"), "id", ids)
        numbered.append(table.add_column(1, FOLD, pa.array([fold] * len(table), pa.int64())))
    return pa.concat_tables(numbered).sort_by("id")
