"""Look up a component by name: the files of a folder are the registry.

`losses/spearman.py` defines `spearman` and `models/heads/wildcat.py` defines `Wildcat`: a component has the name of its
file, ignoring case and underscores. Files whose names begin with an underscore contain no component.

A project can add losses, sorters, metrics, backbones, and heads: `own/losses/footrule.py` defines `footrule`. Python
finds the package `own` in the folder where a command runs, or in the `code_paths` of an MLflow model.
"""

import difflib
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterable
from functools import cache, wraps
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, ParamSpec, TypeVar, get_type_hints

__all__ = [
    "OWN",
    "OWN_FOLDERS",
    "ComponentError",
    "check_options",
    "choices",
    "did_you_mean",
    "find",
    "line_in_own",
    "listed",
    "module",
    "names",
    "nearest",
    "no_attribute",
    "options",
    "own_file",
    "own_files",
    "raised_at",
    "renamed_arguments",
]

P = ParamSpec("P")
R = TypeVar("R")

# Arguments that code passes at run time, not options to write into the params.
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


# Renamed components and arguments: using an old name is an error that gives the new one. By folder, for arguments by
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

# Comparing two names takes time proportional to the product of their lengths, and both may be untrusted input.
COMPARED, KNOWN = 60, 1000  # characters, names
LISTED = 30  # names that a message lists
OWN = "own"  # the package of a project's own components
OWN_FOLDERS = ("losses", "metrics", "models.backbones", "models.heads", "sorters")


class ComponentError(ValueError):
    """A component does not exist, or does not have an option.

    Attributes:
        place: where it is named, such as a key of the params.
        reason: what is wrong.
        expected: the allowed values, unless the reason lists them.
        advice: what to do.
    """

    def __init__(self, place: str, reason: str, expected: str = "", advice: str = ""):
        self.place, self.reason, self.expected, self.advice = place, reason, expected, advice
        expectation, remedy = f", expected {expected}" if expected else "", f"; {advice}" if advice else ""
        super().__init__(f"{place}: {reason}{expectation}{remedy}")


@cache
def _modules(folder: str) -> dict[str, str]:
    """Return the dotted module of each component in a folder of the package, by name."""
    files = sorted((Path(__file__).parent / folder.replace(".", "/")).glob("[!_]*.py"))
    return {file.stem: f"rankgrad.{folder}.{file.stem}" for file in files}


def names(folder: str) -> list[str]:
    """Return the names of the components in a folder of the package, sorted.

    >>> names("metrics")
    ['coverage_error', ...]
    """
    return list(_modules(folder))


def own_files(folder: str) -> dict[str, Path]:
    """Return the file of each component in a folder of the project's own code, by name.

    >>> own_files("datasets")
    {}
    """
    files: dict[str, Path] = {}
    for top in _tops_of_own() if folder in OWN_FOLDERS else []:
        for file in sorted((top / folder.replace(".", "/")).glob("[!_]*.py")):
            if file.stem.isidentifier():
                files.setdefault(file.stem, file)
    return files


def _tops_of_own() -> list[Path]:
    """Return the folders of the package `own`; there may be none, one, or several."""
    package = find_spec(OWN)
    locations = package.submodule_search_locations if package is not None else None
    return [Path(location) for location in locations or ()]


def own_file(folder: str, name: str) -> str:
    """Return the path of a component in `own`, for messages.

    >>> own_file("models.heads", "mine")
    'own/models/heads/mine.py'
    """
    return f"{OWN}/{folder.replace('.', '/')}/{name}.py"


def choices(folder: str) -> list[str]:
    """Return the names that params may use: components of the package and of the project's own code."""
    return [*_modules(folder), *own_files(folder)]


def module(folder: str, name: str, *, where: str | None = None) -> ModuleType:
    """Import the module of a component, such as `module("datasets", "clips")`.

    Args:
        folder: folder of the package.
        name: name of the file, without `.py`.
        where: a key of the params, for the error.

    Raises:
        ValueError: no component or two components have this name; or its file in `own` cannot be imported.

    >>> module("losses", "rslep", where="runs.mine.loss.name")
    Traceback (most recent call last):
    ...
    rankgrad.lookup.ComponentError: runs.mine.loss.name: no 'rslep' in rankgrad/losses...; did you mean rlsep?
    """
    modules, where, place = _modules(folder), where or f"{folder}.name", folder.replace(".", "/")
    if isinstance(name, str) and name in own_files(folder):
        if name in modules:
            reason = f"{own_file(folder, name)} has the same name as rankgrad/{place}/{name}.py"
            raise ComponentError(where, reason, "an unused name", "rename the file and the component in it")
        return _imported(folder, name, where)
    if not isinstance(name, str) or name not in modules:  # params and models may contain any value
        if isinstance(name, str) and (new := RENAMED.get(folder, {}).get(name)):
            raise ComponentError(where, f"{name} was renamed to {new}")
        known, missing = choices(folder), ""
        if folder in OWN_FOLDERS and isinstance(name, str) and name.isidentifier() and len(name) <= COMPARED:
            missing = f", and no {own_file(folder, name)}"
        near = did_you_mean(str(name), known)
        raise ComponentError(where, f"no {name!r} in rankgrad/{place}{missing}; there are {', '.join(known)}{near}")
    return importlib.import_module(modules[name])


def _imported(folder: str, name: str, where: str) -> ModuleType:
    """Import a file of `own`; turn any error in it into a `ComponentError`."""
    try:
        return importlib.import_module(f"{OWN}.{folder}.{name}")
    except (Exception, SystemExit) as error:
        advice = f"run `python -m {OWN}.{folder}.{name}`, and fix the file"
        if isinstance(error, ModuleNotFoundError):
            advice = f"install the package of {error.name}, or remove its import"
        reason = f"{own_file(folder, name)} cannot be imported: {raised_at(error)}"
        raise ComponentError(where, reason, "a file that Python can import", advice) from error


def raised_at(error: BaseException) -> str:
    """Return an error's message in one line, with the last line of code in `own` that led to it."""
    line, message = line_in_own(error), f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"{message} ({line})" if line else message  # a SyntaxError already names its line


def line_in_own(error: BaseException) -> str:
    """Return the last line of code in `own` that led to an error, such as "own/losses/footrule.py, line 9", or ""."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for top in _tops_of_own():
            if (file := Path(frame.filename)).is_relative_to(top):
                return f"{OWN}/{file.relative_to(top).as_posix()}, line {frame.lineno}"
    return ""


def find(folder: str, name: str, *, where: str | None = None) -> Any:
    """Return a component: the function or class that its file is named after.

    Raises:
        ValueError: no component has this name, or its file does not define it; or a file in `own` also exports other
            names.

    >>> find("sorters", "straight_through").__name__, find("losses", "rlsep").__name__
    ('StraightThrough', 'rlsep')
    """
    file = module(folder, name, where=where)
    if file.__name__.startswith(f"{OWN}."):
        return _exported(file, folder, name, where or f"{folder}.name")
    for public in getattr(file, "__all__", []):
        if public.lower() == name.replace("_", "") or public == name:
            return getattr(file, public)
    raise ComponentError(
        where or f"{folder}.name",
        f"{file.__name__} has nothing called {name} in its __all__; begin the name of a file without a component "
        "with an underscore",
    )


def _exported(file: ModuleType, folder: str, name: str, where: str) -> Any:
    """Return the component that a file of `own` exports; it must be the only export and have the name of the file."""
    exported = getattr(file, "__all__", None)
    if exported is None:
        reason = "has no __all__"
    elif not isinstance(exported, list | tuple) or len(exported) != 1:
        reason = f"has {exported!r:.200} as its __all__"
    elif str(exported[0]).lower() not in (name.lower(), name.lower().replace("_", "")):
        reason = f"exports {exported[0]!r:.80}"
    elif not callable(getattr(file, exported[0], None)):
        reason = f"exports {exported[0]}, but defines no such function or class"
    else:
        return getattr(file, exported[0])
    named = name if folder in ("losses", "metrics") else name.title().replace("_", "")
    expected = f'only the name that params use: __all__ = ["{named}"]'
    advice = "put helpers into a file whose name begins with an underscore"
    raise ComponentError(where, f"{own_file(folder, name)} {reason}", expected, advice)


def options(thing: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a function or class that params can set, with their types.

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
        ValueError: the name or an option is unknown.

    >>> check_options("losses", "rlsep", {"pair": 5}, where="runs.mine.loss")
    Traceback (most recent call last):
    ...
    rankgrad.lookup.ComponentError: runs.mine.loss.args.pair: unknown option; rlsep takes pairs; did you mean pairs?
    """
    where = where or f"{folder}.{name}"
    allowed = options(find(folder, name, where=f"{where}.name"))
    for option in given:
        if option not in allowed and (new := RENAMED.get(f"{folder}.{name}", {}).get(option)):
            raise ComponentError(f"{where}.args.{option}", f"was renamed to {new}")
        if option not in allowed:
            takes = f"{name} takes {', '.join(allowed) or 'no options'}{did_you_mean(option, allowed)}"
            raise ComponentError(f"{where}.args.{option}", f"unknown option; {takes}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, or None if no name is similar.

    >>> nearest("rslep", ["mse", "rlsep"])
    'rlsep'
    """
    if len(name) > COMPARED:
        return None
    folded = {candidate.lower(): candidate for candidate in islice(known, KNOWN) if len(candidate) <= COMPARED}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a similar known name, or nothing.

    >>> did_you_mean("rslep", ["mse", "rlsep"])
    '; did you mean rlsep?'
    """
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def listed(names: Iterable[Any]) -> str:
    """Return names for a message: only the first ones, each shortened.

    >>> listed(["km", "price"])
    'km, price'
    """
    first = [str(name) for name in islice(names, LISTED + 1)]
    shown = [name if len(name) <= 60 else f"{name[:60]}..." for name in first[:LISTED]]
    return ", ".join([*shown, *["..."] * (len(first) > LISTED)])


def no_attribute(folder: str, name: str) -> NoReturn:
    """Raise the error for a name that a module of this package lacks; for use in its `__getattr__`.

    Raises:
        ImportError: the name was changed. `from ... import ...` would hide the message of an AttributeError.
        AttributeError: the name never existed.

    >>> no_attribute("ranks", "ranks")
    Traceback (most recent call last):
    ...
    ImportError: rankgrad.ranks.ranks was renamed to exact_ranks
    """
    if new := RENAMED[folder].get(name):
        raise ImportError(f"rankgrad.{folder}.{name} was renamed to {new}", name=f"rankgrad.{folder}")
    raise AttributeError(f"module 'rankgrad.{folder}' has no attribute {name!r}")


def renamed_arguments(place: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function with renamed arguments: passing an old name is an error that gives the new one.

    >>> renamed_arguments("losses.mse")(lambda **options: options)(within="ranks")
    Traceback (most recent call last):
    ...
    TypeError: losses.mse: the argument within was renamed to normalize_groups
    """
    names = RENAMED[place]

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            for old, new in names.items():
                if old in options:
                    raise TypeError(f"{place}: the argument {old} was renamed to {new}")
            return function(*args, **options)

        return called

    return decorated
