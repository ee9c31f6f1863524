"""Which packages a model needs, found from the code that it loads."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rankops import lookup

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
    ['mlflow', 'numpy', 'pandas', 'safetensors', 'torch']
    """
    waiting, seen, packages = [served_by, *_components(recipe)], set(), set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for module in _imports(file):
            if module.partition(".")[0] != "rankops":
                packages.add(module.partition(".")[0])
            elif own := _file_of(module):
                waiting.append(own)
    known = packages_distributions()
    found = [(package, known[package]) for package in packages - set(sys.stdlib_module_names) if package in known]
    names = {package if package in several else several[0] for package, several in found}  # mlflow, not mlflow-skinny
    return [f"{name}=={version(name).split('+')[0]}" for name in sorted(names, key=str.lower)]


def _components(recipe: Any) -> Iterator[Path]:
    """Yield the files of the components that a recipe names."""
    if isinstance(recipe, Mapping):
        for value in recipe.values():
            yield from _components(value)
    elif isinstance(recipe, str):
        for folder in FOLDERS:
            if recipe in lookup.names(folder):
                yield Path(lookup.module(folder, recipe).__file__ or "")


@cache
def _file_of(module: str) -> Path | None:
    """Return the file of a module of the library, None of a name that a module has."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name of a file, which is no package
        return None
    return Path(spec.origin) if spec and spec.origin else None


@cache
def _imports(file: Path) -> frozenset[str]:
    """Return the modules that a file imports, inside functions too, but not for type checkers alone."""
    return frozenset(_imported(ast.parse(file.read_text()).body))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module.partition(".")[0] == "rankops":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _imported(node.orelse)
        else:
            yield from _imported(ast.iter_child_nodes(node))
