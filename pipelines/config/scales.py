"""Scales: named sets of values, such as tiny or paper, that are written into params.yaml. DVC reads that file alone."""

import json
from collections.abc import Iterator
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.representer import RoundTripRepresenter

from pipelines.config.rules import check_values
from pipelines.config.schema import ParamsError, is_whole
from rankops.io.atomic import replaced_file
from rankops.lookup import did_you_mean

__all__ = ["apply", "names"]

DEFAULT = "laptop"
# Blocks whose keys the user chooses: a scale may name a run that somebody has deleted.
OWN_KEYS = ("datasets", "sorters", "runs", "comparisons")


class _Representer(RoundTripRepresenter):
    """Writes null where ruamel would write nothing."""


_Representer.add_representer(type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null"))


def names(folder: Path = Path()) -> list[str]:
    """Return the scales of a project."""
    return sorted(path.stem for path in (folder / "scales").glob("*.yaml"))


def apply(name: str, folder: Path = Path()) -> str:
    """Write a scale's values into params.yaml and keep the comments there. Return a message.

    A scale holds what differs from scales/laptop.yaml, which is applied first, so that nothing of another scale stays.
    A block that is shared (`*name`, `<<: *name`) changes wherever it is.

    Args:
        name: of a file in scales/.
        folder: project with params.yaml and scales/.

    Raises:
        ParamsError: no such scale, an unknown key, or values that do not pass the check; nothing is written.
    """
    params, scale = folder / "params.yaml", folder / f"scales/{name}.yaml"
    if name not in names(folder):
        raise ParamsError(f"{scale}: no such file{_expected(name, names(folder))}")
    yaml = _round_trip()
    files = [folder / f"scales/{one}.yaml" for one in dict.fromkeys([DEFAULT, name])]
    layers = {file: _read(yaml, file) for file in files}
    values = _read(yaml, params)
    absent = _merge_all(values, layers)
    if not _holds(values, layers):  # blocks share an anchor and are to differ: write each out
        values = yaml.load(_without_aliases(_read(yaml, params)))
        _merge_all(values, layers)
    check_values(_plain(values), path=f"{params} at scale {name}")
    with replaced_file(params) as partial, partial.open("w") as file:
        yaml.dump(values, file)
    left_out = f"; left out, because {params} has no {', '.join(absent)}" if absent else ""
    return f"{params} has the values of {scale} now{left_out}. `git diff {params}` shows them."


def _merge_all(into: Any, layers: dict[Path, Any]) -> list[str]:
    """Write the layers into params; return what the params do not have."""
    absent = [key for path, layer in layers.items() for key in _merge(into, layer, place="", where=path)]
    return list(dict.fromkeys(absent))


def _merge(into: Any, changes: Any, *, place: str, where: Path) -> Iterator[str]:
    """Write changes into a block, in place, which keeps comments and anchors; yield the user's keys that it lacks."""
    for key, shared in changes.items():
        value = deepcopy(shared)  # an anchor of the scale is none of the params
        if key not in into and place.rstrip(".") in OWN_KEYS:
            yield f"{place}{key}"
            continue
        if key not in into:
            raise ParamsError(f"{where}: {place}{key}: unknown key{_expected(key, list(into))}")
        if isinstance(value, dict) and isinstance(into[key], dict):
            if is_whole(key, value):
                for old in set(into[key]) - set(value):
                    del into[key][old]
                into[key].update(value)
            else:
                yield from _merge(into[key], value, place=f"{place}{key}.", where=where)
        elif isinstance(value, list) and isinstance(into[key], list):
            into[key][:] = value
        else:
            into[key] = value
        comments = getattr(into, "ca", None)  # plain blocks have none
        if comments and (comment := comments.items.get(key)) and comment[2]:
            comment[2].column = 0  # one space after the value, whatever the length of the value before


def _holds(values: Any, layers: dict[Path, Any]) -> bool:
    """Return whether every place that the layers name has its value, though blocks are shared."""
    alone = _plain(values)
    _merge_all(alone, layers)
    return alone == _plain(values)


def _round_trip() -> YAML:
    """Return a reader and writer that keeps comments, quotes, anchors and the order of keys."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = 4096  # break no line
    return yaml


def _without_aliases(values: Any) -> str:
    yaml, text = _round_trip(), StringIO()
    yaml.representer.ignore_aliases = lambda value: True
    yaml.dump(values, text)
    return text.getvalue()


def _plain(values: Any) -> Any:
    """Return a copy without comments, in which nothing is shared."""
    return json.loads(json.dumps(values))


def _expected(key: Any, known: list[Any]) -> str:
    names = [str(one) for one in known]
    return did_you_mean(str(key), names) or f"; expected one of {', '.join(names) or '(none)'}"


def _read(yaml: YAML, path: Path) -> Any:
    try:
        values = yaml.load(path)
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file") from error
    except (YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise ParamsError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: expected a mapping of params to values, found {type(values).__name__}")
    return values
