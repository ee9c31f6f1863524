"""Which packages a model needs, found from the code that it loads."""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from pipelines.code import behind, files_of, packages

__all__ = ["requirements"]

FOLDERS = ("models", "models.backbones", "models.heads", "sorters", "tasks")  # whose files a recipe names


def requirements(recipe: Mapping[str, Any], served_by: Path) -> list[str]:
    """Return the installed version of each package that the code behind a model imports, sorted by name.

    Args:
        recipe: of `model.json`: every component that it names is loaded with the model.
        served_by: the file that MLflow runs.

    >>> from pipelines.tracking.upload import SERVED_BY
    >>> found = requirements({"folder": "sorters", "name": "lstm", "args": {}}, SERVED_BY)
    >>> [line.partition("==")[0] for line in found]
    ['mlflow', 'numpy', 'pandas', 'pillow', 'pyarrow', 'safetensors', 'torch']
    """
    files = behind([served_by, *_components(recipe)], all_of=True)
    known = packages_distributions()
    found = [
        (package, known[package]) for package in packages(files) - set(sys.stdlib_module_names) if package in known
    ]
    names = {package if package in several else several[0] for package, several in found}  # mlflow, not mlflow-skinny
    return [f"{name}=={version(name).split('+')[0]}" for name in sorted(names, key=str.lower)]


def _components(recipe: Any) -> Iterator[Path]:
    """Yield the files of the components that a recipe names."""
    if isinstance(recipe, Mapping):
        for value in recipe.values():
            yield from _components(value)
    elif isinstance(recipe, str):
        for folder in FOLDERS:
            yield from files_of(folder, [recipe])
