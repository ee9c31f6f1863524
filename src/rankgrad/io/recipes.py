"""Recipes (`model.json`): how to rebuild a model, and which inputs it takes."""

import json
import reprlib
from pathlib import Path
from typing import Any

from rankgrad import lookup
from rankgrad.numbers import ORDERS
from rankgrad.plain_text import NAME, parsed_json

__all__ = ["folder_of", "name_of", "recipe_of"]

FOLDERS = ("models", "sorters")  # folders of the package with the classes of models
FEATURE = 2 * NAME + 50  # longest feature name in characters: a column, a value, and the position of a letter
RECIPE = 2**27  # largest model.json in bytes; it may contain a tokenizer


def name_of(seed: int, fold: int | None) -> str:
    """Return the folder name of a seed's model within its run.

    Args:
        seed: the seed.
        fold: the fold that tests the model; None or 0 for a model that no fold tests, the one to register.

    >>> name_of(1, None), name_of(1, 0), name_of(1, 2)
    ('seed1', 'seed1', 'seed1-fold2')
    """
    return f"seed{seed}-fold{fold}" if fold else f"seed{seed}"


def folder_of(path: str | Path) -> Path:
    """Return the folder of a model's files; for a run, the folder of its best seed on validation.

    Args:
        path: a folder from `save_model`, or a run's folder (`models/runs/<run>`), whose `run.json` names the best seed.
    """
    path, file = Path(path), Path(path) / "run.json"
    if not file.is_file():
        return path
    try:
        best = json.loads(file.read_text())["best"]
        if type(best) is not int:
            raise TypeError(f"best is {reprlib.repr(best)}, expected the number of a seed")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: not the record of a run ({error}); recreate it with `dvc repro`") from error
    return path / name_of(best, None)


def recipe_of(path: str | Path) -> dict[str, Any]:
    """Return a model's recipe; the weights must be in the same folder.

    Args:
        path: see `folder_of`.

    Raises:
        FileNotFoundError: the folder lacks the recipe or the weights.
        ValueError: the recipe is not a JSON object, or a value is invalid.
    """
    path = folder_of(path)
    for file in ("model.json", "model.safetensors"):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path}: the folder has no {file}, expected a folder that save_model wrote")
    try:
        if (size := (path / "model.json").stat().st_size) > RECIPE:
            raise ValueError(f"model.json has {size:,} bytes, expected at most {RECIPE:,}")
        recipe = parsed_json((path / "model.json").read_text(encoding="utf-8"))
        _check(recipe)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a complete model ({error}); recreate it with `dvc repro`") from error
    return recipe


def _check(recipe: Any) -> None:
    """Raise a ValueError if a recipe does not have the form that `save_model` writes."""
    if not isinstance(recipe, dict):
        raise ValueError(f"model.json is {reprlib.repr(recipe)}, expected an object")
    for key, kind in {"folder": str, "name": str, "args": dict, "task": str}.items():
        if (key != "task" or key in recipe) and not isinstance(recipe.get(key), kind):
            raise ValueError(f"model.json: {key} is {reprlib.repr(recipe.get(key))}, expected {kind.__name__}")
    if recipe["folder"] not in FOLDERS:
        raise ValueError(f"model.json: folder is {reprlib.repr(recipe['folder'])}, expected {' or '.join(FOLDERS)}")
    if "classes" in recipe:
        _check_names("classes", recipe["classes"])
    if "task" in recipe:
        if recipe["task"] not in (tasks := lookup.names("tasks")):
            raise ValueError(f"model.json: task is {reprlib.repr(recipe['task'])}, expected one of {', '.join(tasks)}")
        _check_input(recipe)


def _check_input(recipe: dict[str, Any]) -> None:
    if "input" not in recipe:
        raise ValueError("model.json has no input, because an older version wrote it: train the model again")
    about = recipe["input"]
    kind = about.get("kind") if isinstance(about, dict) else None
    input_type = lookup.find("inputs", str(kind)[:NAME], where="input.kind")
    for name, longest in (("names", FEATURE), ("columns", NAME), ("other_columns", NAME), ("empty", NAME)):
        if about.get(name) is not None:
            _check_names(f"input.{name}", about[name], longest=longest)
    for name in ("format", "encoding", "decimal", "thousands", "separator", "id", "query", "caption", "rejected"):
        if not isinstance(about.get(name, ""), str):
            raise ValueError(f"input.{name} is {reprlib.repr(about[name])}, expected text")
    dates = about.get("dates", {})
    if not isinstance(dates, dict) or not all(order in ORDERS for order in dates.values()):
        raise ValueError(f"input.dates is {reprlib.repr(dates)}, expected {', '.join(ORDERS)} by column")
    if about.get("lowest", 0) not in (0, 1):
        raise ValueError(f"input.lowest is {reprlib.repr(about['lowest'])}, expected 0 or 1")
    input_type.check(about)
    colors = recipe["args"].get("colors", about.get("colors"))
    if colors != about.get("colors"):
        raise ValueError(f"args.colors is {colors!r}, expected the same as input.colors, {about.get('colors')}")


def _check_names(key: str, names: Any, *, longest: int = NAME) -> None:
    """Raise a ValueError if an entry of a recipe is not a list of distinct names."""
    if not isinstance(names, list):
        raise ValueError(f"model.json: {key} is {reprlib.repr(names)}, expected a list of names")
    for number, name in enumerate(names):
        if not isinstance(name, str) or len(name) > longest:
            raise ValueError(
                f"model.json: {key}[{number}] is {reprlib.repr(name)}, expected text of at most {longest:,} characters"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"model.json: {key} has a name twice, expected distinct names")
