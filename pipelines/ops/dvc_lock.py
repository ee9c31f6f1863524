"""What a dvc.lock says: which stages there are, what they were made of, and which data went in."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pipelines.ops.messages import on_one_line

__all__ = ["INPUT", "inputs", "made_by", "stages"]

INPUT = "input."  # before a file's path: the tag of a run or a version that has the hash of that file


def stages(path: Path = Path("dvc.lock")) -> dict[str, Any]:
    """The entry of each stage; none where there is no such file, or nothing in it.

    Raises:
        ValueError: it is not what DVC writes: half merged, say.
    """
    try:
        written = (YAML(typ="safe").load(path) if path.is_file() else None) or {}
        found = (written.get("stages") or {}) if isinstance(written, dict) else written
        if not isinstance(found, dict):
            raise TypeError(f"expected stages by their names, found a {type(found).__name__}")
    except (YAMLError, TypeError) as error:
        raise ValueError(
            f"{path}: not a lock file of DVC's ({on_one_line(error)}): end the merge, or take a committed one "
            f"by `git checkout {path}` and run `dvc repro`"
        ) from error
    return found


def made_by(entries: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """What tells whether stages have made something else: their outputs and params."""
    return [(entry["outs"], entry.get("params")) for entry in entries]


def inputs(entries: list[dict[str, Any]]) -> dict[str, str]:
    """The hash of each file below data/ that went into stages, by its path after `INPUT`.

    >>> inputs([{"deps": [{"path": "data/clips", "md5": "1f"}, {"path": "src/rankops/ranks.py", "md5": "2e"}]}])
    {'input.data/clips': '1f'}
    """
    parts = [part for entry in entries for part in entry["deps"] if part["path"].startswith("data/")]
    return {f"{INPUT}{part['path']}": part["md5"] for part in parts}
