"""Scales: named sets of values, such as tiny or paper, to write into params.yaml, the only params file DVC reads."""

import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from io import StringIO
from pathlib import Path
from shutil import copyfile
from typing import Any

from ruamel.yaml import YAML

from pipelines.config.errors import ParamsError, Problem, unknown
from pipelines.config.rules import check_values
from pipelines.config.schema import read
from rankgrad.io.atomic import replaced_file

__all__ = ["apply", "names", "round_trip"]

DEFAULT = "laptop"  # the values of params.yaml without a scale
# Blocks whose keys the user chooses: a scale may name a run that the user has deleted.
OWN_KEYS = ("datasets", "sorters", "score_vectors", "benchmark_sorters", "runs", "rivals", "comparisons")


def names(folder: Path = Path()) -> list[str]:
    """Return the scales of a project."""
    return sorted({DEFAULT, *(path.stem for path in (folder / "scales").glob("*.yaml"))})


def apply(name: str, folder: Path = Path()) -> str:
    """Write a scale's values into a project's params.yaml, keep its comments, and return a message.

    The original file is kept as scales/laptop.yaml. Every scale is applied to this original, so that no values of an
    earlier scale remain, and the scale `laptop` restores it. A block with a `name` replaces the whole block in
    params.yaml. A block of options, such as `args: {lr: 0.03}`, changes only these options. A shared block (`*name`,
    `<<: *name`) changes wherever it is used.

    Raises:
        ParamsError: the scale does not exist, a key is unknown, params.yaml was edited since a scale was written, or
            the new values fail the check. Nothing is written.
    """
    params, scale, own = folder / "params.yaml", folder / f"scales/{name}.yaml", folder / f"scales/{DEFAULT}.yaml"
    if name not in names(folder):
        raise ParamsError(replace(unknown("", name, names(folder)), found="no such file"), path=scale)
    is_scaled = own.is_file()
    if is_scaled:
        _refuse_edited(params, own)
    if name == DEFAULT:
        if is_scaled:
            os.replace(own, params)
        return f"{params} has its original values, without a scale."
    text, absent = _scaled(own if is_scaled else params, scale)
    with replaced_file(params) as partial:
        partial.write_text(text)
        check_values(read(partial), path=f"{params} at scale {name}")  # read like DVC does
        if not is_scaled:
            copyfile(params, own)
    skipped = f" Skipped keys that {params} does not have: {', '.join(dict.fromkeys(absent))}." if absent else ""
    return f"Wrote the values of {scale} into {params}; the original is in {own}.{skipped} `git diff` shows changes."


def _refuse_edited(params: Path, own: Path) -> None:
    """Raise ParamsError if params.yaml was edited since a scale was written: another scale would lose the edits."""
    now = params.read_text()
    for scale in own.parent.glob("*.yaml"):
        if now == (own.read_text() if scale == own else _scaled(own, scale)[0]):
            return
    reason = "was edited since a scale was written into it, and another scale would undo the edits"
    advice = f"edit {own}, the original file, or delete it to keep {params} as it is"
    raise ParamsError(Problem("", reason, advice=advice), path=params)


def _scaled(base: Path, scale: Path) -> tuple[str, list[str]]:
    """Return the text of params.yaml with a scale's values, and the scale's keys that params.yaml does not have."""
    values, changes = read(base, round_trip()), read(scale, round_trip())
    absent = list(_put(values, changes, scale))
    without_sharing = _plain(values)
    list(_put(without_sharing, changes, scale))
    if without_sharing != _plain(values):  # blocks share an anchor but must now differ
        values = _written_out(read(base, round_trip()))
        list(_put(values, changes, scale))
    return _text(values, round_trip()), absent


def _put(into: Any, changes: Any, scale: Path, place: str = "") -> Iterator[str]:
    """Write changes into a block in place, to keep comments and anchors; yield user-chosen keys that it lacks."""
    for key, shared in changes.items():
        value = deepcopy(shared)  # an anchor in the scale must not become one in the params
        if key not in into and place.rstrip(".") in OWN_KEYS:
            yield f"{place}{key}"
            continue
        is_optional = key == "grid" or place.endswith(("args.", "schedule."))  # the keys differ by component
        if key not in into and not is_optional:
            problem = unknown(f"{place}{key}", str(key), [*map(str, into)])
            raise ParamsError(replace(problem, found="unknown key"), path=scale)
        match into.get(key), value:
            case dict() as block, {"name": _}:
                _replace(block, value)
            case dict() as block, dict():
                yield from _put(block, value, scale, f"{place}{key}.")
            case _:
                _write(into, key, value)


def _write(block: Any, key: str, value: Any) -> None:
    """Write a value. Keep the layout of a list, and put a comment one space after the value."""
    if isinstance(value, list) and isinstance(block.get(key), list):
        block[key][:] = value
    else:
        block[key] = value
    comments = getattr(block, "ca", None)
    if comments and (comment := comments.items.get(key)) and comment[2]:
        comment[2].column = 0


def _replace(block: Any, values: Any) -> None:
    """Replace a block in place, to keep its comments and anchors."""
    for old in set(block) - set(values):
        del block[old]
    for key, value in values.items():
        _write(block, key, value)


def round_trip() -> YAML:
    """Return a reader and writer that keeps comments, quotes, anchors, and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes = yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = 4096  # never break a line
    return yaml


def _written_out(values: Any) -> Any:
    """Return a copy with comments, in which each use of a shared block is written out."""
    yaml = round_trip()
    yaml.representer.ignore_aliases = lambda value: True
    return round_trip().load(_text(values, yaml))


def _text(values: Any, yaml: YAML) -> str:
    text = StringIO()
    yaml.dump(values, text)
    return text.getvalue()


def _plain(values: Any) -> Any:
    """Return a copy without comments or shared blocks."""
    if isinstance(values, dict):
        return {key: _plain(value) for key, value in values.items()}
    return [_plain(value) for value in values] if isinstance(values, list) else values
