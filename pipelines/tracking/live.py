"""Show trainings in MLflow while they run. Epochs are read from each history.csv, so training code needs no server.

Each training has its own live run. `publish` deletes it when it sends the finished run.
"""

import logging
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import mlflow
import pandas as pd
from mlflow.entities import Metric, Run

from pipelines.config import Settings
from pipelines.ops.messages import first_line
from pipelines.tracking.store import connect, experiment_of

__all__ = ["discard", "epoch_metrics", "watch"]

CHECKPOINTS = Path(".checkpoints")
ATTEMPT = "ranking.attempt"  # tag of a live run: the training's folder below .checkpoints
NAME = "ranking.live"  # tag of a live run: the name under which the training will be published
PLACE = "ranking.place"  # tag of a live run: a hash of the machine and the folder of its checkpoints


def epoch_metrics(history: pd.DataFrame) -> list[Metric]:
    """Return the numbers of a history as metrics `epoch/<column>`, with the column `epoch` as the step.

    MLflow groups charts by this prefix. The column `best` is left out.
    """
    now, numbers = int(time.time() * 1000), history.set_index("epoch").select_dtypes("number")
    every = numbers.drop(columns="best", errors="ignore").melt(ignore_index=False).dropna()  # a phase may lack some
    return [Metric(f"epoch/{name}", value, now, int(epoch)) for epoch, name, value in every.itertuples()]


def _place(folder: Path) -> str:
    return sha256(f"{platform.node()}:{folder.resolve()}".encode()).hexdigest()[:16]


def _live_runs(client: mlflow.MlflowClient, folder: Path, condition: str) -> list[Run]:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return client.search_runs(experiments, f"tags.`{PLACE}` = '{_place(folder)}' and {condition}", max_results=1000)


def discard(client: mlflow.MlflowClient, name: str) -> None:
    """Delete the live runs of a training in this folder of this machine."""
    for run in _live_runs(client, CHECKPOINTS, f"tags.`{NAME}` = '{name}'"):
        client.delete_run(run.info.run_id)


def _trainings(params: Settings, folder: Path) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Yield the attempt, the name, the experiment, and the history of each running training."""
    trainings = [("pretrain", key, "*/history.csv", f"sorter-{key}", "sorters") for key in params.sorters]
    trainings += [("train", key, "*/*/history.csv", key, run.task) for key, run in params.runs.items()]
    for stage, key, pattern, name, experiment in trainings:
        histories = list[Path]()
        with suppress(FileNotFoundError):  # a training has just ended and removed its folder
            histories = sorted((folder / stage / key).glob(pattern))
        for history in histories:
            with suppress(FileNotFoundError):
                if ".partial-" not in str(history):
                    yield history.parent.relative_to(folder).as_posix(), name, experiment, pd.read_csv(history)


def _send(client: mlflow.MlflowClient, params: Settings, folder: Path) -> None:
    """Send the epochs that the store does not have yet."""
    going = {run.data.tags[ATTEMPT]: run for run in _live_runs(client, folder, "attributes.status = 'RUNNING'")}
    for attempt, name, experiment, rows in _trainings(params, folder):
        if len(rows) and attempt not in going:
            going[attempt] = client.create_run(
                experiment_of(client, experiment), run_name=" ".join((name, *Path(attempt).parts[3:])),  # such as seed2
                tags={ATTEMPT: attempt, NAME: name, PLACE: _place(folder)},
            )  # fmt: skip
        for number in rows["epoch"]:
            run = going[attempt]
            if number > run.data.metrics.get("epoch", 0):
                epoch = Metric("epoch", int(number), int(time.time() * 1000), int(number))
                client.log_batch(run.info.run_id, [epoch, *epoch_metrics(rows[rows["epoch"] == number])])


def watch(params: Settings, folder: Path, ended: threading.Event, *, every: float = 10.0) -> None:
    """Send the epochs of running trainings until `ended` is set.

    If the store does not answer, log it once and try again at the next look.

    Args:
        params: settings with the runs and sorters to watch.
        folder: the folder of checkpoints.
        ended: set when there is nothing more to watch.
        every: seconds between looks.
    """
    client, reported, last = None, False, False
    while not last:
        last = ended.wait(every)
        try:
            client = client or connect(create=True)
            _send(client, params, folder)
            reported = False
        except Exception as error:  # database drivers and HTTP clients each have their own exceptions
            if not reported:
                logging.getLogger(__name__).warning("trainings cannot be watched for now: %s", first_line(error))
            reported = True
