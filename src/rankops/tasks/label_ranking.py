"""Label ranking: which labels an example has, in order of importance (RLSEP)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.augmentation import warped
from rankops.bootstrap import Statistic
from rankops.checks import check_finite, check_scores
from rankops.datasets.files import splits
from rankops.datasets.files.splits import Split
from rankops.inputs._base import Inputs
from rankops.io.parquet import as_batch, as_lists, matrix
from rankops.metrics.label_ranking import ranked, unranked
from rankops.models.label_ranker import pooled
from rankops.ranks import dense_ranks
from rankops.tasks._base import Metric, Task
from rankops.tasks._predict import named, order_of
from rankops.training.finetune import network_of
from rankops.training.options import STRICT, Phase, WholePhase, check_bounds

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["LabelRanking", "label_ranks_of"]

AUGMENTATION = ("shift", "zoom", "rotation")
RATES = {"accuracy": "accuracy", "exact_match": "0-1", "precision": "precision", "recall": "recall", "f1": "F1"}


class Examples(NamedTuple):
    """A split on the device, from which the scorer learns: inputs and label ranks; `fresh` draws new ones."""

    inputs: Inputs
    label_ranks: Tensor
    weight: Tensor | None
    fresh: Callable[[int, torch.Generator], tuple[Tensor, Tensor]] | None = None

    def ahead(self, rows: Tensor) -> None:
        """Begin to read what the next batch takes."""
        if self.fresh is None:
            self.inputs.ahead(rows)


class Embeddings(NamedTuple):
    """A split as the frozen scorer sees it, from which the thresholds learn: embeddings, and the scores of each."""

    inputs: Inputs
    scores: Tensor
    label_ranks: Tensor
    weight: Tensor | None


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(WholePhase):
    """Options of the scorer's training; images are moved, zoomed and rotated at random."""

    batch_size: int
    shift: int = 0
    zoom: float = 1.0
    rotation: float = 0.0
    average: float | None = None
    monitor: Literal["accuracy", "exact_match"] = "accuracy"


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions(Phase):
    """Options of the thresholds' training."""

    batch_size: int
    hidden: int = 128


@dataclass(frozen=True, kw_only=True)
class Views:
    """Scores are means over so many views of each image."""

    __pydantic_config__: ClassVar = STRICT

    count: int
    shift: int = 0
    zoom: float = 1.0
    rotation: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of both phases; `fresh` draws new scenes for each batch of the scorer."""

    __pydantic_config__: ClassVar = STRICT

    scorer: ScorerOptions
    thresholds: ThresholdOptions
    views: Views | None = None
    fresh: bool = False


def label_ranks_of(scores: Tensor, selected: Tensor) -> Tensor:
    """Return label ranks of the selected labels by their scores: 0 = not selected, larger = more important.

    >>> label_ranks_of(torch.tensor([[0.5, -2.0, 3.0]]), torch.tensor([[True, False, True]]))
    tensor([[1, 0, 2]])
    """
    # dense_ranks ranks what is positive: each score's place among all of them is.
    places = torch.searchsorted(scores.sort(dim=-1).values, scores.contiguous()) + 1
    return dense_ranks(torch.where(selected, places, 0))


class LabelRanking(Task):
    """Train a scorer with a ranking loss, then thresholds on its frozen embedding that select labels.

    A truth is label ranks (n, K).

    Args:
        training: `scorer` (options of `rankops.training.loop.fit`, with `shift` and optionally `zoom` and `rotation`,
            see `rankops.augmentation.warped`; optionally `monitor`, `accuracy` (of pairs) or `exact_match`)
            and `thresholds` (the same options without these, and `hidden`); optionally `views`, see
            `rankops.models.label_ranker.LabelRanker`. None for a task that only predicts.
        fresh: draws so many new scenes, images (n, height, width) uint8 and label ranks (n, K), which the scorer learns
            from in place of the training split's.
        cache: unused; all tasks take one.
    """

    name, title = "label_ranking", "Label ranking"
    phases = ("scorer", "thresholds")
    lower_is_better = False
    metrics = (
        *(
            Metric(
                f"{kind}.{rate}",
                f"{kind} {title}",
                shown=(kind, rate) in {("ranked", "accuracy"), ("ranked", "exact_match"), ("unranked", "f1")},
            )
            for kind in ("ranked", "unranked")
            for rate, title in RATES.items()
        ),
        Metric("ranked.mean_average_precision", "ranked mAP"),
    )
    Training = Training
    truth = ("label_ranks",)
    learns_from = ("label_ranks",)
    read = staticmethod(splits.label_ranks_of)

    def __init__(
        self,
        training: dict[str, Any] | None = None,
        *,
        fresh: Callable[[int, torch.Generator], tuple[Tensor, Tensor]] | None = None,
        cache: Path | None = None,
    ):
        self.training, self.fresh = training or {}, fresh
        self.monitor = self.training.get("scorer", {}).get("monitor", "accuracy")

    @staticmethod
    def plan(training: Mapping[str, Any], *, started: bool) -> dict[str, dict[str, Any]]:
        return {phase: training[phase] for phase in ("scorer", "thresholds") if training[phase]["epochs"]}

    def is_small(self, phase: str, split: Split) -> bool:
        return phase == "thresholds" or split.inputs.kind == "features"

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        args = {"hidden": self.training["thresholds"]["hidden"], "outputs": split.truth.shape[1]}
        if self.training.get("views"):
            if not split.inputs.of_pictures:
                raise ValueError(f"views are of pictures, but the dataset has {split.inputs.kind}: leave them out")
            args["views"] = self.training["views"]
        return network_of("label_ranker", model, split, seed=seed, task=self.name, **args)

    def monitor_in(self, phase: str) -> str:
        return self.monitor if phase == "scorer" else f"unranked_{self.monitor}"

    def begin(
        self, network: Any, phase: str, train: Split, val: Split, *, accelerator: "Accelerator"
    ) -> tuple[Any, Examples | Embeddings, Examples | Embeddings]:
        device = accelerator.device
        both = [
            Examples(split.inputs.ready(network).to(device), split.truth.to(device), split.weight)
            for split in (train, val)
        ]
        if phase == "scorer":
            network.backbone.freeze(self.training["scorer"].get("freeze"))
            return network.scorer, both[0]._replace(fresh=self.fresh), both[1]
        # The scorer is frozen from here on: its scores and embeddings are computed once.
        network.scorer.eval()
        with torch.no_grad(), accelerator.autocast():
            embeddings = [_embedded(network.scorer, split.inputs) for split in both]
            scores = [network.scorer.head.score(one).float() for one in embeddings]
        data, val_data = (
            Embeddings(split.inputs.replaced(pooled(one)), score, split.label_ranks, split.weight)
            for one, score, split in zip(embeddings, scores, both, strict=True)
        )
        return network.thresholds, data, val_data

    def rows(self, data: Examples | Embeddings, phase: str) -> int:
        return len(data.label_ranks)

    def group(self, phase: str, objective: Any) -> int:
        return 1  # labels are ranked, not examples

    def batch(self, data: Any, phase: str, rows: Tensor, generator: torch.Generator) -> tuple:
        device = data.label_ranks.device
        label_ranks = data.label_ranks[rows.to(device)]
        weight = None if data.weight is None else data.weight[rows].to(device)
        if phase == "thresholds":
            numbers = data.inputs.numbers(rows, generator)
            return data.inputs.take(numbers), data.scores[numbers.to(device)], label_ranks, weight
        if data.fresh is None:
            inputs = data.inputs.take(data.inputs.numbers(rows, generator))
        else:
            inputs, label_ranks = data.fresh(len(rows), generator)
            inputs, label_ranks = as_batch(inputs).to(device), label_ranks.to(device)
        if data.inputs.of_pictures:
            options = self.training["scorer"]
            moves = {option: options[option] for option in AUGMENTATION if option in options}
            inputs = warped(inputs, generator, **moves)
        return inputs, label_ranks, weight, generator

    def loss(self, module: Any, phase: str, batch: tuple, objective: Any) -> Tensor:
        if phase == "thresholds":
            embeddings, scores, label_ranks, weight = batch
            logits, there = scores - module(embeddings), (label_ranks > 0).to(scores.dtype)
            if weight is None:
                return nn.functional.binary_cross_entropy_with_logits(logits, there)
            errors = nn.functional.binary_cross_entropy_with_logits(logits, there, reduction="none")
            return (errors.mean(1) * weight).sum() / weight.sum()
        inputs, label_ranks, weight, generator = batch
        return objective(module(inputs), label_ranks, of_groups=weight, generator=generator)

    def validate(self, module: Any, phase: str, data: Any) -> dict[str, float]:
        if phase == "thresholds":
            levels, scores = (data.inputs.of_rows(one) for one in (module(data.inputs.items).float(), data.scores))
            check_scores(levels)
            rates = unranked(scores > levels, data.label_ranks)
            return {f"unranked_{rate}": _mean(rates[rate], data.weight) for rate in ("accuracy", "exact_match")}
        # The head is in float32: scores of near ties would be rounded to the same.
        scores = data.inputs.of_rows(module.head.score(_embedded(module, data.inputs)).float())
        rates = ranked(scores, data.label_ranks)
        return {rate: _mean(rates[rate], data.weight) for rate in ("accuracy", "exact_match")}

    @torch.inference_mode()
    def scores(self, network: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return scores (n, K) and thresholds (n, K) of inputs, on the CPU."""
        device, inputs = next(network.parameters()).device, inputs.ready(network)
        parts = [network(part.to(device)) for part in inputs.parts()]
        scores, thresholds = (inputs.of_rows(torch.cat([part[place].cpu() for part in parts])) for place in (0, 1))
        return scores, thresholds

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row a row.

        Columns: `id`, `scores`, `label_ranks` (0 = absent, larger = more important), `selected`, and `true_label_ranks`
        where they are known.
        """
        scores, thresholds = self.scores(network, split.inputs)
        check_finite(scores, "scores")
        selected = scores > thresholds
        columns = {"scores": scores, "label_ranks": label_ranks_of(scores, selected), "selected": selected}
        if split.truth is not None:
            columns["true_label_ranks"] = split.truth
        return split.table({name: as_lists(part) for name, part in columns.items()})

    def scored(self, table: pa.Table) -> Statistic:
        """Return ranked and unranked metrics, such as `ranked.accuracy`.

        F1 is as the paper prints it: of the averaged precision and recall.
        """
        scores, selected, truth = (
            matrix(table, column, path="predictions") for column in ("scores", "selected", "true_label_ranks")
        )
        rates = {"ranked": ranked(scores, truth), "unranked": unranked(selected, truth)}
        columns = {
            f"{kind}.{rate}": values.numpy() for kind, several in rates.items() for rate, values in several.items()
        }
        names = [*columns, *(f"{kind}.f1" for kind in rates)]
        weight = table["weight"].to_numpy().astype(np.float64) if "weight" in table.column_names else None

        def mean(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return values[rows].mean(-1) if weight is None else np.average(values[rows], axis=-1, weights=weight[rows])

        def of_rows(rows: np.ndarray) -> np.ndarray:
            found = {name: mean(values, rows) for name, values in columns.items()}
            for kind in rates:
                precision, recall = found[f"{kind}.precision"], found[f"{kind}.recall"]
                found[f"{kind}.f1"] = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
            return np.stack([found[name] for name in names])

        return Statistic(names, len(truth), of_rows)

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return `labels`, `label_ranks` and `scores` of each row.

        `labels` are the selected ones, the most important first, by their names where these are known.
        """
        found = self.predict(network, Split(inputs)).select(["label_ranks", "scores"]).to_pylist()
        return [{"labels": named(order_of(answer["label_ranks"]), network.recipe)} | answer for answer in found]


def _embedded(scorer: Any, inputs: Inputs) -> Tensor:
    return torch.cat([scorer.head.embed(scorer.embed(part)).float() for part in inputs.parts()])


def _mean(values: Tensor, weight: Tensor | None) -> float:
    if weight is None:
        return values.mean().item()
    weight = weight.to(values)
    return ((values * weight).sum() / weight.sum()).item()
