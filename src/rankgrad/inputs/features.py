"""Vectors of features, raw: a network standardizes them itself."""

import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.inputs._base import Inputs
from rankgrad.inputs._feature_names import columns_of, numbers_of
from rankgrad.inputs.image import check_lists, flat, row_of
from rankgrad.io.parquet import is_list, matrix, parquet_file, read_table, said
from rankgrad.lookup import listed

__all__ = ["Features", "of_tensor"]


def of_tensor(vectors: Tensor, names: list[str] | None = None) -> Inputs:
    """Return vectors (n, k) as inputs, with the names of their features where these are known.

    What is asked of a network later has the precision of what it learned from: float32, or `precision: float64`.
    """
    about: dict[str, Any] = {"kind": "features", "count": vectors.shape[1], "names": names}
    if vectors.dtype == torch.float64:
        return Inputs(about | {"precision": "float64"}, vectors)
    return Inputs(about, vectors.float())


class Features:
    """A vector of numbers."""

    name, backbone, cell = "features", "features", "vector"

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        column, counts = read_table(path, ["features"])["features"], None
        if lists:
            with parquet_file(path) as file:
                kind = file.schema_arrow.field("features").type
            if not is_list(kind) or not is_list(kind.value_type):
                raise ValueError(
                    f"{path}: column features: {kind}, expected a list of vectors in each row; make it again"
                )
            column, counts = flat(column)
        else:
            check_lists(path, "features", lists=True)
        vectors = matrix(pa.table({"features": column}), "features", path=path)
        vectors = vectors if vectors.is_floating_point() else vectors.double()
        if not (whole := _finite(vectors)).all():
            row = row_of(int((~whole).nonzero()[0]), counts)
            raise ValueError(f"{path}: row {row} has a feature that is not finite in float32; make it again")
        if (names := said(path, "features")) is not None and len(names) != vectors.shape[1]:
            raise ValueError(f"{path}: {len(names)} names of features, expected {vectors.shape[1]}; make it again")
        return of_tensor(vectors, names), counts

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"features": inputs.about["count"]}

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> Tensor:
        """Return vectors (n, k) of lists of numbers, or of numbers by their features' names."""
        rows = [_ordered(cell, about, where) for cell in cells]
        if (wrong := next((len(row) for row in rows if len(row) != about["count"]), None)) is not None:
            raise ValueError(f"{where}: {wrong} features, expected {about['count']}")
        kind = torch.float64 if about.get("precision") == "float64" else torch.float32
        vectors = torch.tensor(rows, dtype=kind).view(-1, about["count"])
        if not _finite(vectors).all():
            raise ValueError(f"{where}: features are not finite in float32")
        return vectors

    @staticmethod
    def gathered(rows: list[Tensor], about: dict[str, Any]) -> Inputs:
        return Inputs(about, torch.cat(rows))

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        names = cell.values() if isinstance(cell, Mapping) else ()
        # However few are given by name, a network reads all.
        return max(len(cell), about["count"]) + sum(len(name) for name in names if isinstance(name, str))


def _finite(vectors: Tensor) -> Tensor:
    """Return which vectors (n,) hold numbers of float32's range: float64 holds their squares."""
    return vectors.float().isfinite().all(1)


def _ordered(cell: Any, about: dict[str, Any], where: str) -> list[float]:
    """Return the numbers of a vector in the order of training."""
    names = about.get("names")
    if not isinstance(cell, Mapping):
        return [float(value) for value in cell]
    if names is None:
        raise ValueError(f"{where}: features by name, expected a list of {about['count']}: the model knows no names")
    columns = columns_of(names)
    if unknown := cell.keys() - set(columns) - set(names):
        raise ValueError(f"{where}: unknown feature {listed([min(unknown)])!r}; the model takes {listed(columns)}")
    if missing := [name for name in columns_of([one for one in names if one not in cell]) if name not in cell]:
        raise ValueError(f"{where}: no feature {listed(missing)}, expected a value")
    return numbers_of(cell, names, unknown=_tell_unknown)


@lru_cache(maxsize=100)
def _tell_unknown(column: str, value: str) -> None:
    """Say once that a value was in no training row."""
    logging.warning("%s: no training row has %r; the model takes it for none of the names that it knows", column, value)
