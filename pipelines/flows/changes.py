"""Changes to params for one retraining: `KEY=VALUE`, as for `dvc exp run -S`."""

from collections.abc import Collection, Iterable
from copy import copy, deepcopy
from typing import Annotated, Any

from pydantic import Field
from ruamel.yaml import YAML, YAMLError

from pipelines.config import ParamsError, Problem, Settings, check_shapes
from pipelines.config.plan import run_of
from pipelines.config.rules import check_values
from pipelines.ops.messages import one_line

__all__ = ["Change", "planned", "put"]

# No aliases, because a few can expand to more values than fit into memory. No nesting that exceeds Python's stack.
Change = Annotated[str, Field(max_length=200, pattern=r"^[\w-]+(\.[\w-]+)+=[^&*\x00-\x1f\x7f]+$")]
# Users who can start runs may change how a model is trained, but not which files are read or where work is sent.
OPEN = ("runs", "sorters", "training")


def planned(values: Any, only: Collection[str], changes: Collection[str]) -> Settings:
    """Return the settings of a retraining before anything runs.

    Args:
        values: values of params.yaml, which are changed in place.
        only: the runs to train.
        changes: see `put`.

    Raises:
        ParamsError: a change or a name is invalid, or a change of `training` changes no run.
    """
    before = deepcopy(values)
    put(values, changes)
    params = check_values(values)
    if unknown := [name for name in only if name not in params.runs]:
        raise ParamsError(Problem("only", f"unknown runs {', '.join(unknown)}", f"one of {', '.join(params.runs)}"))
    for change in changes:
        if change.startswith("training.") and not _has_effect(change, before, only or params.runs):
            raise ParamsError(
                Problem(f"set: {change}", "changes no run that is trained; runs have values of their own",
                        "such as runs.NAME." + ".".join(["training", *change.split(".")[2:]]))
            )  # fmt: skip
    return params


def _has_effect(change: str, before: Any, runs: Iterable[str]) -> bool:
    """Return whether a change alone would change the values of a run; a value that is there already is fine."""
    after = deepcopy(before)
    put(after, [change])
    if after == before:
        return True
    settings = [check_shapes(values) for values in (before, after)]
    return any(run_of(settings[0], run) != run_of(settings[1], run) for run in runs)


def put(values: Any, changes: Iterable[str]) -> None:
    """Put changes into the values of params.yaml; a shared block (`*name`) changes only where it is named.

    Args:
        values: plain values, or values with comments.
        changes: such as `runs.label_ranking-rlsep.loss.args.pairs=10`, with the value in YAML.

    Raises:
        ParamsError: the setting may not be changed, or a value is not YAML.
    """
    for change in changes:
        path, equals, text = change.partition("=")
        keys = path.split(".")
        if not equals:
            raise ParamsError(Problem(f"set: {change}", "has no value", "BLOCK.NAME.KEY=VALUE"))
        if keys[0] not in OPEN or len(keys) < 3 or keys[1] not in values[keys[0]]:
            names = values[keys[0]] if keys[0] in OPEN else [f"{block}.<name>..." for block in OPEN]
            raise ParamsError(Problem(f"set: {change}", "cannot be changed", f"one of {', '.join(names)}"))
        block = values
        for key in keys[:-1]:
            inner = block.get(key)
            block[key] = copy(inner) if isinstance(inner, dict) else {}
            block = block[key]
        try:
            block[keys[-1]] = YAML(typ="safe").load(text)
        except (YAMLError, ValueError) as error:
            raise ParamsError(Problem(f"set: {change}", f"the value is not YAML: {one_line(error)}")) from error
