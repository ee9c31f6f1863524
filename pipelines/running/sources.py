"""Detect changes to a stage's inputs while it runs.

When a stage ends, DVC records its files and params as they are then, not as the stage read them. Params edited during a
training would be recorded with the model of the old params, and DVC would see nothing to do. So a stage compares its
inputs before and after its work, and fails if they differ.
"""

import os
import re
from typing import Any

from pipelines.config.schema import read
from pipelines.ops.status import TRANSIENT

__all__ = ["SourcesChanged", "declared", "refuse_changed", "sources", "value_at"]

PASSED_OVER = re.compile(r"^([.~]|__pycache__$)|\.partial-")  # files that tools create next to sources


class SourcesChanged(ValueError):
    """Inputs of a stage changed while it ran, so it must run again."""

    exit_status = TRANSIENT


def declared(params: dict[str, Any], block: dict[str, Any], key: str) -> tuple[dict[str, Any], list[str]]:
    """Return the inputs of a stage by its block in dvc.yaml: params with their values, and paths of files.

    Args:
        params: values of params.yaml.
        block: block of the stage.
        key: key of the dataset, run, or sorter; empty if the stage has none.
    """
    item = value_at(params, f"{block['foreach'].strip('${}')}.{key}") if "foreach" in block else None
    block = block.get("do", block)

    def filled(text: str) -> str:
        text = text.replace("${key}", key).replace("${item}", str(item))
        return re.sub(r"\$\{item\.(\w+)\}", lambda match: str(value_at(item, match[1])), text)

    values = {name: value_at(params, name) for name in map(filled, block.get("params", ()))}
    return values, [filled(path) for path in block.get("deps", ())]


def sources(stage: str, key: str) -> dict[str, Any]:
    """Return the inputs of a stage by dvc.yaml: the value of each param, and the size and time of each file.

    Args:
        stage: file name in pipelines/stages; the result is empty if dvc.yaml does not have the stage.
        key: key of the dataset, run, or sorter; empty if the stage has none.
    """
    seen, paths = declared(read("params.yaml"), read("dvc.yaml")["stages"].get(stage, {}), key)
    for path in paths:
        seen |= _files(path)
    return seen


def value_at(values: Any, name: str) -> Any:
    """Return a nested value by its dotted name; None if there is none."""
    for part in name.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _files(path: str) -> dict[str, tuple[int, int]]:
    """Return the size and time of a file, or of each file in a folder, by path."""
    paths = [path] if os.path.isfile(path) else []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not PASSED_OVER.search(name)]
        paths += [os.path.join(folder, name) for name in names if not PASSED_OVER.search(name)]
    stats = {path: os.stat(path) for path in paths if os.path.exists(path)}  # links may be broken
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def refuse_changed(before: dict[str, Any], stage: str, key: str) -> None:
    """Raise if inputs of a stage have changed.

    Raises:
        SourcesChanged: the message names the changed inputs.
    """
    now = sources(stage, key)
    if changed := [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise SourcesChanged(
            "changed while this stage ran, so DVC would record inputs that it did not read: "
            f"{', '.join(changed[:3])}{more}; "
            "run `dvc repro` again"
        )
