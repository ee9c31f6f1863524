"""Rerank BM25's first 100 abstracts for Cranfield's questions: ranking losses, regression, and LightGBM on features.

    python -m studies.converters.cranfield       # once: the table, from your files
    python -m studies.cranfield [GROUP ...]      # computes what is missing; trees need the package lightgbm

Settings are chosen by mean AP, see `studies.reranking`. Questions without a relevant abstract among their 100 are left
out.
"""

from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row, rows_of
from studies.compared import compared
from studies.reranking import Reranking, params_of
from studies.vectorized import Jobs, Loss, command, of_each_list, squared_errors

TABLE = Path("data/raw/cranfield/cranfield.parquet")
SEEDS = 3
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
STEPS = (25, 50, 100, 200, 400)
TREE_OPTIONS = {
    "objective": "lambdarank", "num_leaves": 7, "bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.5,
    "min_data_in_leaf": 50, "lambdarank_truncation_level": 100, "num_threads": 1, "verbosity": -1,
}  # fmt: skip
NAMES = ["ndcg_at_10", "reciprocal_rank_at_10", "mean_average_precision"]
RULES = {"bm25": "x_bm25", "topics": "x_topics", "feedback, topics": "x_feedback_topics"}
LEARNED, RULE = "mse", "bm25"  # the baselines
UPSTREAM = "1208e6d"  # the commit of the files

METHODS: dict[str, Loss] = {
    LEARNED: squared_errors(lambda relevance: relevance, (-2, -1)),
    "multilabel_soft_margin": of_each_list(losses.multilabel_soft_margin),
    "listnet": of_each_list(losses.listnet),
    "ranknet": of_each_list(losses.ranknet),
    "lambdarank": of_each_list(losses.lambdarank),
    "ndcg": of_each_list(losses.ndcg, sorter="laplace"),
    "average_precision": of_each_list(losses.average_precision, sorter="laplace"),
    "hinge_ap": of_each_list(losses.hinge_ap),
    "rlsep": of_each_list(losses.rlsep),
}


class Questions(NamedTuple):
    """The rows of questions with a relevant abstract, their features (q, d, f), and relevance (q, d)."""

    table: pd.DataFrame
    features: Tensor
    relevance: Tensor


@cache
def read() -> Questions:
    table = pd.read_parquet(TABLE)
    table = table[table.groupby("qid")["relevance"].transform("max") > 0]
    questions = table["qid"].nunique()
    features = torch.tensor(table.filter(regex="^x_").to_numpy(), dtype=torch.float64)
    relevance = torch.tensor(table["relevance"].to_numpy(), dtype=torch.float32)
    return Questions(table, features.view(questions, -1, features.shape[1]), relevance.view(questions, -1))


def reranking() -> Reranking:
    _, features, relevance = read()
    metric = metrics.average_precision
    return Reranking("cranfield", features, relevance, metric, METHODS, RATES, STEPS, SEEDS, TREE_OPTIONS)


def rule_scores(run: str) -> tuple[Tensor, list[Row]]:
    """Return a feature as scores (1, q, d)."""
    questions = read()
    return torch.tensor(questions.table[RULES[run]].to_numpy()).view(1, *questions.relevance.shape), []


def values_of(scores: Tensor) -> np.ndarray:
    """Return the metrics `NAMES` of each seed and question (seeds, 3, q)."""
    truth = read().relevance.expand(scores.shape)
    values = [metrics.ndcg(scores, truth, k=10), metrics.reciprocal_rank(scores, truth, k=10)]
    return torch.stack([*values, metrics.average_precision(scores, truth)], 1).numpy()


def rows(run: str) -> list[Row]:
    """Return the metrics of a method, and their differences from BM25 and from regression, which come first."""
    scores, settings = rule_scores(run) if run in RULES else reranking().scores(run)
    baselines = [] if run == RULE else [RULE, LEARNED]
    return compared("cranfield", run, NAMES, values_of(scores), baselines=baselines) + settings


def shape() -> Iterable[Row]:
    table, features, relevance = read()
    return rows_of("table", {
        "questions": len(features), "abstracts": relevance.shape[1], "features": features.shape[2],
        "relevant": relevance.sum(1).mean(), "without": 225 - table["qid"].nunique(),
    })  # fmt: skip


if __name__ == "__main__":
    params = params_of(RATES, STEPS, SEEDS)
    runs = {run: partial(rows, run) for run in (RULE, LEARNED, *RULES, *METHODS)}
    groups: dict[str, Jobs] = {"features": {"table": shape, **runs}, "trees": {"lightgbm": partial(rows, "lightgbm")}}
    command("cranfield", groups, params=params, hashes={"oussbenk/cranfield-trec-dataset": UPSTREAM})
