"""Which packages a model needs, found from the code that it loads."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from pipelines.code import behind, files_of, packages, words_of

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
    components = [file for folder in FOLDERS for file in files_of(folder, words_of(recipe))]
    imported = packages(behind([served_by, *components], all_of=True)) - set(sys.stdlib_module_names)
    names = set()
    for package, distributions in _distributions().items():
        if package in imported:  # mlflow, which mlflow-skinny has too
            names.add(package if package in distributions else distributions[0])
    return [f"{name}=={version(name).split('+')[0]}" for name in sorted(names, key=str.lower)]


_distributions = cache(packages_distributions)  # which takes a second
