"""What a task is: how its data are read, how its network is built, trained, validated and scored."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from rankops.metrics.bootstrap import Statistic
from rankops.training.loop import Trainable

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


class Task(Trainable, Protocol):
    """A task: `rankops.tasks.<name>` has one class of this form.

    It is made with the options of a training (`Task(training)`), or without any to predict and to score.

    Attributes:
        name, title: of the task.
        phases: names of the blocks of training options, in order.
        on_features: phases that learn from features, not from images.
        needs_start: phases that are left out of a training from random weights.
        monitor: the validation metric that decides on the best epoch, seed and setting.
        metrics: the only list of the task's metrics; the first is its main one.
        columns: what a row of a request has: `image`, `images` (a list), `text` or `vectors`; `?` where it may miss.
        truth: names of the second argument of its losses.
        learns_from: columns of a dataset's tables.
        Training: a dataclass of the options of its training.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    phases: ClassVar[tuple[str, ...]]
    on_features: ClassVar[tuple[str, ...]]
    needs_start: ClassVar[tuple[str, ...]]
    monitor: str
    metrics: ClassVar[tuple[Metric, ...]]
    columns: ClassVar[dict[str, str]]
    truth: ClassVar[tuple[str, ...]]
    learns_from: ClassVar[tuple[str, ...]]
    Training: ClassVar[type]

    def load(self, folder: str | Path, split: str, *, threads: int) -> Any:
        """Read a split of a dataset, see `rankops.datasets.splits`."""

    def build(self, model: dict[str, Any], split: Any, *, seed: int) -> Any:
        """Return the untrained network for a training split; its weights are drawn from `seed`."""

    def begin(self, network: Any, phase: str, train: Any, val: Any, *, accelerator: Any) -> tuple[Any, Any, Any]:
        """Return the module that a phase trains, and both splits as the phase reads them."""

    def end(self, network: Any, phase: str) -> None:
        """Leave the network as a phase should."""

    def rows(self, data: Any, phase: str) -> int:
        """Return how many examples an epoch has."""

    def group(self, phase: str, objective: Any) -> int:
        """Return how many examples of a batch are ranked together, where that is fixed; else 1."""

    def predict(self, network: Any, split: Any) -> pa.Table:
        """Return one row an example: `id`, what the network says, and the truth."""

    def statistic(self, table: pa.Table) -> Statistic:
        """Return the metrics of a table of predictions, as a function of which rows count."""

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return an answer to each row of a request, of plain numbers, lists and strings.

        Args:
            network: of the task.
            rows: their columns are those of `columns`.
            first: the number of the first row, for messages.

        Raises:
            ValueError: a row that cannot be answered; the message names it.
        """
