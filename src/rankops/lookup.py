"""Look up a component by name: the files of a folder are the registry.

`losses/spearman.py` defines `spearman` and `models/heads/wildcat.py` defines `Wildcat`: the public name of a component
is that of its file, case and underscores aside. `from rankops.losses import spearman` loads that file, and no other.
"""

import ast
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

__all__ = ["FLAT", "check_options", "did_you_mean", "find", "flatten", "module", "names", "options", "public"]

# Arguments that code passes at run time: no options that a person writes into the params.
RUNTIME = {
    "generator",
    "sorter",
    "dim",
    "mask",
    "weights",
    "reduction",
    "check_finite",
    "log_variances",
    "length",
    "outputs",
    "features",
    "maps",
    "colors",
    "words",
    "config",
    "tokenizer",
}

# Files of these folders that hold no component.
HELPERS = {
    "losses": {"inputs", "pairs"},
    "inputs": {"base", "stored"},
    "metrics": {"bootstrap", "dense_ranks", "gains", "sorter_quality", "weights"},
    "models": {"layers", "tokenizer"},
    "models.backbones": set(),
    "models.heads": set(),
    "sorters": {"base", "laplace_sums", "load", "operators", "standardize"},
    "tasks": {"_two_phases", "base", "predict"},
    "datasets": {"base", "digits", "drawing", "expected", "facts", "folds", "four_digit_mnist", "labelled_points",
                 "layout", "mnist", "packages", "queries", "reading", "rlsep", "score_vectors", "splits", "table_cells",
                 "table_examples", "table_facts", "table_files", "table_text"},
}  # fmt: skip

# Folders whose public names are imported from the package itself.
FLAT = ("losses", "metrics", "sorters")

# Their files without a component whose names are public all the same.
PUBLIC = {"sorters": {"base", "load", "operators"}}


@cache
def _modules(folder: str) -> dict[str, str]:
    """Return the dotted module of each component in a folder of the package and its subfolders, by name."""
    return {name: file for name, file in _files(folder).items() if name not in HELPERS[folder]}


@cache
def _files(folder: str) -> dict[str, str]:
    package = importlib.import_module(f"rankops.{folder}")
    files = [file.name for file in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if not file.ispkg]
    apart = tuple(f"rankops.{other}." for other in HELPERS if other.startswith(f"{folder}."))  # folders of their own
    files = [file for file in files if not file.startswith(apart)]
    return {file.rpartition(".")[2]: file for file in sorted(files, key=lambda file: file.rpartition(".")[2])}


@cache
def public(folder: str) -> dict[str, str]:
    """Return the dotted module of each public name of a folder in `FLAT`, sorted; no file is loaded.

    >>> public("sorters")["Laplace"], public("metrics")["average_precision"]
    ('rankops.sorters.laplace', 'rankops.metrics.mean_average_precision')
    """
    hidden = HELPERS[folder] - PUBLIC.get(folder, set())
    modules = [module for file, module in _files(folder).items() if file not in hidden]
    return dict(sorted((name, module) for module in modules for name in _all_of(module)))


def _all_of(module: str) -> list[str]:
    """Read the `__all__` of a module that is not loaded."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return []


class _Flat(ModuleType):
    """A package that has the public names of its files, each loaded when it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        known = public(self.__name__.rpartition(".")[2])
        if name == "__all__":
            return list(known)
        if name not in known:
            raise AttributeError(f"no {name!r} in {self.__name__}{did_you_mean(name, known)}", name=name, obj=self)
        value = getattr(importlib.import_module(known[name]), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # An import makes a file an attribute of its package. Its function of the same name is what people mean.
        if isinstance(value, ModuleType) and name in getattr(value, "__all__", ()):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return self.__all__


def flatten(package: str) -> None:
    """Let a package have the public names of its files: `flatten(__name__)` in its `__init__.py`.

    >>> import rankops.losses.spearman
    >>> rankops.losses.spearman.__module__
    'rankops.losses.spearman'
    """
    sys.modules[package].__class__ = _Flat


def names(folder: str) -> list[str]:
    """Return the names of the components in a folder of the package, sorted.

    >>> names("metrics")
    ['coverage_error', ...]
    """
    return list(_modules(folder))


def module(folder: str, name: str, *, where: str | None = None) -> ModuleType:
    """Import the module of a component, such as `module("datasets", "clips")`.

    Args:
        folder: of the package.
        name: of the file, without `.py`.
        where: a path into the params, for the error.

    Raises:
        ValueError: there is no component of this name.

    >>> module("losses", "rslep", where="runs.mine.loss.name")
    Traceback (most recent call last):
    ...
    ValueError: runs.mine.loss.name: no 'rslep' in rankops/losses; there are average_precision, ...; did you mean rlsep?
    """
    modules = _modules(folder)
    if not isinstance(name, str) or name not in modules:  # a file of params or a model may name anything
        place = folder.replace(".", "/")
        raise ValueError(
            f"{where or f'{folder}.name'}: no {name!r} in rankops/{place}; there are {', '.join(modules)}"
            f"{did_you_mean(str(name), modules)}"
        )
    return importlib.import_module(modules[name])


def find(folder: str, name: str, *, where: str | None = None) -> Any:
    """Return a component: the function or class that its file is named after.

    Raises:
        ValueError: there is no component of this name, or its file defines nothing of this name.

    >>> find("sorters", "straight_through").__name__, find("losses", "rlsep").__name__
    ('StraightThrough', 'rlsep')
    """
    file = module(folder, name, where=where)
    for public in getattr(file, "__all__", []):
        if public.lower() == name.replace("_", "") or public == name:
            return getattr(file, public)
    raise ValueError(
        f"{where or f'{folder}.name'}: {file.__name__} has nothing called {name} in its __all__; a file that holds no "
        "component belongs to HELPERS in rankops/lookup.py"
    )


def options(thing: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a function or class that a person may set in the params, with their types.

    >>> from rankops.losses.rlsep import rlsep
    >>> options(rlsep)
    {'pairs': int | None}
    """
    hints = get_type_hints(thing.__init__ if isinstance(thing, type) else thing)
    parameters = inspect.signature(thing).parameters.values()
    return {p.name: hints.get(p.name, Any) for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in RUNTIME}


def check_options(folder: str, name: str, given: dict[str, Any], *, where: str | None = None) -> None:
    """Raise if a component does not take these options.

    Raises:
        ValueError: an unknown name or option.

    >>> check_options("losses", "rlsep", {"pair": 5}, where="runs.mine.loss")
    Traceback (most recent call last):
    ...
    ValueError: runs.mine.loss.args.pair: unknown option; rlsep takes pairs; did you mean pairs?
    """
    where = where or f"{folder}.{name}"
    allowed = options(find(folder, name, where=f"{where}.name"))
    for option in given:
        if option not in allowed:
            raise ValueError(
                f"{where}.args.{option}: unknown option; {name} takes {', '.join(allowed) or 'no options'}"
                f"{did_you_mean(option, allowed)}"
            )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known one that is nearest, or nothing.

    >>> did_you_mean("rslep", ["mse", "rlsep"])
    '; did you mean rlsep?'
    """
    folded = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]}?" if near else ""
