"""Pictures of what runs did, as PNG files with the same bits every time."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import norm

from pipelines.reporting.histories import best_epoch

__all__ = [
    "accuracies",
    "against",
    "average_precisions",
    "curves",
    "differences",
    "example_sheet",
    "found_captions",
    "learning_curves",
    "predicted",
    "scene_animation",
    "score_histograms",
    "sorter_errors",
]


def _save(figure, path: Path) -> None:
    # Without the library's version, which is all that would differ between two machines.
    figure.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(figure)


def learning_curves(path: Path, history: pd.DataFrame, *, title: str) -> None:
    """Training loss, and each validation figure, over epochs; the best epoch is marked.

    Args:
        history: one row an epoch, see `pipelines.reporting.histories`.
    """
    figures = [name for name in history if name not in ("epoch", "loss", "learning_rate", "best")]
    figure, axes = plt.subplots(1, 1 + len(figures), figsize=(4 * (1 + len(figures)), 3), layout="constrained")
    best = best_epoch(history)["epoch"]
    for axis, name in zip(np.atleast_1d(axes), ["loss", *figures], strict=True):
        axis.plot(history["epoch"], history[name], marker=".")
        axis.axvline(best, color="gray", linestyle=":", label="best epoch")
        axis.set(xlabel="epoch", title="training loss" if name == "loss" else f"validation {name}")
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].legend()
    figure.suptitle(title)
    _save(figure, path)


def _order(label_ranks: np.ndarray) -> str:
    """`7 > 2 = 5`: labels by importance."""
    levels = [rank for rank in sorted(set(label_ranks.tolist()), reverse=True) if rank > 0]
    return " > ".join(" = ".join(map(str, np.flatnonzero(label_ranks == rank))) for rank in levels) or "nothing"


def example_sheet(path: Path, images: np.ndarray, true: np.ndarray, predicted: np.ndarray, *, title: str) -> None:
    """Images with their true and predicted order of labels; green where they agree.

    Args:
        images: (n, height, width) uint8.
        true, predicted: label ranks (n, K).
    """
    columns = 4
    rows = -(-len(images) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.6 * columns, 3.1 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, image, truth, guess in zip(axes.flat, images, true, predicted, strict=False):
        axis.imshow(image, cmap="gray", vmin=0, vmax=255)
        right = (truth == guess).all()
        axis.set_title(
            f"true  {_order(truth)}\nfound {_order(guess)}",
            fontsize=8, family="monospace", loc="left", color="tab:green" if right else "tab:red",
        )  # fmt: skip
    figure.suptitle(title)
    _save(figure, path)


def sorter_errors(path: Path, by_kind: pd.DataFrame, *, title: str) -> None:
    """Mean L1 of each sorter (columns) on each kind of vectors (rows)."""
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    by_kind.plot.barh(ax=axis, width=0.8)
    axis.set(xlabel="mean |rank error| / d", title=title)
    axis.grid(axis="x", alpha=0.3)
    _save(figure, path)


def predicted(path: Path, scores: np.ndarray, target: np.ndarray, *, title: str) -> None:
    """True scores over predicted ones, and the ranks of both: only their order is judged."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    axes[0].scatter(scores, target, s=6, alpha=0.4)
    axes[0].set(xlabel="predicted score", ylabel="true score")
    places = [values.argsort(kind="stable").argsort(kind="stable") for values in (scores, target)]
    axes[1].scatter(*places, s=6, alpha=0.4)
    axes[1].set(xlabel="place by predicted score", ylabel="place by true score")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    _save(figure, path)


def average_precisions(path: Path, figures: dict[str, dict[str, float]], counts: np.ndarray, *, title: str) -> None:
    """Average precision of each class with its interval, the most frequent class first.

    Args:
        figures: by class number, `value`, `low` and `high`.
        counts: positives of each class in the test set.
    """
    order = sorted(figures, key=lambda label: -counts[int(label)])
    values, low, high = (np.array([figures[label][part] for label in order]) for part in ("value", "low", "high"))
    figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
    errors = [np.maximum(values - low, 0), np.maximum(high - values, 0)]
    axis.bar(range(len(order)), values, yerr=errors, capsize=3)
    axis.set_xticks(range(len(order)), [f"{label}\n{counts[int(label)]}" for label in order])
    axis.set(xlabel="class, and how many test images have it", ylabel="average precision", ylim=(0, 1), title=title)
    axis.grid(axis="y", alpha=0.3)
    _save(figure, path)


def found_captions(
    path: Path, images: np.ndarray, found: list[list[str]], right: list[list[bool]], *, title: str
) -> None:
    """Images with the captions that were found for them, the best first; green where it is one of the image's own.

    Args:
        images: (n, height, width) uint8, or (n, 3, height, width).
        found, right: captions of each image, and whether they are its own.
    """
    columns = 3
    rows = -(-len(images) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.4 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, image, captions, own in zip(axes.flat, images, found, right, strict=False):
        axis.imshow(image if image.ndim == 2 else image.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=255)
        for line, (caption, good) in enumerate(zip(captions, own, strict=True)):
            axis.text(
                0.5, -0.06 - 0.09 * line, caption, transform=axis.transAxes, ha="center", va="top", fontsize=7,
                color="tab:green" if good else "tab:red",
            )  # fmt: skip
    figure.suptitle(title)
    _save(figure, path)


def curves(
    path: Path, panels: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]], *, x: str, y: str, title: str
) -> None:  # fmt: skip
    """Lines, one panel beside the other.

    Args:
        panels: by title, by name of the line, where its points are.
        x, y: what the axes show.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1 + 4.6 * len(panels), 3.8), layout="constrained", squeeze=False, sharey=True
    )
    for axis, (name, lines) in zip(axes[0], panels.items(), strict=True):
        for label, points in lines.items():
            axis.plot(*points, label=label, linewidth=1.2)
        axis.set(xlabel=x, title=name)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel(y)
    axes[0, -1].legend(fontsize=8)
    figure.suptitle(title)
    _save(figure, path)


def differences(path: Path, panels: dict[str, pd.DataFrame], *, title: str) -> None:
    """Each method's difference from its baseline with its interval, one comparison below the other.

    Args:
        panels: by comparison, a table with columns `method`, `difference`, `low` and `high`.
    """
    heights = [1 + 0.35 * len(table) for table in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8, 0.6 + sum(heights)), height_ratios=heights, layout="constrained", squeeze=False
    )
    for axis, (name, table) in zip(axes[:, 0], panels.items(), strict=True):
        places = np.arange(len(table))[::-1]
        errors = [table["difference"] - table["low"], table["high"] - table["difference"]]
        axis.errorbar(table["difference"], places, xerr=errors, fmt="o", capsize=3)
        axis.set_yticks(places, table["method"])
        axis.axvline(0, color="gray", linewidth=1)
        axis.set(title=name, xlabel="difference")
        axis.grid(axis="x", alpha=0.3)
    figure.suptitle(title)
    _save(figure, path)


def against(path: Path, table: pd.DataFrame, *, x: list[str], y: str, error: str, title: str) -> None:
    """One column of a table over each of several others, a panel each; points bear their row's name.

    An axis whose values spread over two decades is logarithmic; where some are 0, it is linear near 0, as it is below a
    millionth of the largest.

    Args:
        table: a row a point, its index the names; a point that has no number is left out.
        x: columns, one of each panel.
        y, error: columns of the value and of half of its bar.
    """
    columns = min(3, len(x))
    rows = -(-len(x) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.2 * columns, 4.2 * rows), layout="constrained", squeeze=False, sharey=True
    )
    for axis in axes.flat[len(x) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, x, strict=False):
        points = table.dropna(subset=[name, y])
        axis.errorbar(points[name], points[y], points[error], fmt="o", markersize=4, elinewidth=0.5)
        above = points[name][points[name] > 0]
        if (points[name] >= 0).all() and above.max() >= 100 * above.min():
            least = 10 ** np.floor(np.log10(max(above.min(), above.max() / 1e6)))
            how = {"value": "log"} if points[name].min() >= least else {"value": "symlog", "linthresh": least}
            axis.set_xscale(**how)
        axis.margins(x=0.1)
        axis.set(xlabel=name)
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel(y)
    figure.suptitle(title)
    figure.draw_without_rendering()  # only then is it known where points lie
    for axis, name in zip(axes.flat, x, strict=False):
        _name_points(axis, table.dropna(subset=[name, y]).sort_values(y, kind="stable"), name, y)
    _save(figure, path)


def _name_points(axis, points: pd.DataFrame, x: str, y: str, size: int = 6) -> None:
    """Names beside points, towards the middle; from the lowest on, moved up past those that are there already."""
    taken: list[tuple[float, float, float]] = []  # left, right and height of each name, in points
    middle = axis.bbox.x0 + axis.bbox.width / 2
    for name, (across, up) in zip(points.index, axis.transData.transform(points[[x, y]]), strict=True):
        scale, side = 72 / axis.figure.dpi, 1 if across < middle else -1
        left, right = sorted((across * scale + 4 * side, across * scale + (4 + 0.6 * size * len(name)) * side))
        height = up * scale
        for other_left, other_right, there in sorted(taken, key=lambda one: one[2]):
            if left < other_right and other_left < right and abs(height - there) < size:
                height = there + size
        taken.append((left, right, height))
        axis.annotate(
            name, (points.loc[name, x], points.loc[name, y]), xytext=(4 * side, height - up * scale), fontsize=size,
            textcoords="offset points", ha="left" if side > 0 else "right", va="center", annotation_clip=False,
        )  # fmt: skip


def scene_animation(path: Path, frames: np.ndarray, lines: dict[str, np.ndarray], *, title: str) -> None:
    """A scene that changes, as a GIF: each frame beside the scores up to it.

    Args:
        frames: (n, height, width) uint8.
        lines: by name, a score of each frame (n,).
    """
    number = np.arange(1, len(frames) + 1)
    figure, (scene, plot) = plt.subplots(1, 2, figsize=(7, 3.4), width_ratios=[1, 1.6], layout="constrained")
    shown = scene.imshow(frames[0], cmap="gray", vmin=0, vmax=255)
    scene.axis("off")
    drawn = {name: plot.plot([], [], marker=".", label=name)[0] for name in lines}
    values = np.concatenate(list(lines.values()))
    margin = 0.05 * max(np.ptp(values), 1e-6)
    plot.set(xlabel="frame", ylabel="score", xlim=(0, len(frames) + 1),
             ylim=(values.min() - margin, values.max() + margin))  # fmt: skip
    plot.grid(alpha=0.3)
    plot.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(lines), fontsize=8, frameon=False)
    figure.suptitle(title)
    pages = []
    for last, frame in enumerate(frames, 1):
        shown.set_data(frame)
        for name, line in drawn.items():
            line.set_data(number[:last], lines[name][:last])
        figure.canvas.draw()
        pages.append(Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB"))
    plt.close(figure)
    # All lines are there in the last one: its colors are everyone's, so that still parts do not flicker.
    palette = pages[-1].quantize(64, dither=Image.Dither.NONE)
    pages = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    pages[0].save(path, format="GIF", save_all=True, append_images=pages[1:], duration=150, loop=0)


def score_histograms(path: Path, edges: np.ndarray, groups: dict[str, dict], *, title: str) -> None:
    """Scores of groups of labels, each with the normal distribution of its mean and deviation.

    Args:
        edges: of the bins, (bins + 1,).
        groups: by name, `count`, `mean`, `deviation` and `histogram`, the scores in each bin.
    """
    figure, axis = plt.subplots(figsize=(8, 3.8), layout="constrained")
    places = np.linspace(edges[0], edges[-1], 500)
    for name, group in groups.items():
        density = np.array(group["histogram"]) / (group["count"] * np.diff(edges))
        bars = axis.stairs(density, edges, fill=True, alpha=0.35)
        label = f"{name}: {group['mean']:.2f} ± {group['deviation']:.2f}"
        axis.plot(places, norm.pdf(places, group["mean"], group["deviation"]), color=bars.get_facecolor()[:3],
                  label=label)  # fmt: skip
    axis.set(xlabel="score", ylabel="density", title=title)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    _save(figure, path)


def accuracies(path: Path, table: pd.DataFrame, *, x: str, y: str, title: str) -> None:
    """A figure of each model with its interval, over what the models are tried on.

    Args:
        table: with columns `x`, `model`, `y`, `low` and `high`.
        x, y: columns, and what the axes show.
    """
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    models = list(table.groupby("model", sort=False))
    for number, (model, part) in enumerate(models):
        errors = [part[y] - part["low"], part["high"] - part[y]]
        beside = 0.08 * (number - (len(models) - 1) / 2)  # so that intervals do not hide each other
        axis.errorbar(part[x] + beside, part[y], yerr=errors, marker="o", markersize=4, capsize=2, linewidth=1.2,
                      label=model)  # fmt: skip
    axis.set(xlabel=x, ylabel=y, title=title)
    axis.set_xticks(sorted(table[x].unique()))
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    _save(figure, path)
