"""Rank labels by people's votes: RLSEP compared with other losses on three public sets of votes.

    python -m studies.converters.votes FOLDER               # once: tables of the sets, from your files
    python -m studies.human_orders [SET ...]     # computes what is missing, half an hour on one core

Labels with equal votes are tied, and labels without a vote are absent. There are ten random splits, each named by its
seed, and five networks for each, all trained side by side. In each split, a quarter of the training rows chooses the
learning rate and the number of steps, by the mean ranked accuracy of the first three networks. Then each network is
trained on all training rows.
"""

from functools import cache

import pandas as pd
import torch
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row
from rankgrad.metrics.label_ranking import label_ranking_scores
from rankgrad.ranks import dense_ranks, exact_ranks
from rankgrad.seeding import generator
from studies.converters.votes import SETS, TABLES
from studies.vectorized import (
    Fold,
    Loss,
    Search,
    by_fold,
    by_seed,
    command,
    first_label,
    of_each_list,
    of_sets,
    squared_errors,
    standardized,
)

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


def average_ranks(label_ranks: Tensor) -> Tensor:
    """Return ranks, averaged over ties; the most important label has the largest."""
    return -exact_ranks(label_ranks.float())


METHODS: dict[str, Loss] = {
    "rlsep": of_each_list(losses.rlsep),
    "plackett_luce": of_each_list(losses.plackett_luce),
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


def parts(count: int, name: str) -> list[Fold]:
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


def rows(name: str, method: str) -> list[Row]:
    """Choose a setting for each split, and return the metrics of each split and each seed with it."""
    _, votes = read(name)
    ranks, run = ranks_of(votes), f"{name}, {method}"
    splits = parts(len(votes), name)
    search = Search("human_orders", RATES, STEPS, HIDDEN, BATCH, CHOOSE_BY, SEEDS, drawn_rows)
    of_splits, settings = search.scores(
        run,
        METHODS[method],
        METRICS["accuracy"],
        lambda _: inputs(name).unsqueeze(2),
        votes.float() if method == KL else ranks,
        splits,
        outputs=votes.shape[1] * (2 if method == "gaussian_mlr" else 1),
        judged=ranks,
    )
    tested = []
    for (_, _, test), scores in zip(splits, of_splits, strict=True):
        tested.append((scores, ranks[test].expand(SEEDS, -1, -1)))
    result = []
    for metric, measure in METRICS.items():
        means = [measure(scores, truth).nan_to_num(0.0).mean(-1) for scores, truth in tested]
        table = torch.stack(means)  # (splits, seeds)
        result += by_fold(run, metric, table.mean(1).tolist())
        result += by_seed(run, metric, table.mean(0).tolist(), range(1, SEEDS + 1))
    return result + settings


def drawn_rows(sizes: Tensor, count: int, draws: torch.Generator) -> Tensor:
    """Draw rows for each network; all splits have the same number."""
    return torch.randint(int(sizes[0]), (len(sizes), count), generator=draws)


def shape(name: str) -> dict[str, float]:
    features, votes = read(name)
    tied = (ranks_of(votes).sort(-1).values.diff(dim=-1) == 0).any(-1).double().mean().item()
    return {"rows": len(votes), "features": features.shape[1], "labels": votes.shape[1], "rows with ties": tied}


if __name__ == "__main__":
    params = {"rate": RATES, "steps": STEPS, "splits": SPLITS, "seeds": SEEDS, "hidden": HIDDEN, "batch": BATCH}
    hashes = {f"{name}.mat": about.sha256 for name, about in SETS.items()}
    command("human_orders", of_sets([*SETS], [*METHODS], shape, rows), params=params, hashes=hashes)
