"""Find the packages and the files in `own` that a model needs, from the code that it loads."""

import shutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from pipelines.code import ROOT, behind, files_of, packages, words_of
from rankgrad.lookup import OWN

__all__ = ["copy_own", "requirements"]

FOLDERS = ("models", "models.backbones", "models.heads", "sorters", "tasks")  # a recipe names files in these


def requirements(recipe: Mapping[str, Any], served_by: Path) -> list[str]:
    """Return the installed version of each package that the code behind a model imports, sorted by name.

    Args:
        recipe: the content of `model.json`; every component that it names is loaded with the model.
        served_by: the file that MLflow runs.

    >>> from pipelines.tracking.upload import SERVED_BY
    >>> found = requirements({"folder": "sorters", "name": "lstm", "args": {}}, SERVED_BY)
    >>> [line.partition("==")[0] for line in found]
    ['mlflow', 'numpy', 'pandas', 'pillow', 'pyarrow', 'safetensors', 'torch']
    """
    files = behind([served_by, *_components(recipe, ROOT)], all_of=True)
    imported = packages(files) - set(sys.stdlib_module_names)
    names = set()
    for package, distributions in _distributions().items():
        if package in imported:  # several distributions may have a package, as mlflow and mlflow-skinny do
            names.add(package if package in distributions else distributions[0])
    return [f"{name}=={version(name).split('+')[0]}" for name in sorted(names, key=str.lower)]


def copy_own(recipe: Mapping[str, Any], to: Path) -> list[str]:
    """Copy the files in `own` that a model needs to a folder, and return the entries for MLflow's `code_paths`."""
    here = Path.cwd()  # the other `code_paths` are relative to it, too
    for file in behind(_components(recipe, here), root=here, all_of=True):
        path = file.relative_to(here)
        if path.parts[0] == OWN:
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / path)
    return [str(to / OWN)] if (to / OWN).is_dir() else []


def _components(recipe: Mapping[str, Any], root: Path) -> list[Path]:
    return [file for folder in FOLDERS for file in files_of(folder, words_of(recipe), root)]


_distributions = cache(packages_distributions)  # it takes a second
