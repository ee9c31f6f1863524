"""Train many small, independent networks side by side: weights have a leading dimension for the network."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from typing import Any

import torch
from torch import Tensor

from pipelines.ops.git import git
from rankgrad.io.results import Row
from rankgrad.losses import mse
from rankgrad.seeding import generator
from studies import kept

__all__ = [
    "Jobs", "Lists", "Loss", "adam", "by_seed", "command", "first_weights", "measured", "scored", "squared_errors",
    "trained", "uniform",
]  # fmt: skip

Loss = Callable[[Tensor, Tensor], Tensor]  # scores and truth (B, lists, length) to a value a list; metrics, too
Jobs = Iterator[tuple[str, Callable[[], list[Row]]]]  # runs, and the functions that make them
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


def by_seed(run: str, metric: str, values: Sequence[float], seeds: Sequence[int]) -> list[Row]:
    """Return a row for each seed."""
    return [Row(run, metric, value, seed=seed) for seed, value in zip(seeds, values, strict=True)]


def uniform(shape: tuple[int, ...], inputs: int, draws: torch.Generator) -> Tensor:
    """Draw uniform weights within 1 / sqrt(number of inputs)."""
    return (2 * torch.rand(shape, generator=draws, device=draws.device) - 1) / inputs**0.5


def first_weights(study: str, sizes: Sequence[int], *, networks: int, copies: int) -> list[Tensor]:
    """Return weights and biases (copies * networks, ...) of networks with these layer sizes.

    A study's seed starts with the same weights in each copy, such as a fold, and for each method.
    """
    draws, layers = [generator(seed, study, "network") for seed in range(1, networks + 1)], []
    for before, after in pairwise(sizes):
        for shape in ((before, after), (1, after)):
            layer = torch.stack([uniform(shape, before, draw) for draw in draws])
            layers.append(layer.repeat(copies, 1, 1))
    return layers


def squared_errors(change: Callable[[Tensor], Tensor], over: tuple[int, ...]) -> Loss:
    """Return the MSE with transformed targets, standardized over these dimensions."""

    def loss(scores: Tensor, truth: Tensor) -> Tensor:
        spread, mean = torch.std_mean(change(truth), over, keepdim=True)
        return mse(scores, (change(truth) - mean) / spread, reduction="none", check_finite=False)

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

    def losses() -> Tensor:
        batch = next(learned)
        return batch.mean(loss(scores(batch), batch.truth))

    for _ in adam(weights, losses, rates=rates, steps=steps):
        with torch.no_grad():
            yield scores(tested)


def trained(
    loss: Loss, metric: Loss, learned: Iterator[Lists], tested: Lists, start: list[Tensor],
    activation: Callable[[Tensor], Tensor], *, rates: Tensor, steps: Sequence[int],
) -> Tensor:  # fmt: skip
    """Train networks, see `scored`, and return the mean metric over other lists after each of these step counts.

    Args:
        metric: see `Loss`; the metric of a list without an order is 0. A metric may return several values for each
            list, with a leading dimension.

    Returns:
        (B, steps), after the dimensions of the metric.
    """
    values = []
    for scores in scored(loss, learned, tested, start, activation, rates=rates, steps=steps):
        values.append(tested.mean(metric(scores, tested.truth).nan_to_num(0.0)))
    return torch.stack(values, -1)


def measured(
    loss: Loss, metric: Loss, splits: Sequence[Lists], start: list[Tensor], activation: Callable[[Tensor], Tensor], *,
    rates: Sequence[float], steps: Sequence[int], together: bool,
) -> dict[str, list[float]]:  # fmt: skip
    """Choose the learning rate and the number of steps on validation, train again, and measure.

    Args:
        loss, metric, start, activation: see `trained`.
        splits: lists to train on while trying settings, to choose by, to train on in the end, and to test on.
        rates, steps: the settings.
        together: whether all networks use the setting with the best mean; otherwise each uses its own best setting.

    Returns:
        For each network: `value`, the mean metric over test lists, `rate`, and `steps`.
    """
    learn, choose, relearn, test = splits
    train = partial(trained, loss, metric, steps=steps)
    by_rate = []
    for rate in rates:
        by_rate.append(train(repeat(learn), choose, start, activation, rates=torch.full((len(start[0]),), rate)))
    tried = torch.stack(by_rate, 1)
    if together:
        tried = tried.mean(0, keepdim=True).expand_as(tried)
    middle = (torch.arange(len(rates)) - len(rates) // 2).abs().unsqueeze(-1)  # among ties, take the middle rate
    best = (tried - 1e-6 * middle).flatten(1).argmax(-1)
    rate, step = best // len(steps), best % len(steps)
    values = train(repeat(relearn), test, start, activation, rates=torch.tensor(rates)[rate])
    return {
        "value": values.gather(1, step.unsqueeze(1)).squeeze(1).tolist(),
        "rate": [rates[index] for index in rate],
        "steps": [steps[index] for index in step],
    }


def command(
    study: str, groups: Mapping[str, Callable[[list[Row]], Jobs]], *, params: dict[str, Any], hashes: dict[str, str]
) -> None:
    """Make the runs that studies/made/<study> lacks, keeping each when it is finished; start over if the code changed.

    A group gets the rows so far, which grow while its runs are made.
    """
    names = "; ".join(groups)
    parser = argparse.ArgumentParser(description=f"Make what is missing of studies/made/{study}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {names}".replace("%", "%%"))
    parser.add_argument("--commit", help="of the code, on a machine without the repository")
    options = parser.parse_args()
    if unknown := {*options.names} - {*groups}:
        parser.error(f"{', '.join(unknown)}: no such name, expected {names}")
    torch.set_num_threads(1)
    commit = options.commit or _commit(parser)
    before = kept.read(study) if (kept.FOLDER / study).is_dir() else None
    rows = before.rows if before and before.made_by["commit"] == commit else []
    for name in options.names or groups:
        for run, job in groups[name](rows):
            if run not in {row.run for row in rows}:
                rows += job()
                made_by = {"commit": commit, "params": params, "hashes": hashes, "machine": kept.machine()}
                kept.write(study, rows, made_by)
                print(run, flush=True)


def _commit(parser: argparse.ArgumentParser) -> str:
    if changed := git(".", "status", "--porcelain", "--", *CODE):
        parser.error(f"not in a commit: {changed}. Commit what makes the results first")
    return git(".", "log", "-1", "--format=%H", "--", *CODE)
