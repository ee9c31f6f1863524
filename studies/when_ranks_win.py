"""Compare ranking losses with regression: the same network on generated data sets that differ in one property each.

    python -m studies.when_ranks_win [KIND ...]      # computes what is missing, half an hour on one core

All seeds of a method are trained side by side. The learning rate and the number of steps are those with the best mean
over seeds on validation lists.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rankgrad import losses, metrics
from rankgrad.io.results import Row, rows_of
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator
from studies.vectorized import Jobs, Lists, Loss, by_seed, command, measured, of_each_list, squared_errors

FEATURES, HIDDEN, TEST_ROWS = 20, 32, 2000
SEEDS = range(1, 11)
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
GRADES = torch.tensor([0.16, 0.43, 0.54])
STEPS = (10, 20, 40, 80, 160, 320, 640, 1280)

Change = Callable[[Tensor, torch.Generator], Tensor]


def _plain(hidden: Tensor, draws: torch.Generator) -> Tensor:
    return hidden


@dataclass(frozen=True)
class Data:
    """A kind of data: lists of rows whose truth is computed from a hidden value and noise."""

    truth: Change  # of hidden values (lists, length), with their noise
    lists: int = 1
    length: int = 500
    noise: float = 0.3
    level: float = 0.0  # how much lists differ in their features' mean, which is irrelevant to the truth
    wrong: Change = _plain  # change of the truth, only in training

    def drawn(self, seed: int, split: str) -> tuple[Tensor, Tensor]:
        """Return features (rows, FEATURES) and truth (lists, length); the hidden function depends on the seed."""
        teacher, draws = (generator(seed, "when_ranks_win", use) for use in ("teacher", split))
        first, second = (torch.randn(FEATURES, generator=teacher) / FEATURES**0.5 for _ in range(2))
        lists, length = self.lists, self.length
        if split != "train":
            lists, length = (1, TEST_ROWS) if lists == 1 else (TEST_ROWS // length, length)
        rows = torch.randn(lists, length, FEATURES, generator=draws)
        noise = self.noise * torch.randn(lists, length, generator=draws)
        truth = self.truth((rows @ first + torch.tanh(2 * rows @ second)) / 1.25 + noise, draws)
        rows = rows + self.level * torch.randn(lists, 1, FEATURES, generator=draws)
        return rows.flatten(0, 1), self.wrong(truth, draws) if split == "train" else truth


def _outliers(truth: Tensor, draws: torch.Generator) -> Tensor:
    chosen = torch.rand(truth.shape, generator=draws) < 0.03
    return torch.where(chosen, 20 * torch.randn(truth.shape, generator=draws), truth)


def _own_units(hidden: Tensor, draws: torch.Generator) -> Tensor:
    shift, scale = (torch.randn(len(hidden), 1, generator=draws) for _ in range(2))
    return 3 * shift + scale.exp() * hidden


def _top(share: float) -> Change:
    """Return labels: 1 for the largest values of each list, up to this fraction."""
    return lambda hidden, draws: (exact_ranks(hidden) <= share * hidden.shape[-1]).float()


def _flipped(labels: Tensor, draws: torch.Generator) -> Tensor:
    return torch.where(torch.rand(labels.shape, generator=draws) < 0.05, 1 - labels, labels)


VALUES = {
    "values with normal noise": Data(_plain),
    "the same, much noise": Data(_plain, noise=1.0),
    "the same, 50 rows": Data(_plain, length=50),
    "skewed, as prices and counts are": Data(lambda hidden, draws: (2 * hidden).exp()),
    "3 % of training targets are wrong": Data(_plain, wrong=_outliers),
    "20 lists of 25, each in its own unit": Data(_own_units, lists=20, length=25),
    "half of the rows tied": Data(lambda hidden, draws: hidden.clamp(min=0)),
    "four grades, 57 % the lowest": Data(lambda hidden, draws: torch.bucketize(hidden, GRADES) / 3),
}
LABELS = {
    "half of 50 are positive": Data(_top(0.5), lists=20, length=50),
    "5 of 50": Data(_top(0.1), lists=20, length=50),
    "4 of 200": Data(_top(0.02), lists=10, length=200),
    "5 of 50, much noise": Data(_top(0.1), lists=20, length=50, noise=1.0),
    "5 of 50, 5 % of training labels flipped": Data(_top(0.1), lists=20, length=50, wrong=_flipped),
    "5 of 50, lists differ in level": Data(_top(0.1), lists=20, length=50, level=1.0),
}


ON_VALUES: dict[str, Loss] = {
    "MSE": squared_errors(Tensor.float, (-2, -1)),
    "MSE, each list standardized": squared_errors(Tensor.float, (-1,)),
    "MSE of ranks": squared_errors(lambda truth: -exact_ranks(truth), (-1,)),
    "Spearman": of_each_list(losses.spearman),
}
ON_LABELS: dict[str, Loss] = {
    "cross-entropy": of_each_list(losses.multilabel_soft_margin),
    "softmax of each list": of_each_list(losses.multilabel_cross_entropy),
    "AP": of_each_list(losses.average_precision),
}


def measured_on(data: Data, loss: Loss, metric: Loss) -> dict[str, list[float]]:
    """Return each seed's metric on test lists, with the rate and steps chosen on validation."""
    splits = {}
    for split in ("train", "val", "test"):
        drawn = [data.drawn(seed, split) for seed in SEEDS]
        rows, truth = map(torch.stack, zip(*drawn, strict=True))
        splits[split] = Lists(rows, truth, torch.ones(truth.shape[:2]))
    draws, start = [generator(seed, "when_ranks_win", "weights") for seed in SEEDS], []
    for inputs, outputs in ((FEATURES, HIDDEN), (HIDDEN, 1)):
        weights = [torch.randn(inputs, outputs, generator=draw) / inputs**0.5 for draw in draws]
        start += [torch.stack(weights), torch.zeros(len(draws), 1, outputs)]
    lists = [splits[split] for split in ("train", "val", "train", "test")]
    return measured(loss, metric, lists, start, torch.tanh, rates=RATES, steps=STEPS, together=True)


def rows(run: str, metric: str, data: Data, loss: Loss) -> list[Row]:
    values = measured_on(data, loss, getattr(metrics, metric))
    chosen = {"setting.rate": values["rate"][0], "setting.steps": values["steps"][0]}
    return [*by_seed(run, metric, values["value"], SEEDS), *rows_of(run, chosen)]


def jobs(kind: str) -> Jobs:
    metric, losses = ("spearman", ON_VALUES) if kind in VALUES else ("average_precision", ON_LABELS)
    runs = {f"{kind}, {name}": loss for name, loss in losses.items()}
    return {run: partial(rows, run, metric, (VALUES | LABELS)[kind], loss) for run, loss in runs.items()}


if __name__ == "__main__":
    groups = {kind: jobs(kind) for kind in VALUES | LABELS}
    command("when_ranks_win", groups, params={"rate": RATES, "steps": STEPS, "hidden": HIDDEN}, hashes={})
