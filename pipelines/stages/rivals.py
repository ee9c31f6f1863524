"""Predict the test split with a simple rival, using its best setting on validation. No network is trained."""

import logging
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.rivals import RIVALS
from pipelines.stages._splits import joined_folds, splits_of
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.io.atomic import replaced_file
from rankgrad.tasks import Task


def main(params: Settings, name: str) -> None:
    from threadpoolctl import threadpool_limits

    rival = params.rivals[name]
    task, metric = lookup.find("tasks", rival.task)(), params.gate.judged[rival.task].metric
    with (
        threadpool_limits(params.compute.threads),
        splits_of(params, rival.dataset, task, ["train", "val", "test"]) as by_fold,
        replaced_file(f"predictions/{name}.parquet") as predictions,
    ):
        tables = {}
        for fold, splits in by_fold.items():
            tables[fold] = _predicted(task, rival.name, splits, metric, "" if fold is None else f"fold {fold}: ")
        pq.write_table(joined_folds(rival.dataset, tables), predictions, compression="zstd")


def _predicted(task: Task, rival: str, splits: Mapping[str, Split], metric: str, place: str = "") -> pa.Table:
    """Return the predictions of the test split with the best setting on validation; log it, prefixed with `place`."""
    lower_is_better = {known.name: known.lower_is_better for known in task.all_metrics()}[metric]
    scorers, values = [], []
    for scorer in RIVALS[rival].fitted(splits["train"], task.name):
        statistic = task.statistic(task.table_of(splits["val"], scorer(splits["val"])))
        scorers.append(scorer)
        values.append(float(statistic.of_all()[statistic.names.index(metric)]))
    worth = np.nan_to_num(values, nan=np.inf if lower_is_better else -np.inf)
    best = int(worth.argmin() if lower_is_better else worth.argmax())
    log = logging.getLogger(__name__)
    log.info("%ssetting %d of %d: %s %.3f on validation", place, best + 1, len(scorers), metric, values[best])
    return task.table_of(splits["test"], scorers[best](splits["test"]))
