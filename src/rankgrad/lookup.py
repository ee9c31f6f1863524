"""Look up a component by name: the files of a folder are the registry.

`losses/spearman.py` defines `spearman` and `models/heads/wildcat.py` defines `Wildcat`: the public name of a component
is that of its file, case and underscores aside. A file whose name begins with an underscore holds no component.
"""

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, ParamSpec, TypeVar, get_type_hints

__all__ = [
    "ComponentError",
    "check_options",
    "did_you_mean",
    "find",
    "listed",
    "module",
    "names",
    "nearest",
    "no_attribute",
    "options",
    "renamed_arguments",
]

P = ParamSpec("P")
R = TypeVar("R")

# Arguments that code passes at run time: no options that a person writes into the params.
RUNTIME = {
    "generator",
    "sorter",
    "dim",
    "mask",
    "weights",
    "group_weights",
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


# What was renamed: an old name is no alias, but whoever uses one is told the new one. By folder, and of arguments by
# function.
RENAMED = {
    "losses": {
        "cross_entropy": "multilabel_cross_entropy",
        "log_rank": "mean_log_rank",
        "mean_average_precision": "sodeep_mean_average_precision",
        "permutation_cross_entropy": "softsort_cross_entropy",
        "recall": "sodeep_recall",
        "recall_at_k": "hit_rate",
    },
    "losses.expected_reciprocal_rank": {"highest": "max_grade"},
    "losses.mse": {"within": "normalize_groups"},
    "metrics": {
        "ranked": "label_ranking_scores",
        "ranked_ceiling": "ranked_map_ceiling",
        "recall": "hit_rate",
        "unranked": "label_set_scores",
    },
    "metrics.expected_reciprocal_rank": {"highest": "max_grade"},
    "ranks": {"ranks": "exact_ranks"},
    "sorters": {"soft_topk": "soft_topk_mask"},
}

# To compare two names takes the product of their lengths, and both may be strangers'.
COMPARED, KNOWN = 60, 1000  # characters, names
LISTED = 30  # names that a message lists


class ComponentError(ValueError):
    """There is no such component, or no such option of one.

    Attributes:
        place: where it is named, such as a path into the params.
        reason: what is wrong.
    """

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.place, self.reason = place, reason


@cache
def _modules(folder: str) -> dict[str, str]:
    """Return the dotted module of each component of a folder of the package, by name."""
    files = sorted((Path(__file__).parent / folder.replace(".", "/")).glob("[!_]*.py"))
    return {file.stem: f"rankgrad.{folder}.{file.stem}" for file in files}


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
    rankgrad.lookup.ComponentError: runs.mine.loss.name: no 'rslep' in rankgrad/losses; ...; did you mean rlsep?
    """
    modules, where = _modules(folder), where or f"{folder}.name"
    if not isinstance(name, str) or name not in modules:  # a file of params or a model may name anything
        if isinstance(name, str) and (new := RENAMED.get(folder, {}).get(name)):
            raise ComponentError(where, f"{name} was renamed: it is {new} now")
        place, near = folder.replace(".", "/"), did_you_mean(str(name), modules)
        raise ComponentError(where, f"no {name!r} in rankgrad/{place}; there are {', '.join(modules)}{near}")
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
    raise ComponentError(
        where or f"{folder}.name",
        f"{file.__name__} has nothing called {name} in its __all__; the name of a file that holds no component begins "
        "with an underscore",
    )


def options(thing: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a function or class that a person may set in the params, with their types.

    >>> from rankgrad.losses.rlsep import rlsep
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
    rankgrad.lookup.ComponentError: runs.mine.loss.args.pair: unknown option; rlsep takes pairs; did you mean pairs?
    """
    where = where or f"{folder}.{name}"
    allowed = options(find(folder, name, where=f"{where}.name"))
    for option in given:
        if option not in allowed and (new := RENAMED.get(f"{folder}.{name}", {}).get(option)):
            raise ComponentError(f"{where}.args.{option}", f"was renamed: it is {new} now")
        if option not in allowed:
            takes = f"{name} takes {', '.join(allowed) or 'no options'}{did_you_mean(option, allowed)}"
            raise ComponentError(f"{where}.args.{option}", f"unknown option; {takes}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to one that is not known, if any is near.

    >>> nearest("rslep", ["mse", "rlsep"])
    'rlsep'
    """
    if len(name) > COMPARED:
        return None
    folded = {candidate.lower(): candidate for candidate in islice(known, KNOWN) if len(candidate) <= COMPARED}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known one that is nearest, or nothing.

    >>> did_you_mean("rslep", ["mse", "rlsep"])
    '; did you mean rlsep?'
    """
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def listed(names: Iterable[Any]) -> str:
    """Return names for a message, the first ones of many, none of them long.

    >>> listed(["km", "price"])
    'km, price'
    """
    first = [str(name) for name in islice(names, LISTED + 1)]
    shown = [name if len(name) <= 60 else f"{name[:60]}..." for name in first[:LISTED]]
    return ", ".join([*shown, *["..."] * (len(first) > LISTED)])


def no_attribute(folder: str, name: str) -> NoReturn:
    """Raise what a module of this package raises for a name that it does not have: its `__getattr__`.

    Raises:
        ImportError: it was renamed. An AttributeError would be lost in `from ... import ...`.
        AttributeError: there never was such a name.

    >>> no_attribute("ranks", "ranks")
    Traceback (most recent call last):
    ...
    ImportError: rankgrad.ranks.ranks was renamed: it is exact_ranks now
    """
    if new := RENAMED[folder].get(name):
        raise ImportError(f"rankgrad.{folder}.{name} was renamed: it is {new} now", name=f"rankgrad.{folder}")
    raise AttributeError(f"module 'rankgrad.{folder}' has no attribute {name!r}")


def renamed_arguments(place: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function some of whose arguments were renamed: an old one is refused, and the new one named.

    >>> renamed_arguments("losses.mse")(lambda **options: options)(within="ranks")
    Traceback (most recent call last):
    ...
    TypeError: losses.mse: the argument within was renamed: it is normalize_groups now
    """
    names = RENAMED[place]

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            for old, new in names.items():
                if old in options:
                    raise TypeError(f"{place}: the argument {old} was renamed: it is {new} now")
            return function(*args, **options)

        return called

    return decorated
