"""Create a dataset: tables for training and evaluation, generated from digits or read from disk.

Data on disk that arrives over time has one folder per delivery; deliveries after the first add rows for training and
the gate.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.config import Settings
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.files.folds import FOLD, fold_of, folds_of
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.parquet import COLLECTION

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    block, data = params.datasets[key], params.data
    reading = Reading(block.seed, params.compute.threads, block.size, data.snapshot, data.growth, block.folds)
    dataset = block.built()
    source = dataset.opened(Path(block.raw), reading)
    parts = {split: source.rows(split) for split in dataset.splits}
    if block.folds is not None:  # each row is tested once, including those of later deliveries
        rows = chain(parts.pop("val"), parts.pop("test"), parts["train"])
        parts["train"] = _with_folds(rows, block.folds, block.seed)
    with replaced_folder(f"data/{key}") as folder:
        with tqdm(total=source.total, desc=key, unit=" rows", disable=None) as bar:
            counts = dict.fromkeys(parts, 0)
            for split in reversed(parts):  # missing files in small splits show before hours are spent on the large one
                counts[split] = _write(folder / f"{split}.parquet", parts[split], bar)
        collection = source.collection([folder / f"{split}.parquet" for split in parts])
        if collection is not None:
            pq.write_table(collection, folder / COLLECTION, compression="zstd")
        if block.folds is not None:
            del counts["train"]
            counts = _share(folder, block.folds) | counts
        options = block.model_dump(include={"name", "args", "size", "folds", "seed"})
        searched = {} if collection is None else {"searched": len(collection)}
        manifest = {"rows": counts, **source.manifest(), **searched, "options": options}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _with_folds(tables: Iterable[pa.Table], folds: int, seed: int) -> Iterator[pa.Table]:
    """Add the fold of each row: one for all rows of a group, or with the same key, such as equal inputs."""
    for table in tables:
        column = next(name for name in ("group", "key", "name") if name in table.column_names)
        keys = table[column].to_pylist()
        numbers = [fold_of(key, folds=folds, seed=seed) for key in keys]
        yield table.append_column(pa.field(FOLD, pa.int64()), pa.array(numbers, pa.int64()))


def _share(folder: Path, folds: int) -> dict[str, int]:
    """Join the three splits into one table with a column `fold`, and return the number of rows in each fold.

    Raises:
        ValueError: a fold has no rows.
    """
    for split in ("val", "test"):
        (folder / f"{split}.parquet").hardlink_to(folder / "train.parquet")
    counts = np.bincount(folds_of(folder / "train.parquet"), minlength=folds + 1)[1:]
    if not counts.all():
        raise ValueError(
            f"{folds} folds of {counts.sum()} rows: fold {1 + counts.argmin()} has no rows, expected fewer folds or "
            "more groups of rows"
        )
    return {f"fold {fold}": int(count) for fold, count in enumerate(counts, 1)}


def _write(path: Path, tables: Iterable[pa.Table], bar: tqdm) -> int:
    """Write tables as they arrive, with consecutive row numbers, and return the number of rows.

    Raises:
        ValueError: there are no rows.
    """
    tables = iter(tables)
    first = next(tables)
    rows = 0
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            numbers = pa.array(range(rows, rows + len(table)), pa.int64())
            writer.write_table(table.set_column(0, first.schema.field("id"), numbers))
            rows += len(table)
            bar.update(len(table))
    if not rows:
        raise ValueError(f"{path.name}: no rows left, because all its files are broken; get the files again")
    return rows
