"""Read dvc.lock: the stages, what they were made of, and which data went in."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pipelines.ops.messages import one_line

__all__ = ["INPUT", "inputs", "made_by", "stages"]

INPUT = "input."  # before a file's path: the tag of a run or a version that has the hash of that file


def stages(path: Path = Path("dvc.lock")) -> dict[str, Any]:
    """Return the entry of each stage; none if the file is missing or empty.

    Raises:
        ValueError: it is not what DVC writes, because it is half merged for instance.
    """
    try:
        content = (YAML(typ="safe").load(path) if path.is_file() else None) or {}
        result = (content.get("stages") or {}) if isinstance(content, dict) else content
        if not isinstance(result, dict):
            raise TypeError(f"expected stages by name, found a {type(result).__name__}")
    except (YAMLError, TypeError) as error:
        raise ValueError(
            f"{path}: not a lock file of DVC ({one_line(error)}): after a merge take one side (`git checkout --ours "
            f"{path}` or `--theirs`), else the committed file (`git checkout HEAD {path}`); then run `dvc repro`"
        ) from error
    return result


def made_by(entries: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return what changes if and only if stages make something else: their outputs and params."""
    return [(entry["outs"], entry.get("params")) for entry in entries]


def inputs(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Return the hash of each file of data and of each model that went into stages, by its path after `INPUT`.

    Files that one of the stages made for another do not count, nor does the empty folder that stands for no model.

    >>> deps = [{"path": path, "md5": "1f"} for path in ("data/clips", "models/runs/start", "models/runs/none", "src")]
    >>> inputs([{"deps": deps, "outs": []}])
    {'input.data/clips': '1f', 'input.models/runs/start': '1f'}
    """
    hashes: dict[str, str] = {}
    for entry in entries:
        hashes |= {dependency["path"]: dependency.get("md5", "") for dependency in entry["deps"]}
    for entry in entries:
        for out in entry["outs"]:
            hashes.pop(out["path"], None)
    is_input = re.compile(r"(data|models)/(?!.*/none$)")
    return {f"{INPUT}{path}": md5 for path, md5 in hashes.items() if is_input.match(path)}
