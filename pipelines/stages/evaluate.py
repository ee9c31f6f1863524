"""Predicts the test split with each seed of a run, and scores the predictions over seeds and examples."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.config import Settings
from pipelines.ops.progress_bar import counted
from pipelines.running.runner import FEATURES
from rankgrad import lookup
from rankgrad.bootstrap import describe_undefined, evaluate
from rankgrad.datasets.files.folds import FOLD, cut, folds_of
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.recipes import name_of
from rankgrad.io.written import as_json
from rankgrad.seeding import derived_seed
from rankgrad.training.device import find_device


def main(params: Settings, name: str) -> None:
    log, run = logging.getLogger(__name__), params.runs[name]
    task = lookup.find("tasks", run.task)(cache=FEATURES)
    device = find_device(params.compute.device)
    tables, statistics = [], {}
    of_row = None if params.folds_of(name) == [None] else folds_of(f"data/{run.dataset}/test.parquet")
    with _tested(params, name, task) as splits, counted(name, "seeds") as show:
        for number, seed in enumerate(run.seeds, 1):
            parts = []
            for fold, split in splits.items():
                with torch.no_grad():
                    network = load_model(Path("models/runs") / name / name_of(seed, fold), device=device)
                    table = task.predict(network, split)
                parts.append(table if fold is None else _numbered(table, np.flatnonzero(of_row == fold), fold))
            table = parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by("id")
            statistics[seed] = task.statistic(table)
            for undefined in describe_undefined(statistics[seed]):
                log.warning("%s, seed %d: %s is not defined for the test split", name, seed, undefined)
            tables.append(table.add_column(1, "seed", pa.array([seed] * len(table), pa.int64())))
            show(number, len(run.seeds))
    # The same resamples for every run: their differences are paired.
    draws = derived_seed(params.evaluate.seed, "evaluate")
    with counted(name, "resamples") as show:
        metrics = evaluate(statistics, resamples=params.evaluate.resamples, seed=draws, show=show)
    with (
        replaced_file(f"predictions/{name}.parquet") as predictions,
        replaced_file(f"metrics/runs/{name}.json") as target,
    ):
        pq.write_table(pa.concat_tables(tables), predictions, compression="zstd")
        target.write_text(as_json(metrics, indent=2, sort_keys=True) + "\n")


@contextmanager
def _tested(params: Settings, name: str, task: Any) -> Generator[dict[int | None, Any]]:
    """Give the test split as the task reads it, or that of each fold."""
    folds, data = params.folds_of(name), Path("data") / params.runs[name].dataset
    options = {"threads": params.compute.threads, "memory": params.compute.memory}
    if folds == [None]:
        yield {None: task.load(data, "test", **options)}
        return
    FEATURES.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FEATURES.parent) as scratch:
        splits: dict[int | None, Any] = {}
        for fold in filter(None, folds):
            own = Path(scratch) / str(fold)
            cut(data, own, ["test"], fold=fold, folds=len(folds))
            splits[fold] = task.load(own, "test", **options)
        yield splits


def _numbered(table: pa.Table, rows: np.ndarray, fold: int) -> pa.Table:
    """Give predictions of a fold the numbers of their rows among all, and its own."""
    ids = pa.array(rows[table["id"].to_numpy()], pa.int64())
    table = table.set_column(table.column_names.index("id"), "id", ids)
    return table.add_column(1, FOLD, pa.array([fold] * len(table), pa.int64()))
