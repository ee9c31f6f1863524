"""Score ranking: a number for each example, judged by the order of the scores alone (SoDeep, Section 4.2.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.bootstrap import Statistic
from rankops.checks import check_finite, check_scores
from rankops.datasets.files.splits import Split, target_of
from rankops.inputs._base import Inputs
from rankops.metrics.mean_average_precision import average_precision
from rankops.metrics.spearman import spearman
from rankops.tasks._base import Metric, Task
from rankops.training.finetune import ProbeAndFinetune
from rankops.training.objective import grouped
from rankops.training.options import Training

__all__ = ["ScoreRanking"]


@dataclass(frozen=True, kw_only=True)
class ScoreTraining(Training):
    """What losses learn from, and what they compare.

    `positives`: which share of the largest training targets counts as positive, for losses on labels; or None.
    `list_length`: a batch is of lists of so many rows of one group (the column `group`), and only rows of a list are
    compared; None for all rows of a batch.
    """

    positives: float | None = None
    list_length: int | None = None
    monitor: Literal["spearman", "average_precision"] = "spearman"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positives is not None and not 0 < self.positives < 1:
            raise ValueError(f"positives is {self.positives}, expected a share between 0 and 1, or null")
        if self.positives is None and self.monitor == "average_precision":
            raise ValueError("monitor is average_precision, which needs positives, such as 0.1 for the top 10 %")
        if self.list_length is not None and (self.list_length < 2 or self.batch_size % self.list_length):
            raise ValueError(
                f"list_length is {self.list_length}, expected at least 2, and batch_size ({self.batch_size}) a multiple"
            )


class ScoreRanking(ProbeAndFinetune, Task):
    """Score examples: of clips one frame in an epoch, and the mean of all frames when predicting.

    With `positives` a loss on labels learns which examples are above a threshold, that of the training targets; it is
    kept in the network's recipe, and average precision is measured too.

    Targets that are not all from 0 to 1 are standardized for the losses, by mean and deviation of the training's: a
    network begins near 0, and a loss on their values would not get to prices of thousands. Their order stays.

    A truth is targets (n,) float32.
    """

    name, title = "score_ranking", "Score ranking"
    monitor = "spearman"
    metrics = (Metric("spearman", "Spearman"),)
    truth = ("target",)
    learns_from = ("target",)
    read = staticmethod(target_of)
    Training = ScoreTraining

    @classmethod
    def learns(cls, training: Mapping[str, Any]) -> tuple[str, ...]:
        return cls.truth if training.get("positives") is None else (*cls.truth, "labels")

    def given(self, split: Split) -> dict[str, Any]:
        return {"outputs": 1}

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        network = super().build(model, split, seed=seed)
        if (share := self.training.get("positives")) is not None:
            network.recipe["threshold"] = split.truth.double().quantile(1 - share).item()
            if bool((split.truth >= network.recipe["threshold"]).all()):
                raise ValueError(
                    f"positives is {share}, by which all {len(split)} training targets are: choose another"
                )
        target = split.truth.double()
        if bool(((target < 0) | (target > 1)).any()):
            deviation = target.std(correction=0).item()
            network.recipe["target"] = {"mean": target.mean().item(), "deviation": deviation or 1.0}
        return network

    def begin(self, network: Any, phase: str, train: Split, val: Split, **options: Any) -> tuple[Any, Any, Any]:
        if bool((val.truth == val.truth[0]).all()):
            raise ValueError(
                f"all {len(val)} validation targets are {val.truth[0].item():g}, where Spearman is undefined: expected "
                "examples whose targets differ"
            )
        return super().begin(network, phase, train, val, **options)

    def together(self, split: Split) -> tuple[Tensor, int] | None:
        if (length := self.training.get("list_length")) is None:
            return None
        if split.about is None or "group" not in split.about.column_names:
            raise ValueError(
                f"list_length is {length}, but the training table has no column group: expected one, or null"
            )
        _, numbers, counts = np.unique(split.about["group"].to_pylist(), return_inverse=True, return_counts=True)
        if counts.max() < length:
            raise ValueError(f"list_length is {length}, but no group has more than {counts.max()} rows: choose less")
        return torch.from_numpy(numbers), length

    def length(self, objective: Any) -> int | None:
        length = self.training.get("list_length") or objective.length
        if objective.length not in (None, length):
            raise ValueError(f"list_length is {length}, expected {objective.length}, the sorter's length")
        return length

    def choose(self, split: Split, rows: Tensor, generator: torch.Generator) -> Tensor:
        return split.truth[rows]

    def compare(self, network: Any, outputs: Tensor, truth: Tensor, length: int) -> tuple[Tensor, Any]:
        scores, target = grouped(outputs.squeeze(1), length), grouped(truth.to(outputs.device), length)
        threshold = _threshold(network)
        # As float64: what differs by little may not become equal.
        learned = target if (scale := _recipe(network).get("target")) is None else _standardized(target, **scale)
        return scores, {"target": learned} | ({} if threshold is None else {"labels": target >= threshold})

    def weigh(self, weight: Tensor, scores: Tensor, length: int) -> Tensor:
        return grouped(weight, length)

    def measure(self, network: Any, outputs: Tensor, split: Split) -> dict[str, float]:
        scores = outputs.cpu().squeeze(1)
        check_scores(scores)
        # A network that gives every example the same score has no order: it is no better than chance.
        constant = bool((scores == scores[0]).all())
        found = {"spearman": 0.0 if constant else spearman(scores, split.truth, weights=split.weight).item()}
        if (threshold := _threshold(network)) is not None:
            precision = average_precision(scores, split.truth >= threshold, weights=split.weight)
            found["average_precision"] = precision.nan_to_num().item()
        return found

    def scores(self, network: Any, inputs: Inputs) -> Tensor:
        """Return the score of each row, (n,) on the CPU."""
        return self.outputs(network, inputs).squeeze(1)

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row a row: `id`, `score` (only its order means something) and `target`.

        `positive` says which targets are above the threshold, where the network has one.
        """
        scores, target = self.scores(network, split.inputs), split.truth
        check_finite(scores, "score")
        columns = {"score": pa.array(scores.numpy()), "target": pa.array(target.cpu().numpy())}
        if (threshold := _threshold(network)) is not None:
            columns["positive"] = pa.array((target >= threshold).numpy())
        return split.table(columns)

    def scored(self, table: pa.Table) -> Statistic:
        """Return Spearman's correlation, and average precision where it is known which examples are positive.

        Raises:
            ValueError: scores or targets are all equal.
        """
        score, target, *weight = (
            torch.from_numpy(table[name].to_numpy().astype(np.float64))
            for name in ("score", "target", *(["weight"] if "weight" in table.column_names else []))
        )
        spearman(score, target)  # raises where there is no order
        names, positive = ["spearman"], None
        if "positive" in table.column_names:
            names, positive = [*names, "average_precision"], torch.from_numpy(np.array(table["positive"].to_pylist()))

        def of_rows(rows: np.ndarray) -> np.ndarray:
            weights = weight[0][rows] if weight else None
            found = [spearman(score[rows], target[rows], weights=weights)]
            if positive is not None:
                found.append(average_precision(score[rows], positive[rows], weights=weights))
            return torch.stack(found).numpy()

        return Statistic(names, len(score), of_rows)

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return the `score` of each row."""
        return [{"score": score} for score in self.scores(network, inputs).tolist()]


def _recipe(network: Any) -> Mapping[str, Any]:
    return getattr(getattr(network, "_orig_mod", network), "recipe", {})


def _standardized(target: Tensor, *, mean: float, deviation: float) -> Tensor:
    return (target.double() - mean) / deviation


def _threshold(network: Any) -> float | None:
    return _recipe(network).get("threshold")
