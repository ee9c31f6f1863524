"""When does a loss on ranks beat a loss on values? The same network on made data that differ in one thing at a time.

    python -m benchmarks.when_ranks_win      # minutes on two cores: results/when_ranks_win.json, docs/results.md

Each row of a table is a kind of data. All seeds and learning rates of a method are trained side by side, as one batch.
The learning rate and the number of steps are those with the best mean over seeds on validation lists.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from benchmarks.results import machine, paired
from pipelines.ops.git import git
from rankops.io.atomic import replaced_file
from rankops.losses import average_precision as ap_loss
from rankops.losses import spearman as spearman_loss
from rankops.metrics import average_precision, spearman
from rankops.ranks import ranks
from rankops.seeding import generator
from tools.page import markdown, write_results

RESULTS, PAGE = Path("results/when_ranks_win.json"), Path("docs/results.md")
SEEDS, FEATURES, HIDDEN = 10, 20, 32
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
STEPS = (10, 20, 40, 80, 160, 320, 640, 1280)  # after which validation is asked
TEST_ROWS = 2000

Loss = Callable[[Tensor, Tensor], Tensor]


def _plain(hidden: Tensor, draws: torch.Generator) -> Tensor:
    return hidden


@dataclass(frozen=True)
class Data:
    """A kind of data: lists of rows, the truth of which is made from a hidden value and noise."""

    truth: Callable[[Tensor, torch.Generator], Tensor]  # of hidden values (lists, length), with their noise
    lists: int = 1
    length: int = 500
    noise: float = 0.3
    level: float = 0.0  # how much lists differ in their features' mean, which says nothing
    wrong: Callable[[Tensor, torch.Generator], Tensor] = _plain  # of the truth, in training alone


def drawn(data: Data, seed: int, split: str) -> tuple[Tensor, Tensor]:
    """Return features (lists, length, FEATURES) and truth (lists, length); the hidden function is of the seed."""
    teacher, draws = (generator(seed, "when_ranks_win", use) for use in ("teacher", split))
    first, second = (torch.randn(FEATURES, generator=teacher) / FEATURES**0.5 for _ in range(2))
    lists, length = data.lists, data.length
    if split != "train":
        lists, length = (1, TEST_ROWS) if lists == 1 else (TEST_ROWS // length, length)
    rows = torch.randn(lists, length, FEATURES, generator=draws)
    hidden = (rows @ first + torch.tanh(2 * rows @ second)) / 1.25 + data.noise * torch.randn(
        lists, length, generator=draws
    )
    truth = data.truth(hidden, draws)
    rows = rows + data.level * torch.randn(lists, 1, FEATURES, generator=draws)
    return rows, data.wrong(truth, draws) if split == "train" else truth


def _outliers(truth: Tensor, draws: torch.Generator) -> Tensor:
    chosen = torch.rand(truth.shape, generator=draws) < 0.03
    return torch.where(chosen, 20 * torch.randn(truth.shape, generator=draws), truth)


def _own_units(hidden: Tensor, draws: torch.Generator) -> Tensor:
    shift, scale = (torch.randn(len(hidden), 1, generator=draws) for _ in range(2))
    return 3 * shift + scale.exp() * hidden


def _top(share: float) -> Callable[[Tensor, torch.Generator], Tensor]:
    """Return labels: 1 for this share of each list, the largest."""
    return lambda hidden, draws: (ranks(hidden) <= share * hidden.shape[-1]).float()


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
    "four grades, 57 % the lowest": Data(
        lambda hidden, draws: (hidden.unsqueeze(-1) > torch.tensor([0.16, 0.43, 0.54])).sum(-1) / 3
    ),
}
LABELS = {
    "half of 50 are positive": Data(_top(0.5), lists=20, length=50),
    "5 of 50": Data(_top(0.1), lists=20, length=50),
    "4 of 200": Data(_top(0.02), lists=10, length=200),
    "5 of 50, much noise": Data(_top(0.1), lists=20, length=50, noise=1.0),
    "5 of 50, 5 % of training labels flipped": Data(_top(0.1), lists=20, length=50, wrong=_flipped),
    "5 of 50, lists differ in level": Data(_top(0.1), lists=20, length=50, level=1.0),
}


def _standardized(truth: Tensor) -> Tensor:
    """Over the last dimension."""
    return (truth - truth.mean(-1, keepdim=True)) / truth.std(-1, keepdim=True)


def _squared_errors(scores: Tensor, target: Tensor) -> Tensor:
    return mse_loss(scores, target, reduction="none").mean((-2, -1))


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(scores, labels, reduction="none").mean((-2, -1))


def _softmax(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of each list, as if one of its positives were to be found."""
    shares = labels / labels.sum(-1, keepdim=True)
    return -(shares * scores.log_softmax(-1)).sum(-1).mean(-1)


# Of scores and truth (runs, lists, length), a value a run.
ON_VALUES: dict[str, Loss] = {
    "MSE": lambda scores, truth: _squared_errors(scores, _standardized(truth.flatten(-2)).view_as(truth)),
    "MSE, each list standardized": lambda scores, truth: _squared_errors(scores, _standardized(truth)),
    "MSE of ranks": lambda scores, truth: _squared_errors(scores, _standardized(-ranks(truth))),
    "Spearman": lambda scores, truth: spearman_loss(scores, truth, reduction="none").mean(-1),
}
ON_LABELS: dict[str, Loss] = {
    "cross-entropy": _cross_entropy,
    "softmax of each list": _softmax,
    "AP": lambda scores, labels: ap_loss(scores, labels, reduction="none").mean(-1),
}


def measured(data: Data, losses: dict[str, Loss], metric: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
    """Return the metric on test lists of each seed, by loss, with the rate and steps that validation chose."""
    splits = {}
    for split in ("train", "val", "test"):
        parts = [drawn(data, seed, split) for seed in range(1, SEEDS + 1)]
        rows, truth = (torch.stack(part * len(RATES)) for part in zip(*parts, strict=True))
        splits[split] = rows.flatten(1, 2), truth
    return {name: _trained(loss, metric, splits) for name, loss in losses.items()}


def _trained(loss: Loss, metric: Callable[[Tensor, Tensor], Tensor], splits: dict[str, tuple[Tensor, Tensor]]) -> dict:
    runs = len(RATES) * SEEDS
    draws = [generator(seed, "when_ranks_win", "weights") for seed in range(1, SEEDS + 1)]
    weights = [
        torch.stack([torch.randn(shape, generator=one) / shape[0] ** 0.5 for one in draws]).repeat(len(RATES), 1, 1)
        for shape in ((FEATURES, HIDDEN), (HIDDEN, 1))
    ]
    weights += [torch.zeros(runs, 1, HIDDEN), torch.zeros(runs, 1, 1)]
    for weight in weights:
        weight.requires_grad_()
    rates = torch.tensor(RATES).repeat_interleave(SEEDS).view(runs, 1, 1)

    def scores(split: str) -> Tensor:
        rows, truth = splits[split]
        hidden = torch.tanh(rows @ weights[0] + weights[2])
        return (hidden @ weights[1] + weights[3]).squeeze(-1).view_as(truth)

    # Adam's steps are in proportion to the rate, which differs between runs: here it is 1, and each step is scaled.
    optimizer, found = torch.optim.Adam(weights, lr=1.0), []
    for step in range(1, STEPS[-1] + 1):
        optimizer.zero_grad()
        loss(scores("train"), splits["train"][1]).sum().backward()
        before = [weight.detach().clone() for weight in weights]
        optimizer.step()
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old + rates * (weight - old))
            if step in STEPS:
                of_splits = [metric(scores(split), splits[split][1]) for split in ("val", "test")]
                found.append([value.mean(-1).view(len(RATES), SEEDS) for value in of_splits])
    validation, test = (torch.stack([one[place] for one in found]) for place in (0, 1))  # (steps, rates, seeds)
    best = int(validation.mean(-1).nan_to_num(-1.0).argmax())
    steps, rate = divmod(best, len(RATES))
    return {
        "test": [round(value, 5) for value in test[steps, rate].tolist()],
        "rate": RATES[rate],
        "steps": STEPS[steps],
    }


def made() -> dict[str, Any]:
    """Return all that is measured, with what made it."""
    if git(".", "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks"):
        raise ValueError("src or benchmarks differ from the commit that the results would name: commit first")
    jobs = [("mean AP", kind) for kind in reversed(LABELS)] + [("Spearman", kind) for kind in VALUES]  # long ones first
    found = Parallel(n_jobs=-1, verbose=10)(delayed(_measured)(*job) for job in jobs)
    tables: dict[str, Any] = {"Spearman": dict.fromkeys(VALUES), "mean AP": dict.fromkeys(LABELS)}
    for (name, kind), one in zip(jobs, found, strict=True):
        tables[name][kind] = one
    return {
        "commit": git(".", "rev-parse", "HEAD"), "command": "python -m benchmarks.when_ranks_win", "machine": machine(),
        "seeds": SEEDS, **tables,
    }  # fmt: skip


def _measured(name: str, kind: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    if name == "Spearman":
        return measured(VALUES[kind], ON_VALUES, spearman)
    return measured(LABELS[kind], ON_LABELS, average_precision)


def tables(kept: dict[str, Any]) -> str:
    """Return both tables: means over seeds, and the difference from the first loss, with a 95 % interval."""
    parts = []
    for metric in ("Spearman", "mean AP"):
        usual, *others = names = list(next(iter(kept[metric].values())))
        rows = []
        for kind, found in kept[metric].items():
            base = found[usual]["test"]
            rows.append([kind, f"{np.mean(base):.3f}", *(paired(found[other]["test"], base) for other in others)])
        parts.append(markdown([f"made data, by {metric}", *names], rows))
    return "\n".join(parts)


if __name__ == "__main__":
    figures = made()
    with replaced_file(RESULTS) as partial:
        partial.write_text(json.dumps(figures, indent=1) + "\n")
    write_results(PAGE, tables(figures), by="benchmarks.when_ranks_win")
    print(tables(figures))
