"""Draw the papers' figures from measurements: SoDeep's Figs. 4 to 6, RLSEP's Figs. 1, 3, and 5."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm

from pipelines.config import Settings, load
from pipelines.reporting.results import history
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from studies.points import FLIPPED

METRICS = Path("metrics")
FIGURES = METRICS / "measured"
POINTS = ("lstm", "cnn", "handcrafted", "hinge_ap", "multilabel_soft_margin")
LINES = {
    "RLSEP": "label_ranking-rlsep-{}_digits",
    "RLSEP, trained on three": "label_ranking-rlsep-3_digits",
    "LSEP": "label_ranking-lsep-{}_digits",
}


def error_bars(axis: Axes, x: Sequence[int], intervals: Sequence[tuple[float, float, float]], **style: Any) -> None:
    """Draw a curve with its 95% intervals: value, low, and high of each point."""
    value, low, high = np.array(intervals).T
    axis.errorbar(x, value, [value - low, high - value], capsize=2, **style)


def depth(params: Settings) -> Figure:
    """Plot the L1 of CNN sorters by their number of layers."""
    layers = {sorter.args["layers"]: name for name, sorter in params.sorters.items() if sorter.name == "cnn"}
    measured, counts = results.read(METRICS / "sorters"), sorted(layers)
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    error_bars(axis, counts, [measured.leaf(layers[count], "l1") for count in counts], marker="o")
    axis.set(xlabel="layers", ylabel="test L1 / d", xticks=counts)
    return figure


def sweep(params: Settings) -> Figure:
    """Plot the rank that each sorter gives to a moving score, and its error."""
    ranks = pd.read_csv(FIGURES / "sweep/ranks.csv", index_col="score")
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 9), sharex=True, layout="constrained")
    ranks.plot(ax=above, ylabel="rank", legend=False)
    ranks.sub(ranks["exact"], axis=0).plot(
        ax=below, ylabel="rank minus exact rank", xlabel="the moved score", legend=False
    )
    figure.legend(*above.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def average_precision(params: Settings) -> Figure:
    """Plot average precision of points: validation by epochs, and test by flipped labels; means over seeds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    tested = results.read(METRICS / "runs")
    for method in POINTS:
        runs = [f"points-{method}-{flipped}" for flipped in FLIPPED]
        curves = []
        for seed in params.runs[runs[0]].seeds:
            epochs = history(f"models/runs/{runs[0]}/seed{seed}").set_index("epoch")
            curves.append(epochs["mean_average_precision"])
        left.plot(pd.concat(curves, axis=1).mean(axis=1), label=method)
        right.plot(FLIPPED, [tested.row(run, "mean_average_precision").value for run in runs], marker="o")
    left.set(xlabel="epochs", ylabel="average precision")
    right.set(xlabel="per cent of flipped training labels")
    left.legend()
    return figure


def sizes(params: Settings) -> Figure:
    """Plot the scores of three digits whose sizes change, below the frames."""
    frames = pd.read_csv(FIGURES / "sizes/frames.csv", index_col="frame")
    with Image.open(FIGURES / "sizes/frames.png") as strip:
        pictures = np.stack(np.split(np.asarray(strip), len(frames), axis=1))[:: max(1, len(frames) // 10)]
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5), height_ratios=[1, 3], layout="constrained")
    above.imshow(np.concatenate(list(pictures), axis=1), cmap="gray")
    above.set_axis_off()
    frames.filter(like="score_").rename(columns=lambda name: f"digit {name[-1]}").plot(ax=below, ylabel="score")
    return figure


def calibration(params: Settings) -> Figure:
    """Plot scores by true scale, each with the normal distribution of its mean and deviation."""
    counts = json.loads((FIGURES / "sizes/histograms.json").read_text())
    edges = np.array(counts.pop("bin_edges"))
    measured = {row.metric: row.value for row in results.read(FIGURES / "sizes.csv").rows}
    scores = np.linspace(edges[0], edges[-1], 500)
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    for name, histogram in counts.items():
        count, mean, deviation = (measured[f"scale_{name}.{moment}"] for moment in ("count", "mean", "deviation"))
        bars = axis.stairs(np.array(histogram) / (count * np.diff(edges)), edges, fill=True, alpha=0.35)
        title = name if name == "absent" else f"scale {name}"
        density = norm.pdf(scores, mean, deviation)
        axis.plot(scores, density, color=bars.get_facecolor()[:3], label=f"{title}: {mean:.2f} ± {deviation:.2f}")
    axis.set(xlabel="score", ylabel="density", title=f"in exact order: {measured['exactly_ordered']:.3f}")
    axis.legend()
    return figure


def digits_per_image(params: Settings) -> Figure:
    """Plot ranked accuracy by number of digits, with 95% intervals."""
    counts = range(2, 11)
    measured = {count: results.read(FIGURES / f"digits-{count}.csv") for count in counts}
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for name, run in LINES.items():
        accuracy = [measured[count].leaf(run.format(count), f"accuracy.{count}_digits") for count in counts]
        error_bars(axis, counts, accuracy, marker="o", markersize=4, label=name)
    axis.set(xlabel="digits per image", ylabel="ranked accuracy")
    axis.legend()
    return figure


NAMES = {
    "sodeep_4-depth": depth,
    "sodeep_5-score_sweep": sweep,
    "sodeep_6-average_precision": average_precision,
    "rlsep_1-sizes": sizes,
    "rlsep_3-calibration": calibration,
    "rlsep_5-digits_per_image": digits_per_image,
}


def main(params: Settings) -> None:
    with replaced_folder("reports/paper_figures") as folder:
        for name, draw in NAMES.items():
            figure = draw(params)
            # Leave out matplotlib's version, so that files are identical on all machines.
            figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
            plt.close(figure)


if __name__ == "__main__":
    main(load())
