"""Draw the results of runs as PNG files that are identical every time."""

import textwrap
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

__all__ = ["Example", "Order", "average_precisions", "found_captions", "orders", "predicted", "reliability"]

# Font sizes are in points. An inch is 80 pixels of the page, so no label is smaller than 12 pixels.
plt.rcParams.update({"font.size": 11, "axes.titlesize": 12, "axes.grid": True, "grid.alpha": 0.3})
RIGHT, WRONG = "#e3e7eb", "#f3b7ae"  # --right and --wrong in report.css, for the same page
LETTERS, LINES = 22, 8  # letters per line and lines of an example's text
# In inches; widths of letters are a little above the font's mean.
SIDE = 1.6  # side of an example
BELOW = 0.2  # gap between an example and the next one below
PAGE = 10.8  # width of all panels
# Lines of labels in `orders`.
LABEL_FONT = 13
LABEL_STEP = 0.33  # between lines, and between glyphs
LABEL_LETTER, LABEL_MARGINS = 0.1, 0.13
NAME_LETTER, NAME_MARGINS = 0.105, 0.4
BEFORE_NAME = 0.15  # the first of the two margins
# Captions in `found_captions`.
CAPTION_LETTERS = 54  # letters per line
CAPTION_LETTER, CAPTION_MARGIN = 0.09, 0.15
CAPTION_STEP = 0.56  # between captions, which have two lines
BEFORE_CAPTION = 0.2
WILSON = 1.96  # standard errors of an interval


Example = np.ndarray | str  # an image (height, width[, 3]) uint8, or text
Order = list[tuple[str, bool]]  # labels or captions, and whether each is in its true place


def _save(figure: plt.Figure, path: Path) -> None:
    # Two pixels for each pixel of the page. Leave out matplotlib's version, which differs between machines.
    figure.savefig(path, format="png", dpi=160, metadata={"Software": None})
    plt.close(figure)


def _panels(count: int, *, columns: int, width: float, height: float) -> tuple[plt.Figure, list[plt.Axes]]:
    """Return a figure and its panels in rows of at most `columns`; `width` and `height` are those of a panel."""
    rows = -(-count // columns)
    columns = min(columns, count)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def _beside(axis: plt.Axes, example: Example, *, step: float, lines: int, size: tuple[float, float]) -> list[float]:
    """Show an image or text at the left of a panel; return the vertical positions of the lines next to it.

    Args:
        axis: the panel's axis; its units become inches from the top left.
        example: an image (height, width[, 3]) uint8, or text.
        step: inches between lines.
        lines: the number of lines.
        size: width and height of the panel, in inches.
    """
    axis.set_axis_off()
    if isinstance(example, str):
        wrapped: list[str] = []
        for paragraph in example.splitlines():
            wrapped += textwrap.wrap(paragraph, LETTERS) or [""]
        if len(wrapped) > LINES:
            wrapped = [*wrapped[: LINES - 1], "..."]
        axis.text(0, SIDE / 2, "\n".join(wrapped), va="center", size=9, parse_math=False)
    else:
        axis.imshow(example, cmap="gray", vmin=0, vmax=255, extent=(0, SIDE, SIDE, 0))
    axis.set(xlim=(0, size[0]), ylim=(size[1], 0))
    return [SIDE / 2 + step * (line - (lines - 1) / 2) for line in range(lines)]


def _box(right: bool) -> dict[str, str]:
    return {"boxstyle": "round,pad=0.2", "facecolor": RIGHT if right else WRONG, "edgecolor": "none"}


def _label(axis: plt.Axes, x: float, y: float, label: str, right: bool, glyphs: dict[str, np.ndarray] | None) -> None:
    """Draw a label in its box, as text or as its glyph."""
    if glyphs and label:
        glyph = OffsetImage(glyphs[label], zoom=0.4)
        axis.add_artist(AnnotationBbox(glyph, (x, y), pad=0.1, bboxprops=_box(right)))
    else:
        axis.text(x, y, label or "–", va="center", ha="center", size=LABEL_FONT, bbox=_box(right), parse_math=False)


def orders(
    path: Path,
    examples: Sequence[Example],
    named_orders: list[dict[str, Order]],
    *,
    title: str | None = None,
    glyphs: dict[str, np.ndarray] | None = None,
) -> None:
    """Draw examples next to orders of their labels; mark wrong positions.

    Args:
        path: the file for the picture.
        examples: images (height, width[, 3]) uint8, or text.
        named_orders: for each example, orders by name, from `rankgrad.tasks.label_ranking.places`; the first name is
            bold.
        title: title above all examples.
        glyphs: pictures (height, width, 4) uint8 of labels that no font has.
    """
    names = [*named_orders[0]]  # the same for each example
    longest_name = max(map(len, names))
    labels_left = SIDE + NAME_MARGINS + NAME_LETTER * longest_name
    # The width of each label, and of the longest line.
    label_widths: dict[str, float] = {}
    longest_line = 0.0
    for order in chain.from_iterable(by_name.values() for by_name in named_orders):
        for label, _ in order:
            text_width = LABEL_MARGINS + LABEL_LETTER * len(label)
            label_widths[label] = LABEL_STEP if glyphs else max(LABEL_STEP, text_width)
        longest_line = max(longest_line, sum(label_widths[label] for label, _ in order))
    width = labels_left + longest_line
    height = max(SIDE, LABEL_STEP * len(names)) + BELOW
    figure, axes = _panels(len(examples), columns=max(1, int(PAGE / width)), width=width, height=height)
    for axis, example, by_name in zip(axes, examples, named_orders, strict=True):
        heights = _beside(axis, example, step=LABEL_STEP, lines=len(by_name), size=(width, height))
        for line, (name, order) in enumerate(by_name.items()):
            y = heights[line]
            weight = "bold" if line == 0 else "normal"
            axis.text(SIDE + BEFORE_NAME, y, name.replace("_", " "), va="center", size=LABEL_FONT, weight=weight)
            x = labels_left - LABEL_STEP / 2
            for label, right in order:
                _label(axis, x + label_widths[label] / 2, y, label, right, glyphs)
                x += label_widths[label]
    if title:
        figure.suptitle(title, size=LABEL_FONT, x=0.01, ha="left")
    _save(figure, path)


def found_captions(path: Path, examples: list[Example], captions: list[Order]) -> None:
    """Draw examples with the captions that were found for them, the best first; mark wrong ones.

    Args:
        path: the file for the picture.
        examples: images (height, width[, 3]) uint8, or text.
        captions: the captions found for each example, and whether they belong to it.
    """
    width = SIDE + CAPTION_MARGIN + CAPTION_LETTER * CAPTION_LETTERS
    height = SIDE + BELOW
    figure, axes = _panels(len(examples), columns=2, width=width, height=height)
    for axis, example, best in zip(axes, examples, captions, strict=True):
        heights = _beside(axis, example, step=CAPTION_STEP, lines=len(best), size=(width, height))
        for y, (caption, right) in zip(heights, best, strict=True):
            lines = textwrap.wrap(caption, CAPTION_LETTERS, max_lines=2, placeholder=" ...")
            axis.text(SIDE + BEFORE_CAPTION, y, "\n".join(lines), va="center", size=11, bbox=_box(right))
    _save(figure, path)


def predicted(
    path: Path, scores: np.ndarray, target: np.ndarray, *, within: Sequence[Any] | None = None, unit: str = "group"
) -> None:
    """Plot true values against predicted scores, and the ranks of both, since metrics compare only their order.

    Args:
        path: the file for the picture.
        scores, target: score and target of each example (n,).
        within: the group or fold of each example (n,), if scores can only be compared within it; None to compare all.
        unit: what `within` holds, such as `group`.
    """
    figure, axes = _panels(2, columns=2, width=4.4, height=3.6)
    names = ["score", "rank"]
    if within is None:
        ranks = [values.argsort(kind="stable").argsort(kind="stable") for values in (scores, target)]
        pairs = [(scores, target), (ranks[0], ranks[1])]
    else:
        columns = pd.DataFrame({"score": scores, "target": target})
        by_group = columns.groupby(np.asarray(within))
        tables = [columns - by_group.transform("mean"), by_group.rank(pct=True)]
        pairs = [(table["score"].to_numpy(), table["target"].to_numpy()) for table in tables]
        names = [f"score minus its {unit}'s mean", f"rank within its {unit}, as a fraction"]
    for axis, values, name in zip(axes, pairs, names, strict=True):
        axis.scatter(*values, s=6, alpha=0.4)
        axis.set(xlabel=f"predicted {name}", ylabel=f"true {name}")
    _save(figure, path)


def reliability(path: Path, leads: np.ndarray, weight: np.ndarray) -> None:
    """Plot how often a model's preference was right against how sure it was, and give its log loss.

    A model that is well calibrated lies on the diagonal: of the pairs with a probability of 0.8, 80% are right. Each
    point has an equal number of pairs, and its 95% interval (Wilson).

    Args:
        path: the file for the picture.
        leads: the log odds of each pair's preferred answer (n,); negative if the model preferred the other one.
        weight: the weight of each pair (n,).
    """
    sureness = 1 / (1 + np.exp(-np.abs(leads)))
    right = np.where(leads == 0, 0.5, leads > 0)
    points = np.array_split(sureness.argsort(kind="stable"), max(1, min(10, len(leads) // 20)))
    count = np.array([len(pairs) for pairs in points])
    predicted, found = (
        np.array([np.average(values[pairs], weights=weight[pairs]) for pairs in points]) for values in (sureness, right)
    )
    half = WILSON * np.sqrt(found * (1 - found) / count + WILSON**2 / (4 * count**2)) / (1 + WILSON**2 / count)
    middle = (found + WILSON**2 / (2 * count)) / (1 + WILSON**2 / count)
    figure, (axis,) = _panels(1, columns=1, width=5.4, height=4.2)
    axis.plot([0.5, 1], [0.5, 1], color="gray", linewidth=1)
    ends = np.clip([found - middle + half, middle + half - found], 0, None)  # rounding may make 0 negative
    axis.errorbar(predicted, found, yerr=ends, fmt="o", capsize=3)
    axis.set(xlabel="predicted probability of the answer it prefers", ylabel="fraction of pairs where it was preferred")
    loss, guess = np.average(np.logaddexp(0, -leads), weights=weight), np.log(2)
    axis.set_title(f"{len(leads)} test pairs: log loss {loss:.3f} ({guess:.3f} with p = 0.5)")
    _save(figure, path)


def average_precisions(
    path: Path, classes: dict[int, tuple[float, float, float]], counts: np.ndarray, names: list[str] | None = None
) -> None:
    """Draw the average precision of each class with its interval, the most frequent class first.

    Args:
        path: the file for the picture.
        classes: value, low, and high by class number.
        counts: number of positives of each class in the test split.
        names: names of all classes; None to use their numbers.
    """
    order = sorted(classes, key=lambda label: -counts[label])
    value, low, high = np.array([classes[label] for label in order]).T
    titles = [f"{names[label] if names else label}\n{counts[label]}" for label in order]
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    axis.bar(range(len(order)), value, yerr=[np.maximum(value - low, 0), np.maximum(high - value, 0)], capsize=3)
    axis.set_xticks(range(len(order)), titles)
    if names:
        axis.tick_params(axis="x", rotation=90)
    axis.set(xlabel="class, and how many test examples have it", ylabel="average precision", ylim=(0, 1))
    _save(figure, path)
