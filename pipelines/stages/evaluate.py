"""Predicts the test split with each seed of a run, and scores the predictions over seeds and examples."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.config import Settings
from pipelines.ops.progress import counted
from pipelines.stages.runner import FEATURES
from rankops import lookup
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import load_model
from rankops.metrics.bootstrap import evaluate
from rankops.seeding import derived_seed
from rankops.training.device import find_device


def main(params: Settings, name: str) -> None:
    run = params.runs[name]
    task = lookup.find("tasks", run.task)(cache=FEATURES)
    device = find_device(params.compute.device)
    options = {"threads": params.compute.threads, "memory": params.compute.memory}
    split = task.load(Path("data") / run.dataset, "test", **options)
    tables, statistics = [], {}
    with counted(name, "seeds") as show:
        for number, seed in enumerate(run.seeds, 1):
            with torch.no_grad():
                table = task.predict(load_model(f"models/runs/{name}/seed{seed}", device=device), split)
            statistics[seed] = task.statistic(table)
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
        target.write_text(json.dumps(metrics, indent=2, sort_keys=True) + "\n")
