"""Pictures, one a row."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.inputs._base import Inputs
from rankgrad.inputs._stored import read_pictures
from rankgrad.io.images import picture
from rankgrad.io.parquet import as_batch, is_list, list_lengths, parquet_file

__all__ = ["Image", "check_lists", "flat", "of_tensor", "row_of"]


def of_tensor(images: Tensor) -> Inputs:
    """Return pictures (n, [colors,] height, width) uint8 as inputs."""
    images = as_batch(images)
    sizes = dict(zip(("colors", "height", "width"), map(int, images.shape[1:]), strict=True))
    return Inputs({"kind": "image", **sizes}, images)


class Image:
    """A picture: decoded, of one size, gray or colored; of a request of any size, prepared as those of training."""

    name, backbone, cell = "image", "image", "image"

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        check_lists(path, "image", lists=lists)
        items, sizes, counts = read_pictures(path, "image", threads=threads, memory=memory)
        return Inputs({"kind": "image", **sizes}, items), counts

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"colors": inputs.about["colors"]}

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> Tensor:
        """Return pictures (n, colors, height, width): upright, their middle resized, gray or colored as in training."""
        size, names = (about["width"], about["height"]), [where]
        if len(cells) > 1:
            names = [f"{where}, image {place}" for place in range(len(cells))]
        pictures = [
            picture(_decoded(cell), colors=about["colors"], size=size, where=name, stored=about.get("stored"))
            for cell, name in zip(cells, names, strict=True)
        ]
        return as_batch(torch.cat(pictures))

    @staticmethod
    def gathered(rows: list[Tensor], about: dict[str, Any]) -> Inputs:
        return Inputs(about, torch.cat(rows))

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        return about["height"] * about["width"]


def check_lists(path: Path, column: str, *, lists: bool) -> None:
    """Raise ValueError if a column has lists of inputs where one a row is expected, or the other way round."""
    with parquet_file(path) as file:
        kind = file.schema_arrow.field(column).type
    if is_list(kind) != lists:
        expected = "a list of them" if lists else "one"
        raise ValueError(f"{path}: column {column}: {kind}, expected {expected} in each row; make it again")


def flat(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Tensor]:
    """Return the inputs of a column of lists one after another, and how many each row has (n,)."""
    counts = torch.from_numpy(list_lengths(column).astype(np.int64))
    return pa.chunked_array([chunk.flatten() for chunk in column.chunks], type=column.type.value_type), counts


def row_of(place: int, counts: Tensor | None) -> int:
    """Return the row that has an input, by its place among those of all rows."""
    return place if counts is None else int(torch.searchsorted(counts.cumsum(0), place, right=True))


def _decoded(cell: Any) -> Any:
    """Undo base64, of which no picture consists: MLflow's server decodes it in some forms of a request alone."""
    if not isinstance(cell, bytes):
        return cell
    try:
        return base64.b64decode(cell, validate=True)
    except ValueError:
        return cell
