"""Multi-label classification: which labels an example has, judged by mean average precision (SoDeep, Section 4.2.2)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.checks import check_finite, check_scores
from rankgrad.datasets.files.splits import Split, labels_of
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs
from rankgrad.io.parquet import as_lists, matrix
from rankgrad.metrics.mean_average_precision import mean_average_precision
from rankgrad.tasks._base import Examples, Lists, Metric, Reads, network_of, weight_of
from rankgrad.tasks._own import RESAMPLES
from rankgrad.tasks._phases import GroupPhase, TwoPhases
from rankgrad.tasks._predict import named
from rankgrad.training.objective import grouped

__all__ = ["MultiLabel"]

OF_CLASS = "average_precision."  # the prefix of its metric's name


class LabelPhase(GroupPhase):
    """Losses rank along the last dimension: the examples of each class."""

    monitor = "mean_average_precision"

    def choose(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return self.train.truth.labels[rows]

    def compare(self, *values: Tensor, length: int) -> tuple[Tensor, Tensor]:
        outputs, labels = values
        return grouped(outputs, length).mT, grouped(labels, length).mT

    def measure(self, network: Any, outputs: Tensor) -> dict[str, float]:
        scores, (labels, difficult), weight = outputs.cpu(), self.val.truth, self.val.weight
        check_scores(scores)
        weights = None if weight is None else weight.unsqueeze(1).expand_as(scores)
        value = mean_average_precision(scores, labels, dim=-2, mask=~difficult, weights=weights)
        if bool(value.isnan()):
            raise ValueError(
                "no class has a positive validation example that is not difficult, so mean average precision is "
                "undefined: expected examples with labels"
            )
        return {self.monitor: value.item()}


class MultiLabel(TwoPhases):
    """Score each label of an example; a sorter ranks the examples of each class.

    A truth is `rankgrad.datasets.files.splits.Labels`.
    """

    title = "Multi-label classification"
    metrics = (Metric("mean_average_precision", "mAP"),)
    learns = ("labels",)
    judged = "labels"
    reads = Reads(("labels",), labels_of, optional=("difficult",))
    phase = LabelPhase

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        return network_of("network", model, split, seed=seed, task=self.name, outputs=split.truth.labels.shape[1])

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per example: `id`, `scores`, `labels` (0/1) and `difficult`."""
        return self.table_of(split, self.outputs(network, split.inputs))

    def table_of(self, split: Split, scores: Tensor) -> pa.Table:
        check_finite(scores, "scores")
        columns = {"scores": scores, **split.truth._asdict()}
        return split.table({name: as_lists(values) for name, values in columns.items()})

    def scored(self, table: pa.Table) -> Statistic:
        """Return mean average precision, NaN without any positive, then the value of each class that has a positive."""
        scores, labels, difficult = (
            matrix(table, column, path="predictions") for column in ("scores", "labels", "difficult")
        )
        mask = ~difficult.bool()
        has_positives = (labels.bool() & mask).any(0)
        row_weight = weight_of(table)
        weight = torch.ones(len(scores), dtype=torch.float64) if row_weight is None else torch.from_numpy(row_weight)
        precisions = _average_precisions(
            scores[:, has_positives], labels[:, has_positives].bool(), mask[:, has_positives]
        )

        def of_rows(rows: np.ndarray) -> np.ndarray:
            """Average over classes; leave out a class without positives in a resample."""
            metrics = []
            for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1])).split(RESAMPLES):
                counts = torch.zeros(len(chosen), len(scores), dtype=torch.float64)
                each = precisions(counts.scatter_add_(1, chosen, weight[chosen]))  # (resamples, classes)
                metrics.append(torch.cat([each.nanmean(1, keepdim=True), each], dim=1))
            return torch.cat(metrics).T.numpy().reshape(-1, *rows.shape[:-1])

        names = [f"{OF_CLASS}{label}" for label in has_positives.nonzero().flatten().tolist()]
        return Statistic([self.metrics[0].name, *names], len(scores), of_rows)

    def lists(self, table: pa.Table) -> Iterator[Lists]:
        """Yield a list of all rows for each class that has positives; difficult rows do not count."""
        scores, labels, difficult = (
            matrix(table, column, path="predictions") for column in ("scores", "labels", "difficult")
        )
        labels, mask = labels.bool(), ~difficult.bool()
        classes = (labels & mask).any(0)
        yield Lists(scores[:, classes].mT, labels[:, classes].mT, mask[:, classes].mT)

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return the `scores` of each row, one per label, and the `labels`, the highest score first.

        Training makes the scores of one label comparable between rows.
        """
        scores = self.outputs(network, inputs)
        orders = scores.argsort(dim=1, descending=True, stable=True).tolist()
        return [
            {"labels": named(order, network.recipe), "scores": row}
            for order, row in zip(orders, scores.tolist(), strict=True)
        ]

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        classes = {}
        for row in examples.metrics:
            if row.metric.startswith(OF_CLASS):
                classes[int(row.metric.removeprefix(OF_CLASS))] = row.interval
        counts = np.stack(examples.predicted("labels")["labels"].to_numpy()).sum(0)
        plots.average_precisions(path, classes, counts, examples.classes)
        return True


def _average_precisions(scores: Tensor, labels: Tensor, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the average precision of each class as a function of how often each example counts.

    Each class is sorted only once, not for each resample. `rankgrad.metrics.mean_average_precision` has the definition.

    Args:
        scores, labels, mask: (n, C); labels and mask are boolean.

    Returns:
        A function of counts (resamples, n), float64, to (resamples, C), NaN for a class whose positives have none.
    """
    classes = []
    for score, label, counted in zip(scores.double().T, labels.T, mask.T, strict=True):
        rows = counted.nonzero().flatten()
        ascending, order = (-score[rows]).sort()
        positive = label[rows[order]].nonzero().flatten()
        # Where each positive's group of equal scores ends, among all and among positives.
        last = torch.searchsorted(ascending, ascending[positive], right=True) - 1
        classes.append((rows[order], positive, last, torch.searchsorted(positive, last, right=True) - 1))

    def of_counts(counts: Tensor) -> Tensor:
        precisions = []
        for order, positive, last, last_positive in classes:
            ordered = counts[:, order]
            relevant = ordered[:, positive]
            precision = relevant.cumsum(1)[:, last_positive] / ordered.cumsum(1)[:, last]
            precisions.append((relevant * precision.nan_to_num()).sum(1) / relevant.sum(1))
        return torch.stack(precisions, dim=1) if precisions else counts.new_empty(len(counts), 0)

    return of_counts
