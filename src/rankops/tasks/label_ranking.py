"""Multi-label ranking: which labels an image has, in order of importance (RLSEP)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checks import check_finite, check_scores
from rankops.datasets.splits import read_label_ranks
from rankops.io.checkpoints import build
from rankops.io.parquet import as_batch, as_lists, matrix
from rankops.io.recipes import image_size
from rankops.metrics.bootstrap import Statistic
from rankops.metrics.dense_ranks import dense_ranks
from rankops.metrics.label_ranking import ranked, unranked
from rankops.tasks.base import Metric
from rankops.tasks.predict import in_batches, order_of
from rankops.training.augmentation import warped
from rankops.training.options import STRICT, Phase, check_bounds

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["LabelRanking", "label_ranks_of"]

AUGMENTATION = ("shift", "zoom", "rotation")
RATES = {"accuracy": "accuracy", "exact_match": "0-1", "precision": "precision", "recall": "recall", "f1": "F1"}

Split = tuple[Tensor, Tensor]
Pictures = tuple[Tensor, Tensor | None]  # without their label ranks where they are not known


class Images(NamedTuple):
    """A split on the device, from which the scorer learns: images and label ranks; `fresh` draws new ones."""

    images: Tensor
    label_ranks: Tensor
    fresh: Callable[[int, torch.Generator], tuple[Tensor, Tensor]] | None = None


class Embeddings(NamedTuple):
    """A split as the frozen scorer sees it, from which the thresholds learn."""

    embeddings: Tensor
    scores: Tensor
    label_ranks: Tensor


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(Phase):
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


class LabelRanking:
    """Train a scorer with a ranking loss, then thresholds on its frozen embedding that select labels.

    A split is images (n, [3,] height, width) uint8 and label ranks (n, K).

    Args:
        training: `scorer` (options of `rankops.training.loop.fit`, with `shift` and optionally `zoom` and `rotation`,
            see `rankops.training.augmentation.warped`; optionally `monitor`, `accuracy` (of pairs) or `exact_match`)
            and `thresholds` (the same options without these, and `hidden`); optionally `views`, see
            `rankops.models.label_ranker.LabelRanker`. None for a task that only predicts.
        fresh: draws so many new scenes, images (n, height, width) uint8 and label ranks (n, K), which the scorer learns
            from in place of the training split's.
        cache: unused; all tasks take one.
    """

    name, title = "label_ranking", "Label ranking"
    phases = ("scorer", "thresholds")
    on_features = ("thresholds",)
    needs_start: tuple[str, ...] = ()
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
    columns: ClassVar = {"image": "image"}
    truth = ("label_ranks",)
    learns_from = ("image", "label_ranks")

    def __init__(
        self,
        training: dict[str, Any] | None = None,
        *,
        fresh: Callable[[int, torch.Generator], tuple[Tensor, Tensor]] | None = None,
        cache: Path | None = None,
    ):
        self.training, self.fresh = training or {}, fresh
        self.monitor = self.training.get("scorer", {}).get("monitor", "accuracy")

    def load(self, folder: str | Path, split: str, *, threads: int) -> Split:
        return read_label_ranks(folder, split, threads=threads)

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        args = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
        args["hidden"] = self.training["thresholds"]["hidden"]
        if self.training.get("views"):
            args["views"] = self.training["views"]
        images, outputs = as_batch(split[0]), split[1].shape[1]
        network = build("models", "label_ranker", args, seed=seed, outputs=outputs, colors=images.shape[1])
        network.recipe |= {"task": self.name, "image": image_size(images)}
        return network

    def monitor_in(self, phase: str) -> str:
        return self.monitor if phase == "scorer" else f"unranked_{self.monitor}"

    def begin(
        self, network: Any, phase: str, train: Split, val: Split, *, accelerator: "Accelerator"
    ) -> tuple[Any, Images | Embeddings, Images | Embeddings]:
        splits = [
            Images(as_batch(images).to(accelerator.device), ranks.to(accelerator.device))
            for images, ranks in (train, val)
        ]
        if phase == "scorer":
            return network.scorer, splits[0]._replace(fresh=self.fresh), splits[1]
        # The scorer is frozen from here on: its scores and embeddings are computed once.
        network.scorer.eval()
        with torch.no_grad(), accelerator.autocast():
            embeddings = [_embedded(network.scorer, split.images) for split in splits]
            scores = [network.scorer.head.score(one).float() for one in embeddings]
        data, val_data = (
            Embeddings(one, score, split.label_ranks)
            for one, score, split in zip(embeddings, scores, splits, strict=True)
        )
        return network.thresholds, data, val_data

    def end(self, network: Any, phase: str) -> None:
        pass

    def rows(self, data: Images | Embeddings, phase: str) -> int:
        return len(data.label_ranks)

    def group(self, phase: str, objective: Any) -> int:
        return 1  # labels are ranked, not examples

    def batch(self, data: Any, phase: str, rows: Tensor, generator: torch.Generator) -> tuple:
        if phase == "thresholds":
            rows = rows.to(data.scores.device)
            return data.embeddings[rows], data.scores[rows], data.label_ranks[rows]
        moves = {
            option: self.training["scorer"][option] for option in AUGMENTATION if option in self.training["scorer"]
        }
        if data.fresh is None:
            rows = rows.to(data.images.device)
            images, label_ranks = data.images[rows], data.label_ranks[rows]
        else:
            images, label_ranks = data.fresh(len(rows), generator)
            images, label_ranks = as_batch(images).to(data.images.device), label_ranks.to(data.images.device)
        return warped(images, generator, **moves), label_ranks, generator

    def loss(self, module: Any, phase: str, batch: tuple, objective: Any) -> Tensor:
        if phase == "thresholds":
            embeddings, scores, label_ranks = batch
            levels = module(embeddings)
            return nn.functional.binary_cross_entropy_with_logits(scores - levels, (label_ranks > 0).to(scores.dtype))
        images, label_ranks, generator = batch
        return objective(module(images), label_ranks, generator=generator)

    def validate(self, module: Any, phase: str, data: Any) -> dict[str, float]:
        if phase == "thresholds":
            levels = module(data.embeddings).float()
            check_scores(levels)
            rates = unranked(data.scores > levels, data.label_ranks)
            return {f"unranked_{rate}": rates[rate].mean().item() for rate in ("accuracy", "exact_match")}
        # The head is in float32: scores of near ties would be rounded to the same.
        rates = ranked(module.head.score(_embedded(module, data.images)).float(), data.label_ranks)
        return {rate: rates[rate].mean().item() for rate in ("accuracy", "exact_match")}

    @torch.inference_mode()
    def scores(self, network: Any, images: Tensor, *, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Return scores (n, K) and thresholds (n, K) of images (n, [3,] height, width), on the CPU."""
        device = next(network.parameters()).device
        parts = [network(batch.to(device)) for batch in as_batch(images).split(batch_size)]
        scores, thresholds = (torch.cat([part[place].cpu() for part in parts]) for place in (0, 1))
        return scores, thresholds

    def predict(self, network: Any, split: Pictures) -> pa.Table:
        """Return one row an image.

        Columns: `id`, `scores`, `label_ranks` (0 = absent, larger = more important), `selected`, and `true_label_ranks`
        where they are known.
        """
        images, truth = split
        scores, thresholds = self.scores(network, images)
        check_finite(scores, "scores")
        selected = scores > thresholds
        columns = {"scores": scores, "label_ranks": label_ranks_of(scores, selected), "selected": selected}
        if truth is not None:
            columns["true_label_ranks"] = truth
        ids = pa.array(range(len(scores)), pa.int64())
        return pa.table({"id": ids} | {name: as_lists(part) for name, part in columns.items()})

    def statistic(self, table: pa.Table) -> Statistic:
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

        def of_rows(rows: np.ndarray) -> np.ndarray:
            found = {name: values[rows].mean(-1) for name, values in columns.items()}
            for kind in rates:
                precision, recall = found[f"{kind}.precision"], found[f"{kind}.recall"]
                found[f"{kind}.f1"] = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
            return np.stack([found[name] for name in names])

        return Statistic(names, len(truth), of_rows)

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return `labels`, `label_ranks` and `scores` of each row's `image`.

        `labels` are the selected ones, the most important first.
        """
        images = [row["image"] for row in rows]
        if not images:
            raise ValueError("no rows, expected at least one with a column image")
        table = in_batches(network, images, lambda pictures: self.predict(network, (pictures, None)), first=first)
        answers = table.select(["label_ranks", "scores"]).to_pylist()
        return [{"labels": order_of(answer["label_ranks"])} | answer for answer in answers]


def _embedded(scorer: Any, images: Tensor) -> Tensor:
    return torch.cat([scorer.head.embed(scorer.embed(part)).float() for part in images.split(256)])
