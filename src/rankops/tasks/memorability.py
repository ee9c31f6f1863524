"""Memorability: a score for each image or clip, judged by the order of the scores alone (SoDeep, Section 4.2.1)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.checks import check_finite, check_scores
from rankops.datasets.splits import read_clips
from rankops.io.parquet import as_batch
from rankops.metrics.bootstrap import Statistic
from rankops.metrics.spearman import spearman
from rankops.tasks.base import Metric
from rankops.tasks.predict import of_row, pictures_of
from rankops.training.finetune import ProbeAndFinetune
from rankops.training.objective import grouped

__all__ = ["Memorability"]

Split = tuple[Tensor, Tensor]


class Memorability(ProbeAndFinetune):
    """Score clips by a network on single frames: one frame of each clip in an epoch, the mean of all when predicting.

    A split is frames (n, frames, [3,] height, width) uint8 and scores (n,) float32.
    """

    name, title = "memorability", "Memorability"
    monitor = "spearman"
    metrics = (Metric("spearman", "Spearman"),)
    columns: ClassVar = {"frames": "images"}
    truth = ("target",)
    learns_from = ("frames", "target")

    def load(self, folder: str | Path, split: str, *, threads: int) -> Split:
        return read_clips(folder, split, threads=threads)

    def images(self, split: Split) -> Tensor:
        return as_batch(split[0].flatten(0, 1))

    def outputs(self, split: Split) -> dict[str, Any]:
        return {"outputs": 1}

    def begin(self, network: Any, phase: str, train: Split, val: Split, **options: Any) -> tuple[Any, Any, Any]:
        if bool((val[1] == val[1][0]).all()):
            raise ValueError(
                f"all {len(val[1])} validation scores are {val[1][0].item():g}, where Spearman is undefined: expected "
                "clips whose scores differ"
            )
        return super().begin(network, phase, train, val, **options)

    def choose(self, split: Split, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        count = split[0].shape[1]
        return rows * count + torch.randint(count, (len(rows),), generator=generator), split[1][rows]

    def compare(self, network: Any, outputs: Tensor, truth: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return grouped(outputs.squeeze(1), length), grouped(truth.to(outputs.device), length)

    def measure(self, network: Any, outputs: Tensor, split: Split) -> dict[str, float]:
        scores = outputs.float().cpu().view(-1, split[0].shape[1]).mean(1)
        check_scores(scores)
        # A network that gives every clip the same score has no order: it is no better than chance.
        constant = bool((scores == scores[0]).all())
        return {"spearman": 0.0 if constant else spearman(scores, split[1]).item()}

    def scores(self, network: Any, frames: Tensor) -> Tensor:
        """Return the score of each clip of frames (n, frames, [3,] height, width), (n,) on the CPU."""
        outputs = network.head(self.features(network, as_batch(frames.flatten(0, 1))))
        return outputs.detach().float().cpu().view(-1, frames.shape[1]).mean(1)

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row a clip: `id`, `score` (only its order means something) and `target`."""
        frames, target = split
        scores = self.scores(network, frames)
        check_finite(scores, "score")
        ids = pa.array(range(len(frames)), pa.int64())
        return pa.table({"id": ids, "score": scores.numpy(), "target": target.cpu().numpy()})

    def statistic(self, table: pa.Table) -> Statistic:
        """Return Spearman's correlation.

        Raises:
            ValueError: scores or targets are all equal.
        """
        score, target = (torch.from_numpy(table[name].to_numpy().astype(np.float64)) for name in ("score", "target"))
        spearman(score, target)  # raises where there is no order
        return Statistic(["spearman"], len(score), lambda rows: spearman(score[rows], target[rows]).numpy()[None])

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return the `score` of each row's `frames`."""
        answers = []
        for number, row in enumerate(rows, first):
            with of_row(number):
                frames = pictures_of(network, row["frames"], where=f"row {number}")
                answers.append({"score": self.scores(network, frames.unsqueeze(0)).item()})
        return answers
