"""What a kind of input is, and the inputs of a split, from which batches are drawn."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from rankgrad.io.pictures import PIXELS
from rankgrad.ragged import pad_groups

__all__ = ["Inputs", "Kind", "one_of"]

AT_ONCE = 256  # pictures or texts that go through a network together where nothing is learned
VALUES = 2**20  # features or words that do


class Kind(Protocol):
    """A kind of input: `rankgrad.inputs.<name>` has one class of this form, `<name>` the column of its tables.

    Attributes:
        name: of the kind.
        backbone: what a backbone that takes it says of its input.
        cell: what a cell of a request is: `image`, `images`, `vector` or `text`; a list of documents has an `s` more.
    """

    name: ClassVar[str]
    backbone: ClassVar[str]
    cell: ClassVar[str]

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

    @staticmethod
    def runtime(inputs: "Inputs") -> dict[str, Any]:
        """Return what a network is made with, see `rankgrad.models.network.Network`."""

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> Any:
        """Return raw cells of one row of a request as a network of this input takes them, a list or tensor of items.

        Args:
            cells: of a row, at least one.
            about: the network's `recipe["input"]`.
            where: what messages begin with.

        Raises:
            ValueError: a cell cannot be prepared.
        """

    @staticmethod
    def gathered(rows: list[Any], about: dict[str, Any]) -> "Inputs":
        """Return the inputs of several rows, each from `prepared`."""

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        """Return how many pixels, features or characters a cell of a request makes a network read."""


def one_of(counts: Tensor, generator: torch.Generator) -> Tensor:
    """Return for each count (n,) a random number below it (n,), int64.

    >>> one_of(torch.tensor([1, 1]), torch.Generator())
    tensor([0, 0])
    """
    if bool((counts == counts[0]).all()):
        return torch.randint(int(counts[0]), (len(counts),), generator=generator)
    return (torch.rand(len(counts), generator=generator, dtype=torch.float64) * counts).long()


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
    def kind(self) -> str:
        return self.about["kind"]

    @property
    def of_pictures(self) -> bool:
        return self.kind in ("image", "frames")

    def __len__(self) -> int:
        return len(self.items if self.counts is None else self.counts)

    def to(self, device: Any) -> "Inputs":
        """Return the inputs with their items on a device, or at least their batches."""
        return replace(self, items=self.items.to(device), device=torch.device(device))

    def ready(self, network: Any) -> "Inputs":
        """Return the inputs as a network takes them: its backbone tokenizes texts."""
        if self.kind != "text" or torch.is_tensor(self.items):
            return self
        return replace(self, items=network.backbone.tokenize(self.items))

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
        return self._trimmed(self.items[numbers.to(self.items.device)])

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
        if self.kind == "features":
            return max(1, VALUES // self.about["count"])
        if self.kind == "text" and torch.is_tensor(self.items) and not self.items.is_floating_point():
            return max(1, min(AT_ONCE, VALUES // max(1, self.items.shape[1])))  # all are as long as the longest
        pixels = self.about["height"] * self.about["width"] if self.of_pictures else 1
        return max(1, min(AT_ONCE, PIXELS // pixels))

    def _numbers(self) -> Iterator[Tensor]:
        numbers = torch.arange(len(self.items)).split(self.at_once)
        for place, part in enumerate(numbers):
            yield part
            if place + 1 < len(numbers) and hasattr(self.items, "ahead"):
                self.items.ahead(numbers[place + 1])

    def _trimmed(self, items: Tensor) -> Tensor:
        """Return tokens as long as the longest text; all else as it is."""
        if self.kind != "text" or items.is_floating_point():
            return items
        return items[:, : int((items != 0).sum(1).max())]

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
