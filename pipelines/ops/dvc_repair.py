"""What an interrupted dvc leaves half written, and would not start with: its list of running stages, and its locks."""

import json
from itertools import count
from pathlib import Path

from pipelines.ops.git import file_at
from rankops.io.atomic import replaced_file

__all__ = ["mend"]

RUNNING = Path(".dvc/tmp/rwlock")
LOCKS = (Path("dvc.lock"), Path("experiments/dvc.lock"))
KEPT = Path(".dvc/tmp/half-written")


def mend() -> list[str]:
    """Mends the checkout in the present folder; says what it did, a line each.

    A half-written lock becomes the one of the last commit: of what has been run since, DVC's run cache has the results.
    What there was of it is kept. One with the marks of a merge is left for a person. Where a dvc is at work nothing is
    looked at: it may be about to write the rest.

    Raises:
        ValueError: git does not say what the last commit has; nothing is changed then.
    """
    from dvc.lock import LockError, make_lock  # a second, which `rankops --help` needs not wait for
    from dvc.repo import Repo

    if not (faulty := [path for path in (RUNNING, *LOCKS) if _broken(path)]):
        return []
    said = []
    with Repo(".") as repo:
        of_list = make_lock(f"{RUNNING}.lock", tmp_dir=repo.tmp_dir, hardlink_lock=repo.config["core"]["hardlink_lock"])
        try:
            with repo.lock, of_list:
                for path in faulty:
                    if _broken(path):  # still, now that nobody writes it
                        said.append(_removed(path) if path == RUNNING else _restored(path))
        except LockError:
            said.append(f"{', '.join(map(str, faulty))}: not whole, but a dvc is at work here, which may be writing it")
    return said


def _broken(path: Path) -> bool:
    try:
        text = path.read_text()
        if path in LOCKS:
            return _no_lock(text)
        json.loads(text)
    except FileNotFoundError:
        return False
    except ValueError:
        return True
    return False


def _no_lock(text: str) -> bool:
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from ruamel.yaml import YAML, YAMLError
    from voluptuous import Invalid

    if "\n<<<<<<< " in f"\n{text}":
        return False
    try:
        COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text))
    except (YAMLError, Invalid):
        return True
    return False


def _removed(path: Path) -> str:
    path.unlink()
    return f"{path} was half written, by an interrupted dvc; removed it"


def _restored(lock: Path) -> str:
    try:
        whole = file_at(".", "HEAD", lock)
    except ValueError as error:
        raise ValueError(f"{error}; so half-written locks were left as they are") from error
    KEPT.mkdir(parents=True, exist_ok=True)
    name = lock.as_posix().replace("/", "-")
    kept = next(path for number in count(1) if not (path := KEPT / f"{name}.{number}").exists())
    kept.write_bytes(lock.read_bytes())
    if whole is None:
        lock.unlink()
        became = "removed it"
    else:
        with replaced_file(lock) as partial:
            partial.write_bytes(whole)
        became = "it is that of the last commit again"
    return f"{lock} was half written, by an interrupted dvc; {became}. What was run since is in DVC's cache; see {kept}"
