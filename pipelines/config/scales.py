"""Scales: named sets of values, such as tiny or paper, that are written into params.yaml. DVC reads that file alone."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pipelines.config.schema import ParamsError, check
from pipelines.ops.messages import on_one_line
from rankops.io.atomic import replaced_file

__all__ = ["apply", "names"]

DEFAULT = "laptop"
WHOLE = ("args", "schedule")  # options that belong to a name: replaced together
# Blocks whose keys the user chooses. A scale may name a run that somebody has deleted.
OWN_KEYS = ("datasets", "sorters", "runs", "comparisons", "transfer_runs", "sorter_runs")


def names(folder: Path = Path()) -> list[str]:
    """Return the scales of a project."""
    return sorted(path.stem for path in (folder / "scales").glob("*.yaml"))


def apply(name: str, folder: Path = Path()) -> str:
    """Write a scale's values into params.yaml and keep the comments there. Return a message.

    A scale holds what differs from scales/laptop.yaml, which is applied first, so that nothing of another scale stays.

    Args:
        name: of a file in scales/.
        folder: project with params.yaml and scales/.

    Raises:
        ParamsError: no such scale, an unknown key, or values that do not pass the check; nothing is written.
    """
    params, scale = folder / "params.yaml", folder / f"scales/{name}.yaml"
    if name not in names(folder):
        raise ParamsError(f"{scale}: no such file; {_expected(name, names(folder))}")
    yaml = YAML()  # keeps comments, quotes and the order of keys
    yaml.preserve_quotes = yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = 4096  # break no line
    yaml.representer.ignore_aliases = lambda value: True
    values, absent = _read(yaml, params), []
    for one in dict.fromkeys([DEFAULT, name]):
        path = folder / f"scales/{one}.yaml"
        absent += _merge(values, _read(yaml, path), place="", where=path)
    with replaced_file(params) as partial:
        with partial.open("w") as file:
            yaml.dump(values, file)
        check(_read(YAML(typ="safe"), partial), path=f"{params} at scale {name}")
    left_out = f"; left out, because {params} has no {', '.join(dict.fromkeys(absent))}" if absent else ""
    return f"{params} has the values of {scale} now{left_out}. `git diff {params}` shows them."


def _merge(into: Any, changed: Any, *, place: str, where: Path) -> Iterator[str]:
    """Write `changed` into `into`; yield the keys of the user's own that are not there."""
    for key, value in changed.items():
        if key not in into:
            if place.rstrip(".") in OWN_KEYS:
                yield f"{place}{key}"
                continue
            raise ParamsError(f"{where}: {place}{key}: unknown key; {_expected(key, list(into))}")
        if isinstance(value, dict) and isinstance(into[key], dict):
            if key in WHOLE:
                for old in set(into[key]) - set(value):
                    del into[key][old]
                into[key].update(value)
            else:
                yield from _merge(into[key], value, place=f"{place}{key}.", where=where)
        else:
            into[key] = value
        if (comment := into.ca.items.get(key)) and comment[2]:
            comment[2].column = 0  # one space after the value, whatever the length of the value before


def _expected(key: str, known: list[str]) -> str:
    close = get_close_matches(str(key), map(str, known), n=1)
    return f"did you mean {close[0]}?" if close else f"expected one of {', '.join(map(str, known))}"


def _read(yaml: YAML, path: Path) -> Any:
    try:
        values = yaml.load(path)
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file") from error
    except (YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise ParamsError(f"{path}: not YAML: {on_one_line(error)}") from error
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: expected a mapping of params to values, found {type(values).__name__}")
    return values
