"""Multi-label classification: which labels an image has, judged by mean average precision (SoDeep, Section 4.2.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checks import check_finite, check_scores
from rankops.io.checkpoints import load_model, save_model
from rankops.io.parquet import as_batch, as_lists, decode_images, matrix, read_table
from rankops.metrics.evaluation import Figures
from rankops.metrics.mean_average_precision import average_precision, mean_average_precision
from rankops.training import finetune
from rankops.training.finetune import HISTORIES, embedded
from rankops.training.loop import Epoch
from rankops.training.objective import grouped

__all__ = ["HISTORIES", "JUDGED_BY", "Classifier", "figures", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "mean_average_precision"

Split = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Classifier:
    """A network with one output a label, in evaluation mode."""

    network: nn.Module

    def __call__(self, images: Tensor) -> Tensor:
        """Scores (n, C) of images (n, [3,] height, width) uint8; on the CPU."""
        return self.network.head(embedded(self.network, as_batch(images))).detach().float().cpu()


def load_split(folder: str | Path, split: str, *, threads: int) -> Split:
    """Images (n, [3,] height, width) uint8, labels (n, C) 0/1, and which of them are difficult (n, C) boolean.

    Difficult labels are positive in training and skipped in average precision (VOC's rule).

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or a label is neither 0 nor 1.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "labels", "difficult"])
    labels, difficult = (matrix(read, name, path=path) for name in ("labels", "difficult"))
    if ((labels != 0) & (labels != 1)).any():
        row, label = ((labels != 0) & (labels != 1)).nonzero()[0].tolist()
        raise ValueError(f"{path}: row {row}: label {label} is {labels[row, label].item()}, expected 0 or 1")
    return torch.from_numpy(decode_images(read["image"], path=path, threads=threads)), labels, difficult.bool()


def train(
    train_split: Split,
    val_split: Split,
    *,
    model: dict[str, Any],
    loss: dict[str, Any],
    training: dict[str, Any],
    seed: int,
    name: str = "multilabel",
    **options: Any,
) -> Iterator[tuple[str, Epoch, Classifier]]:
    """Trains a network with one output a label.

    A loss that takes a sorter ranks the examples of each class: in groups of the sorter's length, or the whole batch
    where that is any.

    Args:
        train_split, val_split: as from `load_split`; moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        training: `batch_size`, `head` and `everything`, see `rankops.training.finetune.train`.
        seed: of all random choices.
        name: for messages.
        options: `start`, `sorter`, `fine_tune`, `beside`, `device`, `precision`, `checkpoint` and `features`, see
            `rankops.training.finetune.train`.

    Yields:
        `head` or `everything`, the epoch, and the network with the weights of its best epoch (complete once the
        iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.loop.fit`; no validation image has any label.
    """
    images, labels, _ = train_split
    val_images, val_labels, val_difficult = val_split

    def draw(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return rows, labels[rows]

    def compared(network: nn.Module, outputs: Tensor, wanted: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return grouped(outputs, length), grouped(wanted.to(outputs.device), length)

    def validated(network: nn.Module, outputs: Tensor) -> dict[str, float]:
        scores = outputs.float().cpu()
        check_scores(scores)
        return {JUDGED_BY: mean_average_precision(scores, val_labels, mask=~val_difficult).item()}

    for step, epoch, network in finetune.train(
        model=model, outputs={"outputs": labels.shape[1]}, loss=loss, training=training, rows=len(images),
        images=as_batch(images), val_images=as_batch(val_images), draw=draw, compared=compared, figures=validated,
        judged_by=JUDGED_BY, seed=seed, name=name, **options,
    ):  # fmt: skip
        yield step, epoch, Classifier(network)


def save(path: str | Path, classifier: Classifier) -> None:
    """Writes the network below `path`, so that `load(path)` rebuilds it."""
    save_model(Path(path) / "network", classifier.network)


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Classifier:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.io.checkpoints.load_model`.
    """
    return Classifier(load_model(Path(path) / "network", device=device))


def predictions(classifier: Classifier, split: Split) -> pa.Table:
    """One row an image: `id`, `scores`, `labels` (0/1) and `difficult`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    images, labels, difficult = split
    scores = classifier(images)
    check_finite(scores, "scores")
    columns = {"scores": scores, "labels": labels, "difficult": difficult}
    return pa.table(
        {"id": pa.array(range(len(images)), pa.int64())} | {name: as_lists(part) for name, part in columns.items()}
    )


def figures(table: pa.Table, split: Split) -> Figures:
    """Mean average precision of a table of `predictions`, and that of each class that has a positive, by number.

    Args:
        table: from `predictions`.
        split: the labels are in the table; given for the tasks' common form.

    Raises:
        ValueError: no class has a positive.
    """
    scores, labels, difficult = (matrix(table, name, path="predictions") for name in ("scores", "labels", "difficult"))
    known = (labels.bool() & ~difficult).any(0)
    mean_average_precision(scores, labels, mask=~difficult)  # refuses what has no positive at all

    def of_rows(rows: np.ndarray) -> np.ndarray:
        """A class that lost its positives in a resample has none of its own, and does not count in the mean."""
        found = []
        for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1])):
            precision = average_precision(scores[chosen], labels[chosen], mask=~difficult[chosen])
            found.append(torch.cat([precision.nanmean().view(1), precision[known]]))
        return torch.stack(found, dim=1).numpy().reshape(-1, *rows.shape[:-1])

    names = [f"average_precision.{label}" for label in known.nonzero().flatten().tolist()]
    return Figures([JUDGED_BY, *names], len(scores), of_rows)
