"""Restore what a killed dvc left half written and would refuse to start with: `python -m pipelines.ops.dvc_repair`."""

import json
import re
import sys
from pathlib import Path

from pipelines.ops.git import file_at
from rankgrad.io.atomic import replaced_file

__all__ = ["repair", "unmerged"]

RUNNING = Path(".dvc/tmp/rwlock")  # the stages that run now
LOCK = Path("dvc.lock")
WRITTEN = (Path("dvc.yaml"), Path("params.yaml"))  # by people
MARK = re.compile(rb"^(?:<{7}|\|{7}|>{7})(?= |\r?$)|^={7}(?=\r?$)", re.MULTILINE)


def repair() -> list[str]:
    """Repair the DVC project in the present folder; return what was done, a line each.

    A truncated dvc.lock is restored from HEAD; later results are recovered from DVC's run cache. Nothing is touched
    while a dvc is at work, which may be writing the rest.

    Raises:
        ValueError: a file is half merged or cannot be read, or git cannot tell what HEAD has; nothing is changed then.
    """
    if found := unmerged():
        raise ValueError("; ".join(f"{path}: {wrong}; {advice}" for path, wrong, advice in found))
    if not any([_is_broken(RUNNING), _is_broken(LOCK)]):  # both: what cannot be read is told before anything changes
        return []
    from dvc.lock import LockError, make_lock  # these take a second
    from dvc.repo import Repo

    with Repo(".") as repo:
        hardlink = repo.config["core"]["hardlink_lock"]
        of_running = make_lock(f"{RUNNING}.lock", tmp_dir=repo.tmp_dir, hardlink_lock=hardlink)
        try:
            with repo.lock, of_running:  # by now nobody writes them
                return [_restored(path) for path in (RUNNING, LOCK) if _is_broken(path)]
        except LockError:
            return ["dvc is running here, so half-written files may be about to be completed; nothing was repaired"]


def unmerged() -> list[tuple[Path, str, str]]:
    """Return the files of the present folder's DVC project that have marks of a merge: which, where, what to do."""
    result = []
    for path in (LOCK, *WRITTEN):
        content = path.read_bytes() if path.is_file() else b""
        if mark := MARK.search(content):
            advice = f"take one side (`git checkout --ours {path}` or `--theirs`)" if path == LOCK else "edit the file"
            line = content.count(b"\n", 0, mark.start()) + 1
            result.append((path, f"half merged, line {line} is {mark[0].decode()}", f"{advice}, then `dvc repro`"))
    return result


def _is_broken(path: Path) -> bool:
    from ruamel.yaml import YAML, YAMLError
    from voluptuous import Invalid

    try:
        text = path.read_text()
        if path == RUNNING:
            from dvc.rwlock import SCHEMA

            SCHEMA(json.loads(text))
        else:
            from dvc.schema import COMPILED_LOCKFILE_SCHEMA

            COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text))
    except FileNotFoundError:
        return False
    except OSError as error:  # a folder, or a file of somebody else
        raise ValueError(f"{path}: cannot be read: {error.strerror}; move it away, then `rankgrad repair`") from error
    except (ValueError, YAMLError, Invalid):
        return True
    return False


def _restored(path: Path) -> str:
    content = file_at(".", "HEAD", path) if path == LOCK else None
    if content is None:
        path.unlink()
        return f"{path} was half written by a killed dvc: removed"
    with replaced_file(path) as partial:
        partial.write_bytes(content)
    return f"{path} was half written by a killed dvc: restored from HEAD; later results are in DVC's run cache"


if __name__ == "__main__":
    try:
        sys.stdout.writelines(f"{line}\n" for line in repair())
    except ValueError as error:
        sys.exit(str(error))
