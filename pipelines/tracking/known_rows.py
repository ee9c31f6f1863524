"""Record the rows on which a version was trained or selected, so that the gate can exclude them if splits change."""

import re
from collections.abc import Collection, Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankgrad import lookup
from rankgrad.datasets.files.splits import input_of
from rankgrad.io.parquet import columns_of, is_list, is_number, parquet_file
from rankgrad.plain_text import spelled_alike

__all__ = ["FILE", "Digests", "known_rows", "learned", "read_known", "write_known"]

Digests = dict[str, np.ndarray]  # digests of the contents of rows, by split
FILE = "known_rows.npz"  # in a version's folder: digests of the contents of each split's rows


def _digests(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return digests of the contents of a split's rows, concatenated (m,) uint64, and how many each row has (n,).

    A row holds a vector, a text, or a picture, or several: a query its documents, a clip its frames. Pictures also have
    the name of their source file, which stays the same after resizing or encoding; it counts as much as all the row's
    pictures. Of passages that are searched, only the queries count, since new queries may search known passages;
    a query in another case is the same one.
    """
    column = input_of(path)
    if column == "text" and "captions" in columns_of(path):
        column = "captions"
    is_named = (
        column in lookup.names("inputs") and lookup.find("inputs", column).pictures and "name" in columns_of(path)
    )
    digests: list[int] = []
    counts: list[int] = []
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=256, columns=[column, "name"] if is_named else [column]):
            for number, cell in enumerate(batch.column(0)):
                pieces = _pieces(cell)
                if column == "captions":
                    pieces = (spelled_alike(piece.decode()).encode() for piece in pieces)
                row = [_digest(piece) for piece in pieces]
                name = batch.column(1)[number].as_py() if is_named else "0"
                if not re.fullmatch(r"(.*:)?\d+", name):  # ignore row numbers, which are not names
                    row += [_digest(name.encode())] * len(row)
                digests += row
                counts.append(len(row))
    return np.array(digests, np.uint64), np.array(counts)


def _digest(piece: bytes) -> int:
    return int.from_bytes(blake2b(piece, digest_size=8).digest())


def _pieces(cell: pa.Scalar) -> Iterator[bytes]:
    if is_list(cell.type) and not is_number(cell.type.value_type):
        for item in cell.values:
            yield from _pieces(item)
    elif is_list(cell.type):
        yield (cell.values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).tobytes()  # -0 is 0
    else:
        piece = cell["bytes"].as_py() if pa.types.is_struct(cell.type) else cell.as_py()
        yield piece.encode() if isinstance(piece, str) else piece


def learned(path: Path, splits: Collection[np.ndarray], *, share: float) -> np.ndarray:
    """Return which rows of a split (n,) a version has learned; a fraction suffices, since queries may lose documents.

    Args:
        path: the file of the split.
        splits: digests of each split on which the version was trained or selected.
        share: the smallest fraction of a row's digests that must be known.
    """
    digests, counts = _digests(path)
    row = np.repeat(np.arange(len(counts)), counts)
    known = np.isin(digests, np.concatenate([*splits, np.empty(0, np.uint64)]))
    hits = np.bincount(row[known], minlength=len(counts))
    return (hits >= share * counts) & (counts > 0)


def known_rows(data: Path) -> Digests:
    """Return the digests of the rows of a dataset on which versions are trained and selected, by split."""
    return {split: np.unique(_digests(data / f"{split}.parquet")[0]) for split in ("train", "val")}


def write_known(digests: Digests, folder: Path) -> None:
    """Write the digests of known rows into a version's folder."""
    np.savez(folder / FILE, **digests)  # ty: ignore[invalid-argument-type]


def read_known(folder: Path) -> Digests:
    """Return the digests in a version's folder, by split; empty if it was registered without them."""
    path = folder / FILE
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as digests:
        return dict(digests)
