"""What `model.json` says of a model: how it is rebuilt, and which images it takes. Read without importing torch."""

import json
from pathlib import Path
from typing import Any

__all__ = ["folder_of", "image_of", "image_size", "recipe_of"]


def folder_of(path: str | Path) -> Path:
    """Return the folder of a model's files: of a run, that of the seed that is best on validation.

    Args:
        path: a folder that `save_model` wrote, or of a run (`models/runs/<run>`), whose `run.json` names its best seed.
    """
    path, file = Path(path), Path(path) / "run.json"
    if not file.is_file():
        return path
    try:
        return path / f"seed{json.loads(file.read_text())['best']}"
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: not the record of a run ({error}); make it again with `dvc repro`") from error


def recipe_of(path: str | Path) -> dict[str, Any]:
    """Return a model's recipe, whose weights are in the same folder.

    Args:
        path: see `folder_of`.

    Raises:
        FileNotFoundError: the folder lacks the recipe or the weights.
        ValueError: the recipe is no JSON object.
    """
    path = folder_of(path)
    for file in ("model.json", "model.safetensors"):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path}: no {file} there; expected a folder that save_model wrote")
    try:
        return dict(json.loads((path / "model.json").read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a whole model ({error}); make it again with `dvc repro`") from error


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
