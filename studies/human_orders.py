"""Rank labels by people's votes: RLSEP compared with other losses on three public sets of votes.

    python -m studies.converters.votes FOLDER               # once: tables of the sets, from your files
    python -m studies.human_orders [SET ...]     # computes what is missing, half an hour on one core

Labels with equal votes are tied, and labels without a vote are absent. There are ten random splits, each named by its
seed, and five networks for each, all trained side by side. In each split, a quarter of the training rows chooses the
learning rate and the number of steps, by the mean ranked accuracy of the first three networks. Then each network is
trained on all training rows.
"""

from collections.abc import Iterator
from functools import cache, partial

import pandas as pd
import torch
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row
from rankgrad.metrics.label_ranking import label_ranking_scores
from rankgrad.ranks import dense_ranks, exact_ranks
from rankgrad.seeding import generator
from studies.converters.votes import SETS, TABLES
from studies.vectorized import Jobs, Lists, Loss, by_seed, command, first_weights, squared_errors, trained

SPLITS, SEEDS, CHOOSE_BY = 10, 5, 3
HIDDEN = 32
COMPONENTS = 100  # most principal components of the features
BATCH = 64
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
STEPS = (50, 100, 200, 400, 800)
BOUND = 5.0  # bound on the log of a variance
KL = "kl to the votes"


def kl(scores: Tensor, votes: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence between the fractions of votes and the softmax of the scores."""
    fractions = votes / votes.sum(-1, keepdim=True)
    return (torch.xlogy(fractions, fractions) - fractions * scores.log_softmax(-1)).sum(-1)


def gaussian_mlr(outputs: Tensor, label_ranks: Tensor) -> Tensor:
    """Return GaussianMLR's loss for networks that predict a mean and a log variance for each label."""
    means, log_variances = outputs.chunk(2, -1)
    bounded = BOUND * torch.tanh(log_variances / BOUND)
    return losses.gaussian_mlr(means, label_ranks, log_variances=bounded, reduction="none", check_finite=False)


def first_label(scores: Tensor, label_ranks: Tensor) -> Tensor:
    """Return the softmax cross-entropy with the label that has the most votes; tied ones share the target."""
    most = (label_ranks == label_ranks.amax(-1, keepdim=True)).long()
    return losses.multilabel_cross_entropy(scores, most, reduction="none", check_finite=False)


def average_ranks(label_ranks: Tensor) -> Tensor:
    """Return ranks, averaged over ties; the most important label has the largest."""
    return -exact_ranks(label_ranks.float())


METHODS: dict[str, Loss] = {
    "rlsep": partial(losses.rlsep, reduction="none", check_finite=False),
    "plackett_luce": partial(losses.plackett_luce, reduction="none", check_finite=False),
    KL: kl,
    "mse of ranks": squared_errors(average_ranks, (-1,)),
    "gaussian_mlr": gaussian_mlr,
    "cross-entropy, first label": first_label,
}


def ranked(name: str) -> Loss:
    """Return a metric of the order of all labels, ignoring ties, see `label_ranking_scores`."""

    def metric(outputs: Tensor, label_ranks: Tensor) -> Tensor:
        scores = outputs[..., : label_ranks.shape[-1]]  # without GaussianMLR's variances
        values = label_ranking_scores(scores.flatten(0, 1), label_ranks.flatten(0, 1))[name]
        return values.view(label_ranks.shape[:-1])

    return metric


def tau_b(outputs: Tensor, label_ranks: Tensor) -> Tensor:
    return metrics.kendall(outputs[..., : label_ranks.shape[-1]], label_ranks)


def every_metric(outputs: Tensor, label_ranks: Tensor) -> Tensor:
    return torch.stack([metric(outputs, label_ranks) for metric in METRICS.values()])


METRICS: dict[str, Loss] = {"accuracy": ranked("accuracy"), "kendall": tau_b, "exact_match": ranked("exact_match")}


@cache
def read(name: str) -> tuple[Tensor, Tensor]:
    """Return features (n, f), float64, and votes (n, K) of a set; rows whose labels are all tied are left out."""
    table = pd.read_parquet(TABLES / f"{name}.parquet")
    features = torch.tensor(table.filter(regex="^x_").to_numpy(), dtype=torch.float64)
    votes = torch.tensor(table.filter(regex="^votes_").to_numpy(), dtype=torch.float64)
    ordered = votes.amax(-1) > votes.amin(-1)
    return features[ordered], votes[ordered]


def ranks_of(votes: Tensor) -> Tensor:
    """Return label ranks (n, K): 0 for labels without a vote, then 1, 2, ..., with equal ranks for equal votes."""
    return dense_ranks((votes * 1e5).round().long())


def parts(count: int, name: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return for each split the rows to train on, to choose by, and to test on: 60, 20, and 20 percent."""
    result = []
    for seed in range(1, SPLITS + 1):
        order = torch.randperm(count, generator=generator(seed, "human_orders", name))
        learn, choose, test = order.tensor_split([count * 6 // 10, count * 8 // 10])
        result.append((learn, choose, test))
    return result


@cache
def inputs(name: str) -> Tensor:
    """Return the first principal components (splits, n, f) of a set's standardized features, standardized again.

    Means, deviations, and components are computed from each split's training rows.
    """
    features, _ = read(name)
    result = []
    for learn, _, _ in parts(len(features), name):
        values = standardized(features, learn)
        _, vectors = torch.linalg.eigh(values[learn].mT @ values[learn])
        result.append(standardized(values @ vectors[:, -COMPONENTS:], learn).float())
    return torch.stack(result)


def standardized(features: Tensor, learn: Tensor) -> Tensor:
    spread, mean = torch.std_mean(features[learn], 0)
    return (features - mean) / spread.where(spread > 0, 1.0)


def lists(name: str, truth: Tensor, rows: Tensor, networks: int) -> Lists:
    """Return rows (splits, m) of each split, for several networks."""
    split = torch.arange(SPLITS).unsqueeze(1)
    features, targets = inputs(name)[split, rows], truth[rows]
    counts = torch.ones(SPLITS * networks, rows.shape[1])
    return Lists(features.repeat_interleave(networks, 0), targets.repeat_interleave(networks, 0), counts)


def batches(split: Lists) -> Iterator[Lists]:
    """Yield random rows for each network endlessly, the same for every method."""
    draws = generator(0, "human_orders", "batches")
    count, length = split.counts.shape
    network, counts = torch.arange(count).unsqueeze(1), torch.ones(count, BATCH)
    while True:
        rows = torch.randint(length, (count, BATCH), generator=draws)
        yield Lists(split.inputs[network, rows], split.truth[network, rows], counts)


def for_each_rate(split: Lists) -> Lists:
    """Return the lists of all networks once for each learning rate."""
    count = len(RATES)
    return Lists(split.inputs.repeat(count, 1, 1), split.truth.repeat(count, 1, 1), split.counts.repeat(count, 1))


def rows(name: str, method: str) -> list[Row]:
    """Choose a setting for each split, and return the metrics of each split and each seed with it."""
    _, votes = read(name)
    ranks, run = ranks_of(votes), f"{name}, {method}"
    truth = votes.float() if method == KL else ranks
    learn, choose, test = map(torch.stack, zip(*parts(len(votes), name), strict=True))
    outputs = votes.shape[1] * (2 if method == "gaussian_mlr" else 1)

    # Try all settings side by side with the first networks of each split.
    learned, tested = lists(name, truth, learn, CHOOSE_BY), lists(name, ranks, choose, CHOOSE_BY)
    sizes = (learned.inputs.shape[-1], HIDDEN, outputs)
    start = first_weights("human_orders", sizes, networks=CHOOSE_BY, copies=SPLITS)
    train = partial(trained, METHODS[method], activation=torch.relu, steps=STEPS)
    tried = train(
        METRICS["accuracy"],
        map(for_each_rate, batches(learned)),
        for_each_rate(tested),
        [layer.repeat(len(RATES), 1, 1) for layer in start],
        rates=torch.tensor(RATES).repeat_interleave(len(start[0])),
    )
    means = tried.view(len(RATES), SPLITS, CHOOSE_BY, len(STEPS)).mean(2)
    best = means.transpose(0, 1).flatten(1).argmax(-1)  # for each split
    rate, step = best // len(STEPS), best % len(STEPS)

    # Train all networks of each split with its setting.
    training = torch.cat([learn, choose], 1)
    learned, tested = lists(name, truth, training, SEEDS), lists(name, ranks, test, SEEDS)
    start = first_weights("human_orders", sizes, networks=SEEDS, copies=SPLITS)
    rates = torch.tensor(RATES)[rate].repeat_interleave(SEEDS)
    values = train(every_metric, batches(learned), tested, start, rates=rates)
    index = step.repeat_interleave(SEEDS).view(1, -1, 1).expand(len(METRICS), -1, 1)
    values = values.gather(-1, index).view(len(METRICS), SPLITS, SEEDS)

    result = []
    for metric, of_metric in zip(METRICS, values, strict=True):
        result += by_fold(run, metric, of_metric.mean(1).tolist())
        result += by_seed(run, metric, of_metric.mean(0).tolist(), range(1, SEEDS + 1))
    result += by_fold(run, "setting.rate", [RATES[index] for index in rate])
    return result + by_fold(run, "setting.steps", [STEPS[index] for index in step])


def by_fold(run: str, metric: str, values: list[float]) -> list[Row]:
    return [Row(run, metric, value, fold=fold) for fold, value in enumerate(values, 1)]


def shape(name: str) -> list[Row]:
    features, votes = read(name)
    tied = (ranks_of(votes).sort(-1).values.diff(dim=-1) == 0).any(-1).double().mean().item()
    numbers = {"rows": len(votes), "features": features.shape[1], "labels": votes.shape[1], "rows with ties": tied}
    return [Row(name, metric, value) for metric, value in numbers.items()]


def jobs(name: str, _: list[Row]) -> Jobs:
    yield name, partial(shape, name)
    for method in METHODS:
        yield f"{name}, {method}", partial(rows, name, method)


if __name__ == "__main__":
    params = {"rate": RATES, "steps": STEPS, "splits": SPLITS, "seeds": SEEDS, "hidden": HIDDEN, "batch": BATCH}
    hashes = {f"{name}.mat": about.sha256 for name, about in SETS.items()}
    command("human_orders", {name: partial(jobs, name) for name in SETS}, params=params, hashes=hashes)
