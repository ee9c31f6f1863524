"""Multi-label classification: which labels an image has, judged by mean average precision (SoDeep, Section 4.2.2)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.checks import check_finite, check_scores
from rankops.datasets.splits import read_labels
from rankops.io.parquet import as_batch, as_lists, matrix
from rankops.metrics.bootstrap import Statistic
from rankops.metrics.mean_average_precision import mean_average_precision
from rankops.tasks.base import Metric
from rankops.tasks.predict import of_row, picture_of
from rankops.training.finetune import ProbeAndFinetune
from rankops.training.objective import grouped

__all__ = ["MultiLabel"]

Split = tuple[Tensor, Tensor, Tensor]
RESAMPLES = 64  # scored at once


class MultiLabel(ProbeAndFinetune):
    """Score each label of an image; a sorter ranks the examples of each class.

    A split is images (n, [3,] height, width) uint8, labels (n, C) 0/1, and which of them are difficult (n, C) boolean.
    """

    name, title = "multilabel", "Multi-label classification"
    monitor = "mean_average_precision"
    metrics = (Metric("mean_average_precision", "mAP"),)
    columns: ClassVar = {"image": "image"}
    truth = ("labels",)
    learns_from = ("image", "labels", "difficult")

    def load(self, folder: str | Path, split: str, *, threads: int) -> Split:
        return read_labels(folder, split, threads=threads)

    def images(self, split: Split) -> Tensor:
        return as_batch(split[0])

    def outputs(self, split: Split) -> dict[str, Any]:
        return {"outputs": split[1].shape[1]}

    def choose(self, split: Split, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return rows, split[1][rows]

    def compare(self, network: Any, outputs: Tensor, truth: Tensor, length: int) -> tuple[Tensor, Tensor]:
        # Losses rank along the last dimension: the examples of each class.
        return grouped(outputs, length).mT, grouped(truth.to(outputs.device), length).mT

    def measure(self, network: Any, outputs: Tensor, split: Split) -> dict[str, float]:
        scores = outputs.float().cpu()
        check_scores(scores)
        return {self.monitor: mean_average_precision(scores, split[1], dim=-2, mask=~split[2]).item()}

    def scores(self, network: Any, images: Tensor) -> Tensor:
        """Return scores (n, C) of images (n, [3,] height, width), on the CPU."""
        return network.head(self.features(network, as_batch(images))).detach().float().cpu()

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row an image: `id`, `scores`, `labels` (0/1) and `difficult`."""
        images, labels, difficult = split
        scores = self.scores(network, images)
        check_finite(scores, "scores")
        columns = {"scores": scores, "labels": labels, "difficult": difficult}
        ids = pa.array(range(len(images)), pa.int64())
        return pa.table({"id": ids} | {name: as_lists(part) for name, part in columns.items()})

    def statistic(self, table: pa.Table) -> Statistic:
        """Return mean average precision, and that of each class that has a positive, by number.

        Raises:
            ValueError: no class has a positive.
        """
        scores, labels, difficult = (
            matrix(table, column, path="predictions") for column in ("scores", "labels", "difficult")
        )
        mask = ~difficult.bool()
        known = (labels.bool() & mask).any(0)
        mean_average_precision(scores, labels, dim=-2, mask=mask)  # raises where there is no positive at all

        precisions = _average_precisions(scores[:, known], labels[:, known].bool(), mask[:, known])

        def of_rows(rows: np.ndarray) -> np.ndarray:
            """A class that lost its positives in a resample has no value, and does not count in the mean."""
            found = []
            for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1])).split(RESAMPLES):
                counts = torch.zeros(len(chosen), len(scores), dtype=torch.float64)
                each = precisions(counts.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=counts.dtype)))
                found.append(torch.cat([each.nanmean(1, keepdim=True), each], dim=1))
            return torch.cat(found).T.numpy().reshape(-1, *rows.shape[:-1])

        names = [f"average_precision.{label}" for label in known.nonzero().flatten().tolist()]
        return Statistic([self.monitor, *names], len(scores), of_rows)

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return the `scores` of each row's `image`, one a label; only their order over images means something."""
        answers = []
        for number, row in enumerate(rows, first):
            with of_row(number):
                image = picture_of(network, row["image"], where=f"row {number}")
                answers.append({"scores": self.scores(network, image)[0].tolist()})
        return answers


def _average_precisions(scores: Tensor, labels: Tensor, mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the average precision of each class as a function of how often each example counts.

    Each class is sorted once, and not in each resample. See `rankops.metrics.mean_average_precision` for what it is.

    Args:
        scores, labels, mask: (n, C); labels and mask are boolean.

    Returns:
        A function of counts (resamples, n), float64, to (resamples, C), NaN for a class whose positives have none.
    """
    classes = []
    for score, label, there in zip(scores.double().T, labels.T, mask.T, strict=True):
        rows = there.nonzero().flatten()
        ascending, order = (-score[rows]).sort()
        positive = label[rows[order]].nonzero().flatten()
        # Where each positive's group of equal scores ends, among all and among positives.
        last = torch.searchsorted(ascending, ascending[positive], right=True) - 1
        classes.append((rows[order], positive, last, torch.searchsorted(positive, last, right=True) - 1))

    def of_counts(counts: Tensor) -> Tensor:
        found = []
        for order, positive, last, last_positive in classes:
            ordered = counts[:, order]
            relevant = ordered[:, positive]
            precision = relevant.cumsum(1)[:, last_positive] / ordered.cumsum(1)[:, last]
            found.append((relevant * precision.nan_to_num()).sum(1) / relevant.sum(1))
        return torch.stack(found, dim=1)

    return of_counts
