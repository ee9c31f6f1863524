"""Run `dvc repro` in the current folder, after another one there has ended: `python -m pipelines.ops.repro [WORDS]`.

DVC itself would fail at the first stage that the other process runs. Without words, run all stages, then publish.
"""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

from pipelines.config import ParamsError, load
from pipelines.config.schema import read
from pipelines.ops import status
from pipelines.ops.dvc_repair import repair
from pipelines.ops.leftovers import set_aside
from pipelines.ops.process import tied

__all__ = ["CACHED", "DVC_IS_BUSY", "RAN", "REPRO", "command_of", "main"]

LOCK = Path(".locks/repro")
REPRO = ("dvc", "--wait-for-lock", "repro")
PUBLISH = "publish"  # always run, because DVC cannot know whether MLflow's store was emptied or replaced
# Messages of DVC, which has no exit status for these cases: a stage ran, its outputs came from the run cache, or
# another dvc holds a lock or is writing a file that this one reads.
RAN, CACHED = "Running stage '", "is cached - skipping run"
DVC_IS_BUSY = re.compile(
    r"Unable to acquire lock|is busy|dvc\.lock' (?:is invalid|validation failed)|RWLock-file", re.IGNORECASE
)


def command_of(stage: str) -> list[str]:
    """Return the command that runs a stage: `publish` always, others only if DVC detects a change."""
    return [*REPRO, "--single-item", *(["--force"] if stage == PUBLISH else []), stage]


def main(*words: str) -> None:
    """Wait for another `dvc repro`, repair its files if it was killed, and run `dvc repro`; exit with its status.

    Without words, run all stages except `publish`, then always `publish`. The reasons of failed stages are printed
    last.

    Raises:
        ValueError: see `pipelines.ops.dvc_repair.repair`.
    """
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.touch()
    with LOCK.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"waiting for another `dvc repro` in {Path.cwd()}: process {lock.read()}\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        os.pwrite(lock.fileno(), str(os.getpid()).encode(), 0)
        for line in [*repair(), *_set_aside()]:
            sys.stderr.write(f"{line}\n")
        status.clear()
        for command in [[*REPRO, *words]] if words else [[*REPRO, *_others()], command_of(PUBLISH)]:
            if code := _run(command, lock.fileno()):
                for failure in status.read_all(Path()):
                    sys.stderr.write(f"{failure}\n")
                sys.exit(code if code > 0 else 128 - code)  # like a shell for a process ended by a signal


def _set_aside() -> list[str]:
    """Move leftovers away, for example of another branch's params, because stages read whole folders."""
    try:
        return set_aside(load())
    except (FileNotFoundError, ParamsError):  # the stage `check` reports the error
        return []


def _others() -> list[str]:
    return [stage for stage in read("dvc.yaml")["stages"] if stage != PUBLISH]


def _run(command: list[str], lock: int) -> int:
    """Run DVC, which also holds the lock while it runs; its stages do not inherit the lock."""
    running = subprocess.Popen(tied(*command), pass_fds=[lock])
    try:
        return running.wait()
    except KeyboardInterrupt:  # the terminal also sends it to DVC, which ends its stage
        return running.wait()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:  # while waiting
        sys.exit(130)
