"""Draw what runs did, as PNG files with the same bits every time."""

import textwrap
from itertools import chain
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

__all__ = ["average_precisions", "found_captions", "orders", "predicted"]

# Sizes are in inches of 80 pixels of the page, so that no label is smaller than 12 of them.
plt.rcParams.update({"font.size": 11, "axes.titlesize": 12, "axes.grid": True, "grid.alpha": 0.3})
RIGHT, WRONG = "#e3e7eb", "#f3b7ae"  # --right and --wrong of report.css, on the same page
LETTERS, LINES = 22, 8  # of the text of an example


def _save(figure: plt.Figure, path: Path) -> None:
    # Two pixels for each of the page. Without the library's version, which differs between machines.
    figure.savefig(path, format="png", dpi=160, metadata={"Software": None})
    plt.close(figure)


def _panels(count: int, *, columns: int, width: float, height: float) -> tuple[plt.Figure, list[plt.Axes]]:
    rows, columns = -(-count // columns), min(columns, count)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def _show(axis: plt.Axes, image: np.ndarray, **options: Any) -> None:
    axis.set_axis_off()
    axis.imshow(image, cmap="gray", vmin=0, vmax=255, **options)


def _beside(
    axis: plt.Axes, example: np.ndarray | str, *, side: float, step: float, lines: int, size: tuple[float, float]
) -> list[float]:
    """Show an image or text at the left of a panel, in inches; return the heights of the lines next to it."""
    if isinstance(example, str):
        axis.set_axis_off()
        wrapped: list[str] = []
        for paragraph in example.splitlines():
            wrapped += textwrap.wrap(paragraph, LETTERS) or [""]
        if len(wrapped) > LINES:
            wrapped = [*wrapped[: LINES - 1], "..."]
        axis.text(0, side / 2, "\n".join(wrapped), va="center", size=9, parse_math=False)
    else:
        _show(axis, example, extent=(0, side, side, 0))
    axis.set(xlim=(0, size[0]), ylim=(size[1], 0))
    return [side / 2 + step * (line - (lines - 1) / 2) for line in range(lines)]


def _box(right: bool) -> dict[str, str]:
    return {"boxstyle": "round,pad=0.2", "facecolor": RIGHT if right else WRONG, "edgecolor": "none"}


def _label(
    axis: plt.Axes, x: float, y: float, label: str, right: bool, size: int, glyphs: dict[str, np.ndarray] | None
) -> None:
    if glyphs and label:
        glyph = OffsetImage(glyphs[label], zoom=0.4)
        axis.add_artist(AnnotationBbox(glyph, (x, y), pad=0.1, bboxprops=_box(right)))
    else:
        axis.text(x, y, label or "–", va="center", ha="center", size=size, bbox=_box(right), parse_math=False)


def orders(
    path: Path,
    examples: list[np.ndarray | str],
    orders: list[dict[str, list[tuple[str, bool]]]],
    *,
    title: str | None = None,
    glyphs: dict[str, np.ndarray] | None = None,
) -> None:
    """Draw examples beside orders of their labels by name; wrong places are marked.

    Args:
        examples: images (height, width[, 3]) uint8, or text.
        orders: of each image, from `rankgrad.tasks.label_ranking.places`.
        title: above all of them.
        glyphs: pictures (height, width, 4) uint8 of labels that no font has.
    """
    side, step, size = 1.6, 0.33, 13
    left = side + 0.4 + 0.105 * max(map(len, orders[0]))  # where the first label begins
    lines = [order for by_name in orders for order in by_name.values()]
    wide = {}
    for label, _ in chain.from_iterable(lines):
        wide[label] = step if glyphs else max(step, 0.13 + 0.1 * len(label))
    widths = []
    for order in lines:
        widths.append(sum(wide[label] for label, _ in order))
    width = left + max(widths)
    height = max(side, step * len(orders[0])) + 0.2
    figure, axes = _panels(len(examples), columns=max(1, int(10.8 / width)), width=width, height=height)
    for axis, example, by_name in zip(axes, examples, orders, strict=True):
        heights = _beside(axis, example, side=side, step=step, lines=len(by_name), size=(width, height))
        for y, (name, order) in zip(heights, by_name.items(), strict=True):
            weight = "bold" if y == heights[0] else "normal"
            axis.text(side + 0.15, y, name.replace("_", " "), va="center", size=size, weight=weight)
            x = left - step / 2
            for label, right in order:
                _label(axis, x + wide[label] / 2, y, label, right, size, glyphs)
                x += wide[label]
    if title:
        figure.suptitle(title, size=size, x=0.01, ha="left")
    _save(figure, path)


def found_captions(path: Path, examples: list[np.ndarray | str], captions: list[list[tuple[str, bool]]]) -> None:
    """Draw examples with the captions that were found for them, the best first; wrong ones are marked.

    Args:
        examples: images (height, width[, 3]) uint8, or text.
        captions: of each, and whether they are its own.
    """
    side, step, letters = 1.6, 0.56, 54
    width, height = side + 0.15 + 0.09 * letters, side + 0.2
    figure, axes = _panels(len(examples), columns=2, width=width, height=height)
    for axis, example, best in zip(axes, examples, captions, strict=True):
        heights = _beside(axis, example, side=side, step=step, lines=len(best), size=(width, height))
        for y, (caption, right) in zip(heights, best, strict=True):
            lines = textwrap.wrap(caption, letters, max_lines=2, placeholder=" ...")
            axis.text(side + 0.2, y, "\n".join(lines), va="center", size=11, bbox=_box(right))
    _save(figure, path)


def predicted(path: Path, scores: np.ndarray, target: np.ndarray) -> None:
    """Draw true scores over predicted ones, and the ranks of both: only their order is judged."""
    figure, axes = _panels(2, columns=2, width=4.4, height=3.6)
    ranks = [values.argsort(kind="stable").argsort(kind="stable") for values in (scores, target)]
    for axis, values, name in zip(axes, ((scores, target), ranks), ("score", "rank"), strict=True):
        axis.scatter(*values, s=6, alpha=0.4)
        axis.set(xlabel=f"predicted {name}", ylabel=f"true {name}")
    _save(figure, path)


def average_precisions(
    path: Path, classes: dict[int, tuple[float, float, float]], counts: np.ndarray, names: list[str] | None = None
) -> None:
    """Draw the average precision of each class with its interval, the most frequent class first.

    Args:
        classes: value, low and high by class number.
        counts: positives of each class in the test split.
        names: of all classes; None for their numbers.
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
