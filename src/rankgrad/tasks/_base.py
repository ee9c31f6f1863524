"""The form of a task: how it reads data, and how it builds, trains, validates, scores and queries a network."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_type_hints

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.datasets.files.splits import MEMORY, Split, read_split
from rankgrad.evaluation import Statistic, by_fold, by_group
from rankgrad.inputs import Inputs, type_of
from rankgrad.io.checkpoints import build
from rankgrad.tasks._own import Lists, judging, over_rows, within_rows
from rankgrad.tasks._predict import Column, Id, Ids, check_answer, checked_row, of_row
from rankgrad.training.objective import Objective
from rankgrad.training.options import Component, PhaseOptions, WholePhase
from rankgrad.training.phase import Phase

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["SHOWN", "Examples", "Lists", "Metric", "Reads", "Task", "mean_of", "mean_over", "network_of", "weight_of"]


SHOWN = 12  # examples in a picture


@dataclass(frozen=True)
class Metric:
    """A metric of a task.

    Attributes:
        name: dotted, such as `ranked.accuracy`: its name in every table of results.
        title: its name in tables for people.
        lower_is_better: whether a lower value is better.
        shown: whether short tables include it.
        limits: the smallest and the largest value that it can have.
        optional: whether only some data have it, such as pairs.
        chance: the value of a model that knows nothing, if it is the same for all data.
    """

    name: str
    title: str
    lower_is_better: bool = False
    shown: bool = True
    limits: tuple[float, float] = (0.0, 1.0)
    optional: bool = False
    chance: float | None = None


@dataclass(frozen=True)
class Reads:
    """The columns of a dataset's tables that a task reads.

    Attributes:
        truth: required columns.
        read: converts a table of these columns to the truth.
        optional: columns that are read if they exist.
        lists: whether a row has a list of inputs.
        sampled: whether training may use a random part of a row's input, such as one frame of a clip.
    """

    truth: tuple[str, ...]
    read: Callable[[pa.Table, Path], Any]
    optional: tuple[str, ...] = ()
    lists: bool = False
    sampled: bool = True

    @property
    def inputs(self) -> list[str]:
        """The names of the input types that the task takes. A dataset has one input type."""
        names = lookup.names("inputs")
        return [name for name in names if self.sampled or not lookup.find("inputs", name).sampled]


def network_of(name: str, model: Mapping[str, Any], split: Any, *, seed: int, task: str, **args: Any) -> Any:
    """Return the untrained network of a task for a training split, with weights drawn from `seed`.

    Its recipe describes the inputs and names the classes, so that the network takes raw inputs anywhere.

    Args:
        name: the name of the network in rankgrad/models.
        model: `name` and `args` of the head, and `backbone`.
        split: see `rankgrad.datasets.files.splits.Split`.
        seed: for the weights.
        task: the name of the task.
        args: options set by the task and its data, in addition to the input type's.

    Raises:
        ValueError: the backbone does not take this type of input.
    """
    inputs, input_type = split.inputs, split.inputs.type
    backbone = model["backbone"]["name"]
    if (takes := lookup.find("models.backbones", backbone).input) not in input_type.backbones:
        raise ValueError(
            f"{backbone} takes {takes}, but the dataset has {input_type.name}: choose a backbone for "
            f"{' or '.join(input_type.backbones)}"
        )
    parts = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
    network = build("models", name, parts, seed=seed, **input_type.runtime(inputs) | args)
    if hasattr(network.backbone, "fit"):  # all of it, or the means and deviations for standardizing
        network.backbone.fit(split)
    network.recipe |= {"task": task, "input": inputs.about}
    network.recipe |= {"classes": split.classes} if split.classes else {}
    return network


def weight_of(table: pa.Table) -> np.ndarray | None:
    """Return the weight of each row of a table of predictions (n,); None if all count the same."""
    return table["weight"].to_numpy().astype(np.float64) if "weight" in table.column_names else None


def mean_over(values: np.ndarray, rows: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return weighted means of values (metrics, n) or (n,) over rows (..., k), each without its NaN.

    >>> mean_over(np.array([1.0, 2.0, np.nan]), np.array([[0, 1], [1, 2], [2, 2]]), None)
    array([1.5, 2. , nan])
    >>> mean_over(np.array([[1.0, 2.0], [np.nan, 3.0]]), np.array([[0, 1]]), None)
    array([[1.5],
           [3. ]])
    """
    is_defined = ~np.isnan(values)
    if values.ndim == 2 and (is_defined == is_defined[0]).all():  # as usual, which takes less memory
        is_defined = is_defined[0]
    counts = is_defined[..., rows] * (1.0 if weight is None else weight[rows])
    total = counts.sum(-1)
    means = (np.where(is_defined, values, 0.0)[..., rows] * counts).sum(-1) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, means, np.nan)


def mean_of(values: Tensor, weight: Tensor | None) -> float:
    """Return the weighted mean of the values (n,) of validation rows."""
    values = values.double()
    if weight is None:
        return values.mean().item()
    weight = weight.to(values)
    return ((values * weight).sum() / weight.sum()).item()


class Examples(Protocol):
    """Examples of a test split for a report."""

    @property
    def loss(self) -> str:
        """The name of the training loss."""

    @property
    def classes(self) -> list[str] | None:
        """The names of labels, or None to show their numbers."""

    @property
    def metrics(self) -> Any:
        """All metrics of the run over its seeds, one per row."""

    @property
    def of_preferences(self) -> bool:
        """Return whether each example is a pair of a preferred and a rejected answer."""

    def has(self, column: str) -> bool:
        """Return whether the predictions have a column."""

    def predicted(self, *columns: str) -> pa.Table:
        """Return columns of the predictions."""

    def inputs(self, count: int) -> list[np.ndarray | str]:
        """Return the first inputs in a form for people: pictures or text."""


class Task:
    """A task. Each `rankgrad.tasks.<name>` has one subclass.

    Create it with the options of a training (`Task(training)`), or without options to predict and score.

    Attributes:
        title: the title of the task.
        metrics: the task's metrics; the first is its main metric.
        learns: the second arguments of the losses that can train the task.
        judged: the second argument of a project's own metrics that apply to the task; None if none can.
        unjudged: blocks of training options that the validation metric does not judge, so that no grid can choose them.
        reads: the columns that it reads.
        Training: a dataclass with its training options; fields of type `PhaseOptions` are its phases, in order.
        text: the default backbone of captions; None for a task without captions.

    Args:
        training: options of the phases, a `Training`.
        cache: a folder for features of frozen networks, or None to compute them each time.
    """

    title: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    learns: ClassVar[tuple[str, ...]]
    judged: ClassVar[str | None] = None
    unjudged: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Reads]
    Training: ClassVar[type]
    text: ClassVar[Component | None] = None

    # Each task implements these.

    @classmethod
    def accepts(cls, model: Mapping[str, Any]) -> None:
        """Raise a ValueError if the task cannot use the backbone of captions."""
        if model.get("text") is not None:
            raise ValueError(f"text is set, but {cls.name} has no captions to encode: remove text")

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        """Return the untrained network for a training split, with weights drawn from `seed`."""
        raise NotImplementedError

    def phase_of(
        self,
        name: str,
        options: PhaseOptions,
        network: Any,
        train: Split,
        val: Split,
        objective: Objective,
        accelerator: "Accelerator",
    ) -> Phase:
        """Return a phase of the plan; its options decide how the network's backbone is frozen.

        Args:
            name, options: the phase's name and options.
            network: the task's network, on the accelerator's device.
            train, val: splits.
            objective: the loss.
            accelerator: for computations of the phase.
        """
        raise NotImplementedError

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per example: `id`, `name` if known, the network's predictions, and the truth."""
        raise NotImplementedError

    def table_of(self, split: Split, scores: Any) -> pa.Table:
        """Return the table of `predict` from a split's scores of rows or documents (and classes)."""
        raise NotImplementedError

    def scored(self, table: pa.Table) -> Statistic:
        """Return the metrics of a table of predictions, as a function of row numbers."""
        raise NotImplementedError

    def lists(self, table: pa.Table) -> Iterator[Lists]:
        """Yield the predictions in the form that a project's own metrics take, with the truth named by `judged`."""
        raise NotImplementedError

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return an answer of plain numbers, lists and strings for each row of a request.

        Args:
            network: the task's network.
            inputs: the inputs of all rows, or of all documents of all rows.
            sizes: the number of documents of each row (n,).
        """
        raise NotImplementedError

    def draw(self, plots: Any, path: Path, examples: "Examples") -> bool:
        """Draw predictions for examples; return whether the task has such a picture.

        Args:
            plots: draws `orders`, `found_captions`, `predicted` or `average_precisions` into a file.
            path: the file of the picture.
            examples: examples of a test split.
        """
        return False

    # All tasks share these.

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]  # the name of its file

    def __init__(self, training: Any = None, *, cache: Path | None = None):
        self.training, self.cache = training, cache

    @classmethod
    def blocks(cls) -> list[str]:
        """Return the names of the blocks of training options, in order."""
        types = get_type_hints(cls.Training)
        return [name for name, block in types.items() if inspect.isclass(block) and issubclass(block, PhaseOptions)]

    @classmethod
    def all_metrics(cls) -> tuple[Metric, ...]:
        """Return the task's metrics, then the metrics of `own/metrics` that apply to it."""
        own = []
        for name, lower_is_better in judging(cls.judged).items():
            own.append(Metric(name, name.replace("_", " "), lower_is_better, limits=(-math.inf, math.inf)))
        return (*cls.metrics, *own)

    @classmethod
    def metric_named(cls, name: str) -> Metric:
        """Return one of `all_metrics`."""
        return next(metric for metric in cls.all_metrics() if metric.name == name)

    def plan(self, *, started: bool) -> dict[str, PhaseOptions]:
        """Return the phases to train by name, in order.

        Args:
            started: whether the network has trained weights to start from.
        """
        phases = {name: getattr(self.training, name) for name in self.blocks()}
        return {name: options for name, options in phases.items() if options.epochs}

    def splits_for(self, network: Any, train: Split, val: Split) -> tuple[Split, Split]:
        """Return the splits for the phases.

        Raises:
            ValueError: nothing can be learned from a split.
        """
        return train, val

    def phases(
        self,
        network: Any,
        train: Split,
        val: Split,
        objective: Objective,
        *,
        started: bool,
        accelerator: "Accelerator",
    ) -> Iterator[Phase]:
        """Yield the phases of the plan, each after the previous one is trained, see `phase_of`.

        Args:
            started: whether the network has trained weights to start from.
        """
        splits = self.splits_for(network, train, val)
        for name, options in self.plan(started=started).items():
            # A phase that does not train the whole network freezes its backbone.
            network.backbone.freeze(options.freeze if isinstance(options, WholePhase) else "all")
            yield self.phase_of(name, options, network, *splits, objective, accelerator)
            network.backbone.freeze(None)

    def finish(self, network: Any, val: Split) -> None:
        """Put into the recipe of a trained network what follows from its answers to the validation split."""

    def carry_over(self, network: Any, chosen: Any, train: Split) -> None:
        """Carry over what `finish` found from the network that validation chose to one that also learned its rows.

        Validation rows say nothing of a network that learned them. Both networks learned the training rows, so the
        spread of their scores on these tells how the scales of both compare.

        Args:
            network: the network that learned training and validation rows.
            chosen: the network that learned training rows, after `finish`.
            train: the training split.
        """

    def load(self, folder: str | Path, split: str, *, threads: int, memory: float = MEMORY) -> Split:
        """Read a split of a dataset, see `rankgrad.datasets.files.splits.read_split`."""
        reads = self.reads
        return read_split(
            folder, split, truth=reads.read, columns=reads.truth, optional=reads.optional, lists=reads.lists,
            sampled=reads.sampled, threads=threads, memory=memory,
        )  # fmt: skip

    def measured(self, table: pa.Table) -> Statistic:
        """Return the metrics of `scored`, then the metrics of `own/metrics` that apply to the task."""
        statistic, own, weight = self.scored(table), [], weight_of(table)
        if not (names := list(judging(self.judged))):
            return statistic
        lists = list(self.lists(table))
        for name in names:
            if lists[0].rows is None:
                own.append(over_rows(name, lists[0], weight))
            else:
                values = within_rows(name, lists, len(table))
                own.append(partial(mean_over, values, weight=weight))

        def of_rows(rows: np.ndarray) -> np.ndarray:
            return np.concatenate([statistic.of_rows(rows), np.stack([metric(rows) for metric in own])])

        return replace(statistic, names=[*statistic.names, *names], of_rows=of_rows)

    def statistic(self, table: pa.Table) -> Statistic:
        """Return the metrics of a table of predictions, as a function of the numbers of rows or of groups.

        For folds see `rankgrad.evaluation.by_fold`.
        """
        return self.of_slices(table)(np.arange(len(table)))

    def of_slices(self, table: pa.Table) -> Callable[[np.ndarray], Statistic]:
        """Return a function from row numbers (n,) of a table of predictions to their metrics, see `statistic`."""
        statistic, group = by_fold(self.measured, table), self.group_of(table)

        def of_slice(rows: np.ndarray) -> Statistic:
            sliced = replace(statistic, examples=len(rows), of_rows=lambda chosen: statistic.of_rows(rows[chosen]))
            return sliced if group is None else by_group(sliced, group[rows])

        return of_slice

    def group_of(self, table: pa.Table) -> np.ndarray | None:
        """Return the group of each prediction (n,), for resampling whole groups; None to resample single rows."""
        return np.asarray(table["group"].to_pylist()) if "group" in table.column_names else None

    def columns(self, recipe: Mapping[str, Any]) -> dict[str, Column]:
        """Return the columns of a request, from the recipe of a network."""
        input_type = type_of(recipe["input"])
        return {
            input_type.name: Column(input_type, lists=self.reads.lists),
            "id": Column(Ids if self.reads.lists else Id, required=False),
        }

    def checked(
        self, recipe: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], *, first: int = 0
    ) -> list[dict[str, Any]]:
        """Check the rows of a request and convert their cells to the columns' form; drop missing optional cells.

        Args:
            recipe: the recipe of a network.
            rows: raw rows from JSON or a table: pictures of any size, features that are not standardized.
            first: the number of the first row, for messages.

        Raises:
            ValueError: a row has an unknown column, lacks one, or has an invalid cell; the message names it.
        """
        columns = self.columns(recipe)
        checked = [checked_row(row, columns, f"row {number}") for number, row in enumerate(rows, first)]
        if not checked:
            raise ValueError(f"no rows, expected at least one with a column {next(iter(columns))}")
        for number, row in enumerate(checked, first):
            documents, ids = row.get(next(iter(columns)), ()), row.get("id")
            if isinstance(ids, list) and len(ids) != len(documents):
                raise ValueError(f"row {number}: {len(ids)} ids of {len(documents)} documents, expected one for each")
        return checked

    def values(self, recipe: Mapping[str, Any], row: Mapping[str, Any]) -> int:
        """Return the number of pixels, features and characters in a checked row."""
        total = 0
        for name, column in self.columns(recipe).items():
            if name in row:
                cells = row[name] if column.lists else [row[name]]
                total += sum(column.type.values(cell, dict(recipe["input"])) for cell in cells)
        return total

    @torch.inference_mode()
    def respond(self, network: Any, rows: Iterable[Mapping[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return an answer of plain numbers, lists and strings for each row of a request, with its `id` if it has one.

        Args:
            network: the task's network.
            rows: raw rows with the columns of `columns`, see `checked`.
            first: the number of the first row, for messages.

        Raises:
            ValueError: a row cannot be answered, or its answer is not finite; the message names it.
        """
        checked = self.checked(network.recipe, rows, first=first)
        return self.answered(network, checked, first=first)

    @torch.inference_mode()
    def answered(self, network: Any, rows: list[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return an answer for each checked row, see `respond`."""
        try:
            raw_answers = self.answers_to(network, rows, first)
        except FloatingPointError as error:
            last = first + len(rows) - 1
            raise ValueError(f"rows {first} to {last}: the network's answer is not finite: {error}") from error
        answers = []
        for number, (row, answer) in enumerate(zip(rows, raw_answers, strict=True), first):
            check_answer(answer, number)
            answers.append({"id": row["id"]} | answer if "id" in row else answer)
        return answers

    def answers_to(self, network: Any, rows: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        """Return the answers for checked rows from their inputs, see `answers`."""
        about, prepared = network.recipe["input"], []
        input_type = type_of(about)
        for number, row in enumerate(rows, first):
            cells = row[input_type.name] if self.reads.lists else [row[input_type.name]]
            with of_row(number):
                prepared.append(input_type.prepared(cells, about, where=f"row {number}"))
        sizes = torch.tensor([len(items) for items in prepared])
        return self.answers(network, input_type.gathered(prepared, about), sizes)
