"""The form of a dataset, drawn or read: what stages ask of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from rankgrad.inputs import InputType

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SPLITS", "Dataset", "Reading", "Source"]

SPLITS = ("train", "val", "test")  # and the gate, where it has rows


class Reading(NamedTuple):
    """Options for reading a dataset.

    Attributes:
        seed: of the splits, where the data have none.
        threads: to encode pictures with.
        size: pixels on a side of photos, where there are any.
        snapshot: how many deliveries count.
        growth: new rows of a drawn delivery, as a fraction of the training rows.
        folds: into how many folds the rows are cut, if any.
    """

    seed: int = 1
    threads: int = 1
    size: int | None = None
    snapshot: int = 1
    growth: float = 0.0
    folds: int | None = None


class Source(Protocol):
    """A dataset's rows. `total` is how many there will be, if it is known."""

    total: int | None

    def rows(self, split: str) -> Iterator[pa.Table]:
        """Yield the rows of a split in pieces, so that memory does not grow with pictures.

        Raises:
            FileNotFoundError: a picture is missing.
            ValueError: the split has no rows, or a value is not as expected; the message names its row.
        """
        ...

    def manifest(self) -> dict[str, Any]:
        """Return how the rows were made, once all are written."""
        ...


class Dataset(Protocol):
    """A file of `rankgrad/datasets` has one class of this form: a dataclass whose fields are its options.

    Attributes:
        input_type: of its rows.
        foldable: whether its rows can be cut into folds.
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
        """Check the first rows of its files before any stage runs; raise as `opened` does."""

    def opened(self, raw: Path, reading: Reading) -> Source:
        """Return the rows that a folder holds, or that are drawn of its digits.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file or a value is not as expected.
        """
        ...

    def facts(self, folder: Path, splits: Sequence[str], *, raw: Path, threads: int) -> "dict[str, pd.DataFrame]":
        """Return facts of stored splits, a row an example, by what they are of.

        Raises:
            FileNotFoundError, ValueError: a file is missing or corrupt, or lacks a column.
        """
        ...

    def expected(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        """Return what must hold for facts, see `rankgrad.datasets.files.expected`, by the rows of each split."""
        ...
