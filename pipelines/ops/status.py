"""Status files, which tell why a stage failed; the stage writes them, flows and `make repro` read them.

A file exists from the start of a stage until it succeeds, so a killed stage leaves one without an exit status.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from rankgrad.io.atomic import replaced_file

__all__ = ["TRANSIENT", "Status", "began", "clear", "failed", "read", "read_all", "succeeded"]

FOLDER = Path(".locks/status")  # git ignores it
TRANSIENT = os.EX_TEMPFAIL  # exit status of a stage that may succeed on a retry


@dataclass(frozen=True)
class Status:
    """The status of a stage that did not succeed.

    Attributes:
        stage: DVC's name of the stage, such as `train@mine`.
        exit_status: None while the stage runs, or if it was killed.
        message: message for people, possibly with several lines.
    """

    stage: str
    exit_status: int | None = None
    message: str = ""

    @property
    def is_transient(self) -> bool:
        """Whether the stage was killed, or reported that a retry may succeed."""
        return self.exit_status in (None, TRANSIENT)

    def __str__(self) -> str:
        """Return the message, with the stage's name before each line."""
        lines = ["it was killed"] if self.exit_status is None else self.message.splitlines()
        return "\n".join(f"{self.stage}: {line}" for line in lines)


def _file(folder: Path, stage: str) -> Path:
    return folder / FOLDER / f"{stage}.json"


def _write(status: Status) -> None:
    with replaced_file(_file(Path(), status.stage)) as partial:
        partial.write_text(json.dumps(asdict(status), indent=2) + "\n")


def began(stage: str) -> None:
    """Record that a stage of the current folder is running."""
    _write(Status(stage))


def failed(stage: str, message: str, exit_status: int) -> None:
    """Record why a stage of the current folder failed."""
    _write(Status(stage, exit_status, message))


def succeeded(stage: str) -> None:
    """Remove the status file of a stage of the current folder."""
    _file(Path(), stage).unlink(missing_ok=True)


def read(folder: Path, stage: str) -> Status | None:
    """Return the status of a stage; None if it succeeded or never ran."""
    file = _file(folder, stage)
    return Status(**json.loads(file.read_text())) if file.is_file() else None


def read_all(folder: Path) -> list[Status]:
    """Return the statuses of all stages that did not succeed."""
    files = sorted((folder / FOLDER).glob("[!.]*.json"))
    return [Status(**json.loads(file.read_text())) for file in files]


def clear() -> None:
    """Remove the status files of earlier stages in the current folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
