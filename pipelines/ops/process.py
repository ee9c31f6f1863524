"""Processes that end together with their parent, whatever ends it."""

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
    """Return a command that gets SIGTERM as soon as its parent process ends."""
    return ["setpriv", "--pdeathsig", "TERM", *command] if which("setpriv") else list(command)


def tie_to(parent: int) -> None:
    """Kill this process as soon as its parent ends. Workers call this first, as joblib's initializer.

    Args:
        parent: id of the parent process, which may have ended already.
    """
    _tie(lambda: [os.getppid()], [parent])


def tie_to_starter() -> None:
    """Kill this process as soon as its parent ends, which is dvc or a user's shell.

    An orphaned stage would write into the folders of the next `dvc repro`.
    """
    _tie(_starters, _starters())


def _tie(starters: Callable[[], list[int]], expected: list[int]) -> None:
    if LINUX:  # the kernel kills it; on other systems, a thread checks the parent
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not expected or starters() != expected:  # the parent ended before this process could check
        sys.stderr.write("ended: the parent process is gone\n")
        os._exit(os.EX_TEMPFAIL)

    def watch() -> None:
        while starters() == expected:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    if not LINUX or len(expected) > 1:
        threading.Thread(target=watch, daemon=True).start()


def _starters() -> list[int]:
    """Return the parent process; in a stage run by DVC, all processes up to dvc, since a shell may be in between.

    Empty if none of them is dvc, which means that dvc ended and the stage is an orphan.
    """
    if not LINUX or "DVC_STAGE" not in os.environ:
        return [os.getppid()]
    process, processes = os.getpid(), []
    try:
        while process := _parent(process):
            processes.append(process)
            if _is_dvc(process):
                return processes
    except OSError:  # a process has just ended
        pass
    return []


def _parent(process: int) -> int:
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _is_dvc(process: int) -> bool:
    with open(f"/proc/{process}/cmdline") as file:
        return any(os.path.basename(word) == "dvc" for word in file.read().split("\0"))
