"""Measure time, memory, and their growth for every loss and metric on one list of n, and for formulas over all pairs.

    python -m studies.times.losses [NAME ...]      # all by default: some minutes

Losses are measured forward and backward, on one thread; memory is the peak above that of the process. `growth` is the
exponent of n between the two longest lists. torchmetrics and SciPy are measured if installed. Times are CPU times, so
other processes do not count. A length is skipped if a call would take more than 25 seconds, or all pairs over 6 GB.
"""

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn import functional

from rankgrad import lookup
from rankgrad.sorters import Laplace
from studies.times.measuring import drawn_truth, median_seconds, truth_of
from studies.times.results import FOLDER, write

LENGTHS = (100, 1_000, 10_000, 100_000)
LONGEST, LARGEST = 25.0, 6_000.0  # most seconds, and most megabytes of all pairs
ALL_PAIRS = ", all pairs"

# Metrics of other packages: module, function, and our counterpart.
OTHERS = (
    ("scipy.stats", "kendalltau", "kendall"),
    ("scipy.stats", "spearmanr", "spearman"),
    ("torchmetrics.functional.regression", "kendall_rank_corrcoef", "kendall"),
    ("torchmetrics.functional.regression", "spearman_corrcoef", "spearman"),
    ("torchmetrics.functional.retrieval", "retrieval_normalized_dcg", "ndcg"),
    ("torchmetrics.functional.retrieval", "retrieval_average_precision", "mean_average_precision"),
    ("torchmetrics.functional.retrieval", "retrieval_reciprocal_rank", "reciprocal_rank"),
)

Call = Callable[[Tensor, Tensor], Tensor]


def _ahead(values: Tensor) -> Tensor:
    """Return $x_j - x_i$, (n, n)."""
    return values.unsqueeze(0) - values.unsqueeze(1)


def _step(apart: Tensor) -> Tensor:
    """Return the Laplace distribution function."""
    return (1 - apart.sign() * torch.expm1(-apart.abs())) / 2


def _ranks(scores: Tensor) -> Tensor:
    return 0.5 + _step(_ahead(scores) / (0.2 * scores.detach().std(correction=0))).sum(-1)


def _spearman(scores: Tensor, target: Tensor) -> Tensor:
    true = 1 + (_ahead(target) > 0).sum(-1)
    return 6 * (_ranks(scores) - true).square().mean() / (len(scores) ** 2 - 1)


def _kendall(scores: Tensor, target: Tensor) -> Tensor:
    soft, true = 2 * _step(_ahead(_ranks(scores)) / 0.5) - 1, -_ahead(target).sign()
    return 1 - (soft * true).sum() / (soft.square().sum() * true.square().sum()).sqrt()


def _log_sum_exp(scores: Tensor, ranks: Tensor) -> Tensor:
    exponents = _ahead(scores).masked_fill(_ahead(ranks) >= 0, -torch.inf)
    return functional.pad(exponents.flatten(), (1, 0)).logsumexp(-1)


def _plackett_luce(scores: Tensor, ranks: Tensor) -> Tensor:
    left = scores.masked_fill(_ahead(ranks) > 0, -torch.inf).logsumexp(-1)
    return ((left - scores) * (ranks > 0)).sum()


def _logistic(scores: Tensor, truth: Tensor) -> Tensor:
    pairs = _ahead(truth) < 0
    return (functional.softplus(_ahead(scores)) * pairs).sum() / pairs.sum()


def _gains(target: Tensor) -> Tensor:
    """Return the gain of each item, as a fraction of the best DCG."""
    gains, places = 2.0**target - 1, torch.arange(1, len(target) + 1)
    return gains / (gains.sort(descending=True).values / (1 + places).log2()).sum()


def _ndcg(scores: Tensor, target: Tensor) -> Tensor:
    return 1 - (_gains(target) / (1 + _ranks(scores).clamp(min=1)).log2()).sum()


def _lambdarank(scores: Tensor, target: Tensor) -> Tensor:
    """Compute allRank's version."""
    place = scores.detach().argsort(descending=True).argsort() + 1
    weight = _ahead(1 / (1 + place).log2()).abs() * _ahead(_gains(target)).abs() * (_ahead(target) < 0)
    return (functional.softplus(_ahead(scores)) * weight).sum() / math.log(2)


def _expected_reciprocal_rank(scores: Tensor, target: Tensor) -> Tensor:
    places, satisfied = _ranks(scores).clamp(min=1), (2.0**target - 1) / 16
    before = _step(-_ahead(places) / 0.5).masked_fill(torch.eye(len(scores), dtype=torch.bool), 0.0)
    left = (before * torch.log1p(-satisfied)).sum(-1).exp()
    return 1 - (satisfied * left / places).sum()


def _average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Compute Smooth AP with our step function."""
    width, positive = 0.2 * scores.detach()[labels.bool()].std(correction=0), labels.bool()
    among = 0.5 + _step(_ahead(scores[positive]) / width).sum(-1)
    return 1 - (among / _ranks(scores)[positive]).clamp(max=1).mean()


PAIRS: dict[str, Call] = {
    "average_precision": _average_precision,
    "expected_reciprocal_rank": _expected_reciprocal_rank,
    "kendall": _kendall,
    "lambdarank": _lambdarank,
    "lsep": lambda scores, ranks: _log_sum_exp(scores, (ranks > 0).int()),
    "ndcg": _ndcg,
    "pairwise_logistic": _logistic,
    "plackett_luce": _plackett_luce,
    "ranknet": _logistic,
    "rlsep": _log_sum_exp,
    "spearman": _spearman,
}


def others() -> dict[str, tuple[str, Call]]:
    """Return the installed metrics of other packages by name: our counterpart, and the call."""
    calls: dict[str, tuple[str, Call]] = {}
    for module, function, metric in OTHERS:
        package = module.partition(".")[0]
        title = f"{module}.{function}" if package == "scipy" else f"{package} {function}"
        try:
            call = getattr(import_module(module), function)
        except ImportError as error:
            print(f"{title} left out: {error}")
            continue
        calls[title] = (metric, partial(_statistic, call) if package == "scipy" else call)
    return calls


def _statistic(call: Callable[..., Any], scores: Tensor, truth: Tensor) -> Tensor:
    return torch.tensor(call(scores, truth).statistic)


@dataclass(frozen=True)
class Measured:
    """The subject of a row: a call, and the loss or metric whose arguments it takes."""

    folder: str
    name: str
    call: Call


def calls() -> dict[str, Measured]:
    """Return the calls to measure, by row."""
    rows: dict[str, Measured] = {}
    for folder in ("losses", "metrics"):
        for name in lookup.names(folder):
            if truth_of(folder, name) is None:
                continue
            ours = lookup.find(folder, name)
            rows[f"{folder}.{name}"] = Measured(folder, name, partial(ours, k=10) if name.endswith("_at_k") else ours)
            if folder == "losses" and name in PAIRS:
                rows[f"losses.{name}{ALL_PAIRS}"] = Measured(folder, name, PAIRS[name])
    truncated = partial(lookup.find("losses", "lambdarank"), truncation=30)
    rows["losses.lambdarank, truncation 30"] = Measured("losses", "lambdarank", truncated)
    rows["Laplace, ranks"] = Measured("losses", "spearman", lambda scores, _: Laplace()(scores).square().mean())
    for row, (name, call) in others().items():
        rows[row] = Measured("metrics", name, call)
    return rows


def drawn(row: Measured, length: int) -> tuple[Tensor, Tensor]:
    scores = torch.randn(length, generator=torch.Generator().manual_seed(length + 1))
    return scores, drawn_truth(row.name, truth_of(row.folder, row.name), scores)


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(title: str) -> dict[str, float]:
    """Return for each length milliseconds, and megabytes above the process's memory after a short list."""
    row, figures = calls()[title], {}

    def seconds(length: int) -> float:
        scores, truth = drawn(row, length)
        scores.requires_grad_(row.folder == "losses")

        def step() -> None:
            scores.grad = None
            value = row.call(scores, truth)
            if scores.requires_grad:
                value.backward()

        return median_seconds(step, clock=time.process_time, most=7, limit=1.0)

    seconds(50)
    before = peak_memory()
    growth, last = {"ms": 2.0, "MB": 2.0}, {"ms": 0.0, "MB": 0.0}  # the exponents of n
    for length in LENGTHS:
        expected = {unit: last[unit] * 10 ** growth[unit] for unit in last}
        if expected["ms"] > 1e3 * LONGEST or (title.endswith(ALL_PAIRS) and expected["MB"] > LARGEST):
            break
        cost = {"ms": 1e3 * seconds(length), "MB": (peak_memory() - before) / 1024}
        for unit, value in cost.items():
            figures[f"{unit}, {length:,}"] = value
            if last[unit] > 0:
                growth[unit] = figures[f"growth of {unit}"] = math.log10(value / last[unit])
        last = cost
    if title.endswith(ALL_PAIRS):
        pair = drawn(row, 1000)
        ours = calls()[title.removesuffix(ALL_PAIRS)].call(*pair)
        figures["apart"] = float((row.call(*pair) - ours).abs() / ours.abs())
    return figures


def plot(figures: dict[str, dict[str, float]]) -> None:
    """Plot time and memory of our losses and of the same formulas over all pairs."""
    figure, axes = plt.subplots(1, 2, figsize=(13, 5))
    names = [name for name in PAIRS if f"losses.{name}" in figures]
    units = {"ms": "milliseconds, forward and backward", "MB": "peak memory, MB"}
    for axis, (unit, title) in zip(axes, units.items(), strict=True):
        for number, name in enumerate(names):
            color = plt.colormaps["tab20"](number)
            for row, style, label in ((f"losses.{name}", "o-", name), (f"losses.{name}{ALL_PAIRS}", "s:", None)):
                costs = {length: figures.get(row, {}).get(f"{unit}, {length:,}") for length in LENGTHS}
                costs = {length: value for length, value in costs.items() if value}
                axis.plot(costs.keys(), costs.values(), style, color=color, markersize=4, label=label)
        axis.set(xscale="log", yscale="log", xlabel="n, scores in one list", ylabel=title)
        axis.grid(alpha=0.3)
    axes[1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title="dotted: over all pairs")
    figure.tight_layout()
    figure.savefig(FOLDER / "losses.png", dpi=110)
    plt.close(figure)


def main(names: list[str]) -> None:
    if unknown := set(names) - set(calls()):
        raise SystemExit(f"{', '.join(unknown)}: no such row; expected {', '.join(calls())}")
    torch.set_num_threads(1)
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        figures = {}
        for row in names or calls():
            figures[row] = pool.apply(measure, (row,))
            print(row, {name: round(value, 3) for name, value in figures[row].items()}, flush=True)
    columns = [f"ms, {length:,}" for length in LENGTHS] + [f"MB, {length:,}" for length in LENGTHS]
    write("losses", figures, (*columns, "growth of ms", "growth of MB", "apart"))
    plot(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
