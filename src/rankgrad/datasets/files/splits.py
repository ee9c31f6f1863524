"""Read the tables that tasks learn from, whichever dataset wrote them: any input type, and one reader per truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.inputs import Inputs
from rankgrad.io.parquet import (
    columns_of,
    flat,
    is_list,
    is_number,
    matrix,
    read_table,
    said,
)
from rankgrad.ragged import pad_groups

__all__ = [
    "Captions",
    "Labels",
    "Split",
    "captions_of",
    "input_of",
    "label_ranks_of",
    "labels_of",
    "lists_of",
    "padded",
    "read_split",
    "relevance_of",
    "target_of",
]

MEMORY = 4.0  # GiB that the decoded pictures of a split may take


@dataclass(frozen=True)
class Split:
    """A split of a dataset.

    Attributes:
        inputs: inputs of the rows, or of the documents of all rows, concatenated.
        truth: labels, targets, or grades; None if unknown.
        sizes: number of documents of each row (n,); None if each row has one input.
        weight: weight of each row (n,); None for equal weights.
        about: columns `name`, `group`, and `within` of the table, if it has them; predictions keep them.
        classes: the names of the classes, if the table has them.
    """

    inputs: Inputs
    truth: Any = None
    sizes: Tensor | None = None
    weight: Tensor | None = None
    about: pa.Table | None = None
    classes: list[str] | None = None

    def __len__(self) -> int:
        return len(self.inputs if self.sizes is None else self.sizes)

    @property
    def within(self) -> bool:
        """Whether only rows of the same group are compared."""
        return self.about is not None and "within" in self.about.column_names

    def table(self, columns: dict[str, pa.Array]) -> pa.Table:
        """Return a table of predictions: `id`, the columns of `about`, these columns, and `weight`."""
        kept = {} if self.about is None else dict(zip(self.about.column_names, self.about.columns, strict=True))
        weight = {} if self.weight is None else {"weight": pa.array(self.weight.numpy())}
        return pa.table({"id": pa.array(range(len(self)), pa.int64())} | kept | columns | weight)


class Labels(NamedTuple):
    """The labels of each row (n, C), 0 or 1, and which of them are difficult (n, C), boolean."""

    labels: Tensor
    difficult: Tensor


class Captions(NamedTuple):
    """The captions of all items, how many each item has (n,), and the numbers of its family and gallery (n,).

    Attributes:
        others: further texts that captions search, see `rankgrad.tasks.retrieval.searching`; None if only the items are
            searched.
        ignored: pairs (k, 2) of a caption and an item that do not count as wrong, and neither do equal items; `others`
            are numbered from n.
        firsts: the number of the first item with the same text as each item (n,), since equal ones are searched once;
            None without `others`.
        negatives: the texts that do not answer each caption, for training; None if there are none.
    """

    texts: list[str]
    counts: Tensor
    family: Tensor
    gallery: Tensor
    others: list[str] | None = None
    ignored: Tensor | None = None
    firsts: Tensor | None = None
    negatives: list[list[str]] | None = None


Truth = Callable[[pa.Table, Path], Any]


def input_of(path: Path) -> str:
    """Return the input type of a table, which is the name of one of its columns.

    Raises:
        ValueError: the table has no input, or several.
    """
    columns, types = columns_of(path), lookup.names("inputs")
    names = [name for name in types if name in columns]
    if len(names) != 1:
        raise ValueError(
            f"{path}: {' and '.join(names) or 'no input'}, expected one column of {', '.join(types)}; recreate it with "
            "`dvc repro`"
        )
    return names[0]


def read_split(
    folder: str | Path,
    split: str,
    *,
    truth: Truth,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    lists: bool = False,
    sampled: bool = True,
    threads: int,
    memory: float = MEMORY,
) -> Split:
    """Read a split of a dataset.

    Args:
        folder: the folder of the dataset, with `<split>.parquet`.
        split: `train`, `val`, `test` or `gate`.
        truth: converts a table of `columns` to the truth, see below.
        columns: the columns that `truth` needs.
        optional: columns that `truth` also gets if they exist.
        lists: whether a row is a query with a list of documents.
        sampled: whether training may draw a random part of an input, such as one frame of a clip.
        threads: the number of threads for decoding.
        memory: GiB; if pictures need more, they are decoded when they are used.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or its input does not fit the task.
    """
    path = Path(folder) / f"{split}.parquet"
    stored = columns_of(path)
    input_type = lookup.find("inputs", input_of(path))
    if input_type.sampled and not sampled:
        raise ValueError(
            f"{path}: {input_type.name} cannot be the input of this task: training would use a random part of a row, "
            "but this task compares whole inputs"
        )
    kept = [name for name in ("name", "group", "within") if name in stored]
    table = read_table(path, [*columns, *(name for name in (*optional, "weight") if name in stored), *kept])
    if not len(table):
        raise ValueError(f"{path}: no rows, expected at least one; recreate it with `dvc repro`")
    values = truth(table, path)
    inputs, sizes = input_type.read(path, lists=lists, threads=threads, memory=memory)
    # Add the options and columns of a user's own table, since requests have the same columns.
    inputs = replace(inputs, about=inputs.about | (said(path, "input") or {}))
    weight = _column(table, "weight") if "weight" in stored else None
    return Split(inputs, values, sizes, weight, table.select(kept) if kept else None, said(path, "classes"))


def _column(table: pa.Table, name: str) -> Tensor:
    """Return a column of numbers (n,): float32 if it is stored so, else float64."""
    values = table[name].to_numpy()
    return torch.tensor(values if values.dtype == np.float32 else values.astype(np.float64))  # values are read-only


def label_ranks_of(table: pa.Table, path: Path) -> Tensor:
    """Return the column `label_ranks` (n, K)."""
    return matrix(table, "label_ranks", path=path)


def target_of(table: pa.Table, path: Path) -> Tensor:
    """Return the column `target` (n,), float32 or float64."""
    return _column(table, "target")


def labels_of(table: pa.Table, path: Path) -> Labels:
    """Return the columns `labels` and `difficult`; without `difficult`, no label is difficult.

    Difficult labels are positive in training and skipped in average precision (VOC's rule).

    Raises:
        ValueError: `difficult` has another length.
    """
    labels = matrix(table, "labels", path=path)
    difficult = torch.zeros_like(labels)
    if "difficult" in table.column_names:
        difficult = matrix(table, "difficult", path=path, length=labels.shape[1])
    return Labels(labels, difficult.bool())


def captions_of(table: pa.Table, path: Path) -> Captions:
    """Return the column `captions`, and the family and the gallery of each row.

    Items of a family (the twins of generated scenes) compete for the same captions; without a column `family`, each
    item is its own family. Items of a gallery are searched together; without a column `gallery`, all items are.
    """
    families = _numbers(table, "family", torch.arange(len(table)))
    galleries = _numbers(table, "gallery", torch.zeros(len(table), dtype=torch.int64))
    captions, counts = flat(table["captions"])
    negatives = flat(table["negatives"])[0].to_pylist() if "negatives" in table.column_names else None
    return Captions(captions.to_pylist(), counts, families, galleries, negatives=negatives)


def _numbers(table: pa.Table, name: str, usual: Tensor) -> Tensor:
    """Return a column of whole numbers (n,), or the default if there is no such column."""
    return torch.from_numpy(table[name].to_numpy().astype(np.int64)) if name in table.column_names else usual


def relevance_of(table: pa.Table, path: Path) -> Tensor:
    """Return the column `relevance`, with the lists of all rows concatenated (m,)."""
    return lists_of(table, "relevance", path=path)[0]


def lists_of(table: pa.Table, name: str, *, path: str | Path) -> tuple[Tensor, Tensor]:
    """Return a column of lists of numbers as the numbers of all rows (m,), and how many each row has (n,).

    Raises:
        ValueError: the column has no list, a list is empty, or an entry is not a number.

    >>> lists_of(pa.table({"scores": [[1.0, 2.0], [4.0]]}), "scores", path="predictions")
    (tensor([1., 2., 4.], dtype=torch.float64), tensor([2, 1]))
    """
    column = table[name]
    if not is_list(column.type) or not is_number(column.type.value_type):
        raise ValueError(f"{path}: column {name}: {column.type}, expected lists of numbers")
    values, lengths = flat(column)
    if not len(lengths) or not lengths.all():
        row = int((lengths == 0).int().argmax()) if len(lengths) else 0
        raise ValueError(f"{path}: row {row}: {name} is empty or missing, expected at least one number in each row")
    if values.null_count:
        raise ValueError(f"{path}: column {name}: {values.null_count} numbers are missing, expected none")
    return torch.tensor(values.to_numpy()), lengths


def padded(values: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return concatenated lists (m, ...) as rows (n, d, ...) padded with 0, and the mask (n, d) of real entries.

    d is at least 2, since losses and metrics compare at least two entries.

    >>> padded(torch.tensor([1.0, 2.0]), torch.tensor([1, 1]))[0]
    tensor([[1., 0.],
            [2., 0.]])
    """
    filled, mask = pad_groups(values, sizes=sizes)
    if mask.shape[1] > 1:
        return filled, mask
    return torch.cat([filled, torch.zeros_like(filled)], 1), torch.cat([mask, torch.zeros_like(mask)], 1)
