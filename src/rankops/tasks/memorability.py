"""Memorability: a score for each image or clip, judged by the order of the scores alone (SoDeep, Section 4.2.1)."""

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
from rankops.io.parquet import IMAGE, as_batch, decode_images, read_table
from rankops.metrics.evaluation import Figures
from rankops.metrics.spearman import spearman
from rankops.training import finetune
from rankops.training.finetune import HISTORIES, embedded
from rankops.training.loop import Epoch
from rankops.training.objective import grouped

__all__ = ["HISTORIES", "JUDGED_BY", "Regressor", "figures", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "spearman"


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
    target = torch.from_numpy(read["score"].to_numpy().astype(np.float32))
    lengths = pa.compute.list_value_length(read["frames"]).fill_null(0).to_numpy()
    if len(lengths) and (lengths[0] == 0 or (lengths != lengths[0]).any()):
        row = int((lengths != max(lengths[0], 1)).argmax())
        expected = f"{lengths[0]} as in row 0" if lengths[0] else "at least one"
        raise ValueError(f"{path}: row {row}: {lengths[row]} frames, expected {expected}")
    if not torch.isfinite(target).all():
        row = int((~torch.isfinite(target)).nonzero()[0])
        raise ValueError(f"{path}: row {row}: score is {target[row].item()}, expected a number")
    every = pa.chunked_array([chunk.flatten() for chunk in read["frames"].chunks], type=IMAGE)
    images = decode_images(every, path=path, threads=threads)
    return torch.from_numpy(images).unflatten(0, (len(lengths), -1)), target


def train(
    train_split: tuple[Tensor, Tensor],
    val_split: tuple[Tensor, Tensor],
    *,
    model: dict[str, Any],
    loss: dict[str, Any],
    training: dict[str, Any],
    seed: int,
    name: str = "memorability",
    **options: Any,
) -> Iterator[tuple[str, Epoch, Regressor]]:
    """Trains a network on single frames, one of each clip in an epoch; validated on the mean of all frames.

    A loss that takes a sorter sees the batch in groups of the sorter's length, or whole where that is any.

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
        ValueError, FloatingPointError: see `rankops.training.loop.fit`; all validation scores are equal.
    """
    frames, target = train_split
    val_frames, val_target = val_split
    if bool((val_target == val_target[0]).all()):
        raise ValueError(
            f"{name}: all {len(val_target)} validation scores are {val_target[0].item():g}, where Spearman is "
            "undefined: give it clips that differ"
        )
    count = frames.shape[1]

    def draw(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return rows * count + torch.randint(count, (len(rows),), generator=generator), target[rows]

    def compared(network: nn.Module, outputs: Tensor, wanted: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return grouped(outputs.squeeze(1), length), grouped(wanted.to(outputs.device), length)

    def validated(network: nn.Module, outputs: Tensor) -> dict[str, float]:
        scores = outputs.float().cpu().view(-1, count).mean(1)
        check_scores(scores)
        # A network that gives every clip the same has no order: it is no better than chance.
        constant = bool((scores == scores[0]).all())
        return {"spearman": 0.0 if constant else spearman(scores, val_target).item()}

    for step, epoch, network in finetune.train(
        model=model, outputs={"outputs": 1}, loss=loss, training=training, rows=len(frames),
        images=as_batch(frames.flatten(0, 1)), val_images=as_batch(val_frames.flatten(0, 1)), draw=draw,
        compared=compared, figures=validated, judged_by=JUDGED_BY, seed=seed, name=name, **options,
    ):  # fmt: skip
        yield step, epoch, Regressor(network)


def save(path: str | Path, regressor: Regressor) -> None:
    """Writes the network below `path`, so that `load(path)` rebuilds it."""
    save_model(Path(path) / "network", regressor.network)


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Regressor:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.io.checkpoints.load_model`.
    """
    return Regressor(load_model(Path(path) / "network", device=device))


def predictions(regressor: Regressor, split: tuple[Tensor, Tensor]) -> pa.Table:
    """One row a clip: `id`, `score` (only its order means something) and `target`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    frames, target = split
    scores = regressor(frames)
    check_finite(scores, "score")
    return pa.table(
        {"id": pa.array(range(len(frames)), pa.int64()), "score": scores.numpy(), "target": target.cpu().numpy()}
    )


def _spearman(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Of each resample (..., n); NaN for one whose scores or targets are all equal."""
    return spearman(torch.from_numpy(scores), torch.from_numpy(target)).numpy()


def figures(table: pa.Table, split: tuple[Tensor, Tensor]) -> Figures:
    """Spearman's correlation of a table of `predictions`.

    Args:
        table: from `predictions`.
        split: the true scores are in the table; given for the tasks' common form.

    Raises:
        ValueError: scores or targets are all equal.
    """
    scores, target = (table[name].to_numpy().astype(np.float64) for name in ("score", "target"))
    spearman(torch.from_numpy(scores), torch.from_numpy(target))  # refuses what has no order
    return Figures(["spearman"], len(scores), lambda rows: _spearman(scores[rows], target[rows])[None])
