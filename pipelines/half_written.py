"""What an interrupted dvc leaves half written, and would not start with: its list of running stages, and its locks."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rankops.atomic_writes import replaced_file

__all__ = ["mend"]

RUNNING = Path(".dvc/tmp/rwlock")
LOCKS = (Path("dvc.lock"), Path("experiments/dvc.lock"))
KEPT = Path(".dvc/tmp/half-written")
PATIENCE = 3.0  # seconds; a running dvc writes a lock within one


def mend() -> list[str]:
    """Mends the checkout in the present folder; says what it did, a line each.

    A half-written lock becomes the one of the last commit: of what has been run since, DVC's run cache has the results.
    What there was of it is kept. One with the marks of a merge is left for a person.
    """
    said = []
    if _stays(RUNNING, _no_json):
        RUNNING.unlink(missing_ok=True)
        said.append(f"{RUNNING} was half written, by an interrupted dvc; removed it")
    for lock in LOCKS:
        if _stays(lock, _no_lock):
            said.append(_restored(lock))
    return said


def _stays(path: Path, faulty: Callable[[str], bool]) -> bool:
    """Whether a file is there and remains faulty: a running dvc may be about to write the rest."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if not faulty(path.read_text()):
                return False
        except FileNotFoundError:
            return False
        if time.monotonic() > deadline:
            return True
        time.sleep(0.1)


def _no_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _no_lock(text: str) -> bool:
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA  # DVC and YAML take a second to import
    from ruamel.yaml import YAML, YAMLError
    from voluptuous import Invalid

    if "\n<<<<<<< " in f"\n{text}":
        return False
    try:
        COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text))
    except (YAMLError, Invalid):
        return True
    return False


def _restored(lock: Path) -> str:
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / lock.as_posix().replace("/", "-")
    kept.write_bytes(lock.read_bytes())
    done = subprocess.run(["git", "show", f"HEAD:./{lock.as_posix()}"], capture_output=True, check=False)
    if done.returncode:  # it is in no commit
        lock.unlink()
        became = "removed it"
    else:
        with replaced_file(lock) as partial:
            partial.write_bytes(done.stdout)
        became = "it is that of the last commit again"
    return f"{lock} was half written, by an interrupted dvc; {became}. What was run since is in DVC's cache; see {kept}"
