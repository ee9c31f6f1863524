"""The epochs of a training: shown as they come, kept where they can be followed, and written as a table."""

import csv
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from rankops.io.atomic import replaced_file
from rankops.training.loop import Epoch

__all__ = ["followed", "write_history"]

EVERY = 5.0  # seconds between lines where there is no terminal


def followed(
    epochs: Iterable[tuple[str, Epoch]], *, name: str, total: int, history: Path
) -> Iterator[tuple[str, Epoch]]:
    """Show epochs as they come, a bar in a terminal and lines elsewhere, and keep them in a history file.

    Args:
        epochs: a phase and an epoch each.
        name, total: of the training, and how many epochs it has at most.
        history: a CSV file that is rewritten after each epoch, so that others can follow the training.
    """
    rows: list[tuple[str, Epoch]] = []
    last = 0.0
    with tqdm(total=total, desc=name, unit=" epochs", disable=not sys.stderr.isatty()) as bar:
        for phase, epoch in epochs:
            rows.append((phase, epoch))
            history.parent.mkdir(parents=True, exist_ok=True)
            with replaced_file(history) as partial:
                write_history(partial, rows)
            metrics = {key: f"{value:.4g}" for key, value in epoch.validation.items()}
            bar.set_postfix(loss=f"{epoch.loss:.4g}", **metrics)
            bar.update()
            if bar.disable and (time.monotonic() - last > EVERY or len(rows) == total):
                last = time.monotonic()
                shown = ", ".join(f"{key} {value}" for key, value in metrics.items())
                print(f"{name}: {phase}, epoch {len(rows)} of {total}: loss {epoch.loss:.4g}, {shown}", file=sys.stderr)
            yield phase, epoch


def write_history(path: Path, epochs: list[tuple[str, Epoch]]) -> None:
    """Write a row an epoch: `phase`, `epoch`, `loss`, the validation metrics, `learning_rate` and `best`; no times."""
    metrics = list(dict.fromkeys(name for _, epoch in epochs for name in epoch.validation))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["phase", "epoch", "loss", *metrics, "learning_rate", "best"])
        for phase, epoch in epochs:
            values = [f"{epoch.validation[name]:.9g}" if name in epoch.validation else "" for name in metrics]
            rate = f"{epoch.learning_rate:.9g}"
            writer.writerow([phase, epoch.number, f"{epoch.loss:.9g}", *values, rate, int(epoch.best)])
