"""The epochs of a training: show them live, store them for other programs to follow, and write them as a table.

Start and end times of trainings, and the resources used, are stored in a separate folder that git ignores, because
results with times in them would never be reproducible.
"""

import csv
import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import torch
from tqdm import tqdm

from rankgrad.io.atomic import replaced_file
from rankgrad.training.progress import Epoch

__all__ = ["Times", "began", "followed", "keep_times", "kept", "write_history"]

Times = tuple[int, int]  # begin and end, in milliseconds since 1970
TIMES = Path(".checkpoints/times")
USED = "used.json"  # next to a history: resources used by the process that finished the training
RSS = 1 if sys.platform == "darwin" else 2**10  # bytes in the system's unit of memory
MINUTE = 60.0  # seconds between log lines of a training without a terminal
SOON = 10.0  # seconds until the first one


def followed(
    epochs: Iterable[tuple[str, Epoch]],
    *,
    name: str,
    total: int,
    history: Path,
    every: float = MINUTE,
    is_validated: bool = True,
) -> Iterator[tuple[str, Epoch]]:
    """Show epochs live and store them in a history file.

    A terminal shows a progress bar. Otherwise, a line is logged soon, from time to time, and at the end.

    Args:
        epochs: pairs of phase and epoch.
        name, total: name of the training, and its largest number of epochs.
        history: a CSV file that is rewritten after each epoch, so that others can follow the training.
        every: seconds between log lines without a terminal; 0 for one line per epoch.
        is_validated: whether validation decides on the best epoch; else its metrics are left out.
    """
    rows: list[tuple[str, Epoch]] = []
    printed, line, start, before = 0, "", time.monotonic(), time.process_time()
    last, replayed = start - every + min(every, SOON), 0  # epochs of a resumed training come at once
    history.parent.mkdir(parents=True, exist_ok=True)
    if not _mark(history.parent).exists():  # a resumed training began earlier
        _mark(history.parent).touch()
    with tqdm(total=total, desc=name, unit=" epochs", disable=None) as bar:
        for phase, epoch in epochs:
            rows.append((phase, epoch if is_validated else replace(epoch, validation={})))
            with replaced_file(history) as partial:
                write_history(partial, rows)
            metrics = {key: f"{value:.4g}" for key, value in rows[-1][1].validation.items()}
            bar.set_postfix(loss=f"{epoch.loss:.4g}", **metrics)
            bar.update()
            values = ", ".join(f"{key} {value}" for key, value in {"loss": f"{epoch.loss:.4g}", **metrics}.items())
            line = f"{name}: {phase}, epoch {len(rows)} of {total}: {values}"
            now = time.monotonic()
            if now - start < 1.0:
                replayed = len(rows) - 1
            if bar.disable and now - last >= every:
                printed, last = len(rows), now
                seconds = (now - start) / (len(rows) - replayed) * (total - len(rows))
                print(f"{line}; at most about {seconds / 60:.1f} minutes left", file=sys.stderr, flush=True)
            yield phase, epoch
    if not is_validated:
        line += "; learned validation rows, too"
    elif rows and rows[-1][1].best and rows[-1][1].number > 1:
        line += "; the last epoch is the best: more epochs may be better"
    elif best := [epoch for phase, epoch in rows if epoch.best and phase == rows[-1][0]]:
        line += f"; epoch {best[-1].number} is kept, with {best[-1].monitor} {best[-1].value:.4g}"
    if len(rows) > printed and bar.disable:
        print(line, file=sys.stderr, flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS
    used = {"cpu_seconds": time.process_time() - before, "peak_memory_mb": memory / 2**20}
    if torch.cuda.is_available():
        used["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() / 2**20
    (history.parent / USED).write_text(json.dumps(used))


def _mark(folder: Path) -> Path:
    return folder / "began"


def began(folder: Path) -> int | None:
    """Return when the training with its history in a folder was first started; None if unknown."""
    return _mark(folder).stat().st_mtime_ns // 10**6 if _mark(folder).is_file() else None


def keep_times(stage: str, name: str, folder: Path, times: dict[str, Times]) -> None:
    """Store when the parts of a training started and ended, the resources they used, and for which result.

    Args:
        stage, name: stage and name of the training.
        folder: folder of its result.
        times: times of each part, such as a seed.
    """
    notes = [json.loads(file.read_text()) for file in (TIMES.parent / stage / name).rglob(USED)]
    used = {}
    for quantity in notes[0] if notes else ():
        values = [note[quantity] for note in notes]
        used[quantity] = sum(values) if quantity == "cpu_seconds" else max(values)
    with replaced_file(TIMES / stage / f"{name}.json") as partial:
        partial.write_text(json.dumps({"result": _digest(folder), "times": times, "used": used}) + "\n")


def kept(stage: str, name: str, folder: Path) -> tuple[dict[str, Times], dict[str, float]]:
    """Return what `keep_times` stored for exactly this result: times by part, and the total resources used.

    Empty for a result from another machine or time. `cpu_seconds` are for the epochs of the processes that finished a
    training; peaks are those of the largest process.
    """
    file = TIMES / stage / f"{name}.json"
    note = json.loads(file.read_text()) if file.is_file() else {}
    if note.get("result") != _digest(folder):
        return {}, {}
    return {seed: tuple(times) for seed, times in note["times"].items()}, note.get("used", {})


def _digest(folder: Path) -> str:
    digest = sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def write_history(path: Path, epochs: list[tuple[str, Epoch]]) -> None:
    """Write a row per epoch: `phase`, `epoch`, `loss`, validation metrics, `learning_rate`, and `best`; no times."""
    metrics = list(dict.fromkeys(name for _, epoch in epochs for name in epoch.validation))
    with path.open("w", newline="") as file:
        columns = ["phase", "epoch", "loss", *metrics, "learning_rate", "best"]
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for phase, epoch in epochs:
            row = {"phase": phase, "epoch": epoch.number, "best": int(epoch.best)}
            numbers = {"loss": epoch.loss, **epoch.validation, "learning_rate": epoch.learning_rate}
            writer.writerow(row | {name: f"{number:.9g}" for name, number in numbers.items()})
