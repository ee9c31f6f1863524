"""Predict the test split with each seed of a run, and score the predictions over seeds and examples."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.config import RunPlan, Settings, resolve
from pipelines.ops.progress_bar import counted
from pipelines.reporting.results import cell
from pipelines.running.runner import FEATURES
from pipelines.stages._splits import joined_folds, splits_of
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.evaluation import describe_undefined, evaluate
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import flat, is_list
from rankgrad.io.recipes import name_of
from rankgrad.seeding import derived_seed
from rankgrad.training.device import find_device


def main(params: Settings, name: str) -> None:
    log, plan = logging.getLogger(__name__), resolve(params, name)
    task = lookup.find("tasks", plan.task)(cache=FEATURES)
    tables, statistics = [], {}
    with splits_of(params, plan.dataset, task, ["test"]) as by_fold, counted(name, "seeds") as show:
        for number, seed in enumerate(plan.seeds, 1):
            table = _predictions(params, plan, task, by_fold, seed)
            statistics[seed] = task.statistic(table)
            for undefined in describe_undefined(statistics[seed]):
                log.warning("%s, seed %d: %s is undefined on the test split", name, seed, undefined)
            if _are_all_equal(table):
                log.warning("%s, seed %d: all scores are equal, so the model orders nothing", name, seed)
            tables.append(table.add_column(1, "seed", pa.array([seed] * len(table), pa.int64())))
            show(number, len(plan.seeds))
    # The same resamples for every run, so that differences are paired.
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
    table, metric = results.Results(name, rows), params.metric_of(name)
    if table.has(name, metric):
        log.info("%s %s on the test split", metric, cell(*table.leaf(name, metric)))


def _are_all_equal(table: pa.Table) -> bool:
    """Return whether a table of predictions has scores, all of them equal.

    >>> _are_all_equal(pa.table({"scores": [[0.5, 0.5], [0.5]]})), _are_all_equal(pa.table({"score": [0.5, 0.6]}))
    (True, False)
    """
    names = [name for name in ("score", "scores") if name in table.column_names]
    values = [flat(table[name])[0] if is_list(table.schema.field(name).type) else table[name] for name in names]
    return any(len(column) > 1 and column.to_numpy().min() == column.to_numpy().max() for column in values)


def _predictions(
    params: Settings, plan: RunPlan, task: Any, by_fold: Mapping[int | None, Mapping[str, Split]], seed: int
) -> pa.Table:
    """Return what the networks of a seed predict, one network per fold, in the order of the test split."""
    device, tables = find_device(params.compute.device), {}
    for fold, splits in by_fold.items():
        with torch.no_grad():
            network = load_model(Path("models/runs") / plan.name / name_of(seed, fold), device=device)
            tables[fold] = task.predict(network, splits["test"])
    return joined_folds(plan.dataset, tables)
