"""Run commands whose output goes to a log and that end with this process; commands and phrases of DVC."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipelines.ops import status
from pipelines.ops.messages import without_credentials
from pipelines.ops.process import tied
from pipelines.ops.status import TRANSIENT
from rankgrad.io.written import printable

__all__ = ["CACHED", "PUBLISH", "RAN", "REPRO", "CommandFailed", "Commands", "Done", "TransientFailure", "command_of"]

REPRO = ("dvc", "--wait-for-lock", "repro")
PUBLISH = "publish"  # always run, because DVC cannot know whether MLflow's store was emptied or replaced
# Messages of DVC, which has no exit status for these cases: a stage ran, its outputs came from the run cache, or
# another dvc holds a lock or is writing a file that this one reads.
RAN, CACHED = "Running stage '", "is cached - skipping run"
DVC_IS_BUSY = re.compile(
    r"Unable to acquire lock|is busy|dvc\.lock' (?:is invalid|validation failed)|RWLock-file", re.IGNORECASE
)
PROGRESS_BAR = re.compile(r"\d+%\|")
TAIL = 12  # number of output lines in an error


def command_of(stage: str) -> list[str]:
    """Return the command that runs a stage: `publish` always, others only if DVC detects a change."""
    return [*REPRO, "--single-item", *(["--force"] if stage == PUBLISH else []), stage]


class CommandFailed(ValueError):
    """A command failed; the same command would fail again."""


class TransientFailure(CommandFailed):
    """A command failed; a retry may succeed."""


@dataclass(frozen=True)
class Done:
    """A successful command: its output, and the CPU time of it and its children."""

    output: str
    cpu_seconds: float


class Commands:
    """Commands that `stop` ends together, such as those of one retraining.

    Args:
        log: called with each line of their output; None for Python's log.
    """

    def __init__(self, log: Callable[[str], None] | None = None):
        self.log = log or logging.getLogger(__name__).info
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, *command: str, folder: Path, **environment: str) -> Done:
        """Run a command in its own process group, log its output line by line, and return the output and its cost.

        The command gets SIGTERM when this process ends for any reason.

        Args:
            command: program and arguments; programs of this Python environment come first.
            folder: working directory.
            environment: variables in addition to those of this process.

        Raises:
            TransientFailure: the command failed, but a retry may succeed.
            CommandFailed: the command failed, or `stop` was called.
        """
        name = " ".join(command)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        with self._lock:
            if self._stopped:
                raise CommandFailed(f"not started, because the flow is ending: {name}")
            process = subprocess.Popen(
                tied(*command), cwd=folder, env=os.environ | {"PATH": path} | environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        output = []
        for line in filter(None, map(str.rstrip, process.stdout or ())):
            line = printable(without_credentials(line.expandtabs()))  # the whole team can read it
            if not PROGRESS_BAR.search(line):
                output.append(line)
                self.log(line)
        cost = 0.0
        with suppress(ChildProcessError):  # `stop` has waited for it
            _, status, used = os.wait4(process.pid, 0)  # unlike `Popen.wait`, also returns the resources used
            process.returncode, cost = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        code = process.wait()
        with self._lock:
            self._running.discard(process)
        if code:
            tail = "\n".join(output[-TAIL:])
            transient = not self._stopped and (code < 0 or code == TRANSIENT or DVC_IS_BUSY.search(tail))
            raise (TransientFailure if transient else CommandFailed)(f"{name} ended with {code}:\n{tail}")
        return Done("\n".join(output), cost)

    def run_stage(self, *command: str, stage: str, folder: Path, **environment: str) -> Done:
        """Run the command of a stage as `run` does; if it fails, the stage's status file has the reason.

        Args:
            command: program and arguments.
            stage: DVC's name of the stage.
            folder: working directory.
            environment: see `run`.

        Raises:
            TransientFailure, CommandFailed: see `run`.
        """
        try:
            return self.run(*command, folder=folder, **environment)
        except CommandFailed as error:
            if self._stopped or (why := status.read(folder, stage)) is None:
                raise
            raise (TransientFailure if why.is_transient else CommandFailed)(str(why)) from error

    def stop(self) -> None:
        """End all commands and their children, and do not start new ones."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and any(process.poll() is None for process in running):
                time.sleep(0.1)
