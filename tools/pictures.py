"""Draw docs/pays.svg and docs/soft_ranks.svg, for light and dark pages: `python -m tools.pictures`."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import torch

from pipelines.reporting.cells import half_width, of_seeds
from pipelines.reporting.docs_tables import MADE_DATA
from pipelines.reporting.studies import read
from rankops.sorters import Laplace

__all__ = ["PICTURES"]

STYLE = """
rect { fill: #ffffff } text { font: 16px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 14px }
.line { fill: none; stroke: #8b949e }
.usual, .exact { stroke: #8b949e; fill: #8b949e }
.ranking, .soft1 { stroke: #2f81f7; fill: #2f81f7 }
.other, .soft0 { stroke: #d1730f; fill: #d1730f }
.soft2 { stroke: #a371f7; fill: #a371f7 }
.curve { fill: none; stroke-width: 2.5 } text[class] { stroke: none }
@media (prefers-color-scheme: dark) { rect { fill: #161b22 } text { fill: #e6edf3 } }
"""
VALUES, LISTS = ("MSE", "Spearman", "MSE of ranks"), ("cross-entropy", "AP", "softmax of each list")
# Of made data: what it is, its name in the study, the metric's title, and the usual loss, ours, and a simple other.
MADE = (
    ("targets are skewed", "skewed, as prices and counts are", "Spearman", VALUES),
    ("each list has its own unit", "20 lists of 25, each in its own unit", "Spearman", VALUES),
    ("each list has its own level", "5 of 50, lists differ in level", "mean AP", LISTS),
    ("targets are clean", "values with normal noise", "Spearman", VALUES),
    ("4 of 200 are relevant", "4 of 200", "mean AP", LISTS),
)
ORDERED = {"cross-entropy": "cross-entropy, first label", "RLSEP": "rlsep", "MSE of ranks": "mse"}
KINDS = {"usual": "usual loss", "ranking": "ranking loss", "other": "simple alternative"}


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    """Return a picture with a background of its own: a page may be dark where the reader's system is not."""
    size = f'width="480" height="{height}" viewBox="0 0 480 {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    shown = f'<rect width="480" height="{height}" rx="8"/><text class="title" x="8" y="24">{title}</text>'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", shown, *parts, "</svg>\n"])


def _measured() -> list[tuple[str, str, dict[str, pd.Series]]]:
    """Return of each case what it is, the metric, and its value by loss and seed."""
    sets, made = read("label_ranking_sets"), read("when_ranks_win")
    names = [run for run in sets.runs if sets.has(run, "rows")]
    means = {
        loss: pd.concat([of_seeds(sets, f"{name}, {method}", "kendall") for name in names], axis=1).mean(axis=1)
        for loss, method in ORDERED.items()
    }
    cases = [(f"labels have an order: {len(names)} data sets", "Kendall", means)]
    for what, kind, title, losses in MADE:
        metric = next(name for name, (shown, _) in MADE_DATA.items() if shown == title)
        cases.append((what, title, {loss: of_seeds(made, f"{kind}, {loss}", metric) for loss in losses}))
    return cases


def pays() -> str:
    """Draw where a ranking loss wins and where not, with 95 % intervals over seeds."""
    x, y, parts = lambda value: 190 + 460 * (value - 0.5), 66, []
    for place, (kind, name) in enumerate(KINDS.items()):
        left = (8, 140, 290)[place]
        parts.append(f'<circle class="{kind}" cx="{left + 6}" cy="43" r="6"/>')
        parts.append(f'<text class="small" x="{left + 18}" y="48">{name}</text>')
    for what, title, losses in _measured():
        parts.append(f'<path class="line" d="M8 {y}H472"/><text class="title" x="8" y="{y + 22}">{what}</text>')
        parts.append(f'<text class="small" x="472" y="{y + 22}" text-anchor="end">{title}</text>')
        for row, (kind, (loss, values)) in enumerate(zip(KINDS, losses.items(), strict=True)):
            mean, half, middle = values.mean(), half_width(values), y + 42 + 19 * row
            parts.append(f'<text class="small" x="8" y="{middle + 5}">{loss}</text>')
            ends = f"M{x(mean - half):.1f} {middle}H{x(mean + half):.1f}"
            parts.append(f'<path class="{kind}" stroke-width="3" d="{ends}"/>')
            parts.append(f'<circle class="{kind}" cx="{x(mean):.1f}" cy="{middle}" r="6"/>')
            parts.append(f'<text class="small" x="472" y="{middle + 5}" text-anchor="end">{mean:.2f}</text>')
        y += 98
    return _svg("When does a ranking loss pay? (0.5 to 1)", y + 4, parts)


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


PICTURES = {Path("docs/pays.svg"): pays, Path("docs/soft_ranks.svg"): soft_ranks}

if __name__ == "__main__":
    for path, draw in PICTURES.items():
        path.write_text(draw())
