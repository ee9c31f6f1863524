"""Measure rules that rank without a network, for comparison with a run: `python -m studies.rivals.rules usual_order`.

They are a lower bound for networks, or an upper bound for scores that are never equal.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.config import load
from rankgrad import lookup
from rankgrad.evaluation import evaluate
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from studies.rivals.predictions import of_run, with_column


class Rule(NamedTuple):
    """A rule: the run whose test rows it ranks, the column of scores that it fills from these, and the metric."""

    run: str
    column: str
    scores: Callable[[pa.Table], list]
    metrics: list[str]


def usual_positions() -> np.ndarray:
    """Return the mean position of each component in training (K,), between 0 and 1; larger is more important."""
    train = np.stack(pq.read_table("data/kanji/train.parquet")["label_ranks"].to_numpy())
    return np.nanmean(np.where(train > 0, (train - 0.5) / train.max(1, keepdims=True), np.nan), axis=0)


def usual_order(table: pa.Table) -> list[np.ndarray]:
    """Return scores of a kanji's components, by their usual position."""
    return list(np.where(np.stack(table["true_label_ranks"].to_numpy()) > 0, usual_positions(), -1.0))


def mean_rating(table: pa.Table) -> list[list[float]]:
    """Return scores of films by their first feature, the opinion of other users."""
    users = pq.read_table("data/films/test.parquet", columns=["features"])["features"].to_pylist()
    scores = []
    for films in users:
        scores.append([features[0] for features in films])
    return scores


def films_in_order(table: pa.Table) -> list[list[float]]:
    """Return scores of films in the order of their relevance."""
    return [order(relevance) for relevance in table["relevance"].to_pylist()]


def order(truth: list[float]) -> list[float]:
    """Return scores in the order of the truth; ties are in row order."""
    return np.argsort(np.argsort(truth, kind="stable"), kind="stable").astype(float).tolist()


CELLS, FILMS = "memorability-mse-solar_cells", "films-mse"
RULES = {
    "usual_order": Rule("label_ranking-multilabel_cross_entropy-kanji", "scores", usual_order, ["ranked.exact_match"]),
    "true_order_of_cells": Rule(CELLS, "score", lambda table: order(table["target"].to_numpy()), ["spearman"]),
    "mean_rating": Rule(FILMS, "scores", mean_rating, ["ndcg", "kendall"]),
    "true_order_of_films": Rule(FILMS, "scores", films_in_order, ["ndcg", "kendall"]),
}


def main(name: str) -> None:
    """Write a rule's metric, with an interval over test rows."""
    params, rule = load(), RULES[name]
    table = of_run(rule.run)
    task = lookup.find("tasks", params.runs[rule.run].task)()
    statistic = task.statistic(with_column(table, rule.column, rule.scores(table)))
    rows = evaluate(name, {1: statistic}, resamples=params.evaluate.resamples, seed=params.evaluate.seed)
    with replaced_file(f"metrics/measured/{name}.csv") as partial:
        results.write(partial, [row for row in rows if row.metric in rule.metrics and row.seed is None])


if __name__ == "__main__":
    main(sys.argv[1])
