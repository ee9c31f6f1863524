"""Params that somebody changes for one retraining: `KEY=VALUE`, as `dvc exp run -S` takes them."""

from collections.abc import Collection, Iterable
from copy import copy
from typing import Annotated, Any

from pydantic import Field
from ruamel.yaml import YAML, YAMLError

from pipelines.config import ParamsError, Problem, Settings
from pipelines.config.rules import check_values
from pipelines.ops.messages import one_line

__all__ = ["Change", "planned", "put"]

# No aliases: a few can stand for more values than there is memory. No depth that ends Python.
Change = Annotated[str, Field(max_length=200, pattern=r"^[\w-]+(\.[\w-]+)+=[^&*\x00-\x1f\x7f]+$")]
# Whoever may start a run may change how a model is trained, and not which files of the machine are read, or where work
# is sent.
OPEN = ("runs", "sorters", "training")


def planned(values: Any, only: Collection[str], changes: Iterable[str]) -> Settings:
    """Return the settings of a retraining before anything runs.

    Args:
        values: of params.yaml; they are changed.
        only: the runs to train.
        changes: see `put`.

    Raises:
        ParamsError: a change or a name is wrong.
    """
    put(values, changes)
    params = check_values(values)
    if unknown := [name for name in only if name not in params.runs]:
        raise ParamsError(Problem("only", f"no run is called {', '.join(unknown)}", f"one of {', '.join(params.runs)}"))
    return params


def put(values: Any, changes: Iterable[str]) -> None:
    """Put changes into the values of params.yaml; a block that others share (`*name`) changes only here.

    Args:
        values: plain ones, or such as keep comments.
        changes: such as `runs.label_ranking-rlsep.loss.args.pairs=10`, the value in YAML.

    Raises:
        ParamsError: no such place may be changed, or a value is not YAML.
    """
    for change in changes:
        path, equals, text = change.partition("=")
        keys = path.split(".")
        if not equals:
            raise ParamsError(Problem(f"set: {change}", "no value", "BLOCK.NAME.KEY=VALUE"))
        if keys[0] not in OPEN or len(keys) < 3 or keys[1] not in values[keys[0]]:
            names = values[keys[0]] if keys[0] in OPEN else [f"{block}.<name>..." for block in OPEN]
            raise ParamsError(Problem(f"set: {change}", "no such place of a model", f"one of {', '.join(names)}"))
        block = values
        for key in keys[:-1]:
            inner = block.get(key)
            block[key] = copy(inner) if isinstance(inner, dict) else {}
            block = block[key]
        try:
            block[keys[-1]] = YAML(typ="safe").load(text)
        except (YAMLError, ValueError) as error:
            raise ParamsError(Problem(f"set: {change}", f"the value is not YAML: {one_line(error)}")) from error
