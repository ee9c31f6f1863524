"""Predict the test split with a baseline of search, using its best setting on validation."""

import logging
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.rivals import RIVALS
from pipelines.stages._splits import joined_folds, splits_of
from pipelines.stages.compare import best_of
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.io.atomic import replaced_file
from rankgrad.tasks import Task


def main(params: Settings, name: str) -> None:
    rival = params.rivals[name]
    task, metric = lookup.find("tasks", rival.task)(), rival.metric
    with (
        splits_of(params, rival.dataset, task, RIVALS[rival.name].reads) as by_fold,
        replaced_file(f"predictions/{name}.parquet") as predictions,
    ):
        tables = {}
        for fold, splits in by_fold.items():
            tables[fold] = _predicted(rival.name, task, splits, metric, "" if fold is None else f"fold {fold}: ")
        pq.write_table(joined_folds(rival.dataset, tables), predictions, compression="zstd")


def _predicted(name: str, task: Task, splits: Mapping[str, Split], metric: str, place: str = "") -> pa.Table:
    """Return the predictions of the test split with the best setting on validation; log it, prefixed with `place`."""
    rival, values = RIVALS[name], []
    for scores in rival.scores(splits, "val", rival.settings):
        statistic = task.statistic(task.table_of(splits["val"], scores))
        values.append(float(statistic.of_all()[statistic.names.index(metric)]))
    best = best_of(values, task.name, metric)
    log = logging.getLogger(__name__)
    log.info(
        "%s%s: %s, best of %d settings by %s %.3f on validation",
        place, rival.options, rival.settings[best], len(values), metric, values[best],
    )  # fmt: skip
    [scores] = rival.scores(splits, "test", [rival.settings[best]])
    return task.table_of(splits["test"], scores)
