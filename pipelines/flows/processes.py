"""Commands that a flow runs: their output goes to its log, and they end when it does."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger, get_run_logger

from pipelines.ops.programs import search_path

__all__ = ["CommandFailed", "Commands", "TransientFailure", "retried"]

PROGRESS = re.compile(r"\d+%\|")
PROGRESS_EVERY = 30.0  # seconds
TAIL = 12  # lines of output that an error has

# What may go well the next time: a stage that was killed (out of memory, say), DVC's locks, half-written ones too (they
# are mended before the next try), a server that is away, a second process of the stage that is about to end. Wrong
# params or data are not among them.
TRANSIENT = re.compile(
    r"exited with -\d+|exited with 75\b|Unable to acquire lock|is busy|another process runs this stage|does not answer"
    r"|the MLflow store failed|dvc\.lock' (?:is invalid|validation failed)|RWLock-file"
)


class CommandFailed(RuntimeError):
    """A command did not end with 0; the same command would fail again."""


class TransientFailure(CommandFailed):
    """A command did not end with 0; it may go well the next time."""


def _may_go_well(task: Any, run: Any, state: Any) -> bool:
    """Whether a failed task of Prefect's is worth another try: if it ended with a `TransientFailure`."""
    try:
        state.result()
    except TransientFailure:
        return True
    except Exception:
        return False
    return False


# Prefect's `task`, for what is tried again after a `TransientFailure`, in the same run alone.
retried = partial(
    task, cache_policy=NO_CACHE, retries=3, retry_delay_seconds=[2, 10, 60], retry_condition_fn=_may_go_well
)


def _logger():
    try:
        return get_run_logger()
    except MissingContextError:
        return get_logger("rankops")


class Commands:
    """The commands of one flow run, which `stop` ends all together."""

    def __init__(self):
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, command: list[str], *, folder: Path, environment: Mapping[str, str] | None = None) -> str:
        """Runs a command to its end, its output a line at a time in the run's log; returns what it printed.

        It gets a process group of its own, and SIGTERM when this process dies, however that happens.

        Args:
            command: program and arguments; the programs of this process's environment come first.
            folder: to run it in.
            environment: variables beside those of this process.

        Raises:
            TransientFailure: it failed for what may be over the next time.
            CommandFailed: it failed, or all commands were stopped.
        """
        if shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "TERM", *command]
        with self._lock:
            if self._stopped.is_set():
                raise CommandFailed(f"not started, the flow is ending: {' '.join(command)}")
            process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, "PATH": search_path(), **(environment or {})},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        try:
            printed = self._followed(process)
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode:
            said = "\n".join(printed[-TAIL:])
            killed = process.returncode < 0 and not self._stopped.is_set()
            kind = TransientFailure if killed or TRANSIENT.search(said) else CommandFailed
            raise kind(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
        return "\n".join(printed)

    def _followed(self, process: subprocess.Popen) -> list[str]:
        """Logs output until the end; of progress bars a line now and then."""
        printed = []
        shown = time.monotonic()
        logger = _logger()
        for line in process.stdout:  # a bar's carriage returns are line ends here
            line = line.rstrip()
            if not line:
                continue
            if PROGRESS.search(line):
                if time.monotonic() - shown < PROGRESS_EVERY:
                    continue
                shown = time.monotonic()
            else:
                printed.append(line)
            logger.info(line)
        process.wait()
        return printed

    def stop(self) -> None:
        """Ends all that runs, with its children; nothing is started any more."""
        with self._lock:
            self._stopped.set()
            running = list(self._running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                if process.poll() is None:
                    with suppress(ProcessLookupError):  # its own thread saw it end in between
                        os.killpg(process.pid, number)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and any(process.poll() is None for process in running):
                time.sleep(0.1)
