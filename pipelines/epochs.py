"""What a stage does with the epochs of a training: shows them as they come, and writes them as a table."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from rankops.training import Epoch

__all__ = ["shown", "write_history"]

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
