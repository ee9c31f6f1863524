"""Run `dvc repro` in the present folder, after the one that is at work there: `python -m pipelines.ops.repro [WORDS]`.

DVC itself would stop at the first stage that the other one runs.
"""

import fcntl
import os
import sys
from pathlib import Path

from pipelines.ops.dvc_repair import repair

__all__ = ["main"]

LOCK = Path(".locks/repro")


def main(*words: str) -> None:
    """Wait for the other one, repair what it left if it was killed, and become `dvc repro`.

    Raises:
        ValueError: see `pipelines.ops.dvc_repair.repair`.
    """
    LOCK.parent.mkdir(exist_ok=True)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode().strip()
        sys.stderr.write(f"waiting for the `dvc repro` that is at work in {Path.cwd()}: process {holder}\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    for line in repair():
        sys.stderr.write(f"{line}\n")
    os.set_inheritable(lock, True)  # by dvc, whose stages do not get it: the lock ends with dvc
    os.execvp("dvc", ["dvc", "--wait-for-lock", "repro", *words])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:  # while it waited
        sys.exit(130)
