"""Compare losses on protein homology by cross-validation: `python -m tools.protein_homology [METHOD ...]`.

Each fold's queries are ranked by networks that learned on the others. A method's learning rate is chosen in each fold,
by the mean over three seeds of the mean AP of its validation queries. A stopped run resumes from the last method and
fold that was finished. Finished methods are kept in results/protein_homology/, and docs/real_data.md shows them.
LightGBM must be installed for its method. Fetch the data and commit code first.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.results import machine
from pipelines.ops.git import git
from pipelines.reporting.results import number
from rankops.bootstrap import Statistic, differences, evaluate, holm
from rankops.datasets.files.folds import next_of
from rankops.datasets.files.splits import Split, padded
from rankops.datasets.protein_homology import ProteinHomology
from rankops.datasets.public.queries import QueryDataset
from rankops.datasets.public.reading import SPLITS, Reading, fold_of
from rankops.io.atomic import replaced_file
from rankops.sorters import load_sorter
from rankops.tasks.query_ranking import QueryRanking, metrics_of
from rankops.training.loop import train
from rankops.training.objective import Objective
from tools.page import markdown, write_results

RAW, RESULTS, PIECES = Path("data/raw/protein_homology"), Path("results/protein_homology"), Path(".checkpoints/protein")
COMMITTED = ("src", "pipelines", "tools")
FOLDS, CHOOSING, SEEDS = 10, [1, 2, 3], list(range(1, 11))
RATES = [5e-4 * 2**power for power in range(8)]  # to 0.064
BOOSTING = [0.0125, 0.025, 0.035, 0.05, 0.07, 0.1, 0.2, 0.4]  # rates of LightGBM
BASELINE = "soft_margin"
SOFT_MARGIN = {"name": "multilabel_soft_margin", "args": {}, "weight": 1.0, "epochs": None}
# What is trained: loss, its sorter, auxiliary loss, and the name that tables show.
METHODS: dict[str, tuple[dict[str, Any] | None, str | None, dict[str, Any] | None, str]] = {
    BASELINE: ({"name": "multilabel_soft_margin"}, None, None, "soft margin"),
    "soft_margin_and_eq_7": (
        {"name": "mean_average_precision", "args": {"weight_by": "positives"}},
        "laplace",
        SOFT_MARGIN,
        "soft margin + Eq. 7, Laplace",
    ),
    "average_precision": ({"name": "average_precision"}, "laplace", None, "average precision loss, Laplace"),
    "soft_margin_and_average_precision": (
        {"name": "average_precision"},
        "laplace",
        SOFT_MARGIN,
        "soft margin + average precision loss, Laplace",
    ),
    "smooth_ap": ({"name": "average_precision"}, "handcrafted", None, "SmoothAP: average precision loss, handcrafted"),
    "hinge_ap": ({"name": "hinge_ap"}, None, None, "Hinge-AP"),
    "rlsep": ({"name": "rlsep"}, None, None, "RLSEP on 0/1"),
    "listnet": ({"name": "listnet"}, None, None, "ListNet"),
    "lightgbm": (None, None, None, "LightGBM, LambdaRank"),
    "lambdarank": ({"name": "lambdarank"}, None, None, "LambdaRank"),
}  # fmt: skip
TRAINING = {"batch_size": 2, "epochs": 8, "patience": 8, "schedule": {"name": "cosine"}}
MODEL: dict[str, Any] = {
    "name": "linear",
    "args": {"standardize": False},
    "backbone": {"name": "perceptron", "args": {"hidden": [64, 32], "within_group": True}},
}

METRICS = ("mean_average_precision", "ndcg", "top_1", "rank_of_last")  # the first of the task's

Splits = dict[str, Split]
Scores = Callable[[Split], torch.Tensor]  # (n, d), padded


def rates_of(method: str) -> list[float]:
    return BOOSTING if method == "lightgbm" else RATES


def load(dataset: QueryDataset, raw: Path, *, fold: int, folds: int) -> tuple[Splits, list[str]]:
    """Return the splits of a fold of queries, and the names of its test queries."""
    with TemporaryDirectory() as folder:
        table = pa.concat_tables(dataset.tables(raw, "all", Reading(None, 1, 1, {}, [])))
        numbers = np.array([fold_of(name, folds=folds, seed=1) for name in table["name"].to_pylist()])
        tested, validated = numbers == fold, numbers == next_of(fold, folds=folds)
        for split, rows in zip(SPLITS, (~(tested | validated), validated, tested), strict=True):
            pq.write_table(table.filter(pa.array(rows)), Path(folder) / f"{split}.parquet")
        names = pq.read_table(Path(folder) / "test.parquet", columns=["name"])["name"].to_pylist()
        return {split: QueryRanking().load(folder, split, threads=1) for split in SPLITS}, names


def network(
    objective: Objective, splits: Splits, *, model: dict[str, Any], training: dict[str, Any], rate: float, seed: int
) -> Scores:
    """Train a network and return its scores of queries."""
    phases = {"ranker": training | {"optimizer": {"name": "AdamW", "args": {"lr": rate, "weight_decay": 1e-2}}}}
    task, data = QueryRanking(phases), (splits["train"], splits["val"])
    ranker = task.build(model, splits["train"], seed=seed)
    list(train(task, ranker, *data, objective=objective, seed=seed, device="cpu"))

    def scores(split: Split) -> torch.Tensor:
        assert split.sizes is not None
        return padded(task.scores(ranker, split.inputs, split.sizes), split.sizes)[0]

    return scores


def _padded(values: torch.Tensor, split: Split) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a value of each document (m,) as lists (n, d), and the mask of those that are there."""
    assert split.sizes is not None
    return padded(values, split.sizes)


def measured(scores: torch.Tensor, split: Split) -> torch.Tensor:
    """Return `METRICS` of each query, (4, n)."""
    return metrics_of(scores, *_padded(split.truth, split))[: len(METRICS)]


def by_method(method: str, splits: Splits, *, rate: float, seed: int) -> Scores:
    """Train a network with the loss of a method."""
    loss, sorter, auxiliary, _ = METHODS[method]
    assert loss is not None
    objective = Objective(loss, sorter=load_sorter(sorter) if sorter else None, auxiliary=auxiliary)
    return network(objective, splits, model=MODEL, training=TRAINING, rate=rate, seed=seed)


def boosted(splits: Splits, *, rate: float, seed: int) -> Scores:
    """Train LightGBM's LambdaRank, stopped by average precision on the validation queries, and return its scores."""
    import lightgbm  # ty: ignore[import-not-found]

    def flat(split: Split) -> dict[str, Any]:
        assert split.sizes is not None
        return {"data": split.inputs.items.numpy(), "label": split.truth.numpy(), "group": split.sizes.numpy()}

    options = {"objective": "lambdarank", "metric": "map", "eval_at": [2000], "learning_rate": rate, "num_leaves": 15}
    options |= {"bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.5, "min_data_in_leaf": 50}
    options |= {"lambdarank_truncation_level": 100, "seed": seed, "num_threads": 1, "verbosity": -1}
    data = lightgbm.Dataset(**flat(splits["train"]))
    val = lightgbm.Dataset(**flat(splits["val"]), reference=data)
    stop = lightgbm.early_stopping(30, verbose=False)
    booster = lightgbm.train(options, data, num_boost_round=300, valid_sets=[val], callbacks=[stop])

    def scores(split: Split) -> torch.Tensor:
        return _padded(torch.from_numpy(booster.predict(split.inputs.items.numpy())).float(), split)[0]

    return scores


def piece(method: str, fold: int) -> dict[str, Any]:
    """Return what a method gives in a fold: the rate that was chosen, and each test query's metrics, by seed."""
    splits, names = load(ProteinHomology(), RAW, fold=fold, folds=FOLDS)

    def trained(rate: float, seed: int) -> tuple[float, list[list[float]]]:
        options = {"rate": rate, "seed": seed}
        scores = boosted(splits, **options) if method == "lightgbm" else by_method(method, splits, **options)
        val, test = (measured(scores(one), one) for one in (splits["val"], splits["test"]))
        return val[0].nanmean().item(), test.T.tolist()

    tried = {rate: [trained(rate, seed) for seed in CHOOSING] for rate in rates_of(method)}
    means = {rate: fmean(value for value, _ in results) for rate, results in tried.items()}
    chosen = max(means, key=means.__getitem__)
    results = tried[chosen] + [trained(chosen, seed) for seed in SEEDS[len(CHOOSING) :]]
    return {
        "rate": chosen,
        "tried": {str(rate): [round(value, 4) for value, _ in some] for rate, some in tried.items()},
        "queries": {
            str(seed): {name: [round(value, 4) for value in row] for name, row in zip(names, rows, strict=True)}
            for seed, (_, rows) in zip(SEEDS, results, strict=True)
        },
    }


def statistics(folds: dict[str, Any]) -> dict[int, Statistic]:
    """Return a method's metrics of all queries, each ranked in the fold that tests it, by seed."""
    metrics, result = list(METRICS), {}
    for seed in SEEDS:
        queries = {name: row for fold in folds.values() for name, row in fold["queries"][str(seed)].items()}
        values = np.array([queries[name] for name in sorted(queries, key=int)]).T
        result[seed] = Statistic(metrics, values.shape[1], lambda rows, values=values: values[:, rows].mean(-1))
    return result


def keep(method: str, commit: str) -> None:
    """Train what is missing of a method, and keep it once it is whole."""
    params: dict[str, Any] = {
        "run": dict(zip(("loss", "sorter", "auxiliary"), METHODS[method][:3], strict=True)) | {"task": "query_ranking"}
    }
    params |= {"model": MODEL, "training": TRAINING, "rates": RATES, "folds": FOLDS, "boosting": BOOSTING}
    folds = {}
    for fold in range(1, FOLDS + 1):
        path = PIECES / commit[:10] / f"{method}-{fold}.json"
        if not path.is_file():
            found = piece(method, fold)
            with replaced_file(path) as partial:
                partial.write_text(json.dumps(found))
        folds[str(fold)] = json.loads(path.read_text())
        print(method, "fold", fold, "rate", folds[str(fold)]["rate"], flush=True)
    kept: dict[str, Any] = {
        "commit": commit,
        "command": f"python -m tools.protein_homology {method}",
        "machine": machine(),
    }
    kept |= {"params": params, "training": {"seeds": SEEDS}}
    kept |= {"metrics": evaluate(statistics(folds), resamples=2000, seed=1), "folds": folds}
    with replaced_file(RESULTS / f"{method}.json") as partial:
        partial.write_text(json.dumps(kept) + "\n")


def table() -> str:
    """Return what was kept as a table, with differences from the baseline."""
    kept = {name: json.loads(path.read_text()) for name in METHODS if (path := RESULTS / f"{name}.json").is_file()}
    if BASELINE not in kept:
        raise ValueError(f"{RESULTS}: no {BASELINE}.json, with which others are compared: run it")
    by_method = {name: statistics(one["folds"]) for name, one in kept.items()}
    others = {name: some for name, some in by_method.items() if name != BASELINE}
    gains = differences(others, by_method[BASELINE], resamples=2000, seed=1) if others else {}
    main = QueryRanking.metrics[0].name
    adjusted = dict(zip(gains, holm([gains[name][main]["p"] for name in gains]), strict=True))
    columns = ["method", "mean AP", "difference from soft margin", "p (Holm)", "NDCG", "TOP1", "RKL", "rates at an end"]
    rows = []
    for name, one in kept.items():
        leaf, rest = one["metrics"][main], [one["metrics"][metric.name]["value"] for metric in QueryRanking.metrics[1:]]
        gain = gains.get(name, {}).get(main)
        shown = [number(leaf["value"], leaf["low"], leaf["high"])]
        if gain is None:
            shown += ["", ""]
        else:
            shown += [number(gain["value"], gain["low"], gain["high"], digits=4, sign=True), f"{adjusted[name]:.3f}"]
        shown += [f"{rest[0]:.3f}", f"{rest[1]:.3f}", f"{rest[2]:.1f}"]
        lowest, *_, highest = rates_of(name)
        ends = sum(fold["rate"] in (lowest, highest) for fold in one["folds"].values())
        rows.append([METHODS[name][3], *shown, f"{ends} of {len(one['folds'])}"])
    return markdown(columns, rows)


def main(names: list[str]) -> None:
    """Train the methods that are named, then write the table of all that were kept.

    Raises:
        ValueError: an unknown method, code that is in no commit, or nothing to compare with.
    """
    if unknown := [name for name in names if name not in METHODS]:
        raise ValueError(f"{unknown[0]}: no such method; expected {', '.join(METHODS)}")
    if names and (changed := git(".", "status", "--porcelain", "--", *COMMITTED)):
        raise ValueError(f"not in a commit: {changed}. Commit what makes the results first")
    torch.set_num_threads(1)
    for name in names:
        keep(name, git(".", "log", "-1", "--format=%H", "--", *COMMITTED))
    write_results(Path("docs/real_data.md"), table(), by="tools/protein_homology.py")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
