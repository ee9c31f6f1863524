"""Which rows a version was trained or chosen on, so that the gate leaves them out when splits were drawn anew since."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankops import lookup
from rankops.datasets.files.splits import input_of
from rankops.io.parquet import parquet_file

__all__ = ["FILE", "digests", "known_of", "write_known"]

FILE = "known_rows.npz"  # in a version's folder: of each split, digests of its rows


def digests(path: Path) -> np.ndarray:
    """Return a digest of the input of each row of a split (n,) uint64, in order: the same input, the same digest."""
    kind = input_of(path, lookup.names("inputs"))
    with parquet_file(path) as file:
        parts = [batch.column(0) for batch in file.iter_batches(batch_size=256, columns=[kind])]
    return np.fromiter((_digest(cell) for part in parts for cell in part), np.uint64)


def _digest(cell: pa.Scalar) -> int:
    hashed = blake2b(digest_size=8)
    for piece in _pieces(cell):
        hashed.update(piece)
    return int.from_bytes(hashed.digest())


def _pieces(cell: pa.Scalar) -> Iterator[bytes]:
    """Yield what a cell holds: of pictures their bytes, which would be slow to write out."""
    lists = pa.types.is_list(cell.type) or pa.types.is_fixed_size_list(cell.type)
    if lists and pa.types.is_struct(cell.type.value_type):
        for one in cell.values:
            yield from _pieces(one)
    elif pa.types.is_struct(cell.type):
        yield cell.as_py()["bytes"]
    else:
        yield repr(cell.as_py()).encode()


def write_known(data: Path, folder: Path) -> None:
    """Write into a version's folder the digests of the rows of a dataset on which it was trained and chosen."""
    train, val = (np.unique(digests(data / f"{split}.parquet")) for split in ("train", "val"))
    np.savez(folder / FILE, train=train, val=val)


def known_of(folder: Path) -> dict[str, np.ndarray]:
    """Return the digests of a version's folder, by split; none of one that was registered without."""
    path = folder / FILE
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as known:
        return dict(known)
