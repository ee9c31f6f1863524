"""Multi-label classification: which labels an image has, judged by mean average precision (SoDeep, Section 4.2.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checkpoints import build, load_model, save_model, start_from
from rankops.criterion import Criterion, grouped
from rankops.intervals import intervals
from rankops.metrics.mean_average_precision import average_precision, mean_average_precision
from rankops.ranks import check_scores
from rankops.tables import as_batch, as_lists, decode_images, matrix, read_table
from rankops.training import Epoch, compute, random_batches
from rankops.transfer import embedded, head_then_all

__all__ = ["Classifier", "evaluate", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "mean_average_precision"
HISTORIES = {"everything": "history.csv", "head": "head_history.csv"}

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
    start: str | Path | None = None,
    sorter: nn.Module | None = None,
    fine_tune: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    features: dict[str, Tensor] | None = None,
    name: str = "multilabel",
) -> Iterator[tuple[str, Epoch, Classifier]]:
    """Trains a network with one output a label.

    A loss that takes a sorter ranks the examples of each class: in groups of the sorter's length, or the whole batch
    where that is any.

    Args:
        train_split, val_split: as from `load_split`; moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        training: `batch_size`, `head` and `everything`, see `rankops.transfer.head_then_all`.
        seed: of all random choices.
        start: weights to start from, see `rankops.checkpoints.start_from`; without it the first step is left out.
        sorter, fine_tune, beside: see `rankops.criterion.Criterion`.
        device, precision: see `rankops.training.compute`.
        checkpoint: folder for the state of a training that may be killed.
        features: see `rankops.transfer.head_then_all`.
        name: for messages.

    Yields:
        `head` or `everything`, the epoch, and the network with the weights of its best epoch (complete once the
        iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.fit`; no validation image has any label.
    """
    images, labels = as_batch(train_split[0]), train_split[1]
    val_images, val_labels, val_difficult = as_batch(val_split[0]), *val_split[1:]
    place = compute(device=device, precision=precision).device
    labels = labels.to(place)
    network = build(
        "models", model["name"], model["args"], seed=seed, outputs=labels.shape[1], colours=images.shape[1]
    )  # fmt: skip
    if start is not None:
        start_from(network, start)
    criterion = Criterion(
        loss, sorter=None if sorter is None else sorter.to(place), fine_tune=fine_tune, beside=beside
    )  # fmt: skip
    size, group = training["batch_size"], criterion.length

    def batches(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in random_batches(len(images), size, generator, multiple_of=group or 1):
            yield rows, rows.to(place)

    def batch_loss(outputs: Tensor, rows: Tensor, epoch: int) -> Tensor:
        length = group or len(rows)
        return criterion(grouped(outputs, length), grouped(labels[rows], length), epoch=epoch)

    def figures(outputs: Tensor) -> dict[str, float]:
        scores = outputs.float().cpu()
        check_scores(scores)
        return {JUDGED_BY: mean_average_precision(scores, val_labels, difficult=val_difficult).item()}

    classifier = Classifier(network)
    for step, epoch in head_then_all(
        network, images=images, val_images=val_images, batches=batches, batches_per_epoch=-(-len(images) // size),
        loss=batch_loss, figures=figures, judged_by=JUDGED_BY, head=None if start is None else training["head"],
        everything=training["everything"], seed=seed, device=device, precision=precision, checkpoint=checkpoint,
        state=criterion.state, features=features, name=name,
    ):  # fmt: skip
        yield step, epoch, classifier
    network.eval()


def save(path: str | Path, classifier: Classifier) -> None:
    """Writes the network below `path`, so that `load(path)` rebuilds it."""
    save_model(Path(path) / "network", classifier.network, **classifier.network.recipe)


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Classifier:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.checkpoints.load_model`.
    """
    return Classifier(load_model(Path(path) / "network").to(device, memory_format=torch.channels_last))


def predictions(classifier: Classifier, split: Split) -> pa.Table:
    """One row an image: `id`, `scores`, `labels` (0/1) and `difficult`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    images, labels, difficult = split
    scores = classifier(images)
    if not torch.isfinite(scores).all():
        row = int((~torch.isfinite(scores)).any(1).nonzero()[0])
        raise FloatingPointError(f"row {row}: a predicted score is not finite: {scores[row].tolist()}")
    columns = {"scores": scores, "labels": labels, "difficult": difficult}
    return pa.table(
        {"id": pa.array(range(len(images)), pa.int64())} | {name: as_lists(part) for name, part in columns.items()}
    )


def evaluate(table: pa.Table, split: Split, *, resamples: int, seed: int) -> dict[str, Any]:
    """Mean average precision of a table of `predictions`, and that of each class, with 95 % bootstrap intervals.

    Args:
        table: from `predictions`.
        split: the labels are in the table; given for the tasks' common form.
        resamples, seed: of the bootstrap.

    Returns:
        `mean_average_precision`, and `average_precision` with a figure for each class that has a positive, by number.

    Raises:
        ValueError: no class has a positive.
    """
    scores, labels, difficult = (matrix(table, name, path="predictions") for name in ("scores", "labels", "difficult"))
    known = (labels.bool() & ~difficult).any(0)
    mean_average_precision(scores, labels, difficult=difficult)  # refuses what has no positive at all

    def of_rows(rows: np.ndarray, axis: int = -1) -> np.ndarray:
        """Of each resample of row numbers (..., n): the mean, and each class; NaN for one that lost its positives."""
        found = []
        for chosen in torch.from_numpy(rows.reshape(-1, rows.shape[-1]).astype(np.int64)):
            precision = average_precision(scores[chosen], labels[chosen], difficult=difficult[chosen])
            found.append(torch.cat([precision.nanmean().view(1), precision[known]]))
        return torch.stack(found, dim=1).numpy().reshape(-1, *rows.shape[:-1])

    figures = intervals(
        np.arange(len(scores), dtype=np.float64), statistic=of_rows, resamples=resamples,
        generator=np.random.default_rng(seed),
    )  # fmt: skip
    names = [str(label) for label in known.nonzero().flatten().tolist()]
    return {JUDGED_BY: figures[0], "average_precision": dict(zip(names, figures[1:], strict=True))}
