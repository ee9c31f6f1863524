"""What datasets of lists to be ranked share: files of a package, splits of queries, facts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between, in_set, unique
from rankgrad.datasets.public.reading import (
    DrawnSplits,
    Reading,
    require,
    row_facts,
    rows_expected,
)
from rankgrad.io.parquet import list_lengths, matrix, parquet_file, read_table

__all__ = ["Documents", "QueryDataset", "check_rows", "read_whole", "schema_of_lists"]


class Documents(NamedTuple):
    """Of each document its query (n,), features (n, k), and relevance (n,), 0 upwards."""

    query: np.ndarray
    features: np.ndarray
    relevance: np.ndarray


def schema_of_lists(features: Sequence[str]) -> pa.Schema:
    """Return the schema of tables whose documents have these features."""
    lists = {"features": pa.list_(pa.list_(pa.float32(), len(features))), "relevance": pa.list_(pa.int64())}
    return pa.schema({"id": pa.int64(), "name": pa.string()} | lists, metadata={"features": json.dumps(features)})


@dataclass(frozen=True, kw_only=True)
class QueryDataset(DrawnSplits):
    """A row a query: `features` of its documents, and their `relevance`.

    Features are as they are in the files. Queries are split by a hash of the seed and their name. Queries without a
    relevant document are read, and count in no metric.
    """

    val_share: float = 0.2

    highest: ClassVar[int]  # relevance
    least: ClassVar[int] = 0  # of the largest relevance of a query

    def documents(self, raw: Path, *, seed: int) -> Documents:
        """Read all documents.

        Raises:
            FileNotFoundError, ValueError: a file is missing, or is not as expected.
        """
        raise NotImplementedError

    def check(self, raw: str | Path) -> None:
        self.documents(Path(raw), seed=0)

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        query, values, relevance = self.documents(Path(raw), seed=reading.seed)
        if split not in (known := (*self.splits, "all")):
            raise ValueError(f"{raw}: no split {split}; there are {', '.join(known)}")
        every = np.unique(query)
        splits = self.drawn(list(map(str, every)), seed=reading.seed)
        queries = [one for one, where in zip(every, splits, strict=True) if split in (where, "all")]
        if not queries:
            raise ValueError(
                f"{raw}: none of its {len(every)} queries is in {split}; get the file again, or choose a larger share"
            )
        rows = [np.flatnonzero(query == one) for one in queries]
        order, offsets = np.concatenate(rows), pa.array(np.cumsum([0, *map(len, rows)]), pa.int32())
        flat = pa.array(values[order].ravel(), pa.float32())
        columns = {
            "id": range(len(rows)),
            "name": [str(one) for one in queries],
            "features": pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, values.shape[1])),
            "relevance": pa.ListArray.from_arrays(offsets, pa.array(relevance[order], pa.int64())),
        }
        yield pa.table(columns, schema=self.schema)

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        path = Path(folder) / f"{split}.parquet"
        read = read_table(path, self.schema.names)
        relevance = [[one for one in row or [] if one is not None] for row in read["relevance"].to_pylist()]
        vectors = matrix(pa.table({"features": read["features"].combine_chunks().flatten()}), "features", path=path)
        sizes = list_lengths(read["features"])
        finite = [bool(part.isfinite().all()) for part in vectors.split(sizes.tolist())]
        facts = row_facts(split, read) | {
            "documents": sizes,
            "a_relevance_each": sizes == np.array(list(map(len, relevance))),
            "lowest_relevance": [min(row, default=0) for row in relevance],
            "highest_relevance": [max(row, default=0) for row in relevance],
            "features_are_finite": finite,
        }
        return {"rows": pd.DataFrame(facts).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "rows": [
                *rows_expected(rows),
                unique("name"),  # a query in two splits would be tested on what it was trained on
                between("documents", 2),
                in_set("a_relevance_each", True),
                between("lowest_relevance", 0),
                between("highest_relevance", self.least, self.highest),
                in_set("features_are_finite", True),
            ]
        }


def read_whole(path: Path, columns: Sequence[str], *, layout: str) -> pd.DataFrame:
    """Read a Parquet file of a package.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is damaged, or lacks a column.
    """
    require(path, layout)
    with parquet_file(path) as file:
        # Metadata tell of pandas' index alone, and may be damaged.
        found = file.read().replace_schema_metadata(None).to_pandas()
    if missing := [name for name in columns if name not in found]:
        raise ValueError(f"{path}: no column {', '.join(missing)}; get the file again")
    return found


def check_rows(path: Path, found: pd.DataFrame, keys: Sequence[str], wrong: Mapping[str, pd.Series]) -> None:
    """Raise ValueError for the first row that is wrong; the message names it by its keys.

    Args:
        path: of the file.
        found: what it holds.
        keys: columns.
        wrong: which rows (n,) are, by what they have.
    """
    for what, rows in wrong.items():
        if rows.any():
            row = int(rows.to_numpy().argmax())
            named = ", ".join(f"{key} {found[key].iloc[row]}" for key in keys)
            raise ValueError(f"{path}: row {row} ({named}): a {what}; get the file again")
