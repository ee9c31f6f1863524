"""Run `dvc repro` in the present folder, after the one that is at work there: `python -m pipelines.ops.repro [WORDS]`.

DVC itself would stop at the first stage that the other one runs. Without words it runs all stages, and publishes.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from pipelines.ops.dvc_repair import repair
from pipelines.ops.process import tied

__all__ = ["REPRO", "command_of", "main"]

LOCK = Path(".locks/repro")
REPRO = ("dvc", "--wait-for-lock", "repro")
PUBLISH = "publish"  # restores what an emptied or changed MLflow lacks; DVC cannot know whether one is


def command_of(stage: str) -> list[str]:
    """Return the command that runs one stage: `publish` always, any other if DVC finds that something changed."""
    return [*REPRO, "--single-item", *(["--force"] if stage == PUBLISH else []), stage]


def main(*words: str) -> None:
    """Wait for the other one, repair what it left if it was killed, and become `dvc repro`.

    Without words, first run all stages but `publish`, then become the `dvc repro` that publishes.

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
    command = [*REPRO, *words]
    if not words:
        _run_all_but_publish(lock)
        command = command_of(PUBLISH)
    os.execvp(command[0], command)


def _run_all_but_publish(lock: int) -> None:
    """Run the other stages; exit with DVC's status if one fails."""
    from ruamel.yaml import YAML

    declared = YAML(typ="safe").load(Path("dvc.yaml"))["stages"]
    others = [stage for stage in declared if stage != PUBLISH]
    running = subprocess.Popen(tied(*REPRO, *others), pass_fds=[lock])
    try:
        status = running.wait()
    except KeyboardInterrupt:  # the terminal sends it to DVC too, which ends its stage
        status = running.wait()
    if status:
        sys.exit(status if status > 0 else 128 - status)  # as a shell says which signal ended it


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:  # while it waited
        sys.exit(130)
