"""What `model.json` says of a model: how it is rebuilt, and which images it takes. Read without importing torch."""

import json
import reprlib
from pathlib import Path
from typing import Any

__all__ = ["folder_of", "image_of", "image_size", "name_of", "recipe_of"]

FOLDERS = ("models", "sorters")  # of the package: whose classes a model is made from
SIDE = 2048  # pixels


def name_of(seed: int, fold: int | None) -> str:
    """Return the name of the folder of a seed's model in its run's; what stands for a run is its first fold's.

    >>> name_of(1, None), name_of(1, 1), name_of(1, 2)
    ('seed1', 'seed1', 'seed1-fold2')
    """
    return f"seed{seed}" if fold in (None, 1) else f"seed{seed}-fold{fold}"


def folder_of(path: str | Path, *, fold: int | None = None) -> Path:
    """Return the folder of a model's files: of a run, that of the seed that is best on validation.

    Args:
        path: a folder that `save_model` wrote, or of a run (`models/runs/<run>`), whose `run.json` names its best seed.
        fold: of a run that has folds; None for the first.
    """
    path, file = Path(path), Path(path) / "run.json"
    if not file.is_file():
        return path
    try:
        best = json.loads(file.read_text())["best"]
        if type(best) is not int:
            raise TypeError(f"best is {reprlib.repr(best)}, expected the number of a seed")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: not the record of a run ({error}); make it again with `dvc repro`") from error
    return path / name_of(best, fold)


def recipe_of(path: str | Path) -> dict[str, Any]:
    """Return a model's recipe, whose weights are in the same folder.

    Args:
        path: see `folder_of`.

    Raises:
        FileNotFoundError: the folder lacks the recipe or the weights.
        ValueError: the recipe is no JSON object, or does not say what it should.
    """
    path = folder_of(path)
    for file in ("model.json", "model.safetensors"):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path}: no {file} there; expected a folder that save_model wrote")
    try:
        recipe = json.loads((path / "model.json").read_text())
        _check(recipe)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a whole model ({error}); make it again with `dvc repro`") from error
    return recipe


def _check(recipe: Any) -> None:
    """Raise a ValueError if a recipe is not of the form that `save_model` writes."""
    if not isinstance(recipe, dict):
        raise ValueError(f"model.json is {reprlib.repr(recipe)}, expected an object")
    for key, kind, needed in (("folder", str, True), ("name", str, True), ("args", dict, True), ("task", str, False)):
        if (needed or key in recipe) and not isinstance(recipe.get(key), kind):
            raise ValueError(f"model.json: {key} is {reprlib.repr(recipe.get(key))}, expected {kind.__name__}")
    if recipe["folder"] not in FOLDERS:
        raise ValueError(f"model.json: folder is {reprlib.repr(recipe['folder'])}, expected {' or '.join(FOLDERS)}")
    if "image" not in recipe:
        return
    image = recipe["image"]
    known = isinstance(image, dict) and all(type(image.get(key)) is int for key in ("colors", "height", "width"))
    if not known or image["colors"] not in (1, 3) or not all(1 <= image[key] <= SIDE for key in ("height", "width")):
        raise ValueError(
            f"model.json: image is {reprlib.repr(image)}, expected colors (1 or 3), height and width (at most {SIDE})"
        )
    if recipe["args"].get("colors", image["colors"]) != image["colors"]:
        raise ValueError(f"model.json: args.colors is {recipe['args']['colors']!r}, image.colors {image['colors']}")


def image_size(images: Any) -> dict[str, int]:
    """Return `colors`, `height` and `width` of images (n, colors, height, width), as a recipe holds them."""
    return dict(zip(("colors", "height", "width"), map(int, images.shape[1:]), strict=True))


def image_of(recipe: dict[str, Any], *, where: object) -> dict[str, int]:
    """Return `colors`, `height` and `width` of the images that a model was trained on.

    Raises:
        ValueError: the recipe lacks them; the message begins with `where`.

    >>> image_of({"name": "convnet", "args": {}}, where="models/old")
    Traceback (most recent call last):
    ...
    ValueError: models/old: made by an older version, which did not write down the size of the images; train it again
    """
    if "image" not in recipe:
        raise ValueError(
            f"{where}: made by an older version, which did not write down the size of the images; train it again"
        )
    return recipe["image"]
