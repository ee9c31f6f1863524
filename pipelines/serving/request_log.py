"""Keep a bounded random sample of each day's requests to a served model, for `rankgrad monitor`.

Each row gets a random number. When a day's file is full, the rows with the smallest numbers stay, which are a uniform
sample of all rows so far.
"""

import json
import logging
import random
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rankgrad import lookup
from rankgrad.io.atomic import replaced_file

__all__ = ["BYTES", "CAPTION", "ROWS", "RequestLog", "input_compared", "row_of"]

ROWS = 2000  # fewest rows to keep per day, if there are that many
BYTES = 2**27  # largest size of a day's file
CAPTION = "caption"
PARTIAL = ".partial-requests"  # name of today's file, which `pipelines.flows.monitor.newest` must ignore


class RequestLog:
    """Keep rows in `<folder>/<day>-requests.jsonl`, which `rankgrad monitor` and `predict` can read.

    In addition to the columns of the request, a row has `asked` (the time), `version`, `answer`, and `draw`, its random
    number. Each server needs its own folder.

    Args:
        folder: the folder, created if it does not exist.
        seed: the seed of the random numbers.
        now: returns the current time.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, folder: Path, *, seed: int = 0, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._now, self._draws, self._lock = folder, now, random.Random(seed), threading.Lock()
        self._day, self._rows, self._size, self._highest, self._failed = "", 0, 0, 1.0, False

    def keep(self, rows: list[dict[str, Any]], answers: list[dict[str, Any]], version: str) -> None:
        """Keep a sample of rows with their answers; if writing fails, log it once and continue to answer."""
        try:
            with self._lock:
                self._keep(rows, answers, version)
            self._failed = False
        except OSError as error:
            if not self._failed:
                logging.getLogger(__name__).error("%s: requests are not kept: %s", self._folder, error)
            self._failed = True

    def close_days(self) -> None:
        """Rename the files of days that have ended, even if there is no request today."""
        self.keep([], [], "")

    def _keep(self, rows: list[dict[str, Any]], answers: list[dict[str, Any]], version: str) -> None:
        now = self._now()
        self._open(now.date().isoformat())
        about = {"asked": now.isoformat(timespec="seconds"), "version": version}
        lines = []
        for row, answer in zip(rows, answers, strict=True):
            if (draw := self._draws.random()) < self._highest:
                lines.append(json.dumps(row | about | {"answer": answer, "draw": draw}) + "\n")
        if not lines:
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        self._rows, self._size = self._rows + len(lines), self._size + sum(map(len, lines))
        if self._rows >= 2 * ROWS or self._size > BYTES:
            self._thin()

    @property
    def _file(self) -> Path:
        return self._folder / f"{self._day}{PARTIAL}.jsonl"

    def _open(self, day: str) -> None:
        """Start the file of a day, or continue it after a restart; rename the files of earlier days."""
        if day == self._day:
            return
        of_day = self._folder / f"{day}{PARTIAL}.jsonl"
        for file in self._folder.glob(f"*{PARTIAL}.jsonl"):
            if file != of_day:
                file.rename(file.with_name(file.name.replace(PARTIAL, "-requests")))
        text = of_day.read_text(encoding="utf-8") if of_day.is_file() else ""
        lines = [line for line in text.splitlines(keepends=True) if _is_whole(line)]
        self._day = day  # set it only now, so that a failed attempt is repeated
        if sum(map(len, lines)) < len(text):
            self._write(lines)
        self._rows, self._size = len(lines), sum(map(len, lines))
        self._highest = max(map(_draw, lines)) if self._rows > ROWS else 1.0

    def _thin(self) -> None:
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True)
        lines = sorted(filter(_is_whole, lines), key=_draw)
        half, size, kept = BYTES // 2, 0, []
        for line in lines[:ROWS]:
            if (size := size + len(line)) > half:
                break
            kept.append(line)
        self._write(kept)
        self._rows, self._size, self._highest = len(kept), sum(map(len, kept)), _draw(lines[len(kept)])

    def _write(self, lines: list[str]) -> None:
        with replaced_file(self._file) as partial:
            partial.write_text("".join(lines), encoding="utf-8")


def _is_whole(line: str) -> bool:
    """Return whether a line is complete: a killed process or a full disk may leave half a line."""
    try:
        return line.endswith("\n") and isinstance(_draw(line), float)
    except (ValueError, KeyError, TypeError):
        return False


def _draw(line: str) -> float:
    return json.loads(line)["draw"]


def input_compared(recipe: Mapping[str, Any]) -> str:
    """Return the input by which `monitor` compares rows: of a search in texts, its queries; else, the model's."""
    kind = recipe["input"]["kind"]
    return CAPTION if recipe.get("task") == "retrieval" and kind == "text" else kind


def row_of(row: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked row of a request in the form of a table's row, see `rankgrad.inputs.InputType.written`.

    >>> recipe = {"task": "score_ranking", "input": {"kind": "features", "names": ["age", "price"]}}
    >>> row_of({"features": {"price": 2.0, "age": 1.0}, "id": "a"}, recipe)
    {'features': [1.0, 2.0], 'id': 'a'}
    """
    about, task = recipe["input"], lookup.find("tasks", recipe["task"])
    input_type = lookup.find("inputs", about["kind"])
    if input_type.name not in row:  # it has a caption
        return dict(row)
    cells = row[input_type.name] if task.reads.lists else [row[input_type.name]]
    written = [input_type.written(cell, about) for cell in cells]
    return dict(row) | {input_type.name: written if task.reads.lists else written[0]}
