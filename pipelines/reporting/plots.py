"""Draw what runs did, as PNG files with the same bits every time."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pipelines.reporting.results import best_epoch

__all__ = [
    "average_precisions",
    "differences",
    "found_captions",
    "learning_curves",
    "orders",
    "places",
    "predicted",
    "sorter_errors",
]

# Sizes are in inches of 80 pixels of the page, so that no label is smaller than 12 of them.
plt.rcParams.update(
    {"font.size": 11, "axes.titlesize": 12, "axes.grid": True, "grid.alpha": 0.3, "lines.linewidth": 1.2}
)
RIGHT, WRONG = "#e3e7eb", "#f3b7ae"


def _save(figure, path: Path) -> None:
    # Two pixels for each of the page. Without the library's version, which differs between machines.
    figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)


def _panels(count: int, *, columns: int, width: float, height: float):
    """Return a figure and its axes, as many as are needed, in rows."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def learning_curves(path: Path, histories: dict[str, pd.DataFrame]) -> None:
    """Draw training loss and each validation metric over epochs, with a dot at the best epoch of each phase.

    Args:
        histories: by the name of the line (`seed 1`), from `pipelines.reporting.results.history`.
    """
    others = ("phase", "epoch", "learning_rate", "best")
    names = [name for name in next(iter(histories.values())) if name not in others]
    figure, axes = _panels(len(names), columns=4, width=3.4, height=2.7)
    for axis, name in zip(axes, names, strict=True):
        for number, (label, history) in enumerate(histories.items()):
            # A line for each phase: losses of two phases are not comparable.
            for _, part in history.groupby(history.get("phase", pd.Series("", history.index)), sort=False):
                axis.plot(part["epoch"], part[name], color=f"C{number}", label=label)
                label = None
                if (part["best"] == 1).any():
                    best = best_epoch(part)
                    axis.plot(best["epoch"], best[name], "o", markersize=5, color=f"C{number}")
        axis.set(xlabel="epoch", title="training loss" if name == "loss" else f"validation {name}")
    if len(histories) > 1:
        axes[0].legend(fontsize=9)
    _save(figure, path)


def places(true: np.ndarray, predicted: np.ndarray) -> list[tuple[str, bool]]:
    """Return the predicted order of labels, the most important first, and whether each is in its true place.

    A place that the prediction leaves empty is "" and wrong.

    Args:
        true, predicted: label ranks (K,), 0 = absent.

    >>> places(np.array([0, 3, 2, 1]), np.array([1, 3, 2, 0]))
    [('1', True), ('2', True), ('0', False)]
    >>> places(np.array([0, 3, 2, 1]), np.array([0, 1, 0, 0]))
    [('1', True), ('', False), ('', False)]
    """
    expected = np.sort(true[true > 0])[::-1]
    order = [label for label in np.argsort(-predicted, kind="stable") if predicted[label] > 0]
    result = [
        (str(label), place < len(expected) and true[label] == expected[place]) for place, label in enumerate(order)
    ]
    return result + [("", False)] * (len(expected) - len(order))


def orders(path: Path, images: np.ndarray, true: np.ndarray, predicted: dict[str, np.ndarray]) -> None:
    """Draw images with their true order of labels and that by each loss; wrong places are marked.

    Args:
        images: (n, height, width) uint8, or (n, 3, height, width).
        true: label ranks (n, K).
        predicted: the same by loss.
    """
    marked = [{name: places(truth, ranks[row]) for name, ranks in {"true": true, **predicted}.items()}
              for row, truth in enumerate(true)]  # fmt: skip
    left = 0.4 + 0.115 * max(len(name) for name in ["true", *predicted])  # of the first place
    width = max(1.8, left + 0.36 * max(len(order) for one in marked for order in one.values()))
    height = 1.9 + 0.38 * (1 + len(predicted))
    figure, axes = _panels(len(images), columns=max(1, int(10.4 / width)), width=width, height=height)
    for axis, image, one in zip(axes, images, marked, strict=True):
        axis.set_axis_off()
        axis.imshow(_picture(image), cmap="gray", vmin=0, vmax=255, extent=(0, 1.6, 1.6, 0))
        axis.set(xlim=(0, width), ylim=(height, 0))
        for row, (name, order) in enumerate(one.items()):
            y = 1.85 + 0.38 * row
            axis.text(0, y, name, va="center", fontsize=15, fontweight="bold" if row == 0 else "normal")
            for place, (label, right) in enumerate(order):
                box = {"boxstyle": "round,pad=0.2", "facecolor": RIGHT if right else WRONG, "edgecolor": "none"}
                axis.text(left + 0.36 * place, y, label or "–", va="center", ha="center", fontsize=15, bbox=box)
    _save(figure, path)


def _picture(image: np.ndarray) -> np.ndarray:
    return image if image.ndim == 2 else image.transpose(1, 2, 0)


def sorter_errors(path: Path, by_kind: pd.DataFrame) -> None:
    """Draw the mean L1 of each sorter (columns) on each kind of vectors (rows)."""
    figure, axis = plt.subplots(figsize=(9, 0.6 + 0.2 * by_kind.size), layout="constrained")
    by_kind.plot.barh(ax=axis, width=0.8)
    axis.set(xlabel="mean |rank error| / d")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    _save(figure, path)


def predicted(path: Path, scores: np.ndarray, target: np.ndarray) -> None:
    """Draw true scores over predicted ones, and the ranks of both: only their order is judged."""
    figure, axes = _panels(2, columns=2, width=4.4, height=3.6)
    axes[0].scatter(scores, target, s=6, alpha=0.4)
    axes[0].set(xlabel="predicted score", ylabel="true score")
    order = [values.argsort(kind="stable").argsort(kind="stable") for values in (scores, target)]
    axes[1].scatter(*order, s=6, alpha=0.4)
    axes[1].set(xlabel="place by predicted score", ylabel="place by true score")
    _save(figure, path)


def average_precisions(path: Path, table: pd.DataFrame, counts: np.ndarray) -> None:
    """Draw the average precision of each class with its interval, the most frequent class first.

    Args:
        table: columns `value`, `low` and `high`, indexed by class number.
        counts: positives of each class in the test split.
    """
    table = table.loc[sorted(table.index, key=lambda label: -counts[label])]
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    errors = [np.maximum(table["value"] - table["low"], 0), np.maximum(table["high"] - table["value"], 0)]
    axis.bar(range(len(table)), table["value"], yerr=errors, capsize=3)
    axis.set_xticks(range(len(table)), [f"{label}\n{counts[label]}" for label in table.index])
    axis.set(xlabel="class, and how many test images have it", ylabel="average precision", ylim=(0, 1))
    _save(figure, path)


def found_captions(path: Path, images: np.ndarray, found: list[list[tuple[str, bool]]]) -> None:
    """Draw images with the captions that were found for them, the best first; wrong ones are marked.

    Args:
        images: (n, height, width) uint8, or (n, 3, height, width).
        found: captions of each image, and whether they are its own.
    """
    figure, axes = _panels(len(images), columns=3, width=4.6, height=3.4)
    for axis, image, captions in zip(axes, images, found, strict=True):
        axis.set_axis_off()
        axis.imshow(_picture(image), cmap="gray", vmin=0, vmax=255)
        for line, (caption, right) in enumerate(captions):
            axis.text(
                0.5, -0.08 - 0.11 * line, caption, transform=axis.transAxes, ha="center", va="center",
                bbox={"boxstyle": "round,pad=0.15", "facecolor": RIGHT if right else WRONG, "edgecolor": "none"},
            )  # fmt: skip
    _save(figure, path)


def differences(path: Path, table: pd.DataFrame) -> None:
    """Draw each run's difference from the baseline with its interval.

    Args:
        table: columns `run`, `difference`, `low` and `high`.
    """
    figure, axis = plt.subplots(figsize=(9, 0.9 + 0.32 * len(table)), layout="constrained")
    at = np.arange(len(table))[::-1]
    errors = [table["difference"] - table["low"], table["high"] - table["difference"]]
    axis.errorbar(table["difference"], at, xerr=errors, fmt="o", capsize=3)
    axis.set_yticks(at, table["run"])
    axis.axvline(0, color="gray", linewidth=1)
    axis.set(xlabel="difference, 95 % interval", ylim=(-0.6, len(table) - 0.4))
    _save(figure, path)
