"""From a name in the params to the public thing in the file of that name: the folder is the registry."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

__all__ = ["check_options", "find", "names", "options"]

# What the caller passes at run time: never an option that a person writes into the params.
RUNTIME = {"generator", "sorter", "mask", "weights", "length", "outputs", "features", "colours", "words"}


def names(folder: str) -> list[str]:
    """What a folder of the package offers: `names("losses")` is its files, sorted."""
    package = importlib.import_module(f"rankops.{folder}")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def find(folder: str, name: str, *, where: str | None = None) -> Callable[..., Any]:
    """The public thing (the first of `__all__`) in `rankops/<folder>/<name>.py`.

    Raises:
        ValueError: there is no such file; the message names `where` (a path into the params) and what there is. Or it
            has no `__all__`.

    >>> find("losses", "rslep", where="runs.mine.loss.name")
    Traceback (most recent call last):
    ...
    ValueError: runs.mine.loss.name: no 'rslep' in rankops/losses; there are average_precision, cross_entropy,
    hard_negative_triplet, hinge_ap, kendall, l1, lsep, mean_average_precision, mse, multilabel_soft_margin, ndcg,
    pairwise_logistic, plackett_luce, precision_at_k, recall, recall_at_k, rlsep, spearman, spearman_of_label_ranks
    """
    if name not in names(folder):
        raise ValueError(
            f"{where or f'{folder}.name'}: no {name!r} in rankops/{folder}; there are {', '.join(names(folder))}"
        )
    module = importlib.import_module(f"rankops.{folder}.{name}")
    if not getattr(module, "__all__", None):
        raise ValueError(
            f"rankops/{folder}/{name}.py has no __all__: expected one that begins with the name of what it offers"
        )
    return getattr(module, module.__all__[0])


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
