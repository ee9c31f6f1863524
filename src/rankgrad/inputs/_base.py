"""The interface of an input type, and the inputs of a split, from which batches are drawn."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.ragged import pad_groups

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "About",
    "InputType",
    "Inputs",
    "as_list",
    "check_numbers",
    "check_range",
    "in_json",
    "is_missing",
    "one_of",
    "type_of",
]

AT_ONCE = 256  # items in a network's batch outside training
About = dict[str, Any]  # the description of its inputs that a network keeps as `recipe["input"]`, see `InputType`


class InputType:
    """An input type: `rankgrad.inputs.<name>` has one such class, and `<name>` is its column in stored tables.

    The class has everything that is specific to the type, so that a new type is a new file. `about`, which a network
    keeps as `recipe["input"]`, describes inputs well enough to prepare others: the type's name, and sizes or names.

    Attributes:
        name: the name of the type and of its file.
        backbones: values of the attribute `input` of the backbones that take it, the default first.
        cell: the Python type of a cell in a request: `bytes`, `str`, a list of them, or `Any`.
        piece: how many rows are read and answered together.
        sampled: whether a row has several items, of which training sees a random one; such rows cannot be documents.
        pictures: whether items are pictures, which can be augmented, and are stored encoded.
        files: whether a table's cell is a file or several files: their contents, or their paths.
        vectors: whether items are vectors of numbers; a cell is then itself a list or an object.
        small: whether batches are so small that a single thread is fastest.
        suffixes: suffixes of files that are one input each; a folder of them needs no table, and file names name rows.
        roles: other roles of a user's table whose columns become part of the input.
        columns: how many columns of a user's table make one input; None for one, or any number.
    """

    name: ClassVar[str]
    backbones: ClassVar[tuple[str, ...]]
    cell: ClassVar[Any]
    piece: ClassVar[int] = 256
    sampled: ClassVar[bool] = False
    pictures: ClassVar[bool] = False
    files: ClassVar[bool] = False
    vectors: ClassVar[bool] = False
    small: ClassVar[bool] = False
    suffixes: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[int | None] = None

    # Users' tables.

    @staticmethod
    def fits(cells: list[Any]) -> bool:
        """Return whether the cells of a column, none of them empty, look like this type."""
        return False

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        """Return the input of one row (for prediction) or of all rows (for training).

        Args:
            columns: the columns of the input.
            cells: the row or rows; `file` and `text` read one column, `files`, `texts`, and `numbers` several.

        Raises:
            ValueError, OSError: a cell is not of this type.
        """
        return cells.file(columns[0])

    # Stored tables.

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        """Return the Arrow type of its column; for vectors, `width` is their length and `single` means float32."""
        raise NotImplementedError

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple["Inputs", Tensor | None]:
        """Read the column of a table.

        Args:
            path: the table's file.
            lists: whether each row has a list of inputs (its documents) rather than one input.
            threads: number of threads for decoding.
            memory: GiB; inputs that need more are read when they are used.

        Returns:
            The inputs, with the documents of all rows concatenated, and how many each row has (n,), or None without
            lists.

        Raises:
            ValueError: a cell is invalid; the message names its row.
        """
        raise NotImplementedError

    @classmethod
    def facts(cls, path: Path, *, lists: bool, threads: int) -> "pd.DataFrame":
        """Return facts about each row of the column of a table, for Great Expectations."""
        raise NotImplementedError

    @staticmethod
    def expected(*, size: int | None) -> dict[str, Any]:
        """Return for each fact its smallest number or its required value; `size` is the side of pictures."""
        raise NotImplementedError

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[Any]:
        """Return cells of a table in a form to show: pictures (height, width[, 3]) or text."""
        raise NotImplementedError

    # Networks.

    @staticmethod
    def runtime(inputs: "Inputs") -> dict[str, Any]:
        """Return the arguments that a network gets from its inputs, see `rankgrad.models.network.Network`."""
        raise NotImplementedError

    @staticmethod
    def check(about: About) -> None:
        """Raise ValueError if a recipe, which may be from an untrusted file, does not describe inputs of this type."""
        raise NotImplementedError

    @staticmethod
    def at_once(inputs: "Inputs") -> int:
        """Return how many items to put into a network's batch outside training."""
        return AT_ONCE

    @staticmethod
    def ready(inputs: "Inputs", network: Any) -> "Inputs":
        """Return inputs in the form that a network takes."""
        return inputs

    @staticmethod
    def trimmed(items: Tensor) -> Tensor:
        """Return a batch of items without padding that no item needs."""
        return items

    @staticmethod
    def moved(items: Tensor, generator: torch.Generator, **moves: Any) -> Tensor:
        """Return a batch of items for training, with random augmentation if the type has any."""
        return items

    # Requests.

    @staticmethod
    def checked(cell: Any, place: str) -> Any:
        """Return a cell of a request, raw from JSON or a table, in the form that `prepared` takes.

        Raises:
            ValueError: the cell is not of this type; the message begins with `place`.
        """
        raise NotImplementedError

    @staticmethod
    def prepared(cells: list[Any], about: About, *, where: str) -> Any:
        """Return checked cells of one row in the form that a network takes: a list or a tensor of items.

        Args:
            cells: the cells of a row, at least one.
            about: the network's `recipe["input"]`.
            where: the beginning of error messages.

        Raises:
            ValueError: a cell cannot be prepared.
        """
        raise NotImplementedError

    @staticmethod
    def gathered(rows: list[Any], about: About) -> "Inputs":
        """Return the inputs of several rows, each from `prepared`."""
        return Inputs(about, torch.cat(rows))

    @staticmethod
    def written(cell: Any, about: About) -> Any:
        """Return a checked cell in the form in which a JSON Lines table stores it."""
        return cell

    @staticmethod
    def warnings(cell: Any, about: About) -> list[str]:
        """Return what the sender of a checked cell should know, such as names that occur in no training row."""
        return []

    @staticmethod
    def values(cell: Any, about: About) -> int:
        """Return how many pixels, features, or characters a network reads for a checked cell."""
        raise NotImplementedError

    @staticmethod
    def example(about: About) -> Any:
        """Return an example of a request's cell."""
        raise NotImplementedError

    # Descriptions and drift.

    @staticmethod
    def described(about: About) -> str:
        """Describe the cell of a request, and how the model preprocesses it."""
        raise NotImplementedError

    @staticmethod
    def quantities(items: Any, about: About) -> dict[str, float]:
        """Return numbers that describe the prepared items of one row, for detecting drift."""
        raise NotImplementedError

    @staticmethod
    def unknown(items: Any, about: About) -> dict[str, float]:
        """Return for each column the fraction of values that are empty or occur in no training row."""
        return {}

    @staticmethod
    def unknown_alone(path: Path, about: About, groups: "np.ndarray | None", *, lists: bool) -> dict[str, "np.ndarray"]:
        """Return what `unknown` would be for each row of a stored table (n,) if its group were not in training.

        Args:
            path: the table.
            about: the input of the model that was trained on it.
            groups: the group of each row (n,); None if each row is its own.
            lists: whether rows are queries with several documents.
        """
        return {}

    @staticmethod
    def ranges(path: Path, about: About, *, lists: bool) -> dict[str, tuple[float, float]]:
        """Return the smallest and the largest value in a stored table for each quantity that has a range."""
        return {}

    @staticmethod
    def texts(items: Any) -> list[str]:
        """Return the texts among prepared items: they make up a vocabulary, and new words are a sign of drift."""
        return []


def type_of(about: About) -> type[InputType]:
    """Return the type of a network's input, given its `recipe["input"]`.

    >>> type_of({"kind": "text"}).name
    'text'
    """
    return lookup.find("inputs", about["kind"])


def one_of(counts: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random number below each count (n,), as int64 (n,).

    >>> one_of(torch.tensor([1, 1]), torch.Generator())
    tensor([0, 0])
    """
    if bool((counts == counts[0]).all()):
        return torch.randint(int(counts[0]), (len(counts),), generator=generator)
    return (torch.rand(len(counts), generator=generator, dtype=torch.float64) * counts).long()


# Cells of requests.


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing: None, or NaN in a pandas table."""
    return cell is None or (isinstance(cell, float) and cell != cell)


def in_json(value: Any) -> str:
    """Return the name of a value's JSON type.

    >>> in_json(True), in_json(1.5), in_json(None)
    ('a truth value', 'a number', 'null')
    """
    names = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def as_list(cell: Any, place: str) -> list[Any]:
    """Return a cell, which must be a list or a NumPy array, as a list."""
    values = cell.tolist() if hasattr(cell, "tolist") else cell
    if not isinstance(values, list | tuple):
        raise ValueError(f"{place} is {in_json(values)}, expected a list")
    return list(values)


def check_numbers(values: list[Any], place: str) -> None:
    """Raise ValueError if a value is text or a boolean, which NumPy would convert to a number."""
    for value in values:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{place} has {in_json(value)}, expected numbers")
        check_range(value, place)


def check_range(value: Any, place: str) -> None:
    """Raise ValueError if a whole number is too large for a float."""
    if isinstance(value, Integral) and len(digits := str(abs(int(value)))) > 308:
        raise ValueError(f"{place} has a number with {len(digits)} digits, expected one that is finite in float32")


@dataclass(frozen=True)
class Inputs:
    """Inputs of n rows.

    Attributes:
        about: the description that a network keeps as `recipe["input"]`: `kind`, and sizes or names.
        items: (m, ...), one or several per row: uint8 pictures, vectors, tokens, or frozen features; a
            `rankgrad.inputs._stored.Stored` of pictures; or texts (m) that are not tokenized yet.
        counts: number of items of each row (n,) if rows have several, such as frames of a clip.
        device: the device of batches.
    """

    about: About
    items: Any
    counts: Tensor | None = None
    device: Any = "cpu"

    @property
    def type(self) -> type[InputType]:
        return type_of(self.about)

    def __len__(self) -> int:
        return len(self.items if self.counts is None else self.counts)

    def to(self, device: Any) -> "Inputs":
        """Return the inputs with their items, or at least their batches, on a device."""
        return replace(self, items=self.items.to(device), device=torch.device(device))

    def ready(self, network: Any) -> "Inputs":
        """Return the inputs in the form that a network takes: its backbone tokenizes texts."""
        return self.type.ready(self, network)

    def replaced(self, items: Tensor) -> "Inputs":
        """Return the inputs with each item replaced by a frozen network's output for it."""
        return replace(self, items=items, device=items.device)

    def numbers(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return the number of an item for each row (n,), a random one if the row has several."""
        if self.counts is None:
            return rows
        first = self.counts.cumsum(0) - self.counts
        return first[rows] + one_of(self.counts[rows], generator)

    def take(self, numbers: Tensor) -> Tensor:
        """Return items (n, ...) by their numbers, in the form that networks take."""
        if not torch.is_tensor(self.items):
            return self.items[numbers].to(self.device)
        return self.type.trimmed(self.items[numbers.to(self.items.device)])

    def ahead(self, rows: Tensor) -> None:
        """Start reading the items of rows that are taken next, if they are not in memory."""
        if self.counts is None and hasattr(self.items, "ahead"):  # the frames of clips are not drawn yet
            self.items.ahead(rows)

    def parts(self) -> Iterator[Tensor]:
        """Yield all items in order, in batches of `at_once`."""
        numbers = torch.arange(len(self.items)).split(self.at_once)
        for position, piece in enumerate(numbers, 1):
            items = self.take(piece)
            if position < len(numbers) and hasattr(self.items, "ahead"):
                self.items.ahead(numbers[position])
            yield items

    @property
    def at_once(self) -> int:
        """How many items to put into a network's batch outside training."""
        return self.type.at_once(self)

    def of_rows(self, values: Tensor) -> Tensor:
        """Return the mean over the items of each row (n, ...) of values computed for each item (m, ...)."""
        if self.counts is None:
            return values
        counts = self.counts.to(values.device)
        padded, _ = pad_groups(values, sizes=counts)
        return padded.sum(1) / counts.view(-1, *[1] * (values.dim() - 1))

    def update(self, digest: "blake2b") -> None:
        """Update a digest with all items."""
        if torch.is_tensor(self.items):
            digest.update(self.items.cpu().contiguous().numpy().data)
        else:
            digest.update(self.items.digest)
