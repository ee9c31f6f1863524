"""What reading from disk shares: the protocol of a dataset, splits by a hash, facts and expectations of rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import floor
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import in_set, rows_of

__all__ = [
    "SPLITS",
    "DiskDataset",
    "Reading",
    "check_shares",
    "fold_of",
    "place_of",
    "row_facts",
    "rows_expected",
    "same_elsewhere",
    "split_at",
]

SPLITS = ("train", "val", "test")  # and the gate, where it has a share


class Reading(NamedTuple):
    """What a dataset is read with.

    Attributes:
        size: pixels on a side of photos, where there are any.
        seed: of the splits, where the dataset has none.
        threads: to decode with.
        fitted: what `fit` gave for the first delivery.
        skipped: takes the names of broken files that were left out.
        snapshot: how many deliveries count, where one file holds several by a column of days.
    """

    size: int | None
    seed: int
    threads: int
    fitted: Mapping[str, Any]
    skipped: list[str]
    snapshot: int = 1


@dataclass(frozen=True, kw_only=True)
class DiskDataset:
    """A dataset that is read from disk. An adapter is a subclass in a file of its own; its fields are its options.

    Attributes:
        gate_share: of the rows that the gate gets, on which versions are compared before one is promoted; 0 for none.
            Where splits are published, it is a share of validation; where they are drawn, of all rows.
    """

    gate_share: float = 0.5

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # unknown options are errors where the params are checked
    layout: ClassVar[str]
    schema: ClassVar[pa.Schema]  # `id`, `name`, and what the task learns from
    grows: ClassVar[bool] = True  # whether later deliveries can be read by what is known of the first
    foldable: ClassVar[bool] = True  # whether no value in a row depends on which rows are for training

    def __post_init__(self) -> None:
        if not 0 <= self.gate_share < 1:
            raise ValueError(f"gate_share is {self.gate_share}, expected from 0 (no gate) to below 1")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return (*SPLITS, "gate") if self.gate_share else SPLITS

    def schema_of(self, raw: Path) -> pa.Schema:
        """Return the schema of the tables, where it depends on the data."""
        return self.schema

    def check(self, raw: str | Path) -> None:
        """Check that a folder has the public layout, before anything is decoded.

        Raises:
            FileNotFoundError: a file is missing; the message names it and shows the layout.
            ValueError: a file is not as expected.
        """
        raise NotImplementedError

    def check_head(self, raw: str | Path) -> None:
        """Check the first rows of its files, which is quick, before any stage runs; raises as `check`."""

    def check_later(self, raw: str | Path, *, first: str | Path, seed: int) -> None:
        """Check that a later delivery has no rows that belong to those which the first holds out.

        Raises:
            ValueError: it has; the message names them.
        """

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        """Return what tables need to know of the training rows, such as means of features, as JSON can hold it.

        It is fitted on the first delivery and applied to all, so that a shift of a later one stays to be seen.

        Raises:
            FileNotFoundError, ValueError: see `check`.
        """
        return {}

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        """Read one split in pieces, so that memory does not grow with the number of files.

        Args:
            raw: folder of the dataset, see `layout`.
            split: one of `splits`, or all of them.
            reading: size, seed, threads, and what was fitted.

        Raises:
            FileNotFoundError: a list or a file is missing.
            ValueError: a list is not as expected, a split has no file, a file is broken, or nothing was fitted.
        """
        raise NotImplementedError

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        """Return what the expectations are held against: a row a row of a split.

        Raises:
            FileNotFoundError, ValueError: the file is missing or corrupt, or lacks a column.
        """
        raise NotImplementedError

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return what `measure` gave for all splits together, with what can be said of them only side by side."""
        if "pixels" not in (rows := facts["rows"]):
            return facts
        return facts | {"rows": rows.assign(same_picture_as=same_elsewhere(rows["pixels"]))}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        """Return what must hold, see `rankgrad.datasets.files.expected`.

        Args:
            rows: of each split, as the manifest has them.
            size: pixels on a side of photos, where there are any.
        """
        raise NotImplementedError


def row_facts(split: str, read: pa.Table) -> dict[str, Any]:
    """Return the columns of facts that `rows_expected` is held against, and the names."""
    own = {name: read[name].to_pylist() for name in ("id", "name")}
    return {"split": split, "id": own["id"], "split_rows": f"{split}: {len(read)}", "name": own["name"]}


def rows_expected(rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expect the rows of these splits, as many in each as the manifest says."""
    return [*rows_of(rows), in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items()))]


def same_elsewhere(values: pd.Series) -> pd.Series:
    """Return for each row the split and id of the first row of another split that has the same value, or "".

    Args:
        values: by `split` and `id`.

    >>> rows = pd.MultiIndex.from_tuples([("train", 0), ("train", 1), ("test", 0)], names=["split", "id"])
    >>> same_elsewhere(pd.Series(["a", "b", "a"], rows)).tolist()
    ['test 0', '', 'train 0']
    """
    places = values.index.to_frame(index=False).assign(value=values.to_numpy())
    firsts = places.drop_duplicates(["value", "split"])  # most rows are the only ones of their value
    firsts = firsts[firsts["value"].duplicated(keep=False)].groupby("value")[["split", "id"]]
    found = {value: list(rows.itertuples(index=False, name=None)) for value, rows in firsts}
    same = [
        next((f"{split} {number}" for split, number in found.get(value, []) if split != own), "")
        for own, value in zip(places["split"], places["value"], strict=True)
    ]
    return pd.Series(same, values.index)


def check_shares(*, val_share: float, test_share: float, gate_share: float) -> None:
    """Raise ValueError if the shares of validation, test and gate leave nothing to train on, or are none."""
    for name, share in (("val_share", val_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}, expected above 0 and below 1")
    if val_share + test_share + gate_share >= 1:
        raise ValueError(
            f"val_share + test_share + gate_share is {val_share + test_share + gate_share:g}, expected below 1: train "
            "gets the rest"
        )


def place_of(key: str, *, seed: int) -> float:
    """Return a number in [0, 1) for a key: by the key and the seed alone, so that no other row can move it.

    >>> place_of("a.jpg", seed=1) == place_of("a.jpg", seed=1) != place_of("a.jpg", seed=2)
    True
    """
    digest = sha256(f"{seed}/{key}".encode(errors="surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def fold_of(key: str, *, folds: int, seed: int) -> int:
    """Return the fold of a key, from 1: by the key and the seed alone, so that no other row can move it.

    >>> [fold_of(key, folds=3, seed=1) for key in "abcde"]
    [2, 1, 1, 1, 3]
    """
    return 1 + floor(folds * place_of(f"fold of {key}", seed=seed))  # no other draw is of this text


def split_at(place: float, shares: Mapping[str, float]) -> str:
    """Return the split at a place, if shares stand one after another from 0 on; train gets what is behind them.

    >>> split_at(0.1, {"test": 0.2, "val": 0.1}), split_at(0.25, {"test": 0.2, "val": 0.1})
    ('test', 'val')
    """
    for split, share in shares.items():
        if place < share:
            return split
        place -= share
    return "train"
