"""Draw the pictures `PICTURES` of docs/, for light and dark pages: `python -m studies.pictures`."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from rankgrad.sorters import Laplace
from studies.cells import GB1_SPLITS
from studies.intervals import half_width, of_seeds
from studies.kept import Study, read
from studies.tables import BATCHES, best_of_batches

__all__ = ["COLUMNS", "PICTURES"]

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
KINDS = {"usual": "standard loss", "ranking": "ranking loss", "other": "simple alternative"}


class Case(NamedTuple):
    """What `pays` shows of a study: of several runs of a kind the best one on validation is drawn."""

    title: str
    metric: str  # its title
    study: str
    place: str  # of the metric
    usual: dict[str, str]  # runs by what their loss is called
    ranking: dict[str, str]
    other: dict[str, str]


class Panel(NamedTuple):
    """Cases on one scale, from the lowest gain to the highest that is drawn."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    cases: list[Case]


FITNESS = {
    "usual": {"MSE": "mse"},
    "ranking": {"RankNet": "ranknet", "Spearman": "spearman"},
    "other": {
        "MSE of log(x + 0.01)": "mse_log", "MSE of log(1 + x)": "mse_log1p", "MSE of ranks": "mse_all_ranks",
        "MSE of batch ranks": "mse_ranks",
    },
}  # fmt: skip
TRAINED = {
    "two_vs_rest": "trained on up to 2 changes",
    "three_vs_rest": "up to 3 changes",
    "low_vs_high": "low to high fitness",
    "sampled": "random split",
}
NOTES = (
    "Right of the line: better. The panels' scales differ.",
    "Kanji: over cross-entropy, its labels in usual order.",
    "GB1 is one protein; its variants are split four ways.",
)


def _of_split(split: str, key: str) -> Case:
    runs = {name: {loss: f"gb1-{run}-{key}" for loss, run in losses.items()} for name, losses in FITNESS.items()}
    return Case(f"GB1, {TRAINED[split]}", "Spearman", "flip_gb1", "spearman", **runs)


SETS = Case(
    "ten sets of label ranking", "Kendall", "label_ranking_sets", "kendall",
    {"MSE of ranks": "mse"}, {"RLSEP": "rlsep"}, {},
)  # fmt: skip
COLUMNS = [
    [
        Panel("Labels in order", -0.01, 0.15, (0.0, 0.05, 0.1, 0.15), [
            SETS,
            Case("kanji, parts by size", "exact order", "kanji", "ranked.exact_match",
                 {"in usual order": "kanji-usual_order"}, {"RLSEP": "label_ranking-rlsep-kanji"}, {}),
        ]),
        Panel("Long lists", -0.01, 0.04, (0.0, 0.02, 0.04), [
            Case("proteins, by homology", "mean AP", "protein_homology", "mean_average_precision",
                 {"soft margin": "proteins-soft_margin"},
                 {"Hinge-AP": "proteins-hinge_ap", "average precision": "proteins-average_precision",
                  "LambdaRank": "proteins-lambdarank", "ListNet": "proteins-listnet", "RLSEP": "proteins-rlsep"},
                 {"LightGBM": "proteins-lightgbm"}),
            Case("films, by their users", "NDCG", "movielens_100k", "ndcg", {"MSE": "films-mse"},
                 {"NDCG": "films-ndcg", "Spearman": "films-spearman", "Kendall": "films-kendall",
                  "RankNet": "films-ranknet", "LambdaRank": "films-lambdarank", "ListNet": "films-listnet"},
                 {"MSE, centered": "films-mse_centered"}),
        ]),
    ],
    [
        Panel("Numbers", -0.12, 0.2, (-0.1, 0.0, 0.1, 0.2), [
            *(_of_split(split, key) for split, key in GB1_SPLITS.items()),
            Case("photographs of solar cells", "Spearman", "solar_cells", "spearman",
                 {"MSE": "memorability-mse-solar_cells"},
                 {"RankNet": "memorability-ranknet-solar_cells",
                  "Spearman": "memorability-spearman-laplace-solar_cells"},
                 {}),
        ]),
    ],
]  # fmt: skip


def _svg(title: str, height: int, parts: Iterable[str], *, width: int = 480) -> str:
    """Return a picture with a background of its own: a page may be dark where the reader's system is not."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    shown = f'<rect width="{width}" height="{height}" rx="8"/><text class="title" x="8" y="24">{title}</text>'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", shown, *parts, "</svg>\n"])


def _best(case: Case, kind: str) -> tuple[str, float, tuple[float, float, float]] | None:
    """Return the best loss of a kind on validation: its name, metric, and difference from the usual loss."""
    study, (usual,) = read(case.study), case.usual.values()
    losses = getattr(case, kind)
    if not losses:
        return None
    loss = max(losses, key=lambda loss: _validation(study, losses[loss])) if len(losses) > 1 else next(iter(losses))
    run = losses[loss]
    if case is SETS:
        ours, theirs = (_of_sets(study, method, case.place) for method in (run, usual))
        gain, half = (ours - theirs).mean(), half_width(ours - theirs)
        return loss, ours.mean(), (gain, gain - half, gain + half)
    if kind == "usual":
        gains = (0.0, 0.0, 0.0)
    elif study.has(run, f"{case.place} minus {usual}"):
        gains = study.leaf(run, f"{case.place} minus {usual}")
    else:  # kept the other way round
        gain, low, high = study.leaf(usual, f"{case.place} minus {run}")
        gains = (-gain, -high, -low)
    return loss, study.leaf(run, case.place)[0], gains


def _validation(study: Study, run: str) -> float:
    """Return what a run reached on validation with the settings that were chosen by it, a mean over folds and seeds."""
    if reached := study.by_seed(run, "validation"):
        return sum(reached.values()) / len(reached)
    tried = [row for row in study.rows if row.run == run and row.metric.startswith("validation with ")]
    table = pd.DataFrame(tried).groupby(["fold", "metric"])["value"].mean()
    return float(table.groupby("fold").max().mean())


def _of_sets(study: Study, method: str, metric: str) -> pd.Series:
    """Return the mean over data sets, by seed."""
    names = [run for run in study.runs if study.has(run, "rows")]
    return pd.concat([of_seeds(study, f"{name}, {method}", metric) for name in names], axis=1).mean(axis=1)


def _across(panel: Panel, left: int, gain: float) -> float:
    """Return where a gain lies, in a column that begins at `left`."""
    return left + 170 + 180 * (gain - panel.low) / (panel.high - panel.low)


def _rows(case: Case, x: Callable[[float], float], left: int, y: int) -> tuple[list[str], int]:
    """Return a case, a row a kind of loss, and where the next one begins."""
    rows = [(kind, best) for kind in KINDS if (best := _best(case, kind))]
    end = y + 26 + 18 * len(rows)
    parts = [
        f'<text x="{left + 8}" y="{y + 18}">{case.title}</text>',
        f'<text class="small" x="{left + 404}" y="{y + 18}" text-anchor="end">{case.metric}</text>',
        f'<path class="line" d="M{x(0):.1f} {y + 24}V{end}"/>',
    ]
    for row, (kind, (loss, metric, (gain, least, most))) in enumerate(rows):
        middle = y + 35 + 18 * row
        value = f'x="{left + 404}" y="{middle + 5}" text-anchor="end">{metric:.3f}'
        parts += [
            f'<text class="small" x="{left + 20}" y="{middle + 5}">{loss}</text>',
            f'<path class="{kind}" stroke-width="3" d="M{x(least):.1f} {middle}H{x(most):.1f}"/>',
            f'<circle class="{kind}" cx="{x(gain):.1f}" cy="{middle}" r="5"/>',
            f'<text class="small" {value}</text>',
        ]
    return parts, end + 6


def pays() -> str:
    """Draw by how much a ranking loss and a simple alternative differ from the usual loss, with 95 % intervals."""
    parts, bottom = [], 0
    for place, (kind, name) in enumerate(KINDS.items()):
        left = 420 + 130 * place
        parts.append(f'<circle class="{kind}" cx="{left}" cy="19" r="6"/>')
        parts.append(f'<text class="small" x="{left + 12}" y="24">{name}</text>')
    for column, panels in enumerate(COLUMNS):
        left, y = 8 + 436 * column, 40
        for panel in panels:
            x = partial(_across, panel, left)
            parts.append(f'<path class="band" d="M{left} {y + 14}H{left + 408}"/>')
            parts.append(f'<text class="title" x="{left + 8}" y="{y + 20}">{panel.title}</text>')
            for tick in panel.ticks:
                shown = f"{tick:+g}".replace("-", "\N{MINUS SIGN}") if tick else "0"
                parts.append(f'<text class="small" x="{x(tick):.0f}" y="{y + 19}" text-anchor="middle">{shown}</text>')
            y += 32
            for case in panel.cases:
                drawn, y = _rows(case, x, left, y)
                parts += drawn
            y += 4
        for line in () if column else NOTES:
            y += 18
            parts.append(f'<text class="small" x="16" y="{y + 4}">{line}</text>')
        bottom = max(bottom, y)
    return _svg("Gain over the standard loss", bottom + 14, parts, width=860)


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
