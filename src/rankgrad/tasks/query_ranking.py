"""Query ranking: the documents of each query in order, the relevant ones first: vectors, pictures or texts."""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import softplus

from rankgrad.checks import check_finite, check_scores
from rankgrad.datasets.files.splits import MEMORY, Split, lists_of, padded, relevance_of
from rankgrad.evaluation import Statistic
from rankgrad.groups import among_first, groups
from rankgrad.inputs import Inputs
from rankgrad.io.parquet import ragged_lists
from rankgrad.layers import ScoreLayer
from rankgrad.metrics.kendall import kendall
from rankgrad.metrics.mean_average_precision import average_precision
from rankgrad.metrics.ndcg import ndcg
from rankgrad.metrics.pair_accuracy import pair_accuracy
from rankgrad.ragged import pad_groups
from rankgrad.tasks._base import SHOWN, Examples, Lists, Metric, Reads, Task, mean_over, network_of, weight_of
from rankgrad.tasks._phases import SplitPhase
from rankgrad.training.large_batch import split as split_rows
from rankgrad.training.objective import Objective
from rankgrad.training.options import STRICT, BatchedPhase, PhaseOptions
from rankgrad.training.phase import Batch, Phase

__all__ = ["QueryRanking"]

DEPTHS = (5, 10)  # of NDCG@k
DRAWN = 10  # documents per query in a figure
METRICS = (
    Metric("mean_average_precision", "mean AP"),
    Metric("ndcg", "NDCG"),
    Metric("top_1", "TOP1"),
    Metric("rank_of_last", "RKL", lower_is_better=True, limits=(0, math.inf)),
    *(Metric(f"ndcg_at_{depth}", f"NDCG@{depth}", shown=depth == 10) for depth in DEPTHS),
    Metric("kendall", "Kendall's tau", shown=False, limits=(-1, 1), chance=0.0),
    Metric("pair_accuracy", "pair accuracy", shown=False, chance=0.5),
)
LOG_LOSS = Metric(  # of pairs
    "log_loss", "log loss of p", True, shown=False, limits=(0, math.inf), optional=True, chance=math.log(2)
)
SURPRISES = 10  # pairs without an order that keep probabilities away from 0 and 1


@dataclass(frozen=True, kw_only=True)
class RankerOptions(BatchedPhase):
    """Options of the ranker's training; `batch_size` counts queries, `monitor` decides on the best epoch.

    `log_loss` is for pairs only: the log loss of the probability that the better document of a pair is preferred, with
    scores on the scale that minimizes it, see `QueryRanking.finish`.
    """

    monitor: Literal[
        "mean_average_precision", "ndcg", "ndcg_at_5", "ndcg_at_10", "top_1", "pair_accuracy", "log_loss"
    ] = "mean_average_precision"


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of the one phase."""

    __pydantic_config__: ClassVar = STRICT

    ranker: RankerOptions


def metrics_of(scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    """Return the metrics of each query, (metrics, n) float64; NaN for a query without a relevant document.

    Args:
        scores, relevance, mask: (n, d). A document is relevant if it has more than half of the query's largest
            relevance: 1 if labels are 0 and 1, 3 and 4 if grades go up to 4. NDCG, Kendall's tau, and pair accuracy use
            the grades themselves. If all scores or all grades are equal, tau is 0 and pair accuracy 0.5.
    """
    largest = relevance.masked_fill(~mask, 0).amax(-1, keepdim=True)
    relevant = (2 * relevance > largest) & mask
    lowest = scores.masked_fill(~relevant, torch.inf).amin(-1, keepdim=True)
    values = {
        "mean_average_precision": average_precision(scores, relevant, mask=mask),
        "ndcg": ndcg(scores, relevance, mask=mask),
        "top_1": (among_first(groups(scores, labels=relevant, mask=mask), 1) * relevant).sum(-1),
        "rank_of_last": ((scores >= lowest) & mask).sum(-1).double(),
        **{f"ndcg_at_{depth}": ndcg(scores, relevance, mask=mask, k=depth) for depth in DEPTHS},
        "kendall": kendall(scores, relevance, mask=mask).nan_to_num(0.0),
        "pair_accuracy": pair_accuracy(scores, relevance, mask=mask).nan_to_num(0.5),
    }
    return torch.stack([values[metric.name] for metric in METRICS]).where(relevant.any(-1), torch.nan)


class Queries(NamedTuple):
    """Queries on the device: all documents in one list, the number per query, their relevance, and weights."""

    inputs: Inputs
    sizes: Tensor
    relevance: Tensor
    weight: Tensor | None

    def documents(self, rows: Tensor) -> Tensor:
        """Return the numbers of the documents of queries, query after query."""
        first = self.sizes.cumsum(0) - self.sizes
        sizes = self.sizes[rows]
        within = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        return first[rows].repeat_interleave(sizes) + within


class Ranker(SplitPhase):
    """Train on batches of queries; the loss compares documents within a query. `chunk` counts queries."""

    monitor = "mean_average_precision"

    def __init__(self, name: str, network: Any, train: Split, val: Split, *arguments: Any, **options: Any):
        super().__init__(name, network, train, val, *arguments, **options)
        self.queries, self.val_queries = _queries(self.inputs, train), _queries(self.val_inputs, val)
        self.rows = len(train)
        self.lower_is_better = self.monitor == LOG_LOSS.name
        if self.lower_is_better:
            sizes = self.val_queries.sizes
            if others := sizes[sizes != 2].tolist():
                raise ValueError(
                    f"monitor: {self.monitor} is for queries of two documents, but the validation split has some of "
                    f"{others[0]}; choose another, such as pair_accuracy"
                )
            if bool((val.truth[::2] == val.truth[1::2]).all()):
                raise ValueError(f"monitor: {self.monitor} is not defined if all validation pairs are ties")

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        queries, documents = self.queries, self.queries.documents(rows)
        inputs = queries.inputs.type.moved(queries.inputs.take(documents), generator, **self.moves)
        weight = None if queries.weight is None else queries.weight[rows].to(inputs.device)
        sizes = queries.sizes[rows]
        return Batch((inputs, sizes), (sizes, queries.relevance[documents].to(inputs.device), weight))

    def ahead(self, rows: Tensor) -> None:
        self.inputs.ahead(self.queries.documents(rows))

    def parts(self, inputs: tuple[Tensor, ...], chunk: int) -> list[tuple[Tensor, ...]]:
        documents, sizes = inputs
        chunks = [queries for (queries,) in split_rows([sizes], chunk)]
        return [*zip(documents.split([int(queries.sum()) for queries in chunks]), chunks, strict=True)]

    def outputs(self, module: Any, *inputs: Tensor) -> Tensor:
        return _scored(module, *inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        sizes, relevance, weight = truth
        (scores, mask), (relevance, _) = padded(outputs[0], sizes), padded(relevance, sizes)
        return self.objective(scores, relevance, mask=mask, of_groups=weight, generator=generator)

    def validate(self, module: Any) -> dict[str, float]:
        queries = self.val_queries
        flat = _scores(module, queries)
        scores, mask = padded(flat, queries.sizes)
        check_scores(scores, mask=mask)
        values = metrics_of(scores, padded(queries.relevance, queries.sizes)[0], mask).numpy()
        rows, weight = np.arange(len(mask)), None if queries.weight is None else queries.weight.numpy()
        means = mean_over(values, rows, weight).tolist()
        result = {metric.name: mean for metric, mean in zip(METRICS, means, strict=True)}
        if self.monitor == LOG_LOSS.name:
            leads, weight = _weighted_leads(flat, queries)
            result[LOG_LOSS.name] = _log_losses(leads, weight, _preference_scale(leads, weight).view(1)).item()
        return result


class QueryRanking(Task):
    """Score each document separately; the loss compares the documents of a query, which may have any number of them.

    Losses get the lists of a batch, padded, with a mask; nothing else is padded. The network's first scores match the
    fraction of relevant documents or the mean grade, so that a pointwise loss does not have to learn it. Metrics skip
    queries without a relevant document; their number is logged when a split is loaded.

    A truth is the relevance of all documents (m,), query after query.
    """

    title = "Query ranking"
    metrics = (*METRICS, LOG_LOSS)
    learns = ("labels", "label_ranks", "target")
    judged = "target"
    Training = Training
    reads = Reads(("relevance",), relevance_of, lists=True, sampled=False)

    def load(self, folder: str | Path, split: str, *, threads: int, memory: float = MEMORY) -> Split:
        queries = super().load(folder, split, threads=threads, memory=memory)
        if without := int((pad_groups(queries.truth, sizes=queries.sizes)[0] <= 0).all(-1).sum()):
            problem = "queries have no relevant document"
            if queries.inputs.about.get("rejected"):
                problem = "pairs are ties"
            path = f"{folder}/{split}.parquet"
            logging.warning("%s: %d of %d %s; metrics skip them", path, without, len(queries), problem)
        return queries

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        network = network_of("network", model, split, seed=seed, task=self.name, outputs=1)
        mean = split.truth.double().mean()
        layers = [layer for layer in network.head.modules() if isinstance(layer, ScoreLayer)]
        if layers:
            with torch.no_grad():
                layers[-1].bias.fill_(mean if split.truth.max() > 1 else torch.logit(mean, eps=1e-6))
        return network

    def splits_for(self, network: Any, train: Split, val: Split) -> tuple[Split, Split]:
        for name, split in (("training", train), ("validation", val)):
            if not (split.truth > 0).any():
                raise ValueError(
                    f"none of the {len(split)} {name} queries has a relevant document, expected at least one that does"
                )
        return train, val

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
        return Ranker(name, network, train, val, objective, options, batch_size=self.training.ranker.batch_size)

    def scores(self, network: Any, inputs: Inputs, sizes: Tensor) -> Tensor:
        """Return the score of each document (m,), on the CPU; `sizes` (n,) has the number of documents per query.

        Scores of a network that was trained on pairs, such as preferences, are log odds, see `finish`: the probability
        that one of two documents is preferred (Bradley and Terry 1952) is the sigmoid of their difference.
        """
        scores = _scores(network, Queries(inputs.ready(network), sizes, torch.empty(0), None))
        return scores * network.recipe.get("preference_scale", 1.0)

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per query: `id`, and the `scores` and `relevance` of its documents."""
        assert split.sizes is not None
        return self.table_of(split, self.scores(network, split.inputs, split.sizes))

    def table_of(self, split: Split, scores: Tensor) -> pa.Table:
        assert split.sizes is not None
        check_finite(scores, "scores")
        columns = {"scores": scores, "relevance": split.truth}
        return split.table({name: ragged_lists(pa.array(flat.numpy()), split.sizes) for name, flat in columns.items()})

    def scored(self, table: pa.Table) -> Statistic:
        """Return means over queries of average precision, NDCG (also @5 and @10), tau, TOP1, RKL, and pair accuracy.

        TOP1 and RKL are from the KDD Cup 2004: TOP1 is 1 if a relevant document comes first, and RKL is the rank of the
        last relevant document; ties count as the worst order. Pair accuracy is the fraction of a query's pairs that are
        in the right order. If every query has two documents, as preferences have, add the mean log loss of the
        probability that the better one is preferred, see `scores`.
        """
        metrics, values = METRICS, torch.empty(len(METRICS), len(table), dtype=torch.float64)
        for queries in self.lists(table):
            assert queries.mask is not None
            values[:, queries.rows] = metrics_of(queries.scores, queries.truth, queries.mask)
        scores, relevance, sizes = _lists(table)
        if bool((sizes == 2).all()):
            leads, pairs = _leads(scores, relevance, sizes)
            log_losses = torch.full((1, len(table)), torch.nan, dtype=torch.float64)
            log_losses[0, pairs] = softplus(-leads)
            metrics, values = (*METRICS, LOG_LOSS), torch.cat([values, log_losses])
        of_rows = partial(mean_over, values.numpy(), weight=weight_of(table))
        return Statistic([metric.name for metric in metrics], len(table), of_rows)

    def lists(self, table: pa.Table) -> Iterator[Lists]:
        """Yield queries of similar lengths together, to avoid padding all of them to the longest."""
        scores, relevance, sizes = _lists(table)
        queries = Queries(Inputs({}, scores), sizes, relevance, None)
        for rows in sizes.argsort().split(1024):
            documents = queries.documents(rows)
            of_queries, mask = padded(scores[documents], sizes[rows])
            truth, _ = padded(relevance[documents], sizes[rows])
            yield Lists(of_queries, truth, mask, rows, counts=(truth > 0).any(-1))

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return the `scores` of each row's documents; of most networks, only their order within a row is meaningful.

        If a network was trained on preferences, `first_is_preferred` is the probability that the first of two documents
        is preferred, see `scores`. Of more documents, `preferred` has the probability that each of them is preferred to
        all others (Plackett 1975): the softmax of their scores.
        """
        scores = self.scores(network, inputs, sizes)
        answers: list[dict[str, Any]] = [{"scores": of_query.tolist()} for of_query in scores.split(sizes.tolist())]
        if network.recipe["input"].get("rejected"):
            for answer in answers:
                probabilities = torch.tensor(answer["scores"], dtype=torch.float64).softmax(0).tolist()
                if len(probabilities) == 2:
                    answer["first_is_preferred"] = probabilities[0]
                elif len(probabilities) > 2:
                    answer["preferred"] = probabilities
        return answers

    @torch.no_grad()
    def finish(self, network: Any, val: Split) -> None:
        """Fit the scale that makes scores the log odds of preferences, on validation, if all its queries are pairs.

        Training makes differences too large if it separates all its pairs. The scale minimizes the log loss of the
        validation pairs and of ten more, which have their mean difference, and opposite preferences in half of them:
        validation chose the network, too, so its pairs alone would make few of them too sure.
        """
        queries = _queries(val.inputs, val)
        if not bool((queries.sizes == 2).all()):
            return
        network.eval()
        network.recipe.pop("preference_scale", None)
        leads, weight = _weighted_leads(self.scores(network, queries.inputs, queries.sizes), queries)
        if leads.any():
            network.recipe["preference_scale"] = _preference_scale(leads, weight).item()

    @torch.no_grad()
    def carry_over(self, network: Any, chosen: Any, train: Split) -> None:
        network.recipe.pop("preference_scale", None)
        if "preference_scale" not in chosen.recipe:
            return
        assert train.sizes is not None
        in_pairs, spreads = (train.sizes == 2).repeat_interleave(train.sizes), []
        for model in (network, chosen):
            scores = self.scores(model.eval(), train.inputs, train.sizes)[in_pairs].double()
            spreads.append((scores[::2] - scores[1::2]).square().mean().sqrt().item())
        has_spreads = min(spreads) > 0  # NaN, of no pairs, is not
        network.recipe["preference_scale"] = (
            spreads[1] / spreads[0] if has_spreads else chosen.recipe["preference_scale"]
        )

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        """Draw the relevance of the first documents of each query, in the true order and in the predicted order.

        For preferences, draw how often the answer that the network prefers was chosen, by how sure the network was.
        """
        if examples.of_preferences:
            table = examples.predicted("scores", "relevance")
            leads, pairs = _leads(*_lists(table))
            if len(leads):
                weight = np.ones(len(leads))
                if examples.has("weight"):
                    weight = examples.predicted("weight")["weight"].to_numpy()[pairs.numpy()]
                plots.reliability(path, leads.numpy(), weight)
            return len(leads) > 0
        queries, orders = [], []
        for number, row in enumerate(examples.predicted("scores", "relevance")[:SHOWN].to_pylist(), 1):
            relevance = np.array(row["relevance"])
            true = np.sort(relevance)[::-1][:DRAWN]
            ours = relevance[np.argsort(-np.array(row["scores"]), kind="stable")][:DRAWN]
            predicted = [(f"{grade:g}", bool(grade == best)) for grade, best in zip(ours, true, strict=True)]
            queries.append(f"query {number}:\nrelevance of\n{len(relevance)} documents")
            orders.append({"true": [(f"{grade:g}", True) for grade in true], "predicted": predicted})
        plots.orders(path, queries, orders)
        return True


def _lists(table: pa.Table) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores and the relevance of all documents (m,) in predictions, and the documents of each query."""
    scores, sizes = lists_of(table, "scores", path="predictions")
    return scores, lists_of(table, "relevance", path="predictions")[0], sizes


def _queries(inputs: Inputs, split: Split) -> Queries:
    assert split.sizes is not None
    return Queries(inputs, split.sizes, split.truth, split.weight)


def _leads(scores: Tensor, relevance: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much the preferred document of each pair scores higher (pairs,), and the pairs' rows among queries.

    Queries that are no pair, and ties, are left out.

    >>> _leads(torch.tensor([1.0, 3.0, 5.0, 5.0, 4.0]), torch.tensor([0, 2, 1, 1, 0]), torch.tensor([2, 1, 2]))
    (tensor([2., 1.], dtype=torch.float64), tensor([0, 2]))
    """
    pairs = (sizes == 2).repeat_interleave(sizes)
    (first, second), (first_truth, second_truth) = scores[pairs].double().view(-1, 2).T, relevance[pairs].view(-1, 2).T
    signs = (first_truth - second_truth).sign()
    return ((first - second) * signs)[signs != 0], (sizes == 2).nonzero().squeeze(1)[signs != 0]


def _weighted_leads(scores: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
    """Return the leads of pairs, see `_leads`, and their weights, with mean 1."""
    leads, pairs = _leads(scores, queries.relevance, queries.sizes)
    weight = torch.ones_like(leads) if queries.weight is None else queries.weight[pairs].double()
    return leads, weight / weight.mean()


def _preference_scale(leads: Tensor, weight: Tensor) -> Tensor:
    """Return the scale that makes leads log odds, see `QueryRanking.finish`; 1 if they are all 0."""
    if not leads.any():
        return torch.ones((), dtype=torch.float64)
    usual = leads[leads != 0].abs().mean()
    scales = torch.logspace(-2, 2, 401, dtype=torch.float64) / usual
    leads = torch.cat([leads, usual.view(1), -usual.view(1)])
    weight = torch.cat([weight, weight.new_full((2,), SURPRISES / 2)])
    return scales[_log_losses(leads, weight, scales).argmin()]


def _log_losses(leads: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """Return the mean log loss of the probabilities that the preferred documents are preferred, for each scale."""
    return softplus(-scales.unsqueeze(1) * leads) @ (weight / weight.sum())


def _scored(network: Any, inputs: Tensor, sizes: Tensor) -> Tensor:
    """Return the score of each document (m,); pass query sizes to backbones that compare a query's documents."""
    if getattr(network.backbone, "within_group", False):
        return network(inputs, sizes.to(inputs.device)).squeeze(1)
    return network(inputs).squeeze(1)


@torch.no_grad()
def _scores(network: Any, queries: Queries) -> Tensor:
    """Return the score of each document (m,), on the CPU; score several queries at once, see `Inputs.at_once`."""
    scores, waiting, documents = [], [], 0
    rows = range(len(queries.sizes))
    for row, size in zip(rows, queries.sizes.tolist(), strict=True):
        if waiting and documents + size > queries.inputs.at_once:
            scores.append(_scores_of(network, queries, waiting))
            waiting, documents = [], 0
        waiting.append(row)
        documents += size
    return torch.cat([*scores, _scores_of(network, queries, waiting)])


def _scores_of(network: Any, queries: Queries, rows: list[int]) -> Tensor:
    chosen = torch.tensor(rows)
    inputs = queries.inputs.take(queries.documents(chosen)).to(next(network.parameters()).device)
    return _scored(network, inputs, queries.sizes[chosen]).float().cpu()
