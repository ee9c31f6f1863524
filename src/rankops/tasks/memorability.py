"""Memorability: a score for each image or clip, judged by the order of the scores alone (SoDeep, Section 4.2.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checkpoints import build, load_model, save_model, start_from
from rankops.criterion import Criterion, grouped
from rankops.intervals import interval
from rankops.metrics.spearman import spearman
from rankops.ranks import check_scores
from rankops.tables import as_batch, decode_images, read_table
from rankops.training import Epoch, compute, random_batches
from rankops.transfer import embedded, head_then_all

__all__ = ["Regressor", "evaluate", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "spearman"
HISTORIES = {"everything": "history.csv", "head": "head_history.csv"}


@dataclass(frozen=True)
class Regressor:
    """A network with one output, in evaluation mode."""

    network: nn.Module

    def __call__(self, frames: Tensor) -> Tensor:
        """Scores (n,) of clips (n, frames, [3,] height, width) uint8: the mean of their frames' outputs; on the CPU."""
        count = frames.shape[1]
        outputs = self.network.head(embedded(self.network, as_batch(frames.flatten(0, 1))))
        return outputs.detach().float().cpu().view(-1, count).mean(1)


def load_split(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Frames (n, frames, [3,] height, width) uint8 and scores (n,) float32 of a split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, clips differ in length, or a score is not finite.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["frames", "score"])
    frames, target = read["frames"].combine_chunks(), torch.from_numpy(read["score"].to_numpy().astype(np.float32))
    lengths = np.diff(frames.offsets) if hasattr(frames, "offsets") else np.full(len(frames), frames.type.list_size)
    if len(lengths) and (lengths[0] == 0 or (lengths != lengths[0]).any()):
        row = int((lengths != max(lengths[0], 1)).argmax())
        expected = f"{lengths[0]} as in row 0" if lengths[0] else "at least one"
        raise ValueError(f"{path}: row {row}: {lengths[row]} frames, expected {expected}")
    if not torch.isfinite(target).all():
        row = int((~torch.isfinite(target)).nonzero()[0])
        raise ValueError(f"{path}: row {row}: score is {target[row].item()}, expected a number")
    images = decode_images(pa.chunked_array([frames.flatten()]), path=path, threads=threads)
    return torch.from_numpy(images).unflatten(0, (len(lengths), -1)), target


def train(
    train_split: tuple[Tensor, Tensor],
    val_split: tuple[Tensor, Tensor],
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
    name: str = "memorability",
) -> Iterator[tuple[str, Epoch, Regressor]]:
    """Trains a network on single frames, one of each clip in an epoch; validated on the mean of all frames.

    A loss that takes a sorter sees the batch in groups of the sorter's length, or whole where that is any.

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
        ValueError, FloatingPointError: see `rankops.training.fit`; all validation scores are equal.
    """
    frames, target = train_split
    val_frames, val_target = val_split
    if bool((val_target == val_target[0]).all()):
        raise ValueError(
            f"{name}: all {len(val_target)} validation scores are {val_target[0].item():g}, where Spearman is "
            "undefined: give it clips that differ"
        )
    place = compute(device=device, precision=precision).device
    target = target.to(place)
    count = frames.shape[1]
    images, val_images = as_batch(frames.flatten(0, 1)), as_batch(val_frames.flatten(0, 1))
    network = build("models", model["name"], model["args"], seed=seed, outputs=1, colours=images.shape[1])
    if start is not None:
        start_from(network, start)
    criterion = Criterion(
        loss, sorter=None if sorter is None else sorter.to(place), fine_tune=fine_tune, beside=beside
    )  # fmt: skip
    size, group = training["batch_size"], criterion.length

    def batches(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in random_batches(len(frames), size, generator, multiple_of=group or 1):
            chosen = torch.randint(count, (len(rows),), generator=generator)
            yield rows * count + chosen, rows.to(place)

    def batch_loss(outputs: Tensor, rows: Tensor, epoch: int) -> Tensor:
        length = group or len(rows)
        return criterion(grouped(outputs.squeeze(1), length), grouped(target[rows], length), epoch=epoch)

    def figures(outputs: Tensor) -> dict[str, float]:
        scores = outputs.float().cpu().view(-1, count).mean(1)
        check_scores(scores)
        # A network that gives every clip the same has no order: it is no better than chance.
        constant = bool((scores == scores[0]).all())
        return {"spearman": 0.0 if constant else spearman(scores, val_target).item()}

    regressor = Regressor(network)
    for step, epoch in head_then_all(
        network, images=images, val_images=val_images, batches=batches, batches_per_epoch=-(-len(frames) // size),
        loss=batch_loss, figures=figures, judged_by=JUDGED_BY, head=None if start is None else training["head"],
        everything=training["everything"], seed=seed, device=device, precision=precision, checkpoint=checkpoint,
        state=criterion.state, features=features, name=name,
    ):  # fmt: skip
        yield step, epoch, regressor
    network.eval()


def save(path: str | Path, regressor: Regressor) -> None:
    """Writes the network below `path`, so that `load(path)` rebuilds it."""
    save_model(Path(path) / "network", regressor.network, **regressor.network.recipe)


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Regressor:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.checkpoints.load_model`.
    """
    return Regressor(load_model(Path(path) / "network").to(device, memory_format=torch.channels_last))


def predictions(regressor: Regressor, split: tuple[Tensor, Tensor]) -> pa.Table:
    """One row a clip: `id`, `score` (only its order means something) and `target`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    frames, target = split
    scores = regressor(frames)
    if not torch.isfinite(scores).all():
        row = int((~torch.isfinite(scores)).nonzero()[0])
        raise FloatingPointError(f"row {row}: a predicted score is not finite: {scores[row].item()}")
    return pa.table(
        {"id": pa.array(range(len(frames)), pa.int64()), "score": scores.numpy(), "target": target.cpu().numpy()}
    )


def _spearman(scores: np.ndarray, target: np.ndarray, axis: int = -1) -> np.ndarray:
    """Of each resample (..., n); NaN for one whose scores or targets are all equal."""
    constant = (np.ptp(scores, axis=-1) == 0) | (np.ptp(target, axis=-1) == 0)
    found = np.full(scores.shape[:-1], np.nan)
    if not constant.all():
        chosen = [torch.from_numpy(values[~constant]) for values in (scores, target)]
        found[~constant] = spearman(*chosen).numpy()
    return found


def evaluate(table: pa.Table, split: tuple[Tensor, Tensor], *, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
    """Spearman's correlation of a table of `predictions`, with its 95 % bootstrap interval.

    Args:
        table: from `predictions`.
        split: the true scores are in the table; given for the tasks' common form.
        resamples, seed: of the bootstrap.

    Raises:
        ValueError: scores or targets are all equal.
    """
    columns = [table[name].to_numpy().astype(np.float64) for name in ("score", "target")]
    spearman(*map(torch.from_numpy, columns))  # refuses what has no order
    make = partial(interval, statistic=_spearman, resamples=resamples, generator=np.random.default_rng(seed))
    return {"spearman": make(*columns)}
