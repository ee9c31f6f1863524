"""What a registered model takes and answers, and an example of a request."""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType, Array
from PIL import Image

from rankgrad import lookup
from rankgrad.io.checkpoints import load_model

__all__ = ["example_of", "signature_of", "taken"]

TAKEN = {  # of `Task.columns`
    "image": DataType.binary,
    "images": Array(DataType.binary),
    "text": DataType.string,
    "texts": Array(DataType.string),
    "vector": AnyType(),  # numbers, or numbers by their features' names
    "vectors": AnyType(),
    "id": AnyType(),  # text or a number
}
ANSWERED = {float: DataType.double, int: DataType.long, str: DataType.string}


def taken(recipe: Mapping[str, Any]) -> Schema:
    """Return the columns of a task, or of a sorter scores (n, length) of its own or any length."""
    if recipe["folder"] == "sorters":
        return Schema([TensorSpec(np.dtype(np.float32), (-1, recipe["args"].get("length", -1)))])
    columns: Mapping[str, str] = lookup.find("tasks", recipe["task"])().columns(recipe)
    return Schema([
        ColSpec(TAKEN[kind.removesuffix("?")], name, required=not kind.endswith("?")) for name, kind in columns.items()
    ])  # fmt: skip


def signature_of(weights: Path) -> ModelSignature:
    """Return what a model takes, and what it answers to an example: a sorter as many ranks."""
    recipe = json.loads((weights / "model.json").read_text())
    if recipe["folder"] == "sorters":
        return ModelSignature(inputs=taken(recipe), outputs=taken(recipe))
    with torch.inference_mode():
        [answer] = lookup.find("tasks", recipe["task"])().respond(load_model(weights), _rows(recipe))
    outputs: list[ColSpec | TensorSpec] = [ColSpec(_type_of(value), name) for name, value in answer.items()]
    return ModelSignature(inputs=taken(recipe), outputs=Schema(outputs))


def _type_of(value: Any) -> Any:
    if not isinstance(value, list):
        return ANSWERED[type(value)]
    return Array(_type_of(value[0])) if value else AnyType()  # an example without labels does not tell their type


def example_of(weights: Path) -> pd.DataFrame | np.ndarray:
    """Return a request of one row, drawn by nobody: black pictures, zeros, a word; scores of a sorter."""
    recipe = json.loads((weights / "model.json").read_text())
    if recipe["folder"] == "sorters":
        return np.linspace(1, 0, recipe["args"].get("length") or 3, dtype=np.float32)[None]
    return pd.DataFrame(_rows(recipe))


def _rows(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    task, given = lookup.find("tasks", recipe["task"])(), recipe["input"]
    if "width" in given:
        picture = BytesIO()
        Image.new("L", (given["width"], given["height"])).save(picture, "PNG")
        cell: Any = [picture.getvalue()] if given["kind"] == "frames" else picture.getvalue()
    else:
        cell = [0.0] * given["count"] if given["kind"] == "features" else "word"
    return [{given["kind"]: [cell, cell] if task.reads.lists else cell}]
