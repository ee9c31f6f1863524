"""Predict the test split with each seed of a run, and score the predictions over seeds and examples."""

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

from pipelines.config import RunPlan, Settings, resolve
from pipelines.ops.progress_bar import counted
from pipelines.running.runner import FEATURES
from rankgrad import lookup
from rankgrad.datasets.files.folds import cut, folds_of
from rankgrad.evaluation import describe_undefined, evaluate
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import FOLD
from rankgrad.io.recipes import name_of
from rankgrad.seeding import derived_seed
from rankgrad.training.device import find_device


def main(params: Settings, name: str) -> None:
    log, plan = logging.getLogger(__name__), resolve(params, name)
    task = lookup.find("tasks", plan.task)(cache=FEATURES)
    tables, statistics = [], {}
    with _test_splits(params, plan, task) as splits, counted(name, "seeds") as show:
        for number, seed in enumerate(plan.seeds, 1):
            table = _predictions(params, plan, task, splits, seed)
            statistics[seed] = task.statistic(table)
            for undefined in describe_undefined(statistics[seed]):
                log.warning("%s, seed %d: %s is not defined for the test split", name, seed, undefined)
            tables.append(table.add_column(1, "seed", pa.array([seed] * len(table), pa.int64())))
            show(number, len(plan.seeds))
    # The same resamples for every run: their differences are paired.
    draws = derived_seed(params.evaluate.seed, "evaluate")
    with counted(name, "resamples") as show:
        limits = {metric.name: metric.limits for metric in task.all_metrics()}
        rows = evaluate(name, statistics, resamples=params.evaluate.resamples, seed=draws, limits=limits, show=show)
    with (
        replaced_file(f"predictions/{name}.parquet") as predictions,
        replaced_file(f"metrics/runs/{name}.csv") as target,
    ):
        pq.write_table(pa.concat_tables(tables), predictions, compression="zstd")
        results.write(target, rows)


def _predictions(params: Settings, plan: RunPlan, task: Any, splits: dict[int | None, Any], seed: int) -> pa.Table:
    """Return what the networks of a seed predict, one network per fold, in the order of the test split."""
    device, tables = find_device(params.compute.device), []
    for fold, split in splits.items():
        with torch.no_grad():
            network = load_model(Path("models/runs") / plan.name / name_of(seed, fold), device=device)
            table = task.predict(network, split)
        if fold is not None:
            rows = np.flatnonzero(folds_of(f"data/{plan.dataset}/test.parquet") == fold)
            table = _numbered(table, rows, fold)
        tables.append(table)
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).sort_by("id")


@contextmanager
def _test_splits(params: Settings, plan: RunPlan, task: Any) -> Generator[dict[int | None, Any]]:
    """Give the test split as the task reads it, or that of each fold."""
    folds, data = params.folds_of(plan.name), Path("data") / plan.dataset
    options = {"threads": params.compute.threads, "memory": params.compute.memory}
    if folds == [None]:
        yield {None: task.load(data, "test", **options)}
        return
    FEATURES.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FEATURES.parent) as scratch:
        splits: dict[int | None, Any] = {}
        for fold in filter(None, folds):
            folder = Path(scratch) / str(fold)
            cut(data, folder, ["test"], fold=fold, folds=len(folds))
            splits[fold] = task.load(folder, "test", **options)
        yield splits


def _numbered(table: pa.Table, rows: np.ndarray, fold: int) -> pa.Table:
    """Give predictions of a fold the numbers of their rows in the whole split, and their fold."""
    ids = pa.array(rows[table["id"].to_numpy()], pa.int64())
    table = table.set_column(table.column_names.index("id"), "id", ids)
    return table.add_column(1, FOLD, pa.array([fold] * len(table), pa.int64()))
