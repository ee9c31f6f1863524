"""Draw the papers' figures from what other stages measured: SoDeep's Figs. 4 to 6, RLSEP's Figs. 1, 3 and 5."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm

from pipelines.config import Settings
from pipelines.config.schema import required
from rankops.io.atomic import replaced_folder

METRICS = Path("metrics")
SIZES = METRICS / "label_ranking_figures"


def depth(params: Settings) -> Figure:
    """L1 of CNN sorters by their number of layers."""
    layers = {sorter.args["layers"]: name for name, sorter in params.sorters.items() if sorter.name == "cnn"}
    l1 = pd.DataFrame(
        {count: json.loads((METRICS / f"sorters/{name}.json").read_text())["l1"] for count, name in layers.items()}
    ).T.sort_index()
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.errorbar(l1.index, l1["value"], [l1["value"] - l1["low"], l1["high"] - l1["value"]], fmt="o-", capsize=3)
    axis.set(xlabel="layers", ylabel="test L1 / d", xticks=l1.index)
    return figure


def score_sweep(params: Settings) -> Figure:
    """The rank that each sorter gives one score while it moves, and what it is off by."""
    ranks = pd.read_csv(METRICS / "score_sweep.csv", index_col="score")
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 9), sharex=True, layout="constrained")
    ranks.plot(ax=above, ylabel="rank", legend=False)
    ranks.sub(ranks["exact"], axis=0).plot(
        ax=below, ylabel="rank minus exact rank", xlabel="the moved score", legend=False
    )
    figure.legend(*above.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def average_precision(params: Settings) -> Figure:
    """Average precision on synthetic points, against iterations and against flipped labels; means over seeds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for method in required(params.synthetic_precision, "synthetic_precision").methods:
        measured = json.loads((METRICS / f"synthetic_precision/{method}.json").read_text())
        curves = pd.DataFrame(measured["curves"])
        curves = pd.DataFrame(curves["average_precision"].tolist(), index=curves["flipped"])
        curves = curves.groupby(level=0).mean()
        left.plot(measured["iterations_per_epoch"] * (curves.columns + 1), curves.iloc[0], label=method)
        right.plot(curves.index, curves.iloc[:, -1], marker="o")
    left.set(xlabel="iterations", ylabel="test average precision")
    right.set(xlabel="share of flipped training labels")
    left.legend()
    return figure


def sizes(params: Settings) -> Figure:
    """The scores of three digits whose sizes change, below the frames."""
    frames = pd.read_csv(SIZES / "frames.csv", index_col="frame")
    with Image.open(SIZES / "frames.png") as strip:
        pictures = np.stack(np.split(np.asarray(strip), len(frames), axis=1))[:: max(1, len(frames) // 10)]
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5), height_ratios=[1, 3], layout="constrained")
    above.imshow(np.concatenate(list(pictures), axis=1), cmap="gray")
    above.set_axis_off()
    frames.filter(like="score_").rename(columns=lambda name: f"digit {name[-1]}").plot(ax=below, ylabel="score")
    return figure


def calibration(params: Settings) -> Figure:
    """Scores by true scale, each with the normal distribution of its mean and deviation."""
    measured = json.loads((SIZES / "calibration.json").read_text())
    edges = np.array(measured["bin_edges"])
    places = np.linspace(edges[0], edges[-1], 500)
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    for name, group in measured["scales"].items():
        bars = axis.stairs(
            np.array(group["histogram"]) / (group["count"] * np.diff(edges)), edges, fill=True, alpha=0.35
        )
        label = name if name == "absent" else f"scale {name}"
        label = f"{label}: {group['mean']:.2f} ± {group['deviation']:.2f}"
        fitted = norm.pdf(places, group["mean"], group["deviation"])
        axis.plot(places, fitted, color=bars.get_facecolor()[:3], label=label)
    axis.set(xlabel="score", ylabel="density", title=f"in exact order: {measured['exactly_ordered']['value']:.3f}")
    axis.legend()
    return figure


def digits_per_image(params: Settings) -> Figure:
    """Ranked accuracy by number of digits, with 95 % intervals."""
    table = pd.read_csv(SIZES / "digits_per_image.csv")
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for name, part in table.groupby("line", sort=False):
        errors = [part["accuracy"] - part["low"], part["high"] - part["accuracy"]]
        axis.errorbar(part["digits"], part["accuracy"], errors, marker="o", markersize=4, capsize=2, label=name)
    axis.set(xlabel="digits per image", ylabel="ranked accuracy")
    axis.legend()
    return figure


FIGURES = {
    "sodeep_4-depth": depth,
    "sodeep_5-score_sweep": score_sweep,
    "sodeep_6-average_precision": average_precision,
    "rlsep_1-sizes": sizes,
    "rlsep_3-calibration": calibration,
    "rlsep_5-digits_per_image": digits_per_image,
}


def main(params: Settings) -> None:
    with replaced_folder("reports/paper_figures") as folder:
        for name, draw in FIGURES.items():
            figure = draw(params)
            # Without the library's version, so that two machines write the same bits.
            figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
            plt.close(figure)
