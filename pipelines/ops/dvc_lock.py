"""Read dvc.lock: the stages, their dependencies, and their input data."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pipelines.ops.messages import one_line

__all__ = ["INPUT", "inputs", "made_by", "stages"]

INPUT = "input."  # prefix of a tag with the hash of an input file, followed by its path


def stages(path: Path = Path("dvc.lock")) -> dict[str, Any]:
    """Return the entry of each stage; none if the file is missing or empty.

    Raises:
        ValueError: the file does not have DVC's format, for example because of merge conflicts.
    """
    try:
        content = (YAML(typ="safe").load(path) if path.is_file() else None) or {}
        result = (content.get("stages") or {}) if isinstance(content, dict) else content
        if not isinstance(result, dict):
            raise TypeError(f"expected stages by name, found a {type(result).__name__}")
    except (YAMLError, TypeError) as error:
        raise ValueError(
            f"{path}: not a lock file of DVC ({one_line(error)}): after a merge, use one side (`git checkout --ours "
            f"{path}` or `--theirs`), otherwise the committed file (`git checkout HEAD {path}`); then run `dvc repro`"
        ) from error
    return result


def made_by(entries: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return the outputs and params of stages, which change if and only if their results change."""
    return [(entry["outs"], entry.get("params")) for entry in entries]


def inputs(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Return the hashes of data files and models that stages depend on, by path with the prefix `INPUT`.

    Outputs of these stages are left out, and so is the empty folder that stands for no model.

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
