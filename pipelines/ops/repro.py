"""Run `dvc repro` in the current folder, after another one there has ended: `python -m pipelines.ops.repro [WORDS]`.

DVC itself would fail at the first stage that the other process runs. Without words, run all stages, then publish.
"""

import fcntl
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pipelines.config import ParamsError, load
from pipelines.config.schema import read
from pipelines.ops import status
from pipelines.ops.dvc_repair import repair
from pipelines.ops.leftovers import set_aside
from pipelines.ops.process import tied
from pipelines.ops.processes import PUBLISH, REPRO, CommandFailed, Commands, command_of
from pipelines.ops.side_by_side import run_stale, slots_of

__all__ = ["main"]

LOCK = Path(".locks/repro")
# Starts of lines that DVC prints after each stage; the last command prints them once.
HINT = re.compile(r"\s*(Updating lock file|To track the changes|To enable auto|dvc config|git add|Use `dvc push`)")


def main(*words: str) -> None:
    """Wait for another `dvc repro`, repair its files if it was killed, and run `dvc repro`; exit with its status.

    Without words, run all stages except `publish`, then always `publish`. Stages run side by side if there are several
    GPUs, or cores for several trainings with compute.threads, and no word is an option of `dvc repro`. The reasons of
    failed stages are printed last.

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
        _repro(words, lock.fileno())


def _repro(words: tuple[str, ...], lock: int) -> None:
    """Run the stages, in a folder where no other dvc runs."""
    params, moved = None, []
    with suppress(FileNotFoundError, ParamsError):  # the stage `check` reports the error
        params = load()
        moved = set_aside(params)  # for example of another branch's params, because stages read whole folders
    for line in [*repair(), *moved]:
        sys.stderr.write(f"{line}\n")
    status.clear()
    has_options = any(word.startswith("-") for word in words)
    slots = {} if params is None or has_options else slots_of(params)
    command = [*REPRO]
    if sum(map(len, slots.values())) > 1:
        try:
            run_stale(Path(), slots, Commands(_print), targets=words)
        except CommandFailed:
            _fail(1)
        command.append("--quiet")  # only what DVC could not lock is left to run
    others = [stage for stage in read("dvc.yaml")["stages"] if stage != PUBLISH]
    for following in [[*command, *(words or others)], *([] if words else [command_of(PUBLISH)])]:
        if code := _run(following, lock):
            _fail(code)


def _print(line: str) -> None:
    if not HINT.match(line):  # a stage's own lines begin with its name
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _fail(code: int) -> NoReturn:
    for failure in status.read_all(Path()):
        sys.stderr.write(f"{failure}\n")
    sys.exit(code if code > 0 else 128 - code)  # like a shell for a process ended by a signal


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
