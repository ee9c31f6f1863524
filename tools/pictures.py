"""Draw the pictures `PICTURES` of docs/, for light and dark pages: `python -m tools.pictures`."""

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from pipelines.reporting.cells import half_width, of_seeds
from pipelines.reporting.docs_tables import BATCHES, MADE_DATA, best_of_batches
from pipelines.reporting.studies import read
from rankops.sorters import Laplace

__all__ = ["PICTURES"]

STYLE = """
rect { fill: #ffffff } text { font: 16px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 14px }
.line { fill: none; stroke: #8b949e } .band { stroke: #8b949e; stroke-opacity: 0.25; stroke-width: 28 }
.usual, .exact { stroke: #8b949e; fill: #8b949e }
.ranking, .soft1 { stroke: #2f81f7; fill: #2f81f7 }
.other, .soft0 { stroke: #d1730f; fill: #d1730f }
.soft2 { stroke: #a371f7; fill: #a371f7 }
.curve { fill: none; stroke-width: 2.5 } text[class] { stroke: none }
@media (prefers-color-scheme: dark) { rect { fill: #161b22 } text { fill: #e6edf3 } }
"""
VALUES, LISTS = ("MSE", "Spearman", "MSE of ranks"), ("cross-entropy", "AP", "softmax of each list")
# Of made data: what it is, its name in the study, the metric's title, and the usual loss, ours, and a simple other.
MADE = {
    "Ahead of both": [("5 % of the labels are wrong", "5 of 50, 5 % of training labels flipped", "mean AP", LISTS)],
    "Ahead of the usual loss; the alternative is as good": [
        ("each list has its own level", "5 of 50, lists differ in level", "mean AP", LISTS),
    ],
    "Less than 0.01 ahead": [("targets are clean", "values with normal noise", "Spearman", VALUES)],
    "Behind: keep the usual loss": [("4 of 200 are relevant", "4 of 200", "mean AP", LISTS)],
}
ORDERED = {"cross-entropy": "cross-entropy, first label", "RLSEP": "rlsep", "MSE of ranks": "mse"}
FITNESS = dict(zip(VALUES, ("gb1-mse-three", "gb1-spearman-three", "gb1-mse_ranks-three"), strict=True))
KINDS = {"usual": "usual loss", "ranking": "ranking loss", "other": "simple alternative"}


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    """Return a picture with a background of its own: a page may be dark where the reader's system is not."""
    size = f'width="480" height="{height}" viewBox="0 0 480 {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    shown = f'<rect width="480" height="{height}" rx="8"/><text class="title" x="8" y="24">{title}</text>'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", shown, *parts, "</svg>\n"])


def _measured() -> dict[str, list[tuple[str, str, dict[str, pd.Series]]]]:
    """Return the cases by outcome: of each what it is, the metric, and its value by loss and seed."""
    sets, made, proteins = read("label_ranking_sets"), read("when_ranks_win"), read("flip_gb1")
    names = [run for run in sets.runs if sets.has(run, "rows")]
    means = {
        loss: pd.concat([of_seeds(sets, f"{name}, {method}", "kendall") for name in names], axis=1).mean(axis=1)
        for loss, method in ORDERED.items()
    }
    fitness = {loss: of_seeds(proteins, run, "spearman") for loss, run in FITNESS.items()}
    cases: dict[str, list[Any]] = {
        "Ahead of both": [
            (f"labels have an order: {len(names)} data sets", "Kendall", means),
            ("protein variants", "Spearman", fitness),
        ]
    }
    for outcome, kinds in MADE.items():
        for what, kind, title, losses in kinds:
            metric = next(name for name, (shown, _) in MADE_DATA.items() if shown == title)
            values = {loss: of_seeds(made, f"{kind}, {loss}", metric) for loss in losses}
            cases.setdefault(outcome, []).append((what, title, values))
    for outcome, some in cases.items():
        for what, _, losses in some:
            if (found := _outcome(losses)) != outcome:
                raise ValueError(f"pays.svg: {what} is shown under {outcome!r}, but the results say {found!r}")
    return cases


def _outcome(losses: dict[str, pd.Series]) -> str:
    """Return what 95 % intervals over seeds say of the usual loss, ours and a simple alternative."""
    usual, ours, other = losses.values()
    gain, over_other = ours - usual, ours - other
    if gain.mean() < -half_width(gain):
        return "Behind: keep the usual loss"
    if gain.mean() < max(half_width(gain), 0.01):
        return "Less than 0.01 ahead"
    if over_other.mean() > half_width(over_other):
        return "Ahead of both"
    return "Ahead of the usual loss; the alternative is as good"


def pays() -> str:
    """Draw where a ranking loss wins and where not, with 95 % intervals over seeds."""
    x, y, parts = lambda value: 200 + 420 * (value - 0.5), 76, []
    for place, (kind, name) in enumerate(KINDS.items()):
        left = (8, 140, 290)[place]
        parts.append(f'<circle class="{kind}" cx="{left + 6}" cy="43" r="6"/>')
        parts.append(f'<text class="small" x="{left + 18}" y="48">{name}</text>')
    for value in (0.5, 0.75, 1.0):
        parts.append(f'<text class="small" x="{x(value):.0f}" y="70" text-anchor="middle">{value}</text>')
    for outcome, cases in _measured().items():
        parts.append(f'<path class="band" d="M0 {y + 14}H480"/><text class="title" x="8" y="{y + 20}">{outcome}</text>')
        y += 30
        for what, title, losses in cases:
            parts.append(f'<text x="8" y="{y + 20}">{what}</text>')
            ticks = " ".join(f"M{x(value):.0f} {y + 27}V{y + 84}" for value in (0.5, 0.75, 1.0))
            parts.append(f'<path class="line" stroke-opacity="0.35" d="{ticks}"/>')
            parts.append(f'<text class="small" x="472" y="{y + 20}" text-anchor="end">{title}</text>')
            for row, (kind, (loss, values)) in enumerate(zip(KINDS, losses.items(), strict=True)):
                mean, half, middle = values.mean(), half_width(values), y + 37 + 18 * row
                parts.append(f'<text class="small" x="20" y="{middle + 5}">{loss}</text>')
                ends = f"M{x(mean - half):.1f} {middle}H{x(mean + half):.1f}"
                parts.append(f'<path class="{kind}" stroke-width="3" d="{ends}"/>')
                parts.append(f'<circle class="{kind}" cx="{x(mean):.1f}" cy="{middle}" r="6"/>')
                parts.append(f'<text class="small" x="472" y="{middle + 5}" text-anchor="end">{mean:.2f}</text>')
            y += 90
        y += 4
    return _svg("Does a ranking loss pay? Right is better", y + 4, parts)


def soft_ranks() -> str:
    """Draw the rank of a score that moves past four others, exact and by three values of softness."""
    moving = torch.linspace(-3, 3, 241, dtype=torch.float64)
    others = torch.tensor([-1.5, -0.5, 0.5, 1.5], dtype=torch.float64).expand(len(moving), 4)
    scores = torch.cat([moving[:, None], others], 1)
    curves = {"exact": 1.0 + (others > moving[:, None]).sum(1)}
    curves |= {f"softness {softness}": Laplace(softness=softness)(scores)[:, 0] for softness in (0.05, 0.2, 1.0)}
    x, y, parts = lambda value: 55 + 62 * (float(value) + 3), lambda rank: 20 + 50 * float(rank), []
    for rank in range(1, 6):
        parts.append(f'<path class="line" stroke-opacity="0.4" d="M50 {y(rank)}H430"/>')
        parts.append(f'<text class="small" x="40" y="{y(rank) + 5}" text-anchor="end">{rank}</text>')
    parts += [f'<path class="line" stroke-dasharray="3" d="M{x(one)} 70V285"/>' for one in others[0]]
    for kind, (name, ranks) in zip(("exact", "soft0", "soft1", "soft2"), curves.items(), strict=True):
        points = " ".join(f"{x(at):.1f},{y(rank):.1f}" for at, rank in zip(moving, ranks, strict=True))
        parts.append(f'<polyline class="{kind} curve" style="fill: none" points="{points}"/>')
        row = 90 + 20 * list(curves).index(name)
        parts.append(f'<text class="{kind} small" x="60" y="{row}">{name}</text>')
    parts.append(
        '<text class="small" x="8" y="48">rank</text><text class="small" x="200" y="300">score that moves</text>'
    )
    return _svg("Soft ranks: one score moves past four others", 310, parts)


def batches() -> str:
    """Draw recall@1 and mAP against the size of the batch, of the best run on validation of each loss."""
    study, top, parts = read("heads"), 40, []
    for (task, metric), (title, losses) in BATCHES.items():
        best = {key: value for key, value in best_of_batches(study, task, metric).items() if key[0] in losses}
        sizes = sorted({size for _, size in best})
        low, high = min(best.values()), max(best.values())
        x = lambda size, first=sizes[0]: 60 + 40 * math.log2(size / first)  # noqa: E731
        y = lambda value, low=low, high=high, top=top: top + 130 - 100 * (value - low) / (high - low)  # noqa: E731
        parts.append(f'<path class="line" d="M50 {top + 12}V{top + 142}H{x(sizes[-1]) + 20}"/>')
        parts.append(f'<text class="small" x="8" y="{top + 2}">{title}</text>')
        for value in (low, high):
            parts.append(f'<text class="small" x="44" y="{y(value) + 5:.1f}" text-anchor="end">{value:.2f}</text>')
        for size in sizes:
            parts.append(f'<text class="small" x="{x(size):.0f}" y="{top + 160}" text-anchor="middle">{size:,}</text>')
        ends = []
        for kind, loss in zip(("usual", "ranking", "other", "soft2"), losses, strict=False):
            points = [(x(size), y(best[loss, size])) for size in sizes if (loss, size) in best]
            line = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
            parts.append(f'<polyline class="{kind} curve" style="fill: none" points="{line}"/>')
            ends.append([points[-1][1], kind, loss])
        ends.sort()
        for before, after in pairwise(ends):  # names do not lie upon each other
            after[0] = max(after[0], before[0] + 17)
        for down, kind, loss in ends:
            name = loss.replace("_and_", " + ").replace("_", " ")
            parts.append(f'<text class="{kind} small" x="{x(sizes[-1]) + 10:.0f}" y="{down + 5:.1f}">{name}</text>')
        top += 185
    return _svg("Does a larger batch help? Rows in a batch", top - 10, parts)


PICTURES = {Path("docs/pays.svg"): pays, Path("docs/soft_ranks.svg"): soft_ranks, Path("docs/batches.svg"): batches}

if __name__ == "__main__":
    for path, draw in PICTURES.items():
        path.write_text(draw())
