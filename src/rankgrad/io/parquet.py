"""Parquet tables, including images in the common form `image: {bytes, path}`; read with clear errors."""

import json
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from rankgrad.io.pictures import as_png, opened
from rankgrad.lookup import listed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "COLLECTION",
    "FOLD",
    "IMAGE",
    "as_fixed_lists",
    "as_lists",
    "columns_of",
    "decode_image",
    "documents_of",
    "encode_images",
    "encoded_images",
    "flat",
    "is_list",
    "is_number",
    "is_text",
    "list_lengths",
    "matrix",
    "parquet_file",
    "ragged_lists",
    "read_column",
    "read_table",
    "said",
]


HANDED = 256  # images per task of a thread: passing on a single one costs as much as encoding it
COLLECTION = "collection.parquet"  # the passages that queries search, next to the splits
FOLD = "fold"  # column of data and predictions; folds are numbered from 1
# How datasets libraries store an image in Parquet, so that any of them shows it.
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@contextmanager
def parquet_file(path: str | Path) -> Generator[pq.ParquetFile]:
    """Open a Parquet file; turn any error in reading it into a ValueError that names the file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file; create it with `dvc repro`")
    try:
        # Not pq.read_table, which imports pandas. Without these options, the whole file would be kept in memory.
        with pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last: a date beyond Python's
        raise ValueError(
            f"{path}: not a complete Parquet file ({error}); fetch it again, or recreate a stage's output with `dvc "
            "repro`"
        ) from error


def columns_of(path: str | Path) -> list[str]:
    """Return the names of a Parquet file's columns; raises the same errors as `read_table`."""
    with parquet_file(path) as file:
        return file.schema_arrow.names


def said(path: str | Path, key: str) -> Any:
    """Return the names in `classes` or `features` of a Parquet file's metadata, in order; None if it has none."""
    with parquet_file(path) as file:
        value = (file.schema_arrow.metadata or {}).get(key.encode())
    return None if value is None else json.loads(value)


def read_table(path: str | Path, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a Parquet file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not complete, or a column is missing or occurs twice.
    """
    names = columns_of(path)
    counts = Counter(names)
    if missing := [name for name in columns if counts[name] != 1]:
        raise ValueError(f"{path}: expected one column {listed(missing)}; the file has {listed(names)}")
    with parquet_file(path) as file:
        return file.read(list(columns))


def read_column(path: str | Path, name: str, *, lists: bool) -> "tuple[pa.ChunkedArray, Tensor | None]":
    """Read a column; with `lists`, return the concatenated values of its lists, and the length of each list (n,)."""
    column = read_table(path, [name])[name]
    return flat(column) if lists else (column, None)


def encode_images(images: np.ndarray, *, threads: int) -> pa.Array:
    """Encode gray images (n, height, width) uint8 as PNG, lossless, in the form of `IMAGE`."""

    def encoded_piece(start: int) -> list[bytes]:
        return [as_png(Image.fromarray(image)) for image in images[start : start + HANDED]]

    with ThreadPoolExecutor(threads) as pool:
        encoded = [*chain.from_iterable(pool.map(encoded_piece, range(0, len(images), HANDED)))]
    return pa.StructArray.from_arrays(
        [pa.array(encoded, pa.binary()), pa.nulls(len(encoded), pa.string())], fields=list(IMAGE)
    )


def decode_image(encoded: bytes | None, *, where: str) -> np.ndarray:
    """Decode an image of a table: (height, width) uint8 if it is gray, (height, width, 3) if colored.

    Raises:
        ValueError: the image is corrupt, or neither gray nor RGB; the message begins with `where`.
    """
    with opened(encoded, where=where) as image:
        if image.mode not in ("L", "RGB"):
            raise ValueError(f"mode {image.mode}, expected gray (L) or RGB")
        return np.asarray(image)


def encoded_images(column: pa.ChunkedArray, *, path: str | Path) -> list[bytes | None]:
    """Return the bytes of an `IMAGE` column.

    Raises:
        ValueError: the column does not have the type `IMAGE`.
    """
    field = column.type.get_field_index("bytes") if pa.types.is_struct(column.type) else -1
    if field < 0 or not (pa.types.is_binary(kind := column.type[field].type) or pa.types.is_large_binary(kind)):
        raise ValueError(f"{path}: images have the type {column.type}, expected {IMAGE}; recreate it with `dvc repro`")
    # Chunk by chunk, because the bytes of a large split exceed the range of Arrow's offsets.
    return [image for chunk in column.chunks for image in chunk.field("bytes").to_pylist()]


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column's cells are lists of any kind."""
    return pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column's cells are numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column's cells are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def matrix(table: pa.Table, name: str, *, path: str | Path, length: int | None = None) -> "Tensor":
    """Return a column of lists of equal length as a tensor (n, length).

    Raises:
        ValueError: cells are not lists of numbers, lengths differ from each other or from `length`, or a value is
            missing; the message names the column.
    """
    import torch  # takes a second; most readers need no tensors

    column = table[name]
    kind = column.type
    if not is_list(kind) or not (is_number(kind.value_type) or pa.types.is_boolean(kind.value_type)):
        raise ValueError(f"{path}: column {name}: {kind}, expected lists of numbers; recreate it with `dvc repro`")
    # Chunk by chunk, because the values of a large split exceed the range of Arrow's offsets.
    chunks = [chunk.flatten() for chunk in column.chunks]
    if length is None:
        length = sum(map(len, chunks)) // max(len(column), 1)
    if column.null_count or any(chunk.null_count for chunk in chunks) or (list_lengths(column) != length).any():
        raise ValueError(
            f"{path}: column {name}: lists of different lengths or missing values, expected {length} values in each row"
        )
    flat = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks] or [
        np.zeros(0, kind.value_type.to_pandas_dtype())
    ]
    return torch.from_numpy(np.concatenate(flat).reshape(len(column), length))


def flat(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, "Tensor"]:
    """Return the concatenated values of a column of lists, and the length of each row's list (n,)."""
    import torch

    counts = torch.from_numpy(list_lengths(column).astype(np.int64))
    return pa.chunked_array([chunk.flatten() for chunk in column.chunks], type=column.type.value_type), counts


def documents_of(path: Path, column: str) -> list[int]:
    """Return the length of each row's list in a column, which is read in chunks."""
    with parquet_file(path) as file:
        batches = file.iter_batches(batch_size=64, columns=[column])
        return [count for batch in batches for count in list_lengths(batch.column(0)).tolist()]


def list_lengths(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the length of each row's list in a column; 0 for a missing list."""
    return pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)  # ty: ignore


def as_lists(values: "Tensor") -> pa.Array:
    """Return a tensor (n, length) as a column of lists."""
    return ragged_lists(pa.array(values.numpy().ravel()), np.full(len(values), values.shape[1]))


def ragged_lists(flat: pa.Array, lengths: "np.ndarray | Tensor") -> pa.Array:
    """Return concatenated values as a column of lists with these lengths (n,).

    >>> ragged_lists(pa.array([1, 2, 3]), np.array([2, 1])).to_pylist()
    [[1, 2], [3]]
    """
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths))])
    if offsets[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat)


def as_fixed_lists(values: "Tensor") -> pa.Array:
    """Return a tensor (n, length) as a column of lists of fixed length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.numpy().ravel()), values.shape[1])
