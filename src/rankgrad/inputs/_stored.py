"""Read the pictures of a Parquet file: decode them into memory or, if they are too many, when they are used."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.io.parquet import decode_image, encoded_images, is_list, list_lengths, parquet_file

__all__ = ["Stored", "read_pictures"]

PIECE = 64  # rows to read at once
HANDED = 8  # pictures to give to a thread at once
GIB = 2**30
JPEG = b"\xff\xd8"


class Stored:
    """Encoded pictures in an unnamed temporary file in their table's folder; it is gone when it is closed.

    Decoding gives the same pixels as for pictures in memory, so training is identical either way.

    Args:
        path: the table's file.
        column: the column of pictures.
        shape: the shape of each decoded picture: (colors, height, width).
        threads: number of threads for decoding.
    """

    def __init__(self, path: Path, column: str, *, shape: tuple[int, ...], threads: int):
        self.path, self.shape, self._file = path, shape, TemporaryFile(dir=path.parent)  # noqa: SIM115 - it lives as long as this object
        ends, rows, digest = [0], [], blake2b(digest_size=16)
        for contents, row in _encoded(path, column):
            self._file.write(contents or b"")
            digest.update(contents or b"")
            ends.append(ends[-1] + len(contents or b""))
            rows.append(row)
        self._file.flush()
        self.digest, self._ends, self._rows = digest.digest(), np.array(ends), np.array(rows)
        self._pool, self._waiting = ThreadPoolExecutor(threads), (None, [])

    def __len__(self) -> int:
        return len(self._rows)

    def to(self, device: Any) -> "Stored":
        return self  # batches are decoded on the CPU

    def ahead(self, numbers: Tensor) -> None:
        """Start decoding the pictures that are used next."""
        self._waiting = (numbers, self._begun(numbers))

    def __getitem__(self, numbers: Tensor) -> Tensor:
        numbers_begun, begun = self._waiting
        if numbers_begun is None or not numbers_begun.equal(numbers):
            begun = self._begun(numbers)
        self._waiting = (None, [])
        return torch.from_numpy(np.concatenate([future.result() for future in begun]))

    def _begun(self, numbers: Tensor) -> list[Future]:
        every = numbers.tolist()
        return [
            self._pool.submit(self._decoded, every[start : start + HANDED]) for start in range(0, len(every), HANDED)
        ]

    def _decoded(self, numbers: list[int]) -> np.ndarray:
        pictures = np.empty((len(numbers), *self.shape), np.uint8)
        for position, number in enumerate(numbers):
            begin, end = self._ends[number : number + 2].tolist()
            contents = os.pread(self._file.fileno(), end - begin, begin)
            pictures[position] = _pixels(contents, f"{self.path}: row {self._rows[number]}", self.shape)
        return pictures


def read_pictures(
    path: Path, column: str, *, threads: int, memory: float
) -> tuple[Tensor | Stored, dict[str, Any], Tensor | None]:
    """Read a column of pictures, or of lists of pictures, concatenated; log it if they do not fit into `memory`.

    Args:
        path: a Parquet file.
        column: the column of pictures in the form of `rankgrad.io.parquet.IMAGE`, or of lists of them.
        threads: number of threads for decoding.
        memory: GiB that decoded pictures may take; if they need more, they are decoded when they are used.

    Returns:
        Pictures (m, colors, height, width) uint8; a dictionary of `colors`, `height`, `width`, and, if they are JPEG,
        `stored`; and how many each row has (n,), or None without lists.

    Raises:
        ValueError: there is no column of pictures, a list is empty, or a picture is corrupt or differs from the first
            in size or color; the message names its row.
    """
    first = next(_encoded(path, column), None)
    if first is None:
        raise ValueError(f"{path}: no rows, expected at least one; recreate it with `dvc repro`")
    shape = _arranged(decode_image(first[0], where=f"{path}: row {first[1]}")).shape
    total, counts = _counts(path, column)
    taken = total * int(np.prod(shape)) / GIB
    about: dict[str, Any] = dict(zip(("colors", "height", "width"), map(int, shape), strict=True))
    if (first[0] or b"").startswith(JPEG):  # JPEG is lossy, and later requests must have the same loss
        about["stored"] = "JPEG"
    if taken > memory:
        logging.info(
            "%s: %d pictures take %.1f GiB, more than compute.memory (%g): they are decoded batch by batch",
            path, total, taken, memory,
        )  # fmt: skip
        return Stored(path, column, shape=shape, threads=threads), about, counts
    pictures = np.empty((total, *shape), np.uint8)

    def decode(first: int, encoded: list[tuple[bytes | None, int]]) -> None:
        for position, (contents, row) in enumerate(encoded, first):
            pictures[position] = _pixels(contents, f"{path}: row {row}", shape)

    with ThreadPoolExecutor(threads) as pool:
        waiting, start = _encoded(path, column), 0
        while piece := [*islice(waiting, threads * HANDED * PIECE)]:
            offsets = range(0, len(piece), HANDED)
            handed = [piece[offset : offset + HANDED] for offset in offsets]
            for _ in pool.map(decode, [start + offset for offset in offsets], handed):
                pass
            start += len(piece)
    return torch.from_numpy(pictures), about, counts


def _encoded(path: Path, column: str) -> Iterator[tuple[bytes | None, int]]:
    """Yield each picture and the number of its row; memory does not grow with the file."""
    row = 0
    for cells in _pieces(path, column):
        lengths = list_lengths(cells) if is_list(cells.type) else np.ones(len(cells), int)
        flat = pa.chunked_array([cells.flatten() if is_list(cells.type) else cells])
        rows = np.repeat(np.arange(row, row + len(lengths)), lengths)
        yield from zip(encoded_images(flat, path=path), rows.tolist(), strict=True)
        row += len(lengths)


def _pieces(path: Path, column: str) -> Iterator[pa.Array]:
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=PIECE, columns=[column]):
            yield batch.column(0)


def _counts(path: Path, column: str) -> tuple[int, Tensor | None]:
    """Return how many pictures there are, and how many each row has, or None if each row is one picture."""
    with parquet_file(path) as file:
        if not is_list(file.schema_arrow.field(column).type):
            return file.metadata.num_rows, None
    counts = np.concatenate([list_lengths(cells) for cells in _pieces(path, column)]).astype(np.int64)
    if (counts == 0).any():
        raise ValueError(
            f"{path}: row {int((counts == 0).argmax())}: {column} is empty, expected at least one picture in each row"
        )
    return int(counts.sum()), torch.from_numpy(counts)


def _arranged(image: np.ndarray) -> np.ndarray:
    """Return a decoded picture as (colors, height, width)."""
    return image[None] if image.ndim == 2 else image.transpose(2, 0, 1)


def _pixels(contents: bytes | None, name: str, shape: tuple[int, ...]) -> np.ndarray:
    pixels = _arranged(decode_image(contents, where=name))
    if pixels.shape != shape:
        raise ValueError(f"{name}: image of shape {pixels.shape}, expected {shape} as in row 0")
    return pixels
