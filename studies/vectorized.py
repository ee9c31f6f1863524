"""Train many small, independent networks side by side: weights have a leading dimension for the network."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rankgrad import losses
from rankgrad.io.results import Row, rows_of
from rankgrad.seeding import generator
from studies import kept

Loss = Callable[[Tensor, Tensor], Tensor]  # scores and truth (B, lists, length) to a value a list; metrics, too
Fold = tuple[Tensor, Tensor, Tensor]  # the numbers of lists to train on, to choose by, and to test on
Jobs = dict[str, Callable[[], Iterable[Row]]]  # functions that make runs, by run
CODE = ("src", "studies/*.py", "studies/times/peers.py")  # files that affect results


@dataclass(frozen=True)
class Lists:
    """Lists of one split: features (B, rows, f) and truth (B, lists, length) for B networks, and which lists count.

    A network gives each row of features one score per output; all its scores together form its lists.
    """

    inputs: Tensor
    truth: Tensor
    counts: Tensor

    def mean(self, values: Tensor) -> Tensor:
        return (values * (self.counts / self.counts.sum(-1, keepdim=True))).sum(-1)

    def measured(self, metric: Loss, scores: Tensor) -> Tensor:
        """Return the mean of a metric for each network; the metric of a list without an order is 0."""
        return self.mean(metric(scores, self.truth).nan_to_num(0.0))

    def repeated(self, copies: int) -> "Lists":
        """Return the lists of all networks several times, one time after the other."""
        inputs, truth = (values.repeat(copies, 1, 1) for values in (self.inputs, self.truth))
        return Lists(inputs, truth, self.counts.repeat(copies, 1))


def by_seed(run: str, metric: str, values: Sequence[float], seeds: Sequence[int]) -> list[Row]:
    """Return a row for each seed."""
    return [Row(run, metric, value, seed=seed) for seed, value in zip(seeds, values, strict=True)]


def uniform(shape: tuple[int, ...], inputs: int, draws: torch.Generator) -> Tensor:
    """Draw uniform weights within 1 / sqrt(number of inputs)."""
    return (2 * torch.rand(shape, generator=draws, device=draws.device) - 1) / inputs**0.5


def first_weights(draws: Sequence[torch.Generator], sizes: Sequence[int]) -> list[Tensor]:
    """Return weights and biases of networks with these layer sizes, with a leading dimension for their generators."""
    layers = []
    for before, after in pairwise(sizes):
        for shape in ((before, after), (1, after)):
            layers.append(torch.stack([uniform(shape, before, draw) for draw in draws]))
    return layers


def of_each_list(loss: Callable[..., Tensor], **options: Any) -> Loss:
    """Return a loss of the library with the value of each list."""
    return partial(loss, reduction="none", check_finite=False, **options)


def first_label(scores: Tensor, importance: Tensor) -> Tensor:
    """Return the softmax cross-entropy with the most important label; tied ones share the target."""
    most = (importance == importance.amax(-1, keepdim=True)).long()
    return losses.multilabel_cross_entropy(scores, most, reduction="none", check_finite=False)


def squared_errors(change: Callable[[Tensor], Tensor], over: tuple[int, ...]) -> Loss:
    """Return the MSE with transformed targets, standardized over these dimensions."""

    def loss(scores: Tensor, truth: Tensor) -> Tensor:
        spread, mean = torch.std_mean(change(truth), over, keepdim=True)
        return losses.mse(scores, (change(truth) - mean) / spread, reduction="none", check_finite=False)

    return loss


def adam(weights: list[Tensor], loss: Callable[[], Tensor], *, rates: Tensor, steps: Sequence[int]) -> Iterator[int]:
    """Update weights (B, ...) in place with Adam and learning rates (B,), and yield after each of these step counts.

    `loss` is called once per step and returns the value of each network (B,).
    """
    first = [torch.zeros_like(weight) for weight in weights]
    second = [torch.zeros_like(weight) for weight in weights]
    for weight in weights:
        weight.requires_grad_()
    for step in range(1, steps[-1] + 1):
        gradients = torch.autograd.grad(loss().sum(), weights)
        with torch.no_grad():
            for weight, gradient, m, v in zip(weights, gradients, first, second, strict=True):
                m.lerp_(gradient, 0.1)
                v.lerp_(gradient.square(), 0.001)
                rate = rates.view(-1, *[1] * (weight.dim() - 1))
                weight -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
        if step in steps:
            yield step


def scored(
    loss: Loss, learned: Iterator[Lists], tested: Lists, start: list[Tensor],
    activation: Callable[[Tensor], Tensor], *, rates: Tensor, steps: Sequence[int],
) -> Iterator[Tensor]:  # fmt: skip
    """Train two-layer networks side by side, and yield their scores for other lists after each of these step counts.

    Args:
        loss: see `Loss`.
        learned: the training lists of each step.
        tested: the lists to score.
        start: weights and biases: (B, f, hidden), (B, 1, hidden), (B, hidden, outputs), (B, 1, outputs).
        activation: activation of the hidden layer.
        rates: learning rates (B,).
        steps: step counts, ascending.
    """
    weights = [layer.clone() for layer in start]

    def scores(split: Lists) -> Tensor:
        hidden = activation(torch.baddbmm(weights[1], split.inputs, weights[0]))
        return torch.baddbmm(weights[3], hidden, weights[2]).view(*split.truth.shape[:2], -1)

    def values() -> Tensor:
        batch = next(learned)
        return batch.mean(loss(scores(batch), batch.truth))

    for _ in adam(weights, values, rates=rates, steps=steps):
        with torch.no_grad():
            yield scores(tested)


def _drawn_rows(sizes: Tensor, count: int, draws: torch.Generator) -> Tensor:
    return (torch.rand(len(sizes), count, generator=draws) * sizes).long()


@dataclass(frozen=True)
class Search:
    """Two-layer networks for each fold: some choose the rate and the steps on validation, others are tested with them.

    Attributes:
        study: its name, from which first weights and batches are drawn.
        rates, steps: the settings.
        hidden: the width of the networks.
        batch: the lists of a step.
        choose_by, seeds: the numbers of networks of each fold that choose the setting, and that are tested.
        draw: draws rows of a batch for each network, from the numbers of its lists (B, 1).
    """

    study: str
    rates: Sequence[float]
    steps: Sequence[int]
    hidden: int
    batch: int
    choose_by: int
    seeds: int
    draw: Callable[[Tensor, int, torch.Generator], Tensor] = _drawn_rows

    def scores(
        self, run: str, loss: Loss, metric: Loss, inputs: Callable[[list[Tensor]], Tensor], truth: Tensor,
        folds: list[Fold], *, outputs: int, judged: Tensor | None = None,
    ) -> tuple[list[Tensor], list[Row]]:  # fmt: skip
        """Return the scores (seeds, n, outputs) of each fold's test lists, and rows with its chosen rate and steps.

        Args:
            run: the name in the rows.
            loss, metric: see `Loss`; the setting with the highest mean of the metric is chosen.
            inputs: returns features (folds, n, rows, f) of all lists, given the lists of each fold that it may use.
            truth: the truth of all lists (n, length).
            folds: the numbers of the lists to train on while trying settings, to choose by, and to test on.
            outputs: the number of scores for each row of features.
            judged: the truth for the metric, if another.
        """
        judged = truth if judged is None else judged
        learn, choose, test = map(list, zip(*folds, strict=True))
        train = partial(scored, loss, activation=torch.relu, steps=self.steps)

        # Try all settings side by side with the first networks of each fold.
        copies, features = len(self.rates), inputs(learn)
        sizes = (features.shape[-1], self.hidden, outputs)
        start = self._start(sizes, self.choose_by, len(folds) * copies)
        rates = torch.tensor(self.rates).repeat_interleave(len(folds) * self.choose_by)
        batches = self._batches(lists_of_folds(features, learn, truth, self.choose_by), copies)
        tested = lists_of_folds(features, choose, judged, self.choose_by).repeated(copies)
        tried = []
        for scores in train(batches, tested, start, rates=rates):
            tried.append(tested.measured(metric, scores))
        means = torch.stack(tried, -1).view(copies, len(folds), self.choose_by, len(self.steps)).mean(2)
        best_rates, best_steps = best_settings(means, self.rates, self.steps)

        # Train all networks of each fold with its setting.
        both = [torch.cat([*pair]) for pair in zip(learn, choose, strict=True)]
        features = inputs(both)
        start = self._start(sizes, self.seeds, len(folds))
        rates = torch.tensor(best_rates).repeat_interleave(self.seeds)
        batches = self._batches(lists_of_folds(features, both, truth, self.seeds), 1)
        tested = lists_of_folds(features, test, judged, self.seeds)
        by_step = dict(zip(self.steps, train(batches, tested, start, rates=rates), strict=True))
        result = []
        for fold, rows in enumerate(test):
            of_fold = by_step[best_steps[fold]].unflatten(0, (-1, self.seeds))[fold]
            result.append(of_fold[:, : len(rows)])
        return result, settings_by_fold(run, best_rates, best_steps)

    def _start(self, sizes: Sequence[int], networks: int, copies: int) -> list[Tensor]:
        """Return first weights; a seed starts with the same ones in each copy, such as a fold, and for each method."""
        draws = [generator(seed, self.study, "network") for seed in range(1, networks + 1)]
        return [layer.repeat(copies, 1, 1) for layer in first_weights(draws, sizes)]

    def _batches(self, split: Lists, copies: int) -> Iterator[Lists]:
        """Yield random lists for each network endlessly, the same for each copy and for all methods."""
        draws = generator(0, self.study, "batches")
        every = split.inputs.unflatten(1, (split.truth.shape[1], -1))
        sizes, counts = split.counts.sum(-1, keepdim=True), torch.ones(len(split.counts), self.batch)
        network = torch.arange(len(sizes)).unsqueeze(1)
        while True:
            rows = self.draw(sizes, self.batch, draws)
            yield Lists(every[network, rows].flatten(1, 2), split.truth[network, rows], counts).repeated(copies)


def standardized(features: Tensor, learn: Tensor) -> Tensor:
    """Return features (n, f) less their means over the rows to learn from, in their standard deviations."""
    spread, mean = torch.std_mean(features[learn], 0)
    return (features - mean) / spread.where(spread > 0, 1.0)


def lists_of_folds(features: Tensor, rows: list[Tensor], truth: Tensor, networks: int) -> Lists:
    """Return lists of each fold, for several networks."""
    padded = pad_sequence(rows, batch_first=True, padding_value=-1)
    fold = torch.arange(len(rows)).unsqueeze(1)
    split = features[fold, padded].flatten(1, 2), truth[padded], (padded >= 0).float()
    return Lists(*(values.repeat_interleave(networks, 0) for values in split))


def best_settings(means: Tensor, rates: Sequence[float], steps: Sequence[int]) -> tuple[list[float], list[int]]:
    """Return the best rate and the best step of each fold, from a metric (rates, folds, steps)."""
    best = means.transpose(0, 1).flatten(1).argmax(-1).tolist()
    return [rates[index // len(steps)] for index in best], [steps[index % len(steps)] for index in best]


def by_fold(run: str, metric: str, values: Sequence[float]) -> list[Row]:
    """Return a row for each fold."""
    return [Row(run, metric, value, fold=fold) for fold, value in enumerate(values, 1)]


def settings_by_fold(run: str, rates: Sequence[float], steps: Sequence[int]) -> list[Row]:
    return by_fold(run, "setting.rate", rates) + by_fold(run, "setting.steps", steps)


def of_every_fold(scores: list[Tensor], folds: list[Fold]) -> Tensor:
    """Return scores (seeds, n, ...) of all lists from those of each fold's test lists."""
    return torch.cat(scores, 1)[:, torch.cat([test for _, _, test in folds]).argsort()]


def measured(
    loss: Loss, metric: Loss, splits: Sequence[Lists], start: list[Tensor], activation: Callable[[Tensor], Tensor], *,
    rates: Sequence[float], steps: Sequence[int], together: bool,
) -> dict[str, list[float]]:  # fmt: skip
    """Choose the learning rate and the number of steps on validation, train again, and measure.

    Args:
        loss, start, activation: see `scored`.
        metric: see `Loss`.
        splits: lists to train on while trying settings, to choose by, to train on in the end, and to test on.
        rates, steps: the settings.
        together: whether all networks use the setting with the best mean; otherwise each uses its own best setting.

    Returns:
        For each network: `value`, the mean metric over test lists, `rate`, and `steps`.
    """
    learn, choose, relearn, test = splits

    def train(learned: Lists, tested: Lists, rates: Tensor) -> Tensor:
        """Return the mean metric over other lists after each of the step counts (B, steps)."""
        every = scored(loss, repeat(learned), tested, start, activation, rates=rates, steps=steps)
        return torch.stack([tested.measured(metric, scores) for scores in every], -1)

    tried = torch.stack([train(learn, choose, torch.full((len(start[0]),), rate)) for rate in rates], 1)
    if together:
        tried = tried.mean(0, keepdim=True).expand_as(tried)
    middle = (torch.arange(len(rates)) - len(rates) // 2).abs().unsqueeze(-1)  # among ties, take the middle rate
    best = (tried - 1e-6 * middle).flatten(1).argmax(-1)
    rate, step = best // len(steps), best % len(steps)
    values = train(relearn, test, torch.tensor(rates)[rate])
    return {
        "value": values.gather(1, step.unsqueeze(1)).squeeze(1).tolist(),
        "rate": [rates[index] for index in rate],
        "steps": [steps[index] for index in step],
    }


def of_sets(
    names: Sequence[str],
    methods: Sequence[str],
    shape: Callable[[str], dict[str, float]],
    rows: Callable[[str, str], list[Row]],
) -> dict[str, Jobs]:
    """Return a group for each data set: a run with the set's shape, and a run `<set>, <method>` for each method."""
    groups: dict[str, Jobs] = {}
    for name in names:
        groups[name] = {name: partial(_numbers, name, shape)}
        for method in methods:
            groups[name][f"{name}, {method}"] = partial(rows, name, method)
    return groups


def _numbers(name: str, shape: Callable[[str], dict[str, float]]) -> Iterable[Row]:
    return rows_of(name, shape(name))


def command(study: str, groups: Mapping[str, Jobs], *, params: dict[str, Any], hashes: dict[str, str]) -> None:
    """Make the runs that studies/made/<study> lacks, keeping each when it is done; start over if the code changed."""
    names = "; ".join(groups)
    parser = argparse.ArgumentParser(description=f"Make what is missing of studies/made/{study}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {names}".replace("%", "%%"))
    parser.add_argument("--commit", help="of the code, on a machine without the repository")
    options = parser.parse_args()
    if unknown := {*options.names} - {*groups}:
        parser.error(f"{', '.join(unknown)}: no such name, expected {names}")
    torch.set_num_threads(1)
    try:
        commit = options.commit or kept.commit_of(*CODE)
    except ValueError as error:
        parser.error(str(error))
    before = kept.read(study) if (kept.FOLDER / study).is_dir() else None
    rows = before.rows if before and before.made_by["commit"] == commit else []
    for name in options.names or groups:
        for run, job in groups[name].items():
            if run not in {row.run for row in rows}:
                rows += job()
                made_by = {"commit": commit, "params": params, "hashes": hashes, "machine": kept.machine()}
                kept.write(study, rows, made_by)
                print(run, flush=True)
