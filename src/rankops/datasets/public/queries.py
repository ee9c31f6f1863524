"""What adapters of lists to be ranked share: files of a package, folds of queries, features on two scales, facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rankops.datasets.expected import between, in_set, rows_of, unique
from rankops.datasets.public.reading import DiskDataset, Reading, check_shares, place_of, require, split_at
from rankops.io.parquet import list_lengths, matrix, read_table

__all__ = ["Documents", "QueryDataset", "check_rows", "read_whole", "schema_of_lists"]

LIMIT = 6.0  # standard deviations, beyond which features are clipped
CONSTANT = 1e-12  # features that differ by less, of the largest, are the same number but for rounding


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
class QueryDataset(DiskDataset):
    """A row a query: `features` of its documents, and their `relevance`.

    Each feature is there twice: standardized among the query's documents, and over those of all training queries; both
    are clipped at 6 standard deviations. Queries are cut into folds by a hash of the seed and their name: one is for
    test, the next one for validation, the others are for training and the gate. Queries without a relevant document
    are read, and count in no metric.

    Attributes:
        fold: which fold is for test, from 1.
        folds: how many there are.
        gate_share: of all queries.
    """

    fold: int = 1
    folds: int = 5
    gate_share: float = 0.1

    highest: ClassVar[int]  # relevance
    least: ClassVar[int] = 0  # of the largest relevance of a query

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 3 or not 1 <= self.fold <= self.folds:
            raise ValueError(
                f"fold is {self.fold} of {self.folds}, expected one of at least 3: for training, validation and test"
            )
        check_shares(val_share=1 / self.folds, test_share=1 / self.folds, gate_share=self.gate_share)

    def documents(self, raw: Path, *, seed: int) -> Documents:
        """Read all documents.

        Raises:
            FileNotFoundError, ValueError: a file is missing, or is not as expected.
        """
        raise NotImplementedError

    def check(self, raw: str | Path) -> None:
        self.documents(Path(raw), seed=0)

    def split_of(self, query: Any, *, seed: int) -> str:
        """Return the split of a query; no other query has a say in it."""
        place = place_of(str(query), seed=seed) * self.folds - (self.fold - 1)
        return split_at(place % self.folds, {"test": 1, "val": 1, "gate": self.gate_share * self.folds})

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        """Return mean and standard deviation of each feature over the documents of all training queries."""
        query, values, _ = self.documents(Path(raw), seed=seed)
        learned = [one for one in np.unique(query) if self.split_of(one, seed=seed) == "train"]
        if not learned:
            raise ValueError(f"{raw}: none of its queries is for training; get the file again, or choose more folds")
        among = values[np.isin(query, learned)]
        means, deviations = _moments(among)
        return {"means": means.tolist(), "deviations": deviations.tolist()}

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        seed, fitted = reading.seed, reading.fitted
        query, values, relevance = self.documents(Path(raw), seed=seed)
        if split not in (known := (*self.splits, "all")):
            raise ValueError(f"{raw}: no split {split}; there are {', '.join(known)}")
        queries = [one for one in np.unique(query) if split in ("all", self.split_of(one, seed=seed))]
        if not queries:
            raise ValueError(
                f"{raw}: none of its {len(np.unique(query))} queries is in {split}; get the file again, or "
                "choose fewer folds or a larger share"
            )
        if missing := [name for name in ("means", "deviations") if len(fitted.get(name, ())) != values.shape[1]]:
            raise ValueError(
                f"{raw}: no {' and '.join(missing)} of its {values.shape[1]} features; expected what `fit` gave for "
                "the first delivery, as `fitted` in the dataset's manifest.json holds it"
            )
        over_all = _standardized(values, np.array(fitted["means"]), np.array(fitted["deviations"]))
        rows = {one: np.flatnonzero(query == one) for one in queries}
        features = [
            np.hstack([_standardized(values[part], *_moments(values[part])), over_all[part]]) for part in rows.values()
        ]
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
        relevance = [[one for one in row or [] if one is not None] for row in read["relevance"].to_pylist()]
        vectors = matrix(pa.table({"features": read["features"].combine_chunks().flatten()}), "features", path=path)
        sizes = list_lengths(read["features"])
        largest = [part.abs().max().item() if len(part) else 0.0 for part in vectors.split(sizes.tolist())]
        facts = {
            "split": split,
            "id": read["id"].to_pylist(),
            "split_rows": f"{split}: {len(read)}",
            "name": read["name"].to_pylist(),
            "documents": sizes,
            "a_relevance_each": sizes == np.array(list(map(len, relevance))),
            "lowest_relevance": [min(row, default=0) for row in relevance],
            "highest_relevance": [max(row, default=0) for row in relevance],
            "largest_feature": largest,
        }
        return {"rows": pd.DataFrame(facts).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "rows": [
                *rows_of(rows),
                in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items())),
                unique("name"),  # a query in two splits would be tested on what it was trained on
                between("documents", 2),
                in_set("a_relevance_each", True),
                between("lowest_relevance", 0),
                between("highest_relevance", self.least, self.highest),
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
            # Metadata tell of pandas' index alone, and may be damaged.
            found = file.read().replace_schema_metadata(None).to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
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


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations (k,) of features (n, k).

    Sums are rounded: those of a constant would deviate from it by about 1e-17, and be scaled to 1.
    """
    constant = np.ptp(values, axis=0) <= CONSTANT * np.abs(values).max(axis=0)
    means, deviations = values.mean(axis=0), values.std(axis=0)
    return np.where(constant, values[0], means), np.where(constant, 0.0, deviations)


def _standardized(values: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return features (n, k) minus means (k,), over standard deviations (k,) where these are above 0."""
    scaled = (values - means) / np.where(deviations > 0, deviations, 1.0)
    return np.clip(scaled, -LIMIT, LIMIT)
