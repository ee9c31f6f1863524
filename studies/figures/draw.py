"""Draw the papers' figures from what was measured: SoDeep's Figs. 4 to 6, RLSEP's Figs. 1, 3 and 5."""

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

from pipelines.config import Settings, load
from pipelines.reporting.results import history
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.results import Row

METRICS = Path("metrics")
FIGURES = METRICS / "measured"
POINTS = ("lstm", "cnn", "handcrafted", "hinge_ap", "multilabel_soft_margin")
FLIPPED = (0, 10, 20, 30, 40)  # per cent
LINES = {"RLSEP": "rlsep-{}_digits", "RLSEP, trained on three": "rlsep-3_digits", "LSEP": "lsep-{}_digits"}


def depth(params: Settings) -> Figure:
    """L1 of CNN sorters by their number of layers."""
    layers = {sorter.args["layers"]: name for name, sorter in params.sorters.items() if sorter.name == "cnn"}
    measured, counts = results.read(METRICS / "sorters"), sorted(layers)
    value, low, high = np.array([measured.leaf(layers[count], "l1") for count in counts]).T
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.errorbar(counts, value, [value - low, high - value], fmt="o-", capsize=3)
    axis.set(xlabel="layers", ylabel="test L1 / d", xticks=counts)
    return figure


def sweep(params: Settings) -> Figure:
    """The rank that each sorter gives one score while it moves, and what it is off by."""
    ranks = pd.read_csv(FIGURES / "sweep/ranks.csv", index_col="score")
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 9), sharex=True, layout="constrained")
    ranks.plot(ax=above, ylabel="rank", legend=False)
    ranks.sub(ranks["exact"], axis=0).plot(
        ax=below, ylabel="rank minus exact rank", xlabel="the moved score", legend=False
    )
    figure.legend(*above.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def average_precision(params: Settings) -> Figure:
    """Average precision of points, of validation by epochs and of test by flipped labels; means over seeds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for method in POINTS:
        runs = [f"points-{method}-{share}" for share in FLIPPED]
        seeds = [history(f"models/runs/{runs[0]}/seed{seed}") for seed in params.runs[runs[0]].seeds]
        curves = pd.concat([seed.set_index("epoch")["mean_average_precision"] for seed in seeds], axis=1)
        left.plot(curves.mean(axis=1), label=method)
        tested = results.read(METRICS / "runs")
        right.plot(FLIPPED, [tested.row(run, "mean_average_precision").value for run in runs], marker="o")
    left.set(xlabel="epochs", ylabel="average precision")
    right.set(xlabel="per cent of flipped training labels")
    left.legend()
    return figure


def sizes(params: Settings) -> Figure:
    """The scores of three digits whose sizes change, below the frames."""
    frames = pd.read_csv(FIGURES / "sizes/frames.csv", index_col="frame")
    with Image.open(FIGURES / "sizes/frames.png") as strip:
        pictures = np.stack(np.split(np.asarray(strip), len(frames), axis=1))[:: max(1, len(frames) // 10)]
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5), height_ratios=[1, 3], layout="constrained")
    above.imshow(np.concatenate(list(pictures), axis=1), cmap="gray")
    above.set_axis_off()
    frames.filter(like="score_").rename(columns=lambda name: f"digit {name[-1]}").plot(ax=below, ylabel="score")
    return figure


def calibration(params: Settings) -> Figure:
    """Scores by true scale, each with the normal distribution of its mean and deviation."""
    counts = json.loads((FIGURES / "sizes/histograms.json").read_text())
    edges = np.array(counts.pop("bin_edges"))
    found = {row.metric: row.value for row in results.read(FIGURES / "sizes.csv").rows}
    places = np.linspace(edges[0], edges[-1], 500)
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    for name, histogram in counts.items():
        count, mean, deviation = (found[f"scale_{name}.{part}"] for part in ("count", "mean", "deviation"))
        bars = axis.stairs(np.array(histogram) / (count * np.diff(edges)), edges, fill=True, alpha=0.35)
        label = f"{name if name == 'absent' else f'scale {name}'}: {mean:.2f} ± {deviation:.2f}"
        axis.plot(places, norm.pdf(places, mean, deviation), color=bars.get_facecolor()[:3], label=label)
    axis.set(xlabel="score", ylabel="density", title=f"in exact order: {found['exactly_ordered']:.3f}")
    axis.legend()
    return figure


def digits_per_image(params: Settings) -> Figure:
    """Ranked accuracy by number of digits, with 95 % intervals."""
    rows: dict[tuple[str, str], Row] = {}
    for path in FIGURES.glob("digits-*.csv"):
        rows |= {(row.run, row.metric): row for row in results.read(path).rows}
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for name, run in LINES.items():
        found = [rows[f"label_ranking-{run.format(count)}", f"accuracy.{count}_digits"] for count in range(2, 11)]
        errors = [[row.value - row.low for row in found], [row.high - row.value for row in found]]
        axis.errorbar(
            range(2, 11), [row.value for row in found], errors, marker="o", markersize=4, capsize=2, label=name
        )
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
            # Without the library's version, so that two machines write the same bits.
            figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
            plt.close(figure)


if __name__ == "__main__":
    main(load())
