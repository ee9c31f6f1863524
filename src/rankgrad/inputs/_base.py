"""What an input type is, and the inputs of a split, from which batches are drawn."""

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
    import pandas as pd
    import pyarrow as pa

__all__ = [
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

AT_ONCE = 256  # items that go through a network together where nothing is learned


class InputType:
    """A type of input: `rankgrad.inputs.<name>` has one class of this form, `<name>` is the column of its tables.

    All that is particular to it is here, so that a new type is a new file. What a network must know to be given other
    inputs is `about`, its `recipe["input"]`: the type's name, and its sizes or names.

    Attributes:
        name: of the type, that of its file.
        backbones: the attributes `input` of the backbones that take it, the usual one first.
        cell: what a cell of a request is in Python: `bytes`, `str`, a list of them, or `Any`.
        piece: how many rows are read and answered together.
        sampled: whether a row has several items, of which training sees a random one: such rows cannot be documents.
        pictures: whether items are pictures, which can be moved at random, and are stored encoded.
        files: whether a cell of a table is a file, or several: their contents, or their paths.
        vectors: whether items are vectors of numbers: a cell is itself a list or an object.
        small: whether a batch of them is computed on one thread, which several would only delay.
        suffixes: of files that are an input each: a folder of them needs no table, and a row is called by its file.
        roles: of columns of a person's table that become part of it, besides the one that is called by its name.
        columns: how many columns of a person's table it is of; None for one, or any number.
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

    # Of people's tables.

    @staticmethod
    def fits(cells: list[Any]) -> bool:
        """Return whether the cells of a column, none of them empty, look like this type."""
        return False

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        """Return the input of one row, to predict, or of all rows, to train.

        Args:
            columns: of the input.
            cells: the row, or the rows: `file` and `text` read a column, `files`, `texts` and `numbers` several.

        Raises:
            ValueError, OSError: a cell is none of this type.
        """
        return cells.file(columns[0])

    # Of stored tables.

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        """Return the Arrow type of its column; `width` and `single` are of vectors: how long, and of float32."""
        raise NotImplementedError

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple["Inputs", Tensor | None]:
        """Read the column of a table.

        Args:
            path: of the file.
            lists: whether each row has a list of inputs, its documents, or one.
            threads: to decode with.
            memory: GiB; what needs more is read when it is asked for.

        Returns:
            The inputs, all documents one after another, and how many each row has (n,), None without lists.

        Raises:
            ValueError: a cell is not as expected; the message names its row.
        """
        raise NotImplementedError

    @classmethod
    def facts(cls, path: Path, *, lists: bool, threads: int) -> "pd.DataFrame":
        """Return facts about each row of the column of a table, for Great Expectations."""
        raise NotImplementedError

    @staticmethod
    def expected(*, size: int | None) -> dict[str, Any]:
        """Return the lowest number of facts, or the value that they must have; `size` is the side of pictures."""
        raise NotImplementedError

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[Any]:
        """Return cells of a table as people see them: pictures (height, width[, 3]) or text."""
        raise NotImplementedError

    # Of networks.

    @staticmethod
    def runtime(inputs: "Inputs") -> dict[str, Any]:
        """Return what a network is made with, see `rankgrad.models.network.Network`."""
        raise NotImplementedError

    @staticmethod
    def check(about: dict[str, Any]) -> None:
        """Raise ValueError if a recipe, which may be a stranger's, does not describe inputs of this type."""
        raise NotImplementedError

    @staticmethod
    def at_once(inputs: "Inputs") -> int:
        """Return how many items a network is given together where nothing is learned."""
        return AT_ONCE

    @staticmethod
    def ready(inputs: "Inputs", network: Any) -> "Inputs":
        """Return inputs as a network takes them."""
        return inputs

    @staticmethod
    def trimmed(items: Tensor) -> Tensor:
        """Return a batch of items without what no item of it needs."""
        return items

    @staticmethod
    def moved(items: Tensor, generator: torch.Generator, **moves: Any) -> Tensor:
        """Return a batch of items for training, moved at random as far as the type allows."""
        return items

    # Of requests.

    @staticmethod
    def checked(cell: Any, place: str) -> Any:
        """Return a cell of a request, raw from JSON or a table, in the form that `prepared` takes.

        Raises:
            ValueError: the cell is none of this type; the message begins with `place`.
        """
        raise NotImplementedError

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> Any:
        """Return checked cells of one row as a network of this input takes them, a list or tensor of items.

        Args:
            cells: of a row, at least one.
            about: the network's `recipe["input"]`.
            where: what messages begin with.

        Raises:
            ValueError: a cell cannot be prepared.
        """
        raise NotImplementedError

    @staticmethod
    def gathered(rows: list[Any], about: dict[str, Any]) -> "Inputs":
        """Return the inputs of several rows, each from `prepared`."""
        return Inputs(about, torch.cat(rows))

    @staticmethod
    def written(cell: Any, about: dict[str, Any]) -> Any:
        """Return a checked cell as a table of JSON lines has it."""
        return cell

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        """Return how many pixels, features or characters a checked cell makes a network read."""
        raise NotImplementedError

    @staticmethod
    def example(about: dict[str, Any]) -> Any:
        """Return a cell of a request."""
        raise NotImplementedError

    # Of people.

    @staticmethod
    def described(about: dict[str, Any]) -> str:
        """Return what a cell of a request is, and what the model itself does to it."""
        raise NotImplementedError

    @staticmethod
    def quantities(items: Any, about: dict[str, Any]) -> dict[str, float]:
        """Return numbers that describe the prepared items of one row, by which drift is found."""
        raise NotImplementedError

    @staticmethod
    def unknown(items: Any, about: dict[str, Any]) -> dict[str, float]:
        """Return the fraction of values of each column that no training row has, or that are empty."""
        return {}

    @staticmethod
    def ranges(path: Path, about: dict[str, Any], *, lists: bool) -> dict[str, tuple[float, float]]:
        """Return the smallest and the largest value of quantities in a stored table, of those that have a range."""
        return {}

    @staticmethod
    def texts(items: Any) -> list[str]:
        """Return the texts among prepared items: a vocabulary is made of them, and new words are a sign of drift."""
        return []


def type_of(about: dict[str, Any]) -> type[InputType]:
    """Return the type of a network's input by its `recipe["input"]`.

    >>> type_of({"kind": "text"}).name
    'text'
    """
    return lookup.find("inputs", about["kind"])


def one_of(counts: Tensor, generator: torch.Generator) -> Tensor:
    """Return for each count (n,) a random number below it (n,), int64.

    >>> one_of(torch.tensor([1, 1]), torch.Generator())
    tensor([0, 0])
    """
    if bool((counts == counts[0]).all()):
        return torch.randint(int(counts[0]), (len(counts),), generator=generator)
    return (torch.rand(len(counts), generator=generator, dtype=torch.float64) * counts).long()


# Cells of requests.


def is_missing(cell: Any) -> bool:
    """Return whether a row lacks a cell; a table of pandas has NaN there."""
    return cell is None or (isinstance(cell, float) and cell != cell)


def in_json(value: Any) -> str:
    """Return what a value is in JSON.

    >>> in_json(True), in_json(1.5), in_json(None)
    ('a truth value', 'a number', 'null')
    """
    names = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def as_list(cell: Any, place: str) -> list[Any]:
    """Return a cell that is a list, or an array of NumPy."""
    values = cell.tolist() if hasattr(cell, "tolist") else cell
    if not isinstance(values, list | tuple):
        raise ValueError(f"{place} is {in_json(values)}, expected a list")
    return list(values)


def check_numbers(values: list[Any], place: str) -> None:
    """Raise where a number is written as text or a truth value, of which NumPy would make one."""
    for value in values:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{place} has {in_json(value)}, expected numbers")
        check_range(value, place)


def check_range(value: Any, place: str) -> None:
    """Raise of a whole number that no float holds."""
    if isinstance(value, Integral) and len(digits := str(abs(int(value)))) > 308:
        raise ValueError(f"{place} has a number of {len(digits)} digits, which is not finite in float32")


@dataclass(frozen=True)
class Inputs:
    """Inputs of n rows.

    Attributes:
        about: what a network must know to be given others, `recipe["input"]`: `kind`, and its sizes or names.
        items: (m, ...), one a row, or several of some: uint8 pictures, vectors, tokens or frozen features; a
            `rankgrad.inputs._stored.Stored` of pictures; or texts (m) that no network has tokenized yet.
        counts: items of each row (n,), where rows have several, frames of a clip.
        device: on which batches are to be.
    """

    about: dict[str, Any]
    items: Any
    counts: Tensor | None = None
    device: Any = "cpu"

    @property
    def type(self) -> type[InputType]:
        return type_of(self.about)

    def __len__(self) -> int:
        return len(self.items if self.counts is None else self.counts)

    def to(self, device: Any) -> "Inputs":
        """Return the inputs with their items on a device, or at least their batches."""
        return replace(self, items=self.items.to(device), device=torch.device(device))

    def ready(self, network: Any) -> "Inputs":
        """Return the inputs as a network takes them: its backbone tokenizes texts."""
        return self.type.ready(self, network)

    def replaced(self, items: Tensor) -> "Inputs":
        """Return the inputs with what a frozen network makes of each item in its place."""
        return replace(self, items=items, device=items.device)

    def numbers(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return the number of an item of each row (n,): of several, a random one."""
        if self.counts is None:
            return rows
        first = self.counts.cumsum(0) - self.counts
        return first[rows] + one_of(self.counts[rows], generator)

    def take(self, numbers: Tensor) -> Tensor:
        """Return items (n, ...) by their numbers, as networks take them."""
        if not torch.is_tensor(self.items):
            return self.items[numbers].to(self.device)
        return self.type.trimmed(self.items[numbers.to(self.items.device)])

    def ahead(self, rows: Tensor) -> None:
        """Begin to read the items of rows that will be taken next, where they are not in memory."""
        if self.counts is None and hasattr(self.items, "ahead"):  # which frame of a clip is drawn, nobody knows yet
            self.items.ahead(rows)

    def parts(self) -> Iterator[Tensor]:
        """Yield all items, in order, so many at once as a network can be given."""
        yield from map(self.take, self._numbers())

    @property
    def at_once(self) -> int:
        """How many items a network is given together where nothing is learned."""
        return self.type.at_once(self)

    def _numbers(self) -> Iterator[Tensor]:
        numbers = torch.arange(len(self.items)).split(self.at_once)
        for position, piece in enumerate(numbers):
            yield piece
            if position + 1 < len(numbers) and hasattr(self.items, "ahead"):
                self.items.ahead(numbers[position + 1])

    def of_rows(self, values: Tensor) -> Tensor:
        """Return what was computed of each item (m, ...) as a mean over the items of each row (n, ...)."""
        if self.counts is None:
            return values
        counts = self.counts.to(values.device)
        padded, _ = pad_groups(values, sizes=counts)
        return padded.sum(1) / counts.view(-1, *[1] * (values.dim() - 1))

    def update(self, digest: "blake2b") -> None:
        """Let a digest know all items."""
        if torch.is_tensor(self.items):
            digest.update(self.items.cpu().contiguous().numpy().data)
        else:
            digest.update(self.items.digest)
