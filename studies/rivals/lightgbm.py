"""Train LightGBM's LambdaRank on proteins with the same folds: `python -m studies.rivals.lightgbm`; needs lightgbm.

As for the networks, the learning rate is chosen in each fold, by the mean over three seeds on validation; average
precision on validation decides when to stop.
"""

from importlib import import_module
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from rankgrad.datasets.files.folds import next_of
from studies.rivals.predictions import of_run, with_column, write

lightgbm: Any = import_module("lightgbm")
NAME, LIKE, DATA = "proteins-lightgbm", "proteins-soft_margin", "data/proteins/test.parquet"  # it has all rows
RATES = [0.0125, 0.025, 0.035, 0.05, 0.07, 0.1, 0.2, 0.4]
SEEDS, CHOOSING, ROUNDS = range(1, 11), 3, 300
OPTIONS: dict[str, Any] = {
    "objective": "lambdarank", "metric": "map", "eval_at": [2000], "num_leaves": 15, "bagging_fraction": 0.8,
    "bagging_freq": 1, "feature_fraction": 0.5, "min_data_in_leaf": 50, "lambdarank_truncation_level": 100,
    "num_threads": 1, "verbosity": -1,
}  # fmt: skip


class Lists:
    """Queries: concatenated documents (m, k), their relevance (m,), and how many each query has."""

    def __init__(self, queries: pd.DataFrame):
        self.sizes = queries["relevance"].map(len).to_numpy()
        self.relevance = np.concatenate(queries["relevance"].to_list())
        self.features = np.vstack([np.vstack(documents) for documents in queries["features"]]).astype(np.float32)

    def dataset(self, reference: Any = None) -> Any:
        return lightgbm.Dataset(self.features, self.relevance, group=self.sizes, reference=reference)

    def scores(self, booster: Any) -> list[np.ndarray]:
        return np.split(booster.predict(self.features), np.cumsum(self.sizes)[:-1])


def boosted(train: Lists, val: Lists, *, rate: float, seed: int) -> tuple[float, Any]:
    """Return the average precision on validation, and the trees."""
    data = train.dataset()
    stop = lightgbm.early_stopping(30, verbose=False)
    options = OPTIONS | {"learning_rate": rate, "seed": seed}
    trees = lightgbm.train(options, data, ROUNDS, valid_sets=[val.dataset(data)], callbacks=[stop])
    return next(iter(trees.best_score["valid_0"].values())), trees


def main() -> None:
    queries = pq.read_table(DATA).to_pandas()
    fold = queries["fold"].to_numpy()
    scores: dict[int, list[Any]] = {seed: [None] * len(queries) for seed in SEEDS}
    folds = int(fold.max())
    for tested in range(1, folds + 1):
        validated = next_of(tested, folds=folds)
        train = Lists(queries[~np.isin(fold, [tested, validated])])
        val, test = Lists(queries[fold == validated]), Lists(queries[fold == tested])

        # Choose the rate by the first seeds, then boost with the others.
        tried = {}
        for rate in RATES:
            tried[rate] = [boosted(train, val, rate=rate, seed=seed) for seed in SEEDS[:CHOOSING]]
        chosen = max(RATES, key=lambda rate: fmean(value for value, _ in tried[rate]))
        trees = tried[chosen] + [boosted(train, val, rate=chosen, seed=seed) for seed in SEEDS[CHOOSING:]]
        for seed, (_, booster) in zip(SEEDS, trees, strict=True):
            for row, values in zip(np.flatnonzero(fold == tested), test.scores(booster), strict=True):
                scores[seed][row] = values.tolist()
        print(f"{NAME}: fold {tested}, rate {chosen}", flush=True)
    first = of_run(LIKE)
    write(NAME, {seed: with_column(first, "scores", values) for seed, values in scores.items()})


if __name__ == "__main__":
    main()
