"""Draw the pictures listed in `PICTURES` into docs/, for light and dark pages: `python -m studies.pictures`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pandas as pd
import torch
from ruamel.yaml import YAML

from rankgrad.io.results import minus
from rankgrad.sorters import Laplace
from studies.intervals import half_width, of_seeds
from studies.kept import Study, read
from studies.tables import BATCHES, best_of_batches, by_softness, prefixes

STYLE = """
rect { fill: #ffffff } text { font: 16px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 14px }
.line { fill: none; stroke: #8b949e }
.usual, .exact { stroke: #8b949e; fill: #8b949e }
.ranking, .soft1 { stroke: #2f81f7; fill: #2f81f7 }
.other, .soft0 { stroke: #d1730f; fill: #d1730f }
.soft2 { stroke: #a371f7; fill: #a371f7 }
.hollow { fill: #ffffff; stroke-width: 2.5 }
.curve { fill: none; stroke-width: 2.5 } text[class] { stroke: none }
@media (prefers-color-scheme: dark) { rect, .hollow { fill: #161b22 } text { fill: #e6edf3 } }
"""
KINDS = {"usual": "baseline", "ranking": "ranking loss", "other": "alternative"}


@dataclass(frozen=True)
class Case:
    """What `pays` shows of a study: of several runs of a kind the best one on validation is drawn.

    Attributes:
        title, shown: of the case and of its metric.
        study, metric: where its numbers are.
        usual, ranking, other: runs by what their loss is called, of each kind.
        run: form of the runs' names.
        splits: if runs are named by loss and split, these: the metric is their mean, and the interval is over them.
        over_sets: whether the study has several data sets: the metric is their mean, and the interval is over them.
    """

    title: str
    shown: str
    study: str
    metric: str
    usual: dict[str, str]
    ranking: dict[str, str]
    other: dict[str, str] = field(default_factory=dict)
    run: str = "{}"
    splits: tuple[str, ...] = ()
    over_sets: bool = False

    def runs(self, kind: str, split: str = "") -> dict[str, str]:
        return {loss: self.run.format(run, split=split) for loss, run in getattr(self, kind).items()}


def cases() -> dict[str, list[Case]]:
    """Return the cases in pictures.yaml, by what is ranked."""
    groups = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))["groups"]
    return {title: [Case(**block) for block in blocks] for title, blocks in groups.items()}


NOTES = (
    "Hollow dots: the interval includes 0. 0%: the standard loss or, for ordered labels, the strongest simple method.",
    "Alternatives: random forest, LightGBM (LambdaRank), or MSE on a changed target.",
)


def _svg(title: str, height: int, shapes: Iterable[str], *, width: int = 480) -> str:
    """Return a picture with its own background, since a page may be dark while the reader's system is light."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    background = f'<rect width="{width}" height="{height}" rx="8"/>' + _text(8, 24, title, "title")
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", background, *shapes, "</svg>\n"])


def _text(x: object, y: object, text: str, css: str = "small", anchor: str = "") -> str:
    """Return a text at a position whose numbers have the decimals to write."""
    end = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{css}" x="{x}" y="{y}"{end}>{text}</text>'


def _curve(points: Iterable[tuple[float, float]], css: str, dashed: str = "") -> str:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{css} curve" style="fill: none"{dashed} points="{line}"/>'


@dataclass(frozen=True)
class Drawn:
    """A loss of a case: its metric, and the difference from the standard loss with its interval."""

    kind: str
    loss: str
    value: float
    gain: float
    low: float
    high: float


def _best(case: Case, kind: str) -> Drawn | None:
    """Return the best loss of a kind on validation; of several splits, of each."""
    if not case.splits or not case.runs(kind):
        return _best_of_split(case, kind)
    best = [drawn for split in case.splits if (drawn := _best_of_split(case, kind, split))]
    gains, values = (pd.Series([getattr(drawn, name) for drawn in best]) for name in ("gain", "value"))
    losses = "/".join(dict.fromkeys(drawn.loss for drawn in best))
    half = 0.0 if kind == "usual" else half_width(gains)
    return Drawn(kind, losses, values.mean(), gains.mean(), gains.mean() - half, gains.mean() + half)


def _best_of_split(case: Case, kind: str, split: str = "") -> Drawn | None:
    """Return the best loss of a kind on validation of a split, or of the only one."""
    study, runs, (usual,) = read(case.study), case.runs(kind, split), case.runs("usual", split).values()
    if not runs:
        return None
    loss = next(iter(runs))
    if len(runs) > 1:
        loss = max(runs, key=lambda loss: _validation(study, runs[loss]))
    run = runs[loss]
    if case.over_sets:
        ours, theirs = (_of_sets(study, method, case.metric) for method in (run, usual))
        gain, half = (ours - theirs).mean(), half_width(ours - theirs)
        return Drawn(kind, loss, ours.mean(), gain, gain - half, gain + half)
    value = study.leaf(run, case.metric)[0]
    if run == usual:
        return Drawn(kind, loss, value, 0.0, 0.0, 0.0)
    if study.has(run, minus(case.metric, usual)):
        return Drawn(kind, loss, value, *study.leaf(run, minus(case.metric, usual)))
    gain, low, high = study.leaf(usual, minus(case.metric, run))  # kept with the opposite sign
    return Drawn(kind, loss, value, -gain, -high, -low)


def _validation(study: Study, run: str) -> float:
    """Return a run's validation metric with its chosen settings, averaged over folds and seeds."""
    if reached := study.by_seed(run, "validation"):
        return sum(reached.values()) / len(reached)
    tried = [row for row in study.rows if row.run == run and row.metric.startswith("validation with ")]
    table = pd.DataFrame(tried).groupby(["fold", "metric"])["value"].mean()
    return float(table.groupby("fold").max().mean())


def _of_sets(study: Study, method: str, metric: str) -> pd.Series:
    """Return the mean over seeds, by data set."""
    sets = prefixes(study, f", {method}")
    return pd.Series({name: of_seeds(study, f"{name}, {method}", metric).mean() for name in sets})


def _across(share: float) -> float:
    """Return the x coordinate of a share of the way from the baseline (0) to a perfect score (1)."""
    return 350 + 620 * share


def _signed(number: str) -> str:
    """Return a number with a minus sign in place of a hyphen."""
    return number.replace("-", "\N{MINUS SIGN}")


def _row(case: Case, baseline: Drawn, losses: list[Drawn], y: int) -> list[str]:
    """Return the drawing of a case: its title, and a line for the ranking loss and for the alternative."""
    shapes = [
        f'<text x="8" y="{y}">{case.title}</text>',
        _text(8, y + 18, f"{case.shown}; {baseline.loss} {baseline.value:.3f}"),
    ]
    for number, drawn in enumerate(losses):
        middle = y + 4 if len(losses) == 1 else y - 5 + 18 * number
        gains = (drawn.low, drawn.gain, drawn.high)
        low, gain, high = (_across(value / (1 - baseline.value)) for value in gains)
        shown = _signed(f"{drawn.gain:+.3f}")
        fill = drawn.kind if drawn.low > 0 or drawn.high < 0 else f"{drawn.kind} hollow"  # the interval includes 0
        shapes += [
            f'<path class="{drawn.kind}" stroke-width="3" d="M{low:.1f} {middle}H{high:.1f}"/>',
            f'<circle class="{fill}" cx="{gain:.1f}" cy="{middle}" r="5"/>',
            _text(690, middle + 5, f"{shown} {drawn.loss}", f"{drawn.kind} small"),
        ]
    return shapes


def pays() -> str:
    """Draw which part of the way from the baseline to a perfect score other losses take, with 95% intervals."""
    y, rows, ranking, other = 80, [], [], []
    for title, cases_of_group in CASES.items():
        rows.append(_text(8, y, title, "title"))
        for case in cases_of_group:
            y += 30 if case is cases_of_group[0] else 44
            baseline, *losses = [drawn for kind in KINDS if (drawn := _best(case, kind))]
            rows += _row(case, baseline, losses, y)
            ranking.append(losses[0])
            other += [(losses[0], alternative) for alternative in losses[1:]]
        y += 56
    ahead = sum(loss.low > 0 for loss in ranking)
    higher = sum(alternative.gain > loss.gain for loss, alternative in other)
    notes = (
        f"In {ahead} of {len(ranking)} cases, a ranking loss's interval is above 0; in {higher} of {len(other)}, the "
        "alternative's mean is higher.",
        *NOTES,
    )
    shapes = [_text(690, 54, "gain in metric")]
    for tick in (-0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        x = f"{_across(tick):.1f}"
        shapes.append(f'<path class="line" stroke-opacity="{1 if tick == 0 else 0.25}" d="M{x} 62V{y - 40}"/>')
        shapes.append(_text(x, 54, _signed(f"{tick:.0%}"), anchor="middle"))
    for number, kind in enumerate(("ranking", "other")):
        left = 620 + 120 * number
        shapes.append(f'<circle class="{kind}" cx="{left}" cy="19" r="6"/>')
        shapes.append(_text(left + 12, 24, KINDS[kind]))
    shapes += rows
    for number, line in enumerate(notes):
        shapes.append(_text(8, y - 16 + 18 * number, line))
    return _svg("How much of the gap to a perfect score each method closes", y + 34, shapes, width=900)


def soft_ranks() -> str:
    """Draw the rank of a score that moves past four others, exact and by three values of softness."""
    moving = torch.linspace(-3, 3, 241, dtype=torch.float64)
    fixed = torch.tensor([-1.5, -0.5, 0.5, 1.5], dtype=torch.float64).expand(len(moving), 4)
    scores = torch.cat([moving[:, None], fixed], 1)
    curves = {"exact": 1.0 + (fixed > moving[:, None]).sum(1)}
    curves |= {f"softness {softness}": Laplace(softness=softness)(scores)[:, 0] for softness in (0.05, 0.2, 1.0)}
    x, y = (lambda value: 55 + 62 * (float(value) + 3)), (lambda rank: 20 + 50 * float(rank))
    shapes = []
    for rank in range(1, 6):
        shapes.append(f'<path class="line" stroke-opacity="0.4" d="M50 {y(rank)}H430"/>')
        shapes.append(_text(40, y(rank) + 5, str(rank), anchor="end"))
    shapes += [f'<path class="line" stroke-dasharray="3" d="M{x(score)} 70V285"/>' for score in fixed[0]]
    kinds = ("exact", "soft0", "soft1", "soft2")
    for number, (kind, (name, ranks)) in enumerate(zip(kinds, curves.items(), strict=True)):
        shapes.append(_curve(zip(map(x, moving), map(y, ranks), strict=True), kind))
        shapes.append(_text(60, 90 + 20 * number, name, f"{kind} small"))
    shapes.append(_text(8, 48, "rank") + _text(200, 300, "score that moves"))
    return _svg("Soft ranks: one score moves past four others", 310, shapes)


def batches() -> str:
    """Draw recall@1 and mAP against the batch size, for each loss's best run on validation."""
    study, top, shapes = read("heads"), 40, []
    for (task, metric), (title, losses) in BATCHES.items():
        best = {key: value for key, value in best_of_batches(study, task, metric).items() if key[0] in losses}
        sizes = sorted({size for _, size in best})
        low, high = min(best.values()), max(best.values())
        x = lambda size, first=sizes[0]: 60 + 40 * math.log2(size / first)  # noqa: E731
        y = lambda value, low=low, high=high, top=top: top + 130 - 100 * (value - low) / (high - low)  # noqa: E731
        shapes.append(f'<path class="line" d="M50 {top + 12}V{top + 142}H{x(sizes[-1]) + 20}"/>')
        shapes.append(_text(8, top + 2, title))
        for value in (low, high):
            shapes.append(_text(44, f"{y(value) + 5:.1f}", f"{value:.2f}", anchor="end"))
        for size in sizes:
            shapes.append(_text(f"{x(size):.0f}", top + 160, f"{size:,}", anchor="middle"))
        ends = []
        for kind, loss in zip(("usual", "ranking", "other", "soft2"), losses, strict=False):
            points = [(x(size), y(best[loss, size])) for size in sizes if (loss, size) in best]
            shapes.append(_curve(points, kind))
            ends.append([points[-1][1], kind, loss])
        ends.sort()
        for before, after in pairwise(ends):  # keep names from overlapping
            after[0] = max(after[0], before[0] + 17)
        for down, kind, loss in ends:
            name = loss.replace("_and_", " + ").replace("_", " ")
            shapes.append(_text(f"{x(sizes[-1]) + 10:.0f}", f"{down + 5:.1f}", name, f"{kind} small"))
        top += 185
    return _svg("Does a larger batch help? Rows in a batch", top - 10, shapes)


CURVES = {  # the color of each sorter, and its dashes
    "Laplace": ("ranking", "none"),
    "Logistic": ("ranking", "4"),
    "NeuralSort": ("other", "none"),
    "SoftSort": ("other", "4"),
    "torchsort l2": ("soft2", "none"),
    "torchsort kl": ("soft2", "4"),
    "diffsort bitonic": ("usual", "none"),
    "SoftTorch transport": ("usual", "4"),
}
FLOOR = "no ranking"


def sorter_curves() -> str:
    """Plot the gradient's quality against the accuracy of ranks, for each sorter over its softness."""
    x, y = (lambda l1: 60 + 110 * (math.log10(max(l1, 1e-5)) + 5)), (lambda fidelity: 40 + 240 * (1 - max(fidelity, 0)))
    shapes = [f'<path class="line" d="M60 40V280H{x(1):.0f}"/>']
    for power in range(-5, 1):
        shapes.append(_text(f"{x(10.0**power):.0f}", 300, f"{10.0**power:g}", anchor="middle"))
    for fidelity in (0, 0.5, 1):
        shapes.append(_text(52, f"{y(fidelity) + 5:.0f}", f"{fidelity:g}", anchor="end"))
    curves = by_softness(read("sorter_curves"))
    for number, (sorter, (color, dashes)) in enumerate(CURVES.items()):
        measures, down = curves[sorter], 60 + 28 * number
        points = [(x(l1), y(fidelity)) for l1, fidelity in zip(measures["l1"], measures["fidelity_0.1"], strict=True)]
        dashed = f' stroke-dasharray="{dashes}"'
        shapes.append(_curve(points, color, dashed))
        shapes += [f'<circle class="{color}" cx="{across:.1f}" cy="{height:.1f}" r="3"/>' for across, height in points]
        shapes.append(f'<path class="{color} curve" style="fill: none"{dashed} d="M650 {down}H690"/>')
        shapes.append(_text(700, down + 5, sorter))
    floor = y(curves[FLOOR]["fidelity_0.1"].iloc[0])
    shapes.append(f'<path class="line" stroke-dasharray="2" d="M60 {floor:.1f}H{x(1):.0f}"/>')
    shapes.append(_text(66, f"{floor + 16:.1f}", f"{FLOOR}: a straight line"))
    shapes.append(_text(220, 322, "error of the ranks, L1 / d"))
    return _svg("Fidelity of the gradient (noise 0.1); a dot is a softness", 334, shapes, width=860)


CASES = cases()
PICTURES = {
    Path("docs/pays.svg"): pays,
    Path("docs/soft_ranks.svg"): soft_ranks,
    Path("docs/batches.svg"): batches,
    Path("docs/sorter_curves.svg"): sorter_curves,
}

if __name__ == "__main__":
    for path, draw in PICTURES.items():
        path.write_text(draw())
