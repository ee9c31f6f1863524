"""Predicts the test split with one run's model, and scores the predictions with confidence intervals."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.config.schema import Settings
from pipelines.stages.runner import run
from rankops import lookup
from rankops.io.atomic import replaced_file
from rankops.metrics.evaluation import evaluate
from rankops.seeding import derived_seed
from rankops.training.loop import compute


def main(params: Settings, name: str) -> None:
    options = params.all_runs[name]
    task = lookup.module("tasks", options.task)
    device = compute(device=params.compute.device, precision=params.compute.precision).device
    split = task.load_split(Path("data") / options.dataset, "test", threads=params.compute.threads)
    table = task.predictions(task.load(f"models/runs/{name}", device=device), split)
    figures = evaluate(
        task.figures(table, split),
        resamples=params.evaluate.resamples,
        # The same resamples for every run: their differences are paired.
        seed=derived_seed(params.evaluate.seed, "evaluate"),
    )
    with (
        replaced_file(f"predictions/{name}.parquet") as predictions,
        replaced_file(f"metrics/runs/{name}.json") as metrics,
    ):
        pq.write_table(table, predictions, compression="zstd")
        metrics.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    run(main)
