"""What a registered model takes and answers, and an example of a request."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pandas as pd
import torch
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType, Array

from rankgrad import lookup
from rankgrad.io.checkpoints import load_model

__all__ = ["example_of", "signature_of", "taken"]

OF_PYTHON = {bytes: DataType.binary, str: DataType.string, float: DataType.double, int: DataType.long}


def taken(recipe: Mapping[str, Any]) -> Schema:
    """Return the columns of a task, or of a sorter scores (n, length) of its own or any length."""
    if recipe["folder"] == "sorters":
        return Schema([TensorSpec(np.dtype(np.float32), (-1, recipe["args"].get("length", -1)))])
    schema = []
    for name, column in lookup.find("tasks", recipe["task"])().columns(recipe).items():
        cell = _of_cell(list[column.type.cell] if column.lists else column.type.cell)
        schema.append(ColSpec(cell, name, required=column.required))
    return Schema(schema)


def _of_cell(cell: Any) -> Any:
    """Return MLflow's type of what a cell is in Python: anything that is, or has, one of several."""
    if get_origin(cell) is not list:
        return OF_PYTHON.get(cell, AnyType())
    [item] = get_args(cell)
    return AnyType() if isinstance(of_item := _of_cell(item), AnyType) else Array(of_item)


def signature_of(weights: Path) -> ModelSignature:
    """Return what a model takes, and what it answers to an example: a sorter as many ranks."""
    recipe = json.loads((weights / "model.json").read_text())
    if recipe["folder"] == "sorters":
        return ModelSignature(inputs=taken(recipe), outputs=taken(recipe))
    with torch.inference_mode():
        [answer] = lookup.find("tasks", recipe["task"])().respond(load_model(weights), _rows(recipe))
    return ModelSignature(inputs=taken(recipe), outputs=infer_signature(model_output=pd.DataFrame([answer])).outputs)


def example_of(weights: Path) -> pd.DataFrame | np.ndarray:
    """Return a request of one row, drawn by nobody: black pictures, zeros, a word; scores of a sorter."""
    recipe = json.loads((weights / "model.json").read_text())
    if recipe["folder"] == "sorters":
        return np.linspace(1, 0, recipe["args"].get("length") or 3, dtype=np.float32)[None]
    return pd.DataFrame(_rows(recipe))


def _rows(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    about = recipe["input"]
    input_type, lists = lookup.find("inputs", about["kind"]), lookup.find("tasks", recipe["task"]).reads.lists
    cell = input_type.example(about)
    return [{input_type.name: [cell, cell] if lists else cell}]
