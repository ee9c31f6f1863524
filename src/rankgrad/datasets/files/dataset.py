"""The interface of a dataset, generated or read, that stages use."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from rankgrad.datasets.files.expected import Expectations
from rankgrad.inputs import InputType

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SPLITS", "Dataset", "Reading", "Source"]

SPLITS = ("train", "val", "test")  # and `gate`, if it has rows


class Reading(NamedTuple):
    """Options for reading a dataset.

    Attributes:
        seed: seed of the splits, if the data has none.
        threads: number of threads for encoding pictures.
        size: pixels per side of photos, if there are any.
        snapshot: how many deliveries to use.
        growth: new rows of each generated delivery, as a fraction of the training rows.
        folds: the number of folds, if rows are split into folds.
    """

    seed: int = 1
    threads: int = 1
    size: int | None = None
    snapshot: int = 1
    growth: float = 0.0
    folds: int | None = None


class Source(Protocol):
    """A dataset's rows. `total` is their number, if known in advance."""

    total: int | None

    def rows(self, split: str) -> Iterator[pa.Table]:
        """Yield the rows of a split in pieces, so that memory does not grow with pictures.

        Raises:
            FileNotFoundError: a picture is missing.
            ValueError: the split has no rows, or a value is invalid; the message names its row.
        """
        ...

    def manifest(self) -> dict[str, Any]:
        """Return how the rows were made; call it after all are written."""
        ...

    def collection(self, splits: Sequence[Path]) -> pa.Table | None:
        """Return all passages that queries of any split search, from the stored splits; None if splits are apart."""
        ...


class Dataset(Protocol):
    """The class in a file of `rankgrad/datasets`: a dataclass whose fields are its options.

    Attributes:
        input_type: the input type of its rows.
        foldable: whether its rows can be split into folds.
    """

    input_type: InputType
    foldable: ClassVar[bool]

    @property
    def splits(self) -> tuple[str, ...]: ...

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of its tables: `id`, the input, and what tasks learn from."""
        ...

    def check_head(self, raw: Path) -> None:
        """Check the first rows of its files before any stage runs; raise the same errors as `opened`."""

    def opened(self, raw: Path, reading: Reading) -> Source:
        """Return the rows in a folder, or rows generated from the digits in it.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file or a value is invalid.
        """
        ...

    def facts(self, folder: Path, splits: Sequence[str], *, raw: Path, threads: int) -> "dict[str, pd.DataFrame]":
        """Return facts about stored splits: tables by what they describe, such as `rows`.

        Raises:
            FileNotFoundError, ValueError: a file is missing or corrupt, or lacks a column.
        """
        ...

    def expected(self, rows: dict[str, int], *, size: int | None) -> Expectations:
        """Return the expectations for facts, see `rankgrad.datasets.files.expected`, given the rows of each split."""
        ...
