"""Label ranking: which labels an example has, in order of importance (RLSEP)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankgrad.checks import check_finite, check_scores
from rankgrad.datasets.files import splits
from rankgrad.datasets.files.splits import Split
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs
from rankgrad.io.parquet import as_lists, matrix
from rankgrad.metrics.kendall import kendall
from rankgrad.metrics.label_ranking import label_ranking_scores, label_set_scores
from rankgrad.metrics.mean_average_precision import average_precision
from rankgrad.models.label_ranker import pooled
from rankgrad.ranks import dense_ranks
from rankgrad.tasks._base import SHOWN, Examples, Lists, Metric, Reads, Task, mean_of, mean_over, network_of, weight_of
from rankgrad.tasks._phases import SplitPhase
from rankgrad.tasks._predict import named, order_of
from rankgrad.training.objective import Objective
from rankgrad.training.options import STRICT, BatchedPhase, Moves, PhaseOptions, check_least
from rankgrad.training.phase import Batch, Phase

__all__ = ["LabelRanking", "label_ranks_of", "orders_of", "places"]

RATES = {"accuracy": "accuracy", "exact_match": "0-1", "precision": "precision", "recall": "recall", "f1": "F1"}


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(BatchedPhase):
    """Options of the scorer's training."""

    monitor: Literal["accuracy", "exact_match"] = "accuracy"


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions(PhaseOptions):
    """Options of the thresholds' training."""

    batch_size: int
    hidden: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, batch_size=2, hidden=1)


@dataclass(frozen=True, kw_only=True)
class Views(Moves):
    """Average scores over `count` views of each image."""

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, count=1)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of both phases."""

    __pydantic_config__: ClassVar = STRICT

    scorer: ScorerOptions
    thresholds: ThresholdOptions
    views: Views | None = None


def places(true: np.ndarray, predicted: np.ndarray, names: Sequence[str] | None = None) -> list[tuple[str, bool]]:
    """Return the predicted order of labels, the most important first, and whether each is in its true position.

    A position without a prediction is "" and wrong.

    Args:
        true, predicted: label ranks (K,), 0 = absent.
        names: names of the labels, or None for their numbers.

    >>> places(np.array([0, 3, 2, 1]), np.array([1, 3, 2, 0])), places(np.array([0, 1, 2]), np.array([0, 0, 1]))
    ([('1', True), ('2', True), ('0', False)], [('2', True), ('', False)])
    """
    expected = np.sort(true[true > 0])[::-1].tolist()
    order = [label for label in np.argsort(-predicted, kind="stable").tolist() if predicted[label] > 0]
    result = []
    for position, label in enumerate(order):
        is_right = position < len(expected) and true[label].item() == expected[position]
        result.append((names[label] if names else str(label), is_right))
    return result + [("", False)] * (len(expected) - len(order))


def orders_of(examples: Examples, count: int) -> list[dict[str, list[tuple[str, bool]]]]:
    """Return the true and the predicted order of labels for the first examples, see `places`."""
    table = examples.predicted("true_label_ranks", "label_ranks")[:count]
    true = matrix(table, "true_label_ranks", path="predictions").numpy()
    predicted = matrix(table, "label_ranks", path="predictions").numpy()
    orders = []
    for target, prediction in zip(true, predicted, strict=True):
        order = {"true": places(target, target, examples.classes)}
        orders.append(order | {examples.loss: places(target, prediction, examples.classes)})
    return orders


def label_ranks_of(scores: Tensor, selected: Tensor) -> Tensor:
    """Return label ranks of the selected labels by their scores: 0 = not selected, larger = more important.

    >>> label_ranks_of(torch.tensor([[0.5, -2.0, 3.0]]), torch.tensor([[True, False, True]]))
    tensor([[1, 0, 2]])
    """
    # dense_ranks ranks only positive numbers, so take each score's position among all scores.
    places = torch.searchsorted(scores.sort(dim=-1).values, scores.contiguous()) + 1
    return dense_ranks(torch.where(selected, places, 0))


class Scorer(SplitPhase):
    """Train the scorer to rank the labels of randomly moved images."""

    monitor = "accuracy"

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        label_ranks, weight = truth
        return self.objective(*outputs, label_ranks, of_groups=weight, generator=generator)

    def validate(self, module: Any) -> dict[str, float]:
        # Compute the head in float32: lower precision would make near ties equal.
        scores = self.val_inputs.of_rows(module.head.score(_embedded(module, self.val_inputs)).float())
        return _means(label_ranking_scores(scores.cpu(), self.val.truth), self.val.weight)


class Thresholds(Phase):
    """Train thresholds on embeddings and scores of the frozen scorer, which are computed once."""

    name, small = "thresholds", True

    def __init__(self, network: Any, train: Split, val: Split, training: Training, autocast: Any):
        self.module, self.options, self.batch_size = (
            network.thresholds,
            training.thresholds,
            training.thresholds.batch_size,
        )
        self.monitor, self.rows = f"unranked_{training.scorer.monitor}", len(train)
        self.train, self.val, device = train, val, next(network.parameters()).device
        network.scorer.eval()
        with torch.no_grad(), autocast():
            self.inputs, self.scores = _frozen(network.scorer, train.inputs.ready(network).to(device))
            self.val_inputs, self.val_scores = _frozen(network.scorer, val.inputs.ready(network).to(device))

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        numbers = self.inputs.numbers(rows, generator)
        scores = self.scores[numbers.to(self.scores.device)]
        label_ranks, weight = self.train.truth[rows].to(scores.device), self.train.weight
        weight = None if weight is None else weight[rows].to(scores.device)
        return Batch((self.inputs.take(numbers),), (scores, label_ranks, weight))

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        scores, label_ranks, weight = truth
        logits, present = scores - outputs[0], (label_ranks > 0).to(scores.dtype)
        if weight is None:
            return nn.functional.binary_cross_entropy_with_logits(logits, present)
        errors = nn.functional.binary_cross_entropy_with_logits(logits, present, reduction="none")
        return (errors.mean(1) * weight).sum() / weight.sum()

    def validate(self, module: Any) -> dict[str, float]:
        levels = self.val_inputs.of_rows(module(self.val_inputs.items).float())
        check_scores(levels)
        selected = self.val_inputs.of_rows(self.val_scores) > levels
        rates = _means(label_set_scores(selected.cpu(), self.val.truth), self.val.weight)
        return {f"unranked_{rate}": value for rate, value in rates.items()}


def _rates(judged: str, *, shown: tuple[str, ...]) -> list[Metric]:
    """Return the metrics of the order of labels (`ranked`) or of the selected labels (`unranked`)."""
    return [Metric(f"{judged}.{rate}", f"{judged} {title}", shown=rate in shown) for rate, title in RATES.items()]


class LabelRanking(Task):
    """Train a scorer with a ranking loss, then thresholds on its frozen embedding, which select labels.

    A truth is label ranks (n, K).
    """

    title = "Label ranking"
    metrics = (
        *_rates("ranked", shown=("accuracy", "exact_match")),
        *_rates("unranked", shown=("f1",)),
        Metric("ranked.mean_average_precision", "ranked mAP"),
        Metric("unranked.average_precision", "LRAP"),
        Metric("answer.exact_match", "answer 0-1", shown=True),
        Metric("answer.kendall", "answer tau", limits=(-1, 1)),
    )
    learns = ("label_ranks", "target")  # target: regression on label ranks
    judged = "label_ranks"
    unjudged = ("thresholds",)
    Training = Training
    reads = Reads(("label_ranks",), splits.label_ranks_of)

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        args: dict[str, Any] = {"hidden": self.training.thresholds.hidden, "outputs": split.truth.shape[1]}
        if self.training.views is not None:
            if not split.inputs.type.pictures:
                raise ValueError(f"views needs images, but the dataset has {split.inputs.type.name}: remove views")
            args["views"] = asdict(self.training.views)
        return network_of("label_ranker", model, split, seed=seed, task=self.name, **args)

    def phase_of(
        self,
        name: str,
        options: PhaseOptions,
        network: Any,
        train: Split,
        val: Split,
        objective: Objective,
        accelerator: Any,
    ) -> Phase:
        if name == "thresholds":
            return Thresholds(network, train, val, self.training, accelerator.autocast)
        return Scorer(name, network.scorer, train, val, objective, options, batch_size=self.training.scorer.batch_size)

    @torch.inference_mode()
    def scores(self, network: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return scores (n, K) and thresholds (n, K) of inputs, on the CPU."""
        device, inputs = next(network.parameters()).device, inputs.ready(network)
        scores, thresholds = [], []
        for chunk in inputs.parts():
            of_chunk, levels = network(chunk.to(device))
            scores.append(of_chunk.cpu())
            thresholds.append(levels.cpu())
        return inputs.of_rows(torch.cat(scores)), inputs.of_rows(torch.cat(thresholds))

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per example.

        Columns: `id`, `scores`, `label_ranks` (0 = absent, larger = more important), `selected`, and `true_label_ranks`
        if they are known.
        """
        return self.table_of(split, self.scores(network, split.inputs))

    def table_of(self, split: Split, scores: tuple[Tensor, Tensor]) -> pa.Table:
        of_labels, thresholds = scores
        check_finite(of_labels, "scores")
        selected = of_labels > thresholds
        columns = {"scores": of_labels, "label_ranks": label_ranks_of(of_labels, selected), "selected": selected}
        if split.truth is not None:
            columns["true_label_ranks"] = split.truth
        return split.table({name: as_lists(values) for name, values in columns.items()})

    def scored(self, table: pa.Table) -> Statistic:
        """Return metrics of the order of labels (`ranked`), the selected labels (`unranked`), and both (`answer`).

        F1 is computed from averaged precision and recall, as in the paper. `unranked.average_precision` measures
        whether present labels score above absent ones, without thresholds. `answer` measures the predicted ranking of a
        user, the selected labels in their order: whether it is entirely right, and Kendall's tau-b with the truth,
        where all absent labels are tied.
        """
        scores, selected, truth = (
            matrix(table, column, path="predictions") for column in ("scores", "selected", "true_label_ranks")
        )
        rates = {
            "ranked": label_ranking_scores(scores, truth),
            "unranked": label_set_scores(selected, truth)
            | {"average_precision": _average_precision(scores, truth > 0)},
            "answer": _answer(label_ranks_of(scores, selected), dense_ranks(truth)),
        }
        columns = {}
        for judged, values_of in rates.items():
            columns |= {f"{judged}.{rate}": values.numpy() for rate, values in values_of.items()}
        names, weight = [*columns, "ranked.f1", "unranked.f1"], weight_of(table)

        def of_rows(rows: np.ndarray) -> np.ndarray:
            means = {name: mean_over(values, rows, weight) for name, values in columns.items()}
            for judged in ("ranked", "unranked"):
                precision, recall = means[f"{judged}.precision"], means[f"{judged}.recall"]
                means[f"{judged}.f1"] = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
            return np.stack([means[name] for name in names])

        return Statistic(names, len(truth), of_rows)

    def lists(self, table: pa.Table) -> Iterator[Lists]:
        """Yield the labels of each row."""
        scores = matrix(table, "scores", path="predictions")
        truth = matrix(table, "true_label_ranks", path="predictions")
        yield Lists(scores, truth, rows=torch.arange(len(table)))

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return `labels`, `label_ranks` and `scores` of each row.

        `labels` are the selected labels, the most important first, by name if names are known.
        """
        answers = self.predict(network, Split(inputs)).select(["label_ranks", "scores"]).to_pylist()
        return [{"labels": named(order_of(answer["label_ranks"]), network.recipe)} | answer for answer in answers]

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        plots.orders(path, examples.inputs(SHOWN), orders_of(examples, SHOWN))
        return True


def _frozen(scorer: Any, inputs: Inputs) -> tuple[Inputs, Tensor]:
    """Return a scorer's embeddings and scores of inputs."""
    embeddings = _embedded(scorer, inputs)
    return inputs.replaced(pooled(embeddings)), scorer.head.score(embeddings).float()


def _embedded(scorer: Any, inputs: Inputs) -> Tensor:
    return torch.cat([scorer.head.embed(scorer.embed(chunk)).float() for chunk in inputs.parts()])


def _answer(answer: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """Return whether label ranks (n, K) equal the truth, and tau-b, or the former again if tau-b is undefined."""
    right, tau = (answer == truth).all(-1).double(), kendall(answer.double(), truth)
    return {"exact_match": right, "kendall": tau.where(~tau.isnan(), right)}


def _average_precision(scores: Tensor, present: Tensor) -> Tensor:
    """Return average precision of each example (n,); 1 without any present label, as in scikit-learn's LRAP."""
    return average_precision(scores, present).nan_to_num(1.0)


def _means(rates: dict[str, Tensor], weight: Tensor | None) -> dict[str, float]:
    """Return the validation metrics from the rates of rows (n,) each."""
    return {rate: mean_of(rates[rate], weight) for rate in ("accuracy", "exact_match")}
