"""Query ranking: the documents of each query in order, the relevant ones first, from vectors of features."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.checks import check_finite, check_scores
from rankops.datasets.splits import Queries, padded, read_queries
from rankops.io.checkpoints import build
from rankops.metrics.bootstrap import Statistic
from rankops.metrics.mean_average_precision import average_precision
from rankops.metrics.ndcg import ndcg
from rankops.metrics.weights import among_first, groups
from rankops.tasks.base import Metric
from rankops.tasks.predict import of_row
from rankops.training.options import STRICT, Phase

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["QueryRanking"]

AT_ONCE = 64  # queries that are scored together


@dataclass(frozen=True, kw_only=True)
class RankerOptions(Phase):
    """Options of the ranker's training; `batch_size` counts queries, `monitor` decides on the best epoch."""

    batch_size: int
    monitor: Literal["mean_average_precision", "ndcg"] = "mean_average_precision"


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of the one phase."""

    __pydantic_config__: ClassVar = STRICT

    ranker: RankerOptions


def metrics_of(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    """Return the metrics of each query, (metrics, n) float64, NaN for one without a relevant document.

    Args:
        scores, relevance, mask: (n, d). A document is relevant if it has more than half of the query's largest
            relevance: 1 of 0 and 1, 3 and 4 of grades up to 4. NDCG takes grades as they are.
    """
    largest = relevance.masked_fill(~mask, 0).amax(-1, keepdim=True)
    relevant = (2 * relevance > largest) & mask
    lowest = scores.masked_fill(~relevant, torch.inf).amin(-1, keepdim=True)
    found = torch.stack(
        [
            average_precision(scores, relevant, mask=mask),
            ndcg(scores, relevance, mask=mask),
            (among_first(groups(scores, labels=relevant, mask=mask), 1) * relevant).sum(-1),
            ((scores >= lowest) & mask).sum(-1).double(),
        ]
    )
    return found.where(relevant.any(-1), torch.nan)


class QueryRanking:
    """Score each document by itself; the loss compares the documents of a query, which may be any number.

    Losses get the lists of a batch, padded, with a mask. The network begins at the share of relevant documents, or at
    the mean of grades, so that a loss on single documents has not to find it first. Queries without a relevant document
    count in no metric; when they are loaded, the log tells how many there are.

    A split is `rankops.datasets.splits.Queries`.

    Args:
        training: `ranker`, options of `rankops.training.loop.fit`, and optionally `monitor`: `mean_average_precision`,
            or `ndcg`, as suits grades. None for a task that only predicts.
        cache: unused; all tasks take one.
    """

    name, title = "query_ranking", "Query ranking"
    phases = on_features = ("ranker",)
    needs_start: tuple[str, ...] = ()
    lower_is_better = False
    metrics = (
        Metric("mean_average_precision", "mean AP"),
        Metric("ndcg", "NDCG"),
        Metric("top_1", "TOP1"),
        Metric("rank_of_last", "RKL", lower_is_better=True),
    )
    Training = Training
    columns: ClassVar = {"features": "vectors"}
    truth = ("labels", "label_ranks", "target")
    learns_from = ("features", "relevance")

    def __init__(self, training: dict[str, Any] | None = None, *, cache: Path | None = None):
        self.training = training or {}
        self.monitor = self.training.get("ranker", {}).get("monitor", "mean_average_precision")

    def load(self, folder: str | Path, split: str, *, threads: int) -> Queries:
        queries = read_queries(folder, split)
        if without := int((~(queries.relevance > 0).any(-1)).sum()):
            logging.warning(
                "%s/%s.parquet: %d of %d queries have no relevant document: they count in no metric",
                folder, split, without, len(queries.mask),
            )  # fmt: skip
        return queries

    def build(self, model: dict[str, Any], split: Queries, *, seed: int) -> Any:
        features = split.features.shape[-1]
        parts = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
        network = build("models", "network", parts, seed=seed, features=features, outputs=1)
        mean = split.relevance.sum() / split.mask.sum()
        with torch.no_grad():
            network.head.score.bias.fill_(mean if split.relevance.max() > 1 else torch.logit(mean, eps=1e-6))
        network.recipe |= {"task": self.name}
        return network

    def monitor_in(self, phase: str) -> str:
        return self.monitor

    def begin(
        self, network: Any, phase: str, train: Queries, val: Queries, *, accelerator: "Accelerator"
    ) -> tuple[Any, Queries, Queries]:
        """Return the network, and both splits on its device.

        Raises:
            ValueError: no query of a split has a relevant document.
        """
        for name, split in (("training", train), ("validation", val)):
            if not (split.relevance > 0).any():
                raise ValueError(
                    f"none of the {len(split.mask)} {name} queries has a relevant document, expected one in some"
                )
        on_device = [Queries(*(part.to(accelerator.device) for part in split)) for split in (train, val)]
        return network, on_device[0], on_device[1]

    def end(self, network: Any, phase: str) -> None:
        pass

    def rows(self, data: Queries, phase: str) -> int:
        return len(data.mask)

    def group(self, phase: str, objective: Any) -> int:
        return 1  # documents are ranked, not queries

    def batch(
        self, data: Queries, phase: str, rows: Tensor, generator: torch.Generator
    ) -> tuple[Queries, torch.Generator]:
        rows = rows.to(data.mask.device)
        longest = max(2, int(data.mask[rows].sum(-1).max()))  # losses compare at least two places
        return Queries(*(part[rows, :longest] for part in data)), generator

    def loss(self, network: Any, phase: str, batch: tuple[Queries, torch.Generator], objective: Any) -> Tensor:
        queries, generator = batch
        scores = _scored(network, queries.features)
        return objective(scores, queries.relevance, mask=queries.mask, generator=generator)

    def validate(self, network: Any, phase: str, data: Queries) -> dict[str, float]:
        scores = self.scores(network, data.features)
        check_scores(scores, mask=data.mask.cpu())
        found = metrics_of(scores, data.relevance.cpu(), data.mask.cpu())
        return {metric.name: value.item() for metric, value in zip(self.metrics, found.nanmean(-1), strict=True)}

    def scores(self, network: Any, features: Tensor) -> Tensor:
        """Return the scores (n, d) of features (n, d, k), on the CPU."""
        device = next(network.parameters()).device
        with torch.no_grad():
            parts = [_scored(network, part.to(device)).float().cpu() for part in features.split(AT_ONCE)]
        return torch.cat(parts)

    def predict(self, network: Any, split: Queries) -> pa.Table:
        """Return one row a query: `id`, and the `scores` and the `relevance` of its documents."""
        scores = self.scores(network, split.features)[split.mask]
        check_finite(scores, "scores")
        offsets = pa.array(np.cumsum([0, *split.mask.sum(-1).tolist()]), pa.int32())
        columns = {"scores": scores, "relevance": split.relevance[split.mask]}
        lists = {name: pa.ListArray.from_arrays(offsets, pa.array(flat.numpy())) for name, flat in columns.items()}
        return pa.table({"id": pa.array(range(len(split.mask)), pa.int64())} | lists)

    def statistic(self, table: pa.Table) -> Statistic:
        """Return means over queries: of average precision and NDCG, and of the KDD Cup 2004's TOP1 and RKL.

        TOP1 is 1 where a relevant document comes first, and RKL the rank of the last one, ties at their worst.
        """
        scores, mask = padded(table, "scores", path="predictions")
        values = metrics_of(scores, padded(table, "relevance", path="predictions")[0], mask).numpy()
        known = ~np.isnan(values[0])
        filled = np.where(known, values, 0.0)

        def of_rows(rows: np.ndarray) -> np.ndarray:
            count = known[rows].sum(-1)
            return np.where(count > 0, filled[:, rows].sum(-1) / np.maximum(count, 1), np.nan)

        return Statistic([metric.name for metric in self.metrics], len(known), of_rows)

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return the `scores` of each row's documents, by their `features` as the dataset's tables have them.

        Only the order within a row means something.
        """
        expected, answers = network.recipe["args"]["features"], []
        for number, row in enumerate(rows, first):
            with of_row(number):
                vectors = torch.tensor([list(vector) for vector in row["features"]], dtype=torch.float32)
                if vectors.dim() != 2 or vectors.shape[1] != expected:
                    raise ValueError(f"features are {tuple(vectors.shape)}, expected (documents, {expected})")
                if not vectors.isfinite().all():
                    raise ValueError("features are not finite in float32")
                answers.append({"scores": self.scores(network, vectors.unsqueeze(0))[0].tolist()})
        return answers


def _scored(network: Any, features: Tensor) -> Tensor:
    """Return the scores (n, d) of features (n, d, k)."""
    return network(features.flatten(0, 1)).view(features.shape[:2])
