"""What a task is: how its data are read, how its network is built, trained, validated, scored and asked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops import lookup
from rankops.bootstrap import Statistic, by_group
from rankops.datasets.files.folds import statistic_by_fold
from rankops.datasets.files.splits import MEMORY, Split, read_split
from rankops.inputs._base import Inputs
from rankops.tasks._predict import of_row

__all__ = ["Metric", "Task"]


@dataclass(frozen=True)
class Metric:
    """A metric of a task.

    Attributes:
        name: dotted, such as `ranked.accuracy`: its place in a file of metrics.
        title: what tables call it.
        lower_is_better: whether it is an error.
        shown: whether short tables have it.
    """

    name: str
    title: str
    lower_is_better: bool = False
    shown: bool = True


class Task:
    """A task: `rankops.tasks.<name>` has one class of this form.

    It is made with the options of a training (`Task(training)`), or without any to predict and to score. Besides the
    methods here it has those that `rankops.training.loop.fit` calls, see `rankops.training.loop.Trainable`.

    Attributes:
        name, title: of the task.
        phases: names of the blocks of training options, in order.
        monitor: the validation metric that decides on the best epoch, seed and setting.
        metrics: the only list of the task's metrics; the first is its main one.
        inputs: kinds of input that it learns from, one of which a dataset has.
        learns_from: columns of the truth that a dataset needs.
        optional: columns of the truth that are read where they are there.
        truth: names of the second argument of its losses, see `learns`.
        lists: whether a row has a list of inputs.
        Training: a dataclass of the options of its training.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    phases: ClassVar[tuple[str, ...]]
    monitor: str
    metrics: ClassVar[tuple[Metric, ...]]
    inputs: ClassVar[tuple[str, ...]] = ("image", "frames", "features", "text")
    learns_from: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()
    truth: ClassVar[tuple[str, ...]]
    lists: ClassVar[bool] = False
    Training: ClassVar[type]

    # What each task says.

    @staticmethod
    def plan(training: Mapping[str, Any], *, started: bool) -> dict[str, dict[str, Any]]:
        """Return the options of the phases that are trained, by name, in order.

        Args:
            training: a block of options for each phase, as in the params.
            started: whether the network has trained weights to start from.
        """
        raise NotImplementedError

    @classmethod
    def learns(cls, training: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the second argument of the losses that it can be trained on with these options."""
        return cls.truth

    @staticmethod
    def read(table: pa.Table, path: Path) -> Any:
        """Return the truth of a table of `learns_from` and `optional`."""
        raise NotImplementedError

    def is_small(self, phase: str, split: Split) -> bool:
        """Return whether a phase on this training split is computed on one thread."""
        raise NotImplementedError

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        """Return the untrained network for a training split; its weights are drawn from `seed`."""
        raise NotImplementedError

    def begin(self, network: Any, phase: str, train: Split, val: Split, *, accelerator: Any) -> tuple[Any, Any, Any]:
        """Return the module that a phase trains, and both splits as the phase reads them."""
        raise NotImplementedError

    def end(self, network: Any, phase: str) -> None:
        """Leave the network as a phase should."""

    def rows(self, data: Any, phase: str) -> int:
        """Return how many examples an epoch has."""
        raise NotImplementedError

    def group(self, phase: str, objective: Any) -> int:
        """Return how many examples of a batch are ranked together, where that is fixed; else 1."""
        raise NotImplementedError

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row a row: `id`, `name` where it is known, what the network says, and the truth."""
        raise NotImplementedError

    def scored(self, table: pa.Table) -> Statistic:
        """Return the metrics of a table of predictions, as a function of which rows count."""
        raise NotImplementedError

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return an answer of plain numbers, lists and strings to each row of a request.

        Args:
            network: of the task.
            inputs: of all rows, or of the documents of all rows.
            sizes: how many documents each row has (n,).
        """
        raise NotImplementedError

    # What all do alike.

    def load(self, folder: str | Path, split: str, *, threads: int, memory: float = MEMORY) -> Split:
        """Read a split of a dataset, see `rankops.datasets.files.splits.read_split`."""
        return read_split(
            folder, split, truth=self.read, columns=self.learns_from, optional=self.optional, kinds=self.inputs,
            lists=self.lists, threads=threads, memory=memory,
        )  # fmt: skip

    def statistic(self, table: pa.Table) -> Statistic:
        """Return the metrics of a table of predictions, as a function of which rows count, or which groups of rows.

        Where there are folds, those of each fold by themselves, see `rankops.datasets.files.folds.statistic_by_fold`.
        """
        statistic, group = statistic_by_fold(self.scored, table), self.group_of(table)
        return statistic if group is None else by_group(statistic, group)

    def group_of(self, table: pa.Table) -> np.ndarray | None:
        """Return which predictions are resampled together (n,), by equal values; None if each by itself."""
        return np.asarray(table["group"].to_pylist()) if "group" in table.column_names else None

    def columns(self, recipe: Mapping[str, Any]) -> dict[str, str]:
        """Return what a row of a request has, by the recipe of a network: `image`, `images`, `text` and the like.

        A `?` stands behind what may miss.
        """
        kind = lookup.find("inputs", recipe["input"]["kind"])
        return {kind.name: kind.cell + "s" * self.lists, "id": "id?"}

    def values(self, recipe: Mapping[str, Any], row: Mapping[str, Any]) -> int:
        """Return how many pixels, features and characters a row of a request makes a network read."""
        kind, about = lookup.find("inputs", recipe["input"]["kind"]), recipe["input"]
        cell = row.get(kind.name)
        if cell is None or isinstance(cell, float):  # NaN, where a table has no such cell
            return 0
        cells = cell if self.lists else [cell]
        return sum(kind.values(one, about) for one in cells)

    @torch.inference_mode()
    def respond(self, network: Any, rows: Iterable[Mapping[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return an answer to each row of a request, of plain numbers, lists and strings; with its `id`, if it has one.

        Args:
            network: of the task.
            rows: raw: pictures of any size, features that are not standardized; their columns are those of `columns`.
            first: the number of the first row, for messages.

        Raises:
            ValueError: a row that cannot be answered; the message names it.
        """
        about, asked, prepared = network.recipe["input"], list(rows), []
        kind = lookup.find("inputs", about["kind"])
        if not asked:
            raise ValueError(f"no rows, expected at least one with a column {kind.name}")
        for number, row in enumerate(asked, first):
            with of_row(number):
                if (cell := row.get(kind.name)) is None or (self.lists and not len(cell)):
                    raise ValueError(f"no {kind.name}, expected one" + " document at least" * self.lists)
                cells = list(cell) if self.lists else [cell]
                prepared.append(kind.prepared(cells, about, where=f"row {number}"))
        sizes = torch.tensor([len(one) for one in prepared])
        answers = self.answers(network, kind.gathered(prepared, about), sizes)
        return [_with_id(row, answer) for row, answer in zip(asked, answers, strict=True)]


def _with_id(row: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return answer if row.get("id") is None else {"id": row["id"]} | answer
