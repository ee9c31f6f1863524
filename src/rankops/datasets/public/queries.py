"""What adapters of lists to be ranked share: files of a package, folds of queries, features on two scales, facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from rankops.datasets.expected import between, in_set, rows_of, unique
from rankops.datasets.public.reading import SPLITS, PublicDataset, require
from rankops.io.parquet import list_lengths, matrix, read_table
from rankops.seeding import generator

__all__ = ["Documents", "QueryDataset", "check_rows", "read_whole", "schema_of_lists"]

LIMIT = 6.0  # standard deviations, beyond which features are clipped


class Documents(NamedTuple):
    """Of each document its query (n,), features (n, k), and relevance (n,), 0 upwards."""

    query: np.ndarray
    features: np.ndarray
    relevance: np.ndarray


def schema_of_lists(features: int) -> pa.Schema:
    """Return the schema of tables whose documents have so many features."""
    lists = {"features": pa.list_(pa.list_(pa.float32(), 2 * features)), "relevance": pa.list_(pa.int64())}
    return pa.schema({"id": pa.int64(), "name": pa.string()} | lists)


@dataclass(frozen=True, kw_only=True)
class QueryDataset(PublicDataset):
    """A row a query: `features` of its documents, and their `relevance`.

    Each feature is there twice: standardized among the query's documents, and over those of all training queries; both
    are clipped at 6 standard deviations. Queries are cut into folds at random: one is for test, the next one for
    validation, the others are for training.

    Attributes:
        fold: which fold is for test, from 1.
        folds: how many there are.
    """

    fold: int = 1
    folds: int = 5

    name: ClassVar[str]
    highest: ClassVar[int]  # relevance

    def __post_init__(self) -> None:
        if self.folds < 3 or not 1 <= self.fold <= self.folds:
            raise ValueError(
                f"fold is {self.fold} of {self.folds}, expected one of at least 3: for training, validation and test"
            )

    def documents(self, raw: Path, *, seed: int) -> Documents:
        """Read all documents.

        Raises:
            FileNotFoundError, ValueError: a file is missing, or is not as expected.
        """
        raise NotImplementedError

    def check(self, raw: str | Path) -> None:
        self.documents(Path(raw), seed=0)

    def tables(
        self, raw: str | Path, split: str, *, size: int | None, seed: int, threads: int, skipped: Any = None
    ) -> Iterator[pa.Table]:
        query, values, relevance = self.documents(Path(raw), seed=seed)
        queries = np.unique(query)
        if len(queries) < self.folds:
            raise ValueError(f"{raw}: {len(queries)} queries do not make {self.folds} folds; get the file again")
        order = queries[torch.randperm(len(queries), generator=generator(seed, self.name, "folds")).numpy()]
        folds = np.array_split(order, self.folds)
        test, val = folds.pop(self.fold - 1), folds.pop((self.fold - 1) % (self.folds - 1))
        members = {"train": np.concatenate(folds), "val": val, "test": test, "all": queries}
        if split not in members:
            raise ValueError(f"{raw}: no split {split}; there are {', '.join(members)}")
        over_all = _standardized(values, values[np.isin(query, members["train"])])
        rows = {one: np.flatnonzero(query == one) for one in np.sort(members[split])}
        features = [np.hstack([_standardized(values[part], values[part]), over_all[part]]) for part in rows.values()]
        offsets = pa.array(np.cumsum([0, *map(len, features)]), pa.int32())
        flat = pa.array(np.concatenate(features).ravel(), pa.float32())
        columns = {
            "id": range(len(rows)),
            "name": [str(one) for one in rows],
            "features": pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, 2 * values.shape[1])),
            "relevance": pa.ListArray.from_arrays(
                offsets, pa.array(relevance[np.concatenate(list(rows.values()))], pa.int64())
            ),
        }
        yield pa.table(columns, schema=self.schema)

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        path = Path(folder) / f"{split}.parquet"
        read = read_table(path, self.schema.names)
        relevance = read["relevance"].to_pylist()
        vectors = matrix(pa.table({"features": read["features"].combine_chunks().flatten()}), "features", path=path)
        sizes = list_lengths(read["features"])
        largest = [part.abs().max().item() if len(part) else 0.0 for part in vectors.split(sizes.tolist())]
        facts = {
            "split": split,
            "id": read["id"].to_pylist(),
            "split_rows": f"{split}: {len(read)}",
            "name": read["name"].to_pylist(),
            "documents": sizes,
            "a_relevance_each": sizes == list_lengths(read["relevance"]),
            "lowest_relevance": [min(row, default=0) for row in relevance],
            "highest_relevance": [max(row, default=0) for row in relevance],
            "largest_feature": largest,
        }
        return {"rows": pd.DataFrame(facts).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "rows": [
                *rows_of(rows),
                in_set("split_rows", *(f"{split}: {rows[split]}" for split in SPLITS)),
                unique("name"),  # a query in two splits would be tested on what it was trained on
                between("documents", 2),
                in_set("a_relevance_each", True),
                between("lowest_relevance", 0),
                between("highest_relevance", 1, self.highest),  # and something is relevant
                between("largest_feature", 0.0, LIMIT),
            ]
        }


def read_whole(path: Path, columns: Sequence[str], *, layout: str) -> pd.DataFrame:
    """Read a Parquet file of a package.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is damaged, or lacks a column.
    """
    require(path, layout)
    try:
        with pq.ParquetFile(path) as file:
            found = file.read().to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error}); get it again") from error
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


def _standardized(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return features (n, k) with mean 0 and standard deviation 1 among others; a constant one becomes 0."""
    spread = among.std(axis=0)
    scaled = (values - among.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.clip(scaled, -LIMIT, LIMIT)
