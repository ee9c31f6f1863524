"""Judge two versions of a registered model on the same examples: the evidence of the gate."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from pipelines.config import JUDGED, Settings, prefixed
from pipelines.config.rules import SORTER_METRICS
from pipelines.config.schema import Judged
from pipelines.ops.messages import one_line
from pipelines.tracking import registry, slices
from pipelines.tracking.known_rows import Digests, learned, read_known
from pipelines.tracking.store import CredentialsRefused, ServerUnreachable
from rankgrad import lookup
from rankgrad.datasets.files.folds import has_folds
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import Statistic
from rankgrad.feature_names import empty_name, fills_of, title_of
from rankgrad.io.checkpoints import load_model
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator

__all__ = ["Evidence", "Judge", "SlicePair", "by_hand", "judging", "require_classes", "with_features_of"]

SORTER_LENGTH = 32  # length of vectors for sorters that the params do not benchmark
SORTER_VECTORS = 5000  # new vectors: no sorter was trained, selected, or reported on them
KNOWN_SHARE = 0.5  # a version knows a row if it knows at least this fraction of the row's contents


@dataclass(frozen=True)
class SlicePair:
    """The main metric of both versions on one slice."""

    name: str
    rows: int
    challenger: Statistic
    champion: Statistic


@dataclass(frozen=True)
class Evidence:
    """The metrics of a challenger and its champion on the same examples."""

    challenger: Statistic
    champion: Statistic
    lower_is_better: dict[str, bool]  # for each metric
    examples: str  # the name of the examples
    slices: list[SlicePair] = field(default_factory=list)  # if the task guards slices
    unit: str = "rows"  # the unit that the bootstrap draws
    judging: int = 0  # number of these that say which version is better


class Judge:
    """Judges versions of a registered model on its dataset's gate split, or on validation if it has none.

    Sorters are judged on fresh vectors.

    Args:
        name: the registered name.
        task: the task of its versions, or `sorter`.
        data: the folder of the dataset on which they were trained; not used for sorters.
        params: the project's params.
        judged: the gate's metric for the model.
    """

    def __init__(self, name: str, task: str, data: Path, params: Settings, judged: Judged):
        self.name, self.task, self.data, self.params, self.judged = name, task, data, params, judged
        self.split = "gate" if (data / "gate.parquet").is_file() else "val"
        self.has_folds = has_folds(data)
        self._predicted: dict[str, tuple[pa.Table, Digests]] = {}

    def check(self, number: str) -> None:
        """Raise ValueError if a version, or any version on this data, cannot be judged."""
        if self.task != "sorter":
            self._predictions(number)

    def evidence(self, ours: str, theirs: str) -> "Evidence":
        """Return the metrics of two versions on the examples that are fair to both.

        Raises:
            ValueError: a version cannot be judged, or too few rows are fair.
        """
        if self.task == "sorter":
            return _of_sorters(self.name, (ours, theirs), self.params)
        (our_table, our_rows), (their_table, their_rows) = (self._predictions(number) for number in (ours, theirs))
        is_fair, examples = _fair_rows(self.name, {ours: our_rows, theirs: their_rows}, self.data, self.split)
        tables = [table.filter(is_fair) for table in (our_table, their_table)]
        task, pairs = self._reader, []
        if self.judged.slice_tolerance is not None:
            file = self.data / f"{self.split}.parquet"
            our_slices, their_slices = (slices.statistics(task, self.judged.metric, table, file) for table in tables)
            for name_of_slice in sorted(our_slices):  # of the same rows, so both have the same slices
                pairs.append(SlicePair(name_of_slice, *our_slices[name_of_slice], their_slices[name_of_slice][1]))
        lower_is_better = {metric.name: metric.lower_is_better for metric in task.all_metrics()}
        unit = "groups" if task.group_of(tables[0]) is not None else "queries" if task.reads.lists else "rows"
        challenger, champion = map(task.statistic, tables)
        have_own_values = task.reads.lists or "within" in tables[0].column_names
        count = judging(challenger, self.judged.metric) if have_own_values else challenger.examples
        return Evidence(challenger, champion, lower_is_better, examples, pairs, unit, count)

    @cached_property
    def _reader(self) -> Any:
        return lookup.find("tasks", self.task)()

    @cached_property
    def _examples(self) -> Split:
        compute = self.params.compute
        try:
            return self._reader.load(self.data, self.split, threads=compute.threads, memory=compute.memory)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{self.name} cannot be judged on {self.data.name}, the dataset of its challenger ({error}). To decide "
                f"without the gate: {by_hand(self.name)}"
            ) from error

    def _predictions(self, number: str) -> tuple[pa.Table, Digests]:
        """Return a version's predictions for all examples, and the digests of the rows that it learned."""
        if number not in self._predicted:
            network, known = _load(self.name, number)
            examples = self._examples
            require_classes(f"{self.name} version {number}", network.recipe.get("classes"), examples.classes)
            with _judging(self.name, number):
                table = self._reader.predict(network, with_features_of(network.recipe["input"], examples))
            self._predicted[number] = table, known
        return self._predicted[number]


def by_hand(name: str) -> str:
    """Return the command that makes a version of a model champion."""
    return f"`rankgrad promote {name} --version N`"


@contextmanager
def _judging(name: str, number: str) -> Generator[None]:
    """Name the version in any error that occurs because its files are lost or other code made them."""
    try:
        yield
    except (MemoryError, ServerUnreachable, CredentialsRefused):
        raise
    except Exception as error:
        raise ValueError(
            f"{name} version {number} cannot be judged here: its files are lost, or it was made by different code "
            f"than this checkout's ({one_line(error)}). To decide without the gate: {by_hand(name)}"
        ) from error


def _load(name: str, number: str) -> tuple[Any, Digests]:
    """Return the network of a version, and the digests of the rows that it learned."""
    with _judging(name, number), TemporaryDirectory() as scratch:
        folder = registry.weights_of(f"models:/{name}/{number}", Path(scratch))
        return load_model(folder), read_known(folder)


def judging(statistic: Statistic, metric: str) -> int:
    """Return how many units have a value of a metric; ties and queries without a relevant document have none.

    Args:
        statistic: of a task whose metrics are means over its units, such as queries.
        metric: a metric's name.
    """
    if metric not in statistic.names:
        return 0
    each_unit = np.arange(statistic.examples)[:, None]
    return int((~np.isnan(statistic.of_rows(each_unit)[statistic.names.index(metric)])).sum())


def require_classes(version: str, known: Sequence[str] | None, now: Sequence[str] | None) -> None:
    """Raise ValueError if a network scores other classes than those of the current data, or in another order."""
    if known and now and list(known) != list(now):
        other = sorted({*known} ^ {*now})
        difference = f"{other[0]!r} is only in one of them" if other else "in another order"
        raise ValueError(
            f"{version} scores {len(known)} classes, and the data has {len(now)}; {difference}. To decide without the "
            f"gate: {by_hand(version.partition(' ')[0])}"
        )


def with_features_of(about: Mapping[str, Any], examples: Split) -> Split:
    """Return examples with a network's features, which may come from other values of the same columns.

    The feature of a value that no example has is 0. An empty number gets the network's fill value.

    Args:
        about: the network's `recipe["input"]`.
        examples: examples with the features of the current data.

    Raises:
        ValueError: the current data lacks the column of a feature.
    """
    names, now = about.get("names"), examples.inputs.about.get("names")
    if not names or not now or names == now:
        return examples
    items = {name: examples.inputs.items[:, number] for number, name in enumerate(now)}
    columns = [_feature(name, items, fills_of(tuple(names))) for name in names]
    inputs = replace(examples.inputs, items=torch.stack(columns, 1), about=dict(about))
    return replace(examples, inputs=inputs)


def _feature(name: str, items: Mapping[str, torch.Tensor], fills: Mapping[str, float]) -> torch.Tensor:
    """Return a feature (n,) from the current data's features; `fills` has the network's fill values by column."""
    if name in items:
        return items[name]
    column = title_of(name)
    by_title = {title_of(other): values for other, values in items.items()}
    # No row has this name, letter, or empty cell. A word without a feature now is rare, or in every row: it gets 0.
    if "=" in column or name in map(empty_name, fills):
        return torch.zeros_like(next(iter(items.values())))
    if column not in by_title:
        raise ValueError(f"the current data has no column {column}, which is a feature of this version")
    was_empty = items.get(empty_name(column))
    if was_empty is None or column not in fills:
        return by_title[column]
    return by_title[column].where(was_empty == 0, fills[column])


def _of_sorters(name: str, numbers: tuple[str, str], params: Settings) -> Evidence:
    sorters = {number: _load(name, number)[0] for number in numbers}
    # Longer vectors are harder, so both versions sort vectors of the same length: their own, or the default.
    lengths = {sorter.length for sorter in sorters.values()} - {None}
    if len(lengths) > 1:
        lengths_of = " and ".join(f"{sorter.length} (version {number})" for number, sorter in sorters.items())
        raise ValueError(f"{name}: its versions sort {lengths_of} scores; choose by hand: {by_hand(name)}")
    measured_on = params.benchmark_sorters.get(name.removeprefix(prefixed("sorter-")))
    usual = SORTER_LENGTH if measured_on is None else params.score_vectors[measured_on].length
    length = lengths.pop() if lengths else usual
    vectors, _ = score_vectors.draw(SORTER_VECTORS, length, generator(params.gate.seed, "gate", "sorters"))
    statistics = []
    for number, sorter in sorters.items():
        with _judging(name, number):
            statistics.append(_of_sorter(vectors, sorter))
    ours, theirs = statistics
    examples = f"{SORTER_VECTORS} fresh vectors"
    return Evidence(ours, theirs, dict.fromkeys(SORTER_METRICS, False), examples, judging=SORTER_VECTORS)


def _fair_rows(name: str, known: dict[str, Digests], data: Path, split: str) -> tuple[np.ndarray, str]:
    """Return which rows of a split (n,) are known to both versions or to neither, and the name of these examples.

    If the splits changed (another seed or fraction), a version would otherwise be judged on rows that it learned. Rows
    that both know may repeat by nature, such as four yes-or-no features. Validation rows were used to select every
    version.

    Raises:
        ValueError: too few rows are left.
    """
    examples, learned_by = f"{data.name}/{split}", {}
    for number, digests in known.items():
        splits = [digests[used] for used in ("train", "val") if used in digests and used != split]
        learned_by[number] = learned(data / f"{split}.parquet", splits, share=KNOWN_SHARE)
    ours, theirs = learned_by.values()
    is_fair = ours == theirs
    if is_fair.all():
        return is_fair, examples
    unfair = {number: (rows & ~is_fair).sum() for number, rows in learned_by.items()}
    counts = ", ".join(f"version {number} was trained on {count}" for number, count in unfair.items() if count)
    if is_fair.sum() < min(JUDGED, len(is_fair)):
        raise ValueError(
            f"{name}: of the {len(is_fair)} rows of {examples}, {counts}, which leaves {is_fair.sum()}, expected at "
            f"least {JUDGED}: the splits have changed since. To decide without the gate: {by_hand(name)}"
        )
    return is_fair, f"{is_fair.sum()} of the {len(is_fair)} rows of {examples}, the others left out: {counts}"


@torch.no_grad()
def _of_sorter(vectors: torch.Tensor, sorter: nn.Module) -> Statistic:
    """Return `SORTER_METRICS`: negative L1 error of normalized ranks, and fraction of vectors in exact order."""
    exact, soft = exact_ranks(vectors), torch.cat([sorter(batch) for batch in vectors.split(1000)])
    error = (soft - exact).abs().mean(1) / vectors.shape[1]
    ordered = (exact_ranks(-soft) == exact).all(1)  # the largest score has the smallest rank
    columns = torch.stack([-error.double(), ordered.double()]).numpy()
    return Statistic(list(SORTER_METRICS), len(vectors), lambda rows: columns[:, rows].mean(-1))
