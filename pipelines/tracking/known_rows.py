"""Record the rows on which a version was trained or selected, so that the gate can exclude them if splits change."""

import re
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankgrad.datasets.files.splits import input_of
from rankgrad.io.parquet import columns_of, is_list, is_number, parquet_file
from rankgrad.plain_text import PAIR, spelled_alike

__all__ = ["FILE", "Digests", "known_rows", "learned", "read_known", "write_known"]

Digests = dict[str, np.ndarray]  # digests of the contents of rows, by split
FILE = "known_rows.npz"  # in a version's folder: digests of the contents of each split's rows


class _Contents(NamedTuple):
    """What recognizes the rows of a split.

    Attributes:
        digests: digests of the pieces of rows, concatenated (m,) uint64.
        counts: how many pieces each row has (n,).
        names: the digest of each row's name (n,) uint64; 0 if it has none.
    """

    digests: np.ndarray
    counts: np.ndarray
    names: np.ndarray


def _contents(path: Path) -> _Contents:
    """Return what recognizes the rows of a split.

    A row holds a vector, a text, a pair of texts, or a picture, or several: a query its documents, a clip its frames.
    Names stay the
    same after resizing, encoding, or a change of features. Of passages that are searched, only the queries count, since
    new queries may search known passages; a query in another case is the same one.
    """
    column, columns = input_of(path), columns_of(path)
    if column == "text" and "captions" in columns:
        column = "captions"
    named_by = [name for name in ("key", "name", "group") if name in columns] if column != "captions" else []
    digests, counts, names = list[int](), list[int](), list[int]()
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=256, columns=[column, *named_by]):
            for cell in batch.column(column):
                pieces = _pieces(cell)
                if column == "captions":
                    pieces = (spelled_alike(piece.decode()).encode() for piece in pieces)
                row = [_digest(piece) for piece in pieces]
                digests += row
                counts.append(len(row))
            names += map(_digest_of_name, batch.select(named_by).to_pylist()) if named_by else [0] * len(batch)
    return _Contents(np.array(digests, np.uint64), np.array(counts), np.array(names, np.uint64))


def _digest_of_name(row: Mapping[str, Any]) -> int:
    """Return the digest of a row's key, else of its name, unless that is a row's number, else of its group; or 0."""
    is_number = re.fullmatch(r"(\d{4}-\d\d-\d\d/)?(.*:)?\d+", str(row.get("name", "0")))
    name = row.get("key", row.get("group") if is_number else row["name"])
    return 0 if name is None else _digest(str(name).encode())


def _digest(piece: bytes) -> int:
    return int.from_bytes(blake2b(piece, digest_size=8).digest())


def _pieces(cell: pa.Scalar) -> Iterator[bytes]:
    if pa.types.is_fixed_size_list(cell.type) and pa.types.is_string(cell.type.value_type):
        yield PAIR.join(cell.as_py()).encode()  # a passage may be known from another query
    elif is_list(cell.type) and not is_number(cell.type.value_type):
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
        share: the smallest fraction of a row's pieces that must be known, if its name is not.
    """
    contents, known = _contents(path), np.concatenate([*splits, np.empty(0, np.uint64)])
    row = np.repeat(np.arange(len(contents.counts)), contents.counts)
    hits = np.bincount(row[np.isin(contents.digests, known)], minlength=len(contents.counts))
    has_contents = (hits >= share * contents.counts) & (contents.counts > 0)
    return has_contents | (np.isin(contents.names, known) & (contents.names > 0))


def known_rows(data: Path) -> Digests:
    """Return the digests of the rows of a dataset on which versions are trained and selected, by split."""
    known = {}
    for split in ("train", "val"):
        contents = _contents(data / f"{split}.parquet")
        known[split] = np.unique(np.concatenate([contents.digests, contents.names[contents.names > 0]]))
    return known


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
