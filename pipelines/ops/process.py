"""Processes that end with the one that started them, however that ends."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from shutil import which

__all__ = ["tie_to", "tie_to_starter", "tied"]

PR_SET_PDEATHSIG = 1  # linux/prctl.h
LINUX = sys.platform == "linux"


def tied(*command: str) -> list[str]:
    """Return the command that gets SIGTERM as soon as the process that starts it ends."""
    return ["setpriv", "--pdeathsig", "TERM", *command] if which("setpriv") else list(command)


def tie_to(parent: int) -> None:
    """Kill this process as soon as its parent ends. A worker calls this before anything else, as joblib's initializer.

    Args:
        parent: the process that started this one, which may have ended by now.
    """
    _tie(lambda: [os.getppid()], [parent])


def tie_to_starter() -> None:
    """Kill this process as soon as what started it ends: dvc or a person's shell.

    An orphaned stage would write into the folders of the next `dvc repro`.
    """
    _tie(_starters, _starters())


def _tie(starters: Callable[[], list[int]], expected: list[int]) -> None:
    if LINUX:  # the kernel kills it; elsewhere a thread looks
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not expected or starters() != expected:  # ended before this process could ask
        sys.stderr.write("ended: the process that started this one is gone\n")
        os._exit(os.EX_TEMPFAIL)

    def watch() -> None:
        while starters() == expected:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    if not LINUX or len(expected) > 1:
        threading.Thread(target=watch, daemon=True).start()


def _starters() -> list[int]:
    """Return the parent; in a stage that DVC runs all processes up to dvc, as its shell may stay in between.

    Empty if none of them is dvc: it ended, and the stage is an orphan.
    """
    if not LINUX or "DVC_STAGE" not in os.environ:
        return [os.getppid()]
    process, processes = os.getpid(), []
    try:
        while process := _parent(process):
            processes.append(process)
            if _is_dvc(process):
                return processes
    except OSError:  # one of them has just ended
        pass
    return []


def _parent(process: int) -> int:
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _is_dvc(process: int) -> bool:
    with open(f"/proc/{process}/cmdline") as file:
        return any(os.path.basename(word) == "dvc" for word in file.read().split("\0"))
