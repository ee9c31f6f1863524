"""Which rows a version was trained or chosen on, so that the gate leaves them out when splits were drawn anew since."""

import re
from collections.abc import Collection, Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankgrad import lookup
from rankgrad.datasets.files.splits import input_of
from rankgrad.io.parquet import columns_of, is_list, is_number, parquet_file

__all__ = ["FILE", "known_rows", "learned", "read_known", "write_known"]

FILE = "known_rows.npz"  # in a version's folder: of each split, digests of what its rows hold


def _digests(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return digests of what the rows of a split hold, one after another (m,) uint64, and how many each row has (n,).

    A row holds a vector, a text or a picture, or several: of a query its documents, of a clip its frames. Pictures have
    their source's name besides, which another size or encoder leaves as it is and which counts as much as all of them.
    """
    name = input_of(path)
    columns = [name, *({"name"} & set(columns_of(path)) if lookup.find("inputs", name).pictures else ())]
    rows = []
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=256, columns=columns):
            for cell, *name in zip(*(batch.column(one) for one in columns), strict=True):
                held = [*map(_digest, _pieces(cell))]
                names = [text for one in name if not re.fullmatch(r"(.*:)?\d+", text := one.as_py())]  # no row's number
                rows.append(held + [_digest(text.encode()) for text in names] * len(held))
    return np.array([one for row in rows for one in row], np.uint64), np.array([len(row) for row in rows])


def _digest(piece: bytes) -> int:
    return int.from_bytes(blake2b(piece, digest_size=8).digest())


def _pieces(cell: pa.Scalar) -> Iterator[bytes]:
    if is_list(cell.type) and not is_number(cell.type.value_type):
        for item in cell.values:
            yield from _pieces(item)
    elif is_list(cell.type):
        yield (cell.values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).tobytes()  # -0 is 0
    else:
        held = cell["bytes"].as_py() if pa.types.is_struct(cell.type) else cell.as_py()
        yield held.encode() if isinstance(held, str) else held


def learned(path: Path, known: Collection[np.ndarray], *, share: float) -> np.ndarray:
    """Return which rows of a split (n,) hold what is known by at least a share: a query may have lost a document since.

    Args:
        path: of the split.
        known: digests, of each split that a version was trained or chosen on.
        share: of a row's digests.
    """
    digests, counts = _digests(path)
    row = np.repeat(np.arange(len(counts)), counts)
    hits = np.bincount(row[np.isin(digests, np.concatenate([*known, np.empty(0, np.uint64)]))], minlength=len(counts))
    return (hits >= share * counts) & (counts > 0)


def known_rows(data: Path) -> dict[str, np.ndarray]:
    """Return the digests of the rows of a dataset on which versions are trained and chosen, by split."""
    return {split: np.unique(_digests(data / f"{split}.parquet")[0]) for split in ("train", "val")}


def write_known(digests: dict[str, np.ndarray], folder: Path) -> None:
    """Write the digests of known rows into a version's folder."""
    np.savez(folder / FILE, **digests)  # ty: ignore[invalid-argument-type]


def read_known(folder: Path) -> dict[str, np.ndarray]:
    """Return the digests of a version's folder, by split; none of one that was registered without."""
    path = folder / FILE
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as digests:
        return dict(digests)
