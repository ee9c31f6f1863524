"""Look up a component by name: a folder of the package is the registry."""

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

__all__ = ["check_options", "find", "module", "names", "options"]

# What the caller passes at run time: never an option that a person writes into the params.
RUNTIME = {"generator", "sorter", "mask", "weights", "length", "outputs", "features", "colors", "words"}


# Files of these folders that hold no component.
HELPERS = {
    "losses": {"inputs", "pairs"},
    "metrics": {"bootstrap", "dense_ranks", "gains", "sorter_quality"},
    "models": {"backbone", "layers", "tokenizer"},
    "sorters": {"base", "laplace_sums", "registry", "soft_sort", "standardize"},
    "tasks": {"base", "predict"},
    "datasets": {"base", "drawing", "expected", "facts", "layout", "mnist", "reading", "rlsep", "splits"},
}


@cache
def modules(folder: str) -> dict[str, str]:
    """The dotted module of each component in a folder of the package and in its subfolders, by name."""
    package = importlib.import_module(f"rankops.{folder}")
    found = {
        module.name.rpartition(".")[2]: module.name
        for module in pkgutil.walk_packages(package.__path__, f"rankops.{folder}.")
        if not module.ispkg
    }
    return {name: found[name] for name in sorted(found) if name not in HELPERS[folder]}


def names(folder: str) -> list[str]:
    """The components in a folder of the package, sorted: `names("losses")` lists the losses."""
    return list(modules(folder))


def module(folder: str, name: str) -> ModuleType:
    """The module of a component, such as `module("datasets", "clips")`.

    Raises:
        ValueError: there is no component of this name.
    """
    if name not in modules(folder):
        raise ValueError(f"{folder}: no {name!r} in rankops/{folder}; there are {', '.join(names(folder))}")
    return importlib.import_module(modules(folder)[name])


def find(folder: str, name: str, *, where: str | None = None) -> Callable[..., Any]:
    """The component of that name: the first name in the `__all__` of its module.

    Raises:
        ValueError: there is no such file; the message names `where` (a path into the params) and what there is. Or it
            has no `__all__`.

    >>> find("losses", "rslep", where="runs.mine.loss.name")
    Traceback (most recent call last):
    ...
    ValueError: runs.mine.loss.name: no 'rslep' in rankops/losses; did you mean rlsep? There are average_precision, ...
    """
    if name not in names(folder):
        near = difflib.get_close_matches(name, names(folder), n=1)
        raise ValueError(
            f"{where or f'{folder}.name'}: no {name!r} in rankops/{folder}; "
            f"{f'did you mean {near[0]}? There' if near else 'there'} are {', '.join(names(folder))}"
        )
    found = module(folder, name)
    if not getattr(found, "__all__", None):
        raise ValueError(f"{found.__name__} has no __all__: expected one that begins with the name of the component")
    return getattr(found, found.__all__[0])


def options(thing: Callable[..., Any]) -> list[str]:
    """The keyword-only arguments of a function or constructor that a person may set in the params."""
    parameters = inspect.signature(thing).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in RUNTIME]


def check_options(folder: str, name: str, given: dict[str, Any], *, where: str | None = None) -> None:
    """Refuses options that the thing of that name does not take.

    Raises:
        ValueError: an unknown name or option.

    >>> check_options("losses", "rlsep", {"pair": 5}, where="runs.mine.loss")
    Traceback (most recent call last):
    ...
    ValueError: runs.mine.loss.args.pair: unknown option; rlsep takes pairs
    """
    where = where or f"{folder}.{name}"
    allowed = options(find(folder, name, where=f"{where}.name"))
    for option in given:
        if option not in allowed:
            raise ValueError(
                f"{where}.args.{option}: unknown option; {name} takes {', '.join(allowed) or 'no options'}"
            )
