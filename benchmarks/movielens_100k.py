"""Rank each user's films by losses on ranks and by regression on ratings: NDCG and Kendall's tau of each user.

    rankops fetch movielens_100k
    python -m benchmarks.movielens_100k                    # all that is missing, half an hour on one core
    python -m benchmarks.movielens_100k --methods mse ranknet
    python -m benchmarks.movielens_100k --table            # the table of docs/real_data.md

Each of five folds of users is ranked by networks that learned from others. A method's learning rate is chosen in each
fold, by the mean over three seeds of the NDCG of its validation users. Each method and fold that is finished is a line
of results/movielens_100k/folds.jsonl, from which a stopped run goes on.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.results import machine
from pipelines.ops.git import git
from pipelines.reporting.results import number
from rankops.bootstrap import Statistic, differences, evaluate, holm
from rankops.datasets.files.splits import Split, padded
from rankops.datasets.movielens_100k import FILE, MovieLens100k
from rankops.io.atomic import replaced_file
from rankops.metrics import kendall, ndcg
from rankops.sorters import load_sorter
from rankops.training.objective import Objective
from tools.page import markdown, write_results
from tools.protein_homology import Splits, load, network

RAW, RESULTS = Path("data/raw/movielens_100k"), Path("results/movielens_100k/folds.jsonl")
PAGE, COMMITTED = Path("docs/real_data.md"), ("src", "benchmarks", "pipelines", "tools")
FOLDS, CHOOSING, SEEDS = 5, 3, [1, 2, 3, 4, 5]
RATES = [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2]
MODEL: dict[str, Any] = {
    "name": "linear",
    "args": {"standardize": False},
    "backbone": {"name": "perceptron", "args": {"hidden": [32], "within_group": True}},
}
TRAINING = {"batch_size": 16, "epochs": 15, "patience": 15, "schedule": {"name": "cosine"}, "monitor": "ndcg"}
BASELINE, CENTERED = "mse", "mse, user's mean taken off"
METHODS = {BASELINE: "mse", CENTERED: "mse"} | {
    name: name for name in ("listnet", "ranknet", "lambdarank", "ndcg", "spearman", "kendall")
}
SORTS = {"ndcg", "spearman", "kendall"}  # by Laplace
# What is ranked without a network: by the first feature, and as it should be, but never two scores alike.
REFERENCES = "mean rating of the film", "the true order, without equal scores"
METRICS = "NDCG", "Kendall's tau"


def of_users(scores: Tensor, users: Split) -> Tensor:
    """Return the metrics of each user, (2, n), NaN for one whose ratings are all alike; of equal scores, tau is 0."""
    ratings, mask = _padded(users.truth, users)
    alike = (ratings == ratings[:, :1]) | ~mask
    found = [metric(scores, ratings, mask=mask) for metric in (ndcg, kendall)]
    return torch.stack(found).nan_to_num(0.0).masked_fill(alike.all(-1), torch.nan)


def centered(users: Split) -> Split:
    """Return users with ratings minus the mean of their list."""
    ratings, mask = _padded(users.truth, users)
    mean = ratings.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
    return replace(users, truth=(ratings - mean)[mask])


def _padded(values: Tensor, users: Split) -> tuple[Tensor, Tensor]:
    assert users.sizes is not None
    return padded(values, users.sizes)


def reference(name: str, users: Split) -> Tensor:
    if name == REFERENCES[0]:
        return _padded(users.inputs.items[:, 0], users)[0]
    return _padded(users.truth, users)[0].argsort(stable=True).argsort().float()


def piece(method: str, splits: Splits) -> dict[str, Any]:
    """Return what a method gives in a fold: the rate that was chosen, and each test user's metrics, by seed."""
    val, test = splits["val"], splits["test"]
    if method in REFERENCES:
        return {"users": {"0": _rounded(of_users(reference(method, test), test))}}
    loss, learned = METHODS[method], splits
    if method == CENTERED:
        learned = splits | {"train": centered(splits["train"])}

    def trained(rate: float, seed: int) -> tuple[float, Tensor]:
        objective = Objective({"name": loss}, sorter=load_sorter("laplace") if loss in SORTS else None)
        scores = network(objective, learned, model=MODEL, training=TRAINING, rate=rate, seed=seed)
        return of_users(scores(val), val)[0].nanmean().item(), of_users(scores(test), test)

    tried = {rate: [trained(rate, seed) for seed in SEEDS[:CHOOSING]] for rate in RATES}
    chosen = max(RATES, key=lambda rate: fmean(value for value, _ in tried[rate]))
    results = tried[chosen] + [trained(chosen, seed) for seed in SEEDS[CHOOSING:]]
    return {
        "rate": chosen,
        "tried": {str(rate): [round(value, 4) for value, _ in some] for rate, some in tried.items()},
        "users": {str(seed): _rounded(found) for seed, (_, found) in zip(SEEDS, results, strict=True)},
    }


def _rounded(found: Tensor) -> list[list[float | None]]:
    return [[None if value != value else round(value, 3) for value in row] for row in found.tolist()]


def read() -> list[dict[str, Any]]:
    """Return what was kept: what all pieces share, then the pieces."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.is_file() else []


def keep(methods: list[str], commit: str) -> None:
    """Measure what is missing of methods by this commit, and keep each fold as it is finished."""
    about, *pieces = read() or [{}]
    if about.get("commit") != commit:
        about = {"commit": commit, "command": "python -m benchmarks.movielens_100k", "data": FILE.digest,
                 "seeds": SEEDS, "rates": RATES, "model": MODEL, "training": TRAINING,
                 "machine": machine()}  # fmt: skip
        pieces = []
    done = {(one["method"], one["fold"]) for one in pieces}
    for fold in range(1, FOLDS + 1):
        splits = load(MovieLens100k(), RAW, fold=fold, folds=FOLDS)[0]
        for method in methods:
            if (method, fold) not in done:
                pieces.append({"method": method, "fold": fold, **piece(method, splits)})
                with replaced_file(RESULTS) as partial:
                    partial.write_text("".join(f"{json.dumps(one)}\n" for one in (about, *pieces)))
                print(method, "fold", fold, "rate", pieces[-1].get("rate"), flush=True)


def statistics(pieces: list[dict[str, Any]]) -> dict[int, Statistic]:
    """Return a method's metrics of all users, each ranked in the fold that tests it, by seed."""
    result = {}
    for seed in pieces[0]["users"]:
        values = np.concatenate([np.array(one["users"][seed], float) for one in pieces], axis=1)
        result[int(seed)] = Statistic(
            list(METRICS), values.shape[1], lambda rows, values=values: np.nanmean(values[:, rows], -1)
        )
    return result


def table() -> str:
    """Return what was kept as a table, with differences from the baseline.

    Raises:
        ValueError: a fold of a method is missing.
    """
    _, *pieces = read() or [{}]
    by_method = {name: [one for one in pieces if one["method"] == name] for name in (*METHODS, *REFERENCES)}
    if short := [name for name, some in by_method.items() if [one["fold"] for one in some] != [*range(1, FOLDS + 1)]]:
        raise ValueError(f"{RESULTS}: not all folds of {short[0]}: run it again")
    kept = {name: statistics(some) for name, some in by_method.items()}
    others = {name: kept[name] for name in METHODS if name != BASELINE}
    gains = differences(others, kept[BASELINE], resamples=2000, seed=1)
    tests = [(name, metric) for name in gains for metric in METRICS]
    p = dict(zip(tests, holm([gains[name][metric]["p"] for name, metric in tests]), strict=True))
    rows = []
    for name, some in kept.items():
        found, cells = evaluate(some, resamples=2000, seed=1), []
        for metric in METRICS:
            leaf = found[metric]
            cells.append(number(leaf["value"], leaf["low"], leaf["high"]))
            if name in gains:
                gain = gains[name][metric]
                shown = number(gain["value"], gain["low"], gain["high"], digits=4, sign=True)
                cells += [shown, f"{p[name, metric]:.3f}"]
            else:
                cells += ["", ""]
        ends = sum(one["rate"] in (RATES[0], RATES[-1]) for one in by_method[name] if "rate" in one)
        rows.append([f"*{name}*", *cells, ""] if name in REFERENCES else [name, *cells, f"{ends} of {FOLDS}"])
    against = [f"minus {BASELINE}'s", "p (Holm)"]
    return markdown(["loss", METRICS[0], *against, METRICS[1], *against, "rates at an end"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*METHODS, *REFERENCES]
    parser.add_argument("--methods", nargs="+", choices=names, default=names)
    parser.add_argument("--table", action="store_true", help="write the table into docs/real_data.md instead")
    given = parser.parse_args()
    if given.table:
        write_results(PAGE, table(), by="benchmarks.movielens_100k")
        return
    if changed := git(".", "status", "--porcelain", "--", *COMMITTED):
        raise ValueError(f"not in a commit: {changed}. Commit what makes the results first")
    torch.set_num_threads(1)
    keep(given.methods, git(".", "log", "-1", "--format=%H", "--", *COMMITTED))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
