"""Learn average precision from small batches: losses that see one batch, and LibAUC's, which remember earlier ones.

    python -m studies.converters.protein_homology    # once: the table
    python -m studies.across_batches [GROUP ...]     # computes what is missing; the group libauc needs its package

Batches either draw from all proteins at once (`all`), or are parts of lists, one list for each query (`lists`). Queries
are divided into folds. For each fold, the next one chooses the settings with one network trained on the others: by the
average precision of all rows, or for lists by the mean of queries. Then three networks are trained on all but the test
fold. All have the same first weights; losses on batches of the same kind with as many positives have the same batches.
LibAUC's average precision takes scores with a margin of 1, its default, or sigmoids with 0.6, as in its example; its
NDCG is not warmed up with another loss. Intervals do not resample the rows among which a precision is measured.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from rankgrad import losses
from rankgrad.io.results import Row, rows_of
from rankgrad.seeding import generator
from studies.compared import compared
from studies.converters.protein_homology import FILE
from studies.reranking import FOLDS, drawn_parts
from studies.vectorized import Jobs, by_fold, command

TABLE = Path("data/raw/protein_homology/protein_homology.parquet")
SEEDS = 3
HIDDEN = 64
LISTS, LENGTH = 16, 32  # parts of lists in a batch; as many rows are drawn from all proteins
RATES = (0.001, 0.003, 0.01)
STEPS = (125, 250, 500, 1000, 2000)
POSITIVES = {"all": (5, 50), "lists": (2, 8)}  # in a batch, and in a part of a list
MEMORY = (0.1, 0.9)  # the weight of the present batch
MARGINS = (1.0, 0.6)  # of scores, and of sigmoids
NAMES = ["average_precision", "within_queries"]
BASELINES = {"all": "cross-entropy", "lists": "cross-entropy-lists"}
WITHOUT_MEMORY = {"libauc-average_precision": "average_precision", "libauc-ndcg-lists": "ndcg-lists"}

# From scores and labels (lists, length) and row numbers to the loss of a batch.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
Fold = tuple[tuple[int, ...], ...]  # the queries to train on, to choose by, and to test on


@dataclass(frozen=True)
class Table:
    """Proteins: features (n, f), 0/1 labels (n,), and the rows of each query."""

    features: Tensor
    labels: Tensor
    queries: list[Tensor]


@dataclass(frozen=True)
class Method:
    """A loss, and how it is trained.

    Attributes:
        batches: `all` or `lists`.
        loss: makes the loss of a table, given `positives` and the options.
        options: the values to choose from, besides the rate and the number of positives, or in its place.
        optimizer: makes an optimizer from weights and a rate.
    """

    batches: str
    loss: Callable[..., Loss]
    options: dict[str, tuple[float, ...]] = field(default_factory=dict)
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam

    def settings(self) -> Iterator[dict[str, Any]]:
        grid = {"rate": RATES, "positives": POSITIVES[self.batches], **self.options}
        for values in product(*grid.values()):
            yield dict(zip(grid, values, strict=True))


@cache
def read() -> Table:
    """Return all proteins; features are followed by the same ones standardized within each query."""
    table = pd.read_parquet(TABLE)
    features = torch.tensor(np.stack(table["features"].to_list()), dtype=torch.float64)
    queries = [torch.tensor(rows) for rows in table.groupby("query").indices.values()]
    within = torch.empty_like(features)
    for rows in queries:
        within[rows] = standardized(features[rows], features[rows])
    labels = torch.tensor(table["relevance"].to_numpy(), dtype=torch.float32)
    return Table(torch.cat([features, within], 1), labels, queries)


def standardized(values: Tensor, known: Tensor) -> Tensor:
    """Return values (n, f) less the means of known ones, in their standard deviations."""
    spread, mean = torch.std_mean(known, 0)
    return (values - mean) / spread.where(spread > 1e-9, 1.0)


# --- Losses. ---


def of_batch(loss: Callable[..., Tensor], **options: Any) -> Callable[..., Loss]:
    """Return a loss of the library, which sees one batch."""

    def make(table: Table, positives: int) -> Loss:
        return lambda scores, labels, rows: loss(scores, labels.long(), check_finite=False, **options)

    return make


def cross_entropy(table: Table, positives: int) -> Loss:
    return lambda scores, labels, rows: functional.binary_cross_entropy_with_logits(scores, labels)


def libauc_average_precision(table: Table, positives: int, memory: float, margin: float) -> Loss:
    """Return LibAUC's average precision (Qi et al. 2021), with a moving average for each positive row."""
    package: Any = import_module("libauc.losses")
    loss = package.APLoss(len(table.labels), gamma=memory, margin=margin, device="cpu")

    def of_batch(scores: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        scores = scores if margin == MARGINS[0] else scores.sigmoid()
        return loss(scores.flatten(), labels.flatten(), rows.flatten())

    return of_batch


def libauc_ndcg(table: Table, positives: int, memory: float) -> Loss:
    """Return LibAUC's NDCG (Qiu et al. 2022), with a moving average for each positive row."""
    package: Any = import_module("libauc.losses")
    count, mean_length = len(table.labels), len(table.labels) // len(table.queries)
    loss = package.NDCGLoss(count, len(table.queries), mean_length, positives, gamma0=memory, device="cpu")
    query_of = torch.empty(count, dtype=torch.long)
    positives_of, ideal = torch.empty(len(table.queries)), torch.empty(len(table.queries))
    for query, rows in enumerate(table.queries):
        query_of[rows] = query
        positives_of[query] = table.labels[rows].sum()
        places = torch.arange(1, int(positives_of[query]) + 1)
        ideal[query] = (1 / (1 + places).log2()).sum()

    def of_lists(scores: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        query = query_of[rows[:, 0]]
        batch = {
            "rating": labels, "user_id": query, "num_pos_items": positives_of[query], "ideal_dcg": ideal[query],
            "user_item_id": rows,
        }  # fmt: skip
        return loss(scores, batch)

    return of_lists


def libauc_optimizer(name: str) -> Callable[..., torch.optim.Optimizer]:
    """Return the optimizer that LibAUC names for a loss: Adam with clipped gradients."""

    def make(weights: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
        package: Any = import_module("libauc.optimizers")
        return getattr(package, name)(weights, lr=lr, mode="adam", weight_decay=0.0, verbose=False, device="cpu")

    return make


METHODS: dict[str, Method] = {
    BASELINES["all"]: Method("all", cross_entropy),
    "ranknet": Method("all", of_batch(losses.ranknet)),
    "average_precision": Method("all", of_batch(losses.average_precision, sorter="laplace")),
    "hinge_ap": Method("all", of_batch(losses.hinge_ap)),
    BASELINES["lists"]: Method("lists", cross_entropy),
    "listnet-lists": Method("lists", of_batch(losses.listnet)),
    "average_precision-lists": Method("lists", of_batch(losses.average_precision, sorter="laplace")),
    "ndcg-lists": Method("lists", of_batch(losses.ndcg, sorter="laplace")),
}
OF_LIBAUC: dict[str, Method] = {
    "libauc-average_precision": Method(
        "all",
        libauc_average_precision,
        {"memory": MEMORY, "margin": MARGINS},
        libauc_optimizer("SOAP"),
    ),
    "libauc-ndcg-lists": Method("lists", libauc_ndcg, {"memory": MEMORY}, libauc_optimizer("SONG")),
}  # fmt: skip


# --- Training. ---


def batches(queries: tuple[int, ...], kind: str, positives: int, draws: torch.Generator) -> Iterator[Tensor]:
    """Yield row numbers, drawn with replacement, positives first: (1, LISTS * LENGTH) of all, or (LISTS, LENGTH)."""
    table = read()
    lists = [table.queries[query] for query in queries]
    lists = [torch.cat(lists)] if kind == "all" else lists
    count = LISTS * LENGTH if kind == "all" else LENGTH
    pools = [(rows[table.labels[rows] > 0], rows[table.labels[rows] == 0]) for rows in lists]
    while True:
        parts = []
        for index in torch.randint(len(pools), (1 if kind == "all" else LISTS,), generator=draws).tolist():
            for among, size in zip(pools[index], (positives, count - positives), strict=True):
                parts.append(among[torch.randint(len(among), (size,), generator=draws)])
        yield torch.cat(parts).view(-1, count)


@lru_cache(maxsize=2)
def inputs(learn: tuple[int, ...]) -> Tensor:
    """Return the features of all rows, standardized over the queries to learn from."""
    table = read()
    known = torch.cat([table.queries[query] for query in learn])
    return standardized(table.features, table.features[known]).clamp(-10, 10).float()


def trained_scores(
    method: Method, learn: tuple[int, ...], setting: dict[str, Any], *, seed: int, steps: int
) -> Iterator[Tensor]:
    """Train a network, and yield its scores of all rows after each of the step counts."""
    table = read()
    rate, options = setting["rate"], {key: value for key, value in setting.items() if key != "rate"}
    features = inputs(learn)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(features.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    loss, optimizer = method.loss(table, **options), method.optimizer(network.parameters(), lr=rate)
    drawn = batches(learn, method.batches, setting["positives"], generator(seed, "across_batches", method.batches))
    for step, rows in zip(range(1, steps + 1), drawn, strict=False):
        optimizer.zero_grad()
        loss(network(features[rows]).squeeze(-1), table.labels[rows], rows).backward()
        optimizer.step()
        if step in STEPS:
            with torch.no_grad():
                yield network(features).squeeze(-1)


# --- Measuring. ---


def precisions(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the precision at each positive row, and 0 at the others.

    >>> precisions(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]))
    tensor([1.0000, 0.0000, 0.6667])
    """
    order = scores.argsort(descending=True, stable=True)
    ordered = labels[order]
    result = torch.empty_like(scores)
    result[order] = ordered * ordered.cumsum(0) / torch.arange(1, len(ordered) + 1)
    return result


def measured(scores: Tensor, queries: tuple[int, ...]) -> Tensor:
    """Return for each query the sum of precisions among all rows, its positives, and its own average precision."""
    table = read()
    rows = torch.cat([table.queries[query] for query in queries])
    among_all = torch.zeros_like(scores)
    among_all[rows] = precisions(scores[rows], table.labels[rows])
    values = []
    for query in queries:
        own, labels = table.queries[query], table.labels[table.queries[query]]
        within = precisions(scores[own], labels).sum() / labels.sum()
        values.append(torch.stack([among_all[own].sum(), labels.sum(), within]))
    return torch.stack(values, 1)


def summary(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the average precision of all rows, and the mean of queries.

    >>> summary(np.array([[1.0, 2.0], [1.0, 3.0], [0.8, 0.6]]), np.arange(2)).round(2)
    array([0.75, 0.7 ])
    """
    sums, positives, within = values[:, rows]
    return np.stack([sums.sum(-1) / positives.sum(-1), within.mean(-1)])


def parts() -> list[Fold]:
    """Return for each fold the queries to train on while choosing settings, to choose by, and to test on."""
    return [tuple(tuple(part.tolist()) for part in fold) for fold in drawn_parts("across_batches", len(read().queries))]


def rows(run: str, method: Method) -> list[Row]:
    """Choose settings for each fold, and return the metrics of test queries and the settings."""
    judged_by = NAMES.index("average_precision" if method.batches == "all" else "within_queries")
    values, chosen = torch.empty(SEEDS, 3, len(read().queries)), []
    for learn, choose, test in parts():
        best, best_value = {}, -1.0
        for setting in method.settings():
            scores = trained_scores(method, learn, setting, seed=1, steps=STEPS[-1])
            for steps, of_step in zip(STEPS, scores, strict=True):
                own = measured(of_step, choose).numpy()
                value = summary(own, np.arange(len(choose)))[judged_by]
                if value > best_value:
                    best, best_value = setting | {"steps": steps}, value
        chosen.append(best)
        setting = {key: value for key, value in best.items() if key != "steps"}
        for seed in range(SEEDS):
            *_, last = trained_scores(method, learn + choose, setting, seed=seed + 1, steps=best["steps"])
            values[seed][:, test] = measured(last, test)
        print(run, best, f"{best_value:.3f}", flush=True)
    baselines = [BASELINES[method.batches]]
    if run in WITHOUT_MEMORY:
        baselines.append(WITHOUT_MEMORY[run])
    result = compared("across_batches", run, NAMES, values.numpy(), baselines=baselines, summary=summary)
    for key in chosen[0]:
        result += by_fold(run, f"setting.{key}", [setting[key] for setting in chosen])
    return result


def shape() -> Iterable[Row]:
    table = read()
    return rows_of(
        "table", {"rows": len(table.labels), "queries": len(table.queries), "positives": table.labels.sum().item()}
    )


if __name__ == "__main__":
    params: dict[str, Any] = {
        "rate": RATES, "steps": STEPS, "positives": POSITIVES, "memory": MEMORY, "margin": MARGINS, "folds": FOLDS,
        "seeds": SEEDS, "hidden": HIDDEN, "batch": LISTS * LENGTH,
    }  # fmt: skip
    groups: dict[str, Jobs] = {"networks": {"table": shape}, "libauc": {}}
    for group, methods in (("networks", METHODS), ("libauc", OF_LIBAUC)):
        groups[group] |= {run: partial(rows, run, method) for run, method in methods.items()}
    command("across_batches", groups, params=params, hashes={str(FILE.member): str(FILE.digest)})
