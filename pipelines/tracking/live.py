"""Trainings that go on, shown in MLflow: read from their checkpoints, so that none waits for a server or knows one."""

import logging
import pickle
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipelines.config.schema import Settings
from pipelines.tracking.publish import LiveRuns, ServerUnreachable, store

__all__ = ["Going", "going", "watch"]

PROGRESS = "custom_checkpoint_0.pkl"  # what `rankops.training.loop.fit` registers first: its epochs
SECOND = {"everything"}  # its epochs count on from the head's
ALSO = {"thresholds"}  # steps that publishing leaves out


@dataclass(frozen=True)
class Going:
    """A training that has a checkpoint.

    Attributes:
        name: of the run, as it is published.
        experiment: it belongs to.
        key: of this attempt: the same when a killed training goes on.
        epochs: one row of figures each, `epoch` counted from 1 on.
    """

    name: str
    experiment: str
    key: str
    epochs: list[dict[str, float]]


def _inside(folder: Path) -> list[Path]:
    """What a folder has, but for what is half written or half removed; nothing if it is gone by now."""
    try:
        return sorted(path for path in folder.iterdir() if ".partial-" not in path.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _epochs(step: Path) -> list[dict[str, Any]]:
    """Of the newest whole checkpoint of a step; none while it is being replaced."""
    whole = [path for path in _inside(step) if path.name.startswith("epoch-")]
    try:
        # Mapped, and to the CPU: of the weights beside the epochs nothing is read.
        read = {"weights_only": True, "mmap": True, "map_location": "cpu"}
        return torch.load(whole[-1] / PROGRESS, **read)["epochs"] if whole else []
    except (OSError, RuntimeError, pickle.UnpicklingError, KeyError):  # removed while it was read
        return []


def _row(epoch: dict[str, Any], number: int) -> dict[str, float]:
    return {
        "epoch": number, "loss": epoch["loss"], **epoch["validation"], "learning_rate": epoch["learning_rate"]
    }  # fmt: skip


def going(params: Settings, folder: Path = Path(".checkpoints")) -> list[Going]:
    """All trainings that have a checkpoint now, with the epochs that are done.

    Args:
        params: whose runs and sorters are looked for.
        folder: of checkpoints.
    """
    runs = params.all_runs
    found = []
    trained = [run for stage in ("pretrain", "train") for run in _inside(folder / stage)]
    for attempt in (attempt for run in trained for attempt in _inside(run)):
        stage, name = attempt.parts[-3:-1]
        if name not in (runs if stage == "train" else params.sorters):
            continue
        steps = [attempt] if stage == "pretrain" else [step for step in _inside(attempt) if step.name not in ALSO]
        steps.sort(key=lambda step: step.name in SECOND)
        epochs = [epoch for step in steps for epoch in _epochs(step)]
        rows = [_row(epoch, number) for number, epoch in enumerate(epochs, start=1)]
        shown, experiment = (name, runs[name].task) if stage == "train" else (f"sorter-{name}", "sorters")
        if attempt.is_dir():  # still
            found.append(Going(shown, experiment, f"{name}/{attempt.name}", rows))
    return found


def watch(params: Settings, folder: Path, ended: threading.Event, *, every: float = 10.0) -> None:
    """Sends new epochs until `ended` is set; a store that does not answer is tried again, and told of once.

    Publishing completes the same runs. What was begun here and is not going on any more when this ends, such as a
    training that failed, is marked as killed; what was published in the meantime is left alone.

    Args:
        params, folder: see `going`.
        ended: set when there is nothing more to watch.
        every: seconds between looks.
    """
    logger, told, runs = logging.getLogger(__name__), False, None
    while True:
        last = ended.wait(every)
        try:
            if runs is None:
                with store() as client:
                    runs = LiveRuns(client, folder)
            now = going(params, folder)
            for one in now:
                runs.send(one.name, one.experiment, one.key, one.epochs)
            if last:
                runs.close({one.key for one in now})
            told = False
        except ServerUnreachable as error:
            if not told:
                logger.warning("trainings cannot be watched for now: %s", error)
            told = True
        if last:
            return
