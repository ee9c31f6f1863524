"""Rank the graded search results of LightGBM's own example: ranking losses, regression, and LightGBM.

    python -m studies.converters.graded_search    # once: the table, from your files
    python -m studies.graded_search [GROUP ...]   # computes what is missing; trees need the package lightgbm

Settings are chosen by NDCG@10, see `studies.reranking`. Queries whose documents all have the same grade are left out.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rankgrad import losses, metrics
from rankgrad.io.results import Row, rows_of
from studies.compared import compared
from studies.reranking import NO_DOCUMENT, Reranking, params_of
from studies.vectorized import Jobs, Loss, command

TABLE = Path("data/raw/graded_search/graded_search.parquet")
SEEDS = 5
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
STEPS = (25, 50, 100, 200, 400)
TREE_OPTIONS = {  # those of the example, but for the rate and the number of trees, and for leaves that fit its size
    "objective": "lambdarank", "num_leaves": 7, "bagging_fraction": 0.9, "bagging_freq": 1, "feature_fraction": 0.5,
    "min_data_in_leaf": 50, "min_sum_hessian_in_leaf": 5.0, "num_threads": 1, "verbosity": -1,
}  # fmt: skip
NAMES = ["ndcg_at_10", "ndcg_at_5", "ndcg_at_1"]
LEARNED = "mse"  # the baseline
UPSTREAM = "1c774687cf571a2b710267c2ba1bd56244da82b4"  # the commit of the files


def _of_lists(loss: Callable[..., Tensor], **options: Any) -> Loss:
    """Return a loss that leaves out places without a document."""

    def of_lists(scores: Tensor, grades: Tensor) -> Tensor:
        mask = grades != NO_DOCUMENT
        return loss(scores, grades.clamp(min=0.0), mask=mask, reduction="none", check_finite=False, **options)

    return of_lists


METHODS: dict[str, Loss] = {
    LEARNED: _of_lists(losses.mse),
    "mse within queries": _of_lists(losses.mse, normalize_groups="centered"),
    "spearman": _of_lists(losses.spearman, sorter="laplace"),
    "listnet": _of_lists(losses.listnet),
    "ranknet": _of_lists(losses.ranknet),
    "lambdarank": _of_lists(losses.lambdarank),
    "ndcg": _of_lists(losses.ndcg, sorter="laplace"),
}


def _ndcg(scores: Tensor, grades: Tensor, k: int = 10) -> Tensor:
    return metrics.ndcg(scores, grades.clamp(min=0.0), k=k, mask=grades != NO_DOCUMENT)


@cache
def read() -> tuple[Tensor, Tensor]:
    """Return the features (q, d, f) and grades (q, d) of queries with different grades."""
    table = pd.read_parquet(TABLE)
    table = table[table.groupby("query")["relevance"].transform("nunique") > 1]
    features, grades = [], []
    for _, rows in table.groupby("query"):
        features.append(torch.tensor(np.stack(rows["features"].to_list()), dtype=torch.float64))
        grades.append(torch.tensor(rows["relevance"].to_numpy(), dtype=torch.float32))
    return (
        pad_sequence(features, batch_first=True),
        pad_sequence(grades, batch_first=True, padding_value=NO_DOCUMENT),
    )


def reranking() -> Reranking:
    features, grades = read()
    return Reranking("graded_search", features, grades, _ndcg, METHODS, RATES, STEPS, SEEDS, TREE_OPTIONS)


def rows(run: str) -> list[Row]:
    """Return the metrics of a method, and their differences from regression, which is computed first."""
    scores, settings = reranking().scores(run)
    _, grades = read()
    values = torch.stack([_ndcg(scores, grades.expand(scores.shape), k=k) for k in (10, 5, 1)], 1).numpy()
    return compared("graded_search", run, NAMES, values, baselines=[LEARNED]) + settings


def shape() -> Iterable[Row]:
    features, grades = read()
    lengths = (grades != NO_DOCUMENT).sum(1).float()
    return rows_of("table", {"queries": len(grades), "documents": lengths.mean(), "features": features.shape[2]})


if __name__ == "__main__":
    params = params_of(RATES, STEPS, SEEDS)
    runs = {run: partial(rows, run) for run in METHODS}
    groups: dict[str, Jobs] = {"networks": {"table": shape, **runs}, "trees": {"lightgbm": partial(rows, "lightgbm")}}
    command("graded_search", groups, params=params, hashes={"microsoft/LightGBM": UPSTREAM})
