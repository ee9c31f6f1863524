"""What a stage does with the epochs of a training: shows them as they come, and writes them as a table."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from tqdm import tqdm

from rankops.io.atomic import replaced_folder
from rankops.training.loop import Epoch

__all__ = ["shown", "write_history", "write_trained"]

T = TypeVar("T")


def shown(epochs: Iterable[T], *, name: str, total: int) -> Iterator[T]:
    """A progress bar over epochs, or over tuples that hold one, with their figures beside it."""
    with tqdm(total=total, desc=name, unit=" epochs") as bar:
        for item in epochs:
            epoch = item if isinstance(item, Epoch) else next(part for part in item if isinstance(part, Epoch))
            figures = {key: f"{value:.4g}" for key, value in epoch.validation.items()}
            bar.set_postfix(loss=f"{epoch.loss:.4g}", **figures)
            bar.update()
            yield item


def write_history(path: Path, epochs: list[Epoch]) -> None:
    """One row an epoch: `epoch`, `loss`, the validation figures, `learning_rate` and `best`; no times."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["epoch", "loss", *epochs[0].validation, "learning_rate", "best"])
        for epoch in epochs:
            figures = [f"{value:.9g}" for value in (epoch.loss, *epoch.validation.values(), epoch.learning_rate)]
            writer.writerow([epoch.number, *figures, int(epoch.best)])


def write_trained(
    path: str | Path, task: ModuleType, progress: Iterable[tuple[str, Epoch, Any]], *, name: str,
    training: dict[str, Any],
) -> None:  # fmt: skip
    """Carries a training out with a progress bar, and writes its model and the history of each of its steps.

    Args:
        path: folder to write, whole or not at all.
        task: of rankops.tasks.
        progress: what its `train` yields.
        name, training: of the training, and its params: a block for each step, and what is of no step.
    """
    epochs: dict[str, list[Epoch]] = {}
    total = sum(training[step]["epochs"] for step in task.HISTORIES)
    for step, epoch, predictor in shown(progress, name=name, total=total):
        epochs.setdefault(step, []).append(epoch)
    with replaced_folder(path) as folder:
        task.save(folder, predictor)
        for step, history in epochs.items():
            write_history(folder / task.HISTORIES[step], history)
