"""Folds: each row is in one, and is tested by a model that learned from others."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankgrad.io.parquet import FOLD, parquet_file, read_table

__all__ = ["FOLD", "cut", "folds_of", "next_of"]


def next_of(fold: int, *, folds: int) -> int:
    """Return the fold that validates the model which is tested on this one."""
    return fold % folds + 1


def folds_of(path: str | Path) -> np.ndarray:
    """Return the fold of each row of a table (n,)."""
    return read_table(path, [FOLD])[FOLD].to_numpy()


def cut(data: str | Path, folder: Path, splits: Sequence[str], *, fold: int, folds: int) -> None:
    """Write splits of one fold as files of their own, from a table of all rows, in their order.

    Args:
        data: folder of the dataset; each of its files has all rows.
        folder: for `<split>.parquet`.
        splits: `train`, `val` or `test`.
        fold: which rows are for test; those of the next one are for validation, all others for training.
        folds: how many there are.
    """
    parts = {"test": fold, "val": next_of(fold, folds=folds)}
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        source, target = Path(data) / f"{split}.parquet", folder / f"{split}.parquet"
        with parquet_file(source) as file:
            schema = file.schema_arrow
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in _batches(source):
                own = batch.column(FOLD).to_numpy()
                chosen = own == parts[split] if split in parts else ~np.isin(own, list(parts.values()))
                writer.write_table(pa.Table.from_batches([batch.filter(pa.array(chosen))], schema))


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with parquet_file(path) as file:
        yield from file.iter_batches(batch_size=1024)
