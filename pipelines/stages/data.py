"""Make a dataset: the tables that tasks learn from, drawn of digits or read from disk.

Data on disk that comes in over time has a folder a delivery; those after the first add training rows.
"""

import json
import logging
import re
from collections.abc import Iterable
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.config import Settings
from pipelines.config.schema import Dataset
from rankgrad.datasets.files.folds import FOLD, folds_of
from rankgrad.datasets.public.reading import DiskDataset, Reading, fold_of
from rankgrad.datasets.scenes import digits
from rankgrad.io.atomic import replaced_folder

__all__ = ["deliveries", "main"]

DATED = re.compile(r"\d{4}-\d{2}-\d{2}")


def deliveries(raw: Path, snapshot: int) -> list[Path]:
    """Return the folders to read: the dataset's own, or, where it comes in over time, its first and dated ones.

    Args:
        raw: of the dataset: in its public layout, or with a folder `first` and others named for a day, such as
            2026-11-30, each in that layout.
        snapshot: how many of these folders count, `first` and then the oldest; if there are fewer, all do.

    Raises:
        ValueError: dated folders without a `first`, anything else beside them, or a date that is none.
    """
    inside = sorted(path for path in raw.iterdir() if not path.name.startswith(".")) if raw.is_dir() else []
    dated, first = [path for path in inside if path.is_dir() and DATED.fullmatch(path.name)], raw / "first"
    if not dated and first not in inside:
        return [raw]
    if not first.is_dir():
        raise ValueError(f"{raw}: {dated[0].name}, but no folder first, from which validation and test come")
    folders = [first, *dated]
    if others := [path.name for path in inside if path not in folders]:
        raise ValueError(
            f"{raw}: {others[0]} beside the folder first; expected that, and one for each later delivery, named for "
            "its day, and nothing else: move it into one of them"
        )
    for path in dated:
        try:
            date.fromisoformat(path.name)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; expected a folder named for its day, such as 2026-11-30") from error
    if snapshot > len(folders):
        logging.info("%s: %d deliveries, all are used; data.snapshot is %d", raw, len(folders), snapshot)
    return folders[:snapshot]


def main(params: Settings, key: str) -> None:
    if params.datasets[key].is_drawn:
        _draw(params, key)
    else:
        _read(params, key)


def _draw(params: Settings, key: str) -> None:
    """Draw scenes: each split from digits of its own."""
    dataset = params.datasets[key].built()
    deliveries = dataset.deliveries(snapshot=params.data.snapshot, growth=params.data.growth)
    rows, threads = sum(map(sum, deliveries.values())), params.compute.threads
    sources = digits.read(params.datasets[key].raw)
    with replaced_folder(Path("data") / key) as folder, tqdm(total=rows, desc=key, unit=" scenes", disable=None) as bar:
        for split, counts in deliveries.items():
            glyphs = sources[digits.DIGITS_OF[split]]
            with pq.ParquetWriter(folder / f"{split}.parquet", dataset.schema, compression="zstd") as writer:
                for table in dataset.tables(glyphs, split, counts, threads=threads):
                    writer.write_table(table)
                    bar.update(len(table))


def _read(params: Settings, key: str) -> None:
    """Read the splits of a dataset from disk."""
    options, threads = params.datasets[key], params.compute.threads
    dataset = options.built()
    first, *later = folders = deliveries(Path(options.raw), params.data.snapshot)
    _check(options, dataset, folders)
    fitted = dataset.fit(first, seed=options.seed)
    skipped = {split: [] for split in dataset.splits}
    reading = {
        split: Reading(options.size, options.seed, threads, fitted, names, params.data.snapshot)
        for split, names in skipped.items()
    }
    parts = {split: [dataset.tables(first, split, reading[split])] for split in dataset.splits}
    # Validation and test stay what they were: later deliveries are for training, whole.
    parts["train"] += [dataset.tables(raw, "all", reading["train"]) for raw in later]
    if options.folds is not None:  # of which each row is tested once, those of later deliveries too
        of_fold = partial(_with_folds, folds=options.folds, seed=options.seed)
        parts["train"] = [map(of_fold, chain(*parts.pop("val"), *parts.pop("test"), *parts["train"]))]
    with replaced_folder(f"data/{key}") as folder:
        rows = _written(folder, key, parts, first)
        if options.folds is not None:
            del rows["train"]
            rows = _share(folder, options.folds) | rows
        manifest = {
            **({} if first == Path(options.raw) else {"deliveries": [raw.name for raw in folders]}),
            "rows": rows,
            "skipped": {split: {"files": len(files), "names": files} for split, files in skipped.items()},
            **({"fitted": fitted} if fitted else {}),
            "options": options.model_dump(include={"name", "args", "size", "folds", "seed"}),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _check(options: Dataset, dataset: DiskDataset, folders: list[Path]) -> None:
    first, *later = folders
    for raw in folders:
        dataset.check(raw)
    if later and not dataset.grows:
        raise ValueError(
            f"{later[0]}: {options.name} cannot be read in several deliveries; expected one, {options.raw} itself"
        )
    for raw in later if options.folds is None else ():
        dataset.check_later(raw, first=first, seed=options.seed)


def _written(folder: Path, key: str, parts: dict[str, list[Iterable[pa.Table]]], first: Path) -> dict[str, int]:
    """Write the splits, and return how many rows each has."""
    rows = dict.fromkeys(parts, 0)
    with tqdm(desc=key, unit=" rows", disable=None) as bar:
        # What is missing of the small ones is told before hours go into the large one.
        for split in reversed(parts):
            rows[split] = _write(folder / f"{split}.parquet", chain.from_iterable(parts[split]), bar)
            if not rows[split]:
                raise ValueError(f"{first}: nothing is left of {split}: all of its files are broken; get them again")
    return rows


def _with_folds(table: pa.Table, *, folds: int, seed: int) -> pa.Table:
    """Add the fold of each row: one for all rows of a group."""
    keys = table["group" if "group" in table.column_names else "name"].to_pylist()
    numbers = pa.array([fold_of(key, folds=folds, seed=seed) for key in keys], pa.int64())
    return table.append_column(pa.field(FOLD, pa.int64()), numbers)


def _share(folder: Path, folds: int) -> dict[str, int]:
    """Let the three splits be one table, whose column `fold` says which rows are of which, and count these.

    Raises:
        ValueError: a fold has no rows.
    """
    for split in ("val", "test"):
        (folder / f"{split}.parquet").hardlink_to(folder / "train.parquet")
    counts = np.bincount(folds_of(folder / "train.parquet"), minlength=folds + 1)[1:]
    if not counts.all():
        raise ValueError(
            f"{folds} folds of {counts.sum()} rows: fold {1 + counts.argmin()} has none; expected fewer folds, or more "
            "groups of rows"
        )
    return {f"fold {fold}": int(count) for fold, count in enumerate(counts, 1)}


def _write(path: Path, tables: Iterable[pa.Table], bar: tqdm) -> int:
    """Write tables as they come, numbered through, and return how many rows they have."""
    tables = iter(tables)
    first = next(tables)
    schema, rows = first.schema, 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in chain([first], tables):
            if not table.schema.equals(schema, check_metadata=True):
                raise ValueError(
                    f"{path}: a delivery has the schema {table.schema.metadata or table.schema}, the first one "
                    f"{schema.metadata or schema}; expected the same in all: give the classes as an option"
                )
            numbers = pa.array(range(rows, rows + len(table)), pa.int64())
            writer.write_table(table.set_column(table.column_names.index("id"), schema.field("id"), numbers))
            rows += len(table)
            bar.update(len(table))
    return rows
