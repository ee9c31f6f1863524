"""Assign splits and folds by the hash of a key, so that adding rows moves no other row, and write a model's splits."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from math import floor
from pathlib import Path
from shutil import copyfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankgrad.io.parquet import COLLECTION, FOLD, columns_of, parquet_file, read_table

__all__ = [
    "FOLD",
    "REGISTERED",
    "cut",
    "described_folds",
    "fold_of",
    "folds_of",
    "fraction_of",
    "has_folds",
    "join",
    "next_of",
    "split_at",
]

REGISTERED = 0  # in place of a test fold: the model to register, which learns from all folds but the validation fold


def fraction_of(key: str, *, seed: int) -> float:
    """Return a number in [0, 1) for a key.

    >>> fraction_of("a.jpg", seed=1) == fraction_of("a.jpg", seed=1) != fraction_of("a.jpg", seed=2)
    True
    """
    digest = sha256(f"{seed}/{key}".encode(errors="surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def split_at(fraction: float, shares: Mapping[str, float]) -> str:
    """Return the split of a fraction: shares fill the interval from 0 one after another; train gets the rest.

    >>> split_at(0.1, {"test": 0.2, "val": 0.1}), split_at(0.25, {"test": 0.2, "val": 0.1})
    ('test', 'val')
    """
    for split, share in shares.items():
        if fraction < share:
            return split
        fraction -= share
    return "train"


def fold_of(key: str, *, folds: int, seed: int) -> int:
    """Return the fold of a key, from 1.

    >>> [fold_of(key, folds=3, seed=1) for key in "abcde"]
    [2, 1, 1, 1, 3]
    """
    return 1 + floor(folds * fraction_of(f"fold of {key}", seed=seed))  # splits are drawn from the key itself


def next_of(fold: int, *, folds: int) -> int:
    """Return the validation fold of the model whose test fold this is."""
    return fold % folds + 1


def folds_of(path: str | Path) -> np.ndarray:
    """Return the fold of each row of a table (n,)."""
    return read_table(path, [FOLD])[FOLD].to_numpy()


def has_folds(data: str | Path) -> bool:
    """Return whether a dataset is divided into folds; not if its folder is empty."""
    path = Path(data) / "val.parquet"
    return path.is_file() and FOLD in columns_of(path)


def described_folds(rows: Collection[int], group: str | None) -> str:
    """Describe folds in words.

    Args:
        rows: the number of rows in each fold.
        group: the column whose groups stay in one fold; None if rows are assigned one by one.

    >>> described_folds([52, 46, 60], "lab")
    '3 folds over groups (lab); a test fold has 46 to 60 of 158 rows'
    >>> described_folds([50, 50, 50], None)
    '3 folds over rows; a test fold has 50 of 150 rows'
    """
    unit = f"groups ({group})" if group else "rows"
    sizes = f"{min(rows)} to {max(rows)}" if min(rows) < max(rows) else f"{max(rows)}"
    return f"{len(rows)} folds over {unit}; a test fold has {sizes} of {sum(rows)} rows"


def join(data: str | Path, folder: Path) -> None:
    """Write the rows of a dataset's training and validation splits as one training split, beside the validation split.

    Args:
        data: folder of the dataset.
        folder: folder for `train.parquet` and `val.parquet`.
    """
    _link_collection(data, folder)
    train, val = (Path(data) / f"{split}.parquet" for split in ("train", "val"))
    copyfile(val, folder / val.name)
    schema = pq.read_schema(train)
    with pq.ParquetWriter(folder / train.name, schema, compression="zstd") as writer:
        for path in (train, val):
            with parquet_file(path) as file:
                for batch in file.iter_batches(batch_size=1024):
                    writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))


def _link_collection(data: str | Path, folder: Path) -> None:
    """Make a folder for splits that search the same collection as a dataset, if it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    if (collection := Path(data) / COLLECTION).is_file():
        (folder / COLLECTION).unlink(missing_ok=True)
        (folder / COLLECTION).symlink_to(collection.resolve())


def cut(data: str | Path, folder: Path, splits: Sequence[str], *, fold: int, folds: int) -> None:
    """Write splits of one fold to separate files, from a table of all rows, keeping their order.

    All folds search the same collection, if there is one.

    Args:
        data: folder of the dataset; each of its files has all rows.
        folder: folder for `<split>.parquet`.
        splits: `train`, `val`, or `test`.
        fold: the test fold, or REGISTERED for none; the next one validates, all others train.
        folds: the number of folds.
    """
    validated = next_of(fold, folds=folds)
    rows = {
        "test": pc.field(FOLD) == fold,
        "val": pc.field(FOLD) == validated,
        "train": ~pc.field(FOLD).isin([fold, validated]),
    }
    _link_collection(data, folder)
    for split in splits:
        name = f"{split}.parquet"
        with (
            parquet_file(Path(data) / name) as file,
            pq.ParquetWriter(folder / name, file.schema_arrow, compression="zstd") as writer,
        ):
            for batch in file.iter_batches(batch_size=1024):
                writer.write_table(pa.Table.from_batches([batch]).filter(rows[split]))
