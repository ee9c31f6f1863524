"""Pictures of what runs did, as PNG files with the same bits every time."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

__all__ = ["example_sheet", "learning_curves", "sorter_errors"]


def _save(figure, path: Path) -> None:
    # Without the library's version, which is all that would differ between two machines.
    figure.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(figure)


def learning_curves(path: Path, history: pd.DataFrame, *, title: str) -> None:
    """Training loss, and each validation figure, over epochs; the best epoch is marked."""
    figures = [name for name in history if name not in ("epoch", "loss", "learning_rate", "best")]
    figure, axes = plt.subplots(1, 1 + len(figures), figsize=(4 * (1 + len(figures)), 3), layout="constrained")
    best = history.index[history["best"] == 1][-1]
    for axis, name in zip(np.atleast_1d(axes), ["loss", *figures], strict=True):
        axis.plot(history["epoch"], history[name], marker=".")
        axis.axvline(history["epoch"][best], color="grey", linestyle=":", label="best epoch")
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
