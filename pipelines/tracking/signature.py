"""The input and output signature of a registered model, and an example request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import Schema, TensorSpec

from rankgrad import lookup
from rankgrad.datasets.tables.rows import own_columns
from rankgrad.inputs import type_of
from rankgrad.io.checkpoints import load_model
from rankgrad.io.recipes import recipe_of

__all__ = ["example_of", "signature_of"]


def signature_of(weights: Path) -> ModelSignature:
    """Return the columns of a model's requests and of its answers; a sorter takes scores and returns as many ranks."""
    recipe = recipe_of(weights)
    if recipe["folder"] == "sorters":
        scores = Schema([TensorSpec(np.dtype(np.float32), (-1, recipe["args"].get("length", -1)))])
        return ModelSignature(inputs=scores, outputs=scores)
    answers = lookup.find("tasks", recipe["task"])().respond(load_model(weights), _example(recipe))
    return infer_signature(_requests(recipe), pd.DataFrame(answers))


def example_of(weights: Path) -> pd.DataFrame | np.ndarray:
    """Return a request with one row: a black picture, zeros, or a word; for sorters, scores."""
    recipe = recipe_of(weights)
    if recipe["folder"] == "sorters":
        return np.linspace(1, 0, recipe["args"].get("length") or 3, dtype=np.float32)[None]
    return pd.DataFrame(_example(recipe))


def _requests(recipe: Mapping[str, Any]) -> pd.DataFrame:
    """Return rows from which MLflow infers columns: optional if a cell is None, and of any type if all are.

    The columns of the training table are optional, and so is the input, which they can replace.
    """
    about, required, optional = recipe["input"], {}, {}
    for name, column in lookup.find("tasks", recipe["task"])().columns(recipe).items():
        cell = None if column.type.cell is Any else column.type.example(about)
        cells = required if column.required else optional
        cells[name] = [cell] if column.lists and cell is not None else cell
    own = [name for name in own_columns(about) if name not in required and "*" not in name]
    absent = required | dict.fromkeys([*optional, *own])
    rows = [absent, *(absent | {name: cell} for name, cell in optional.items())]
    return pd.DataFrame([*rows, dict.fromkeys(absent)] if own else rows)


def _example(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    about = recipe["input"]
    input_type, lists = type_of(about), lookup.find("tasks", recipe["task"]).reads.lists
    cell = input_type.example(about)
    return [{input_type.name: [cell, cell] if lists else cell}]
