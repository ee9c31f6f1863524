"""Repair files that a killed dvc left half written, with which DVC would not start."""

import json
from pathlib import Path

from pipelines.ops.git import file_at
from rankgrad.io.atomic import replaced_file

__all__ = ["repair"]

RUNNING = Path(".dvc/tmp/rwlock")  # DVC's list of running stages
LOCK = Path("dvc.lock")


def repair() -> list[str]:
    """Repair the DVC project in the current folder; return one line for each repair.

    A truncated dvc.lock is restored from HEAD; later results are recovered from DVC's run cache. No dvc may be running.

    Raises:
        ValueError: dvc.lock has merge conflicts, or git cannot read HEAD; nothing is changed.
    """
    lines = []
    if LOCK.is_file() and not _is_lock(LOCK.read_text()):
        committed = file_at(".", "HEAD", LOCK)
        if committed is None:
            LOCK.unlink()
        else:
            with replaced_file(LOCK) as partial:
                partial.write_bytes(committed)
        source = "removed" if committed is None else "restored from HEAD"
        lines.append(f"{LOCK} was half written by a killed dvc: {source}; later results are in DVC's run cache")
    if RUNNING.is_file() and not _is_list_of_running(RUNNING.read_text()):
        RUNNING.unlink()
        lines.append(f"{RUNNING} was half written by a killed dvc: removed")
    return lines


def _is_lock(text: str) -> bool:
    """Return whether DVC would accept a text as a lock file.

    Raises:
        ValueError: the text has merge conflicts, which the user must resolve.
    """
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from ruamel.yaml import YAML, YAMLError
    from voluptuous import Invalid

    if "<<<<<<< " in text or ">>>>>>> " in text:
        raise ValueError(
            f"{LOCK}: has merge conflicts; use one side (`git checkout --ours {LOCK}` or `--theirs`), then run `dvc "
            "repro`"
        )
    try:
        COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text))
    except (YAMLError, Invalid):
        return False
    return True


def _is_list_of_running(text: str) -> bool:
    from dvc.rwlock import SCHEMA
    from voluptuous import Invalid

    try:
        SCHEMA(json.loads(text))
    except (ValueError, Invalid):
        return False
    return True
