"""Rank algorithms by their run time on an instance: ranking losses and regression on six ASlib scenarios.

    python -m studies.converters.aslib FOLDER    # once: tables of the scenarios, from your copy
    python -m studies.aslib [SCENARIO ...]       # computes what is missing

Each scenario comes with ten folds. For each fold, the next three choose the learning rate and the number of steps by
PAR10, with two networks trained on the other six. Then five networks are trained on all nine. All networks are trained
side by side. A run that does not solve its instance within the cutoff counts as ten times the cutoff (PAR10). All such
runs are tied for last place, since their true times are unknown. Times below 0.01 s are tied, too. Instances on which
all runs are tied have no order and are left out. The time to compute features is not counted.
"""

from functools import cache

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row
from rankgrad.ranks import dense_ranks, exact_ranks
from studies.compared import compared
from studies.converters.aslib import SCENARIOS, TABLES
from studies.vectorized import Fold, Loss, Search, command, first_label, of_every_fold, of_sets, squared_errors

FOLDS, CHOOSE_WITH = 10, 3  # folds, and how many of them choose settings
SEEDS, CHOOSE_BY = 5, 2
HIDDEN = 32
BATCH = 64
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
STEPS = (25, 50, 100, 200, 400, 800, 1600)
LATE = 10.0  # an unsolved run counts as this many times the cutoff
FASTEST = 0.01  # seconds; times below are tied
FAR = 5.0  # standard deviations at which features are clipped
TREES = 100
UPSTREAM = "551b22b"  # the commit of the scenarios
NAMES = ["gap", "tau", "solved"]
BASELINE = "mse of log time"


def speeds(times: Tensor) -> Tensor:
    """Return the speed of runs from times in cutoffs: 0 if unsolved, larger if faster."""
    return (LATE / times).log()


def mse_centered(scores: Tensor, times: Tensor) -> Tensor:
    """Return the MSE of log times, after subtracting the means over algorithms from scores and targets."""
    target = speeds(times)
    spread = target.std((-2, -1), keepdim=True)
    return losses.mse(scores, target / spread, normalize_groups="centered", reduction="none", check_finite=False)


def label_ranks(times: Tensor) -> Tensor:
    """Return ranks: 0 for unsolved runs, and the largest for the fastest algorithm.

    >>> label_ranks(torch.tensor([0.5, 10.0, 0.1, 0.5]))
    tensor([1, 0, 2, 1])
    """
    return dense_ranks((speeds(times) * 1e5).round().long())


def average_ranks(times: Tensor) -> Tensor:
    return -exact_ranks(speeds(times))


METHODS: dict[str, Loss] = {
    BASELINE: squared_errors(speeds, (-2, -1)),
    "mse of log time, centered": mse_centered,
    "mse of ranks": squared_errors(average_ranks, (-1,)),
    "cross-entropy, fastest": lambda scores, times: first_label(scores, -times),
    "ranknet": lambda scores, times: losses.ranknet(scores, speeds(times), reduction="none", check_finite=False),
    "rlsep": lambda scores, times: losses.rlsep(scores, label_ranks(times), reduction="none", check_finite=False),
    "plackett_luce": lambda scores, times: losses.plackett_luce(
        scores, label_ranks(times), reduction="none", check_finite=False
    ),
}


@cache
def read(name: str) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return features (n, f), times in cutoffs (n, K), folds (n,) from 0, and the cutoff in seconds of a scenario."""
    table = pd.read_parquet(TABLES / f"{name}.parquet")
    seconds = torch.tensor(table.filter(regex="^seconds_").to_numpy(), dtype=torch.float64)
    features = torch.tensor(table.filter(regex="^x_").to_numpy(dtype=float), dtype=torch.float64)
    cutoff = float(table["cutoff"].iloc[0])
    times = (seconds.clamp(min=FASTEST) / cutoff).nan_to_num(LATE)
    ordered = times.amax(-1) > times.amin(-1)
    return features[ordered], times[ordered], torch.tensor(table["fold"].to_numpy() - 1)[ordered], cutoff


def parts(folds: Tensor) -> list[Fold]:
    """Return for each fold the rows to train on while choosing settings, to choose by, and to test on."""
    result = []
    for test in range(FOLDS):
        away = (folds - test) % FOLDS
        chooses = (away > 0) & (away <= CHOOSE_WITH)
        learns, tests = away > CHOOSE_WITH, away == 0
        result.append((learns.nonzero().flatten(), chooses.nonzero().flatten(), tests.nonzero().flatten()))
    return result


def inputs(features: Tensor, learn: Tensor) -> Tensor:
    """Return features (n, f) on a logarithmic scale, standardized over the training rows; missing ones are 0."""
    values = features.sign() * features.abs().log1p()
    known = values[learn]
    mean = known.nanmean(0)
    spread = (known - mean).square().nanmean(0).sqrt()
    return ((values - mean) / spread.where(spread > 1e-9, torch.inf)).nan_to_num(0.0).clamp(-FAR, FAR).float()


def time_of_first(scores: Tensor, times: Tensor) -> Tensor:
    """Return the time of the algorithm with the highest score."""
    return times.gather(-1, scores.argmax(-1, keepdim=True)).squeeze(-1)


def network_scores(name: str, method: str) -> tuple[Tensor, list[Row]]:
    """Choose a setting for each fold, and return scores (seeds, n, K) of test instances and the settings."""
    features, times, folds, _ = read(name)
    search = Search("aslib", RATES, STEPS, HIDDEN, BATCH, CHOOSE_BY, SEEDS)
    every_part = parts(folds)
    scores, settings = search.scores(
        f"{name}, {method}",
        METHODS[method],
        lambda scores, times: -time_of_first(scores, times),
        lambda learned: torch.stack([inputs(features, rows) for rows in learned]).unsqueeze(2),
        times.float(),
        every_part,
        outputs=times.shape[1],
    )
    return of_every_fold(scores, every_part), settings


def forest_scores(name: str) -> Tensor:
    """Return scores (1, n, K) of test instances from one random forest per algorithm, which predicts its log time."""
    features, times, folds, _ = read(name)
    result = torch.empty(1, *times.shape)
    for learn, choose, test in parts(folds):
        rows = torch.cat([learn, choose])
        values, target = inputs(features, rows).numpy(), speeds(times).numpy()
        for algorithm in range(times.shape[1]):
            forest = RandomForestRegressor(TREES, max_features=1 / 3, random_state=1)
            forest.fit(values[rows], target[rows, algorithm])
            result[0, test, algorithm] = torch.tensor(forest.predict(values[test])).float()
    return result


def single_best(name: str) -> Tensor:
    """Return scores (1, n, K) of test instances: the mean PAR10 of each algorithm on the nine other folds."""
    _, times, folds, _ = read(name)
    result = torch.empty(1, *times.shape)
    for learn, choose, test in parts(folds):
        result[0, test] = -times[torch.cat([learn, choose])].mean(0).float()
    return result


def values_of(name: str, scores: Tensor) -> np.ndarray:
    """Return (seeds, 5, n): time, tau-b, whether the instance was solved, and times of single best and oracle."""
    _, times, _, _ = read(name)
    every = times.expand(scores.shape)
    time, tau = time_of_first(scores, every), metrics.kendall(scores, speeds(every))
    best = time_of_first(single_best(name), times.unsqueeze(0)).expand_as(time)
    oracle = times.amin(-1).expand_as(time)
    return torch.stack([time, tau, (time < LATE).double(), best, oracle], 1).numpy()


def summary(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the fraction of the PAR10 gap between single best and oracle that is closed, tau, and solved instances.

    >>> summary(np.array([[3.0, 2.0], [0.5, np.nan], [1.0, 1.0], [4.0, 4.0], [1.0, 2.0]]), np.arange(2)).round(2)
    array([0.6, 0.5, 1. ])
    """
    time, tau, solved, best, oracle = values[:, rows]
    gap = (best - time).mean(-1) / (best - oracle).mean(-1)
    return np.stack([gap, np.nanmean(tau, -1), solved.mean(-1)])


def rows(name: str, method: str) -> list[Row]:
    """Return the metrics of a method, and their differences from regression."""
    run, settings = f"{name}, {method}", []
    if method == "single best":
        scores = single_best(name)
    elif method == "random forest":
        scores = forest_scores(name)
    else:
        scores, settings = network_scores(name, method)
    values = values_of(name, scores)
    return compared("aslib", run, NAMES, values, baselines=[BASELINE], group=f"{name}, ", summary=summary) + settings


def shape(name: str) -> dict[str, float]:
    features, times, _, cutoff = read(name)
    late = (times >= LATE).double().mean().item()
    numbers = {
        "instances": len(times), "features": features.shape[1], "algorithms": times.shape[1], "unsolved": late,
        "cutoff": cutoff,
    }  # fmt: skip
    best, oracle = time_of_first(single_best(name), times.unsqueeze(0)).mean().item(), times.amin(-1).mean().item()
    return numbers | {"single best": best * cutoff, "oracle": oracle * cutoff}


if __name__ == "__main__":
    params = {
        "rate": RATES, "steps": STEPS, "folds": FOLDS, "choose_with": CHOOSE_WITH, "seeds": SEEDS, "hidden": HIDDEN,
        "batch": BATCH, "trees": TREES,
    }  # fmt: skip
    groups = of_sets(SCENARIOS, [*METHODS, "single best", "random forest"], shape, rows)
    command("aslib", groups, params=params, hashes={"coseal/aslib_data": UPSTREAM})
