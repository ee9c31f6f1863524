"""What scores of label rankers do with the size and the number of digits (RLSEP, Figs. 1, 3 and 5)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from pipelines.config.schema import LabelRankingFigures, Settings, load_experiments
from pipelines.stages.runner import run
from rankops.datasets.scenes.digits import DIGITS_OF, Digits, load
from rankops.datasets.scenes.ranked_mnist import RankedMnist
from rankops.datasets.scenes.rlsep import SCALES, calibration_recipes, frame_recipes
from rankops.io.atomic import replaced_folder
from rankops.metrics.bootstrap import interval
from rankops.metrics.label_ranking import ranked
from rankops.metrics.spearman import spearman
from rankops.seeding import derived_seed, generator
from rankops.tasks import label_ranking
from rankops.tasks.label_ranking import LabelRanker
from rankops.training.loop import compute

RUNS = ("label_ranking-rlsep", "label_ranking-lsep", "label_ranking-cross_entropy")
THREE_DIGITS = "label_ranking-rlsep-three_digits"
WITHOUT_OVERLAP = 6  # more digits than these do not fit beside each other
BINS = 60


def frames(folder: Path, ranker: LabelRanker, digits: Digits, dataset: RankedMnist, *, count: int, seed: int) -> None:
    """Fig. 1: frames.csv, and frames.png with the frames from left to right."""
    draws = generator(seed, "label_ranking_figures", "frames")
    recipe = frame_recipes(digits, count, canvas=dataset.canvas, generator=draws)
    images = dataset.images(recipe, digits)
    scores = ranker(images)[0]
    columns = {"frame": range(1, count + 1)}
    for label in (recipe["size"][0] > 0).nonzero().flatten().tolist():
        columns |= {f"size_{label}": recipe["size"][:, label].numpy(), f"score_{label}": scores[:, label].numpy()}
    pd.DataFrame(columns).to_csv(folder / "frames.csv", index=False, float_format="%.6g")
    Image.fromarray(np.concatenate(list(images.numpy()), axis=1)).save(folder / "frames.png")


def calibration(scores: Tensor, size: Tensor, *, canvas: int, resamples: int, seed: int) -> dict:
    """Fig. 3: scores by true scale.

    Args:
        scores: (n, K).
        size: (n, K) pixels; 0 = absent.
        canvas: pixels on a side.
        resamples, seed: of the interval.

    Returns:
        `bin_edges`; `scales`: by scale, and for `absent` labels, `count`, `mean` and `deviation` of the fitted normal
        distribution, and the `histogram`; `spearman` of score and size over all digits of all images; and
        `exactly_ordered`, the share of images whose digits' scores are in the order of their sizes.
    """
    edges = np.linspace(scores.min().item(), scores.max().item(), BINS + 1)
    there = size > 0
    # Sizes are products of floats; a scale is known by the nearest.
    groups = {f"{scale:g}": (size - canvas / 8 * scale).abs() < 1e-3 * canvas for scale in sorted(SCALES)}
    by_scale = {}
    for name, chosen in (groups | {"absent": ~there}).items():
        values = scores[chosen].double()
        by_scale[name] = {
            "count": len(values),
            "mean": values.mean().item(),
            "deviation": values.std(correction=0).item(),
            "histogram": np.histogram(values.numpy(), edges)[0].tolist(),
        }
    largest_first = size.argsort(dim=1, descending=True)[:, : len(SCALES)]
    ordered = (scores.gather(1, largest_first).diff(dim=1) < 0).all(1)
    draws = np.random.default_rng(derived_seed(seed, "label_ranking_figures", "calibration"))
    return {
        "bin_edges": edges.tolist(),
        "scales": by_scale,
        "spearman": spearman(scores[there], size[there]).item(),
        "exactly_ordered": interval(ordered.double().numpy(), resamples=resamples, generator=draws),
    }


def by_number_of_digits(
    rankers: dict[str, LabelRanker], digits: Digits, plan: LabelRankingFigures, dataset: RankedMnist, *,
    resamples: int, seed: int,
) -> pd.DataFrame:  # fmt: skip
    """Fig. 5: ranked accuracy of each model on images of exactly so many digits, with its 95 % interval."""
    rows = []
    for count in tqdm(plan.digits_per_image, desc="digits per image"):
        overlap = dataset.overlap if count <= WITHOUT_OVERLAP else max(dataset.overlap, plan.overlap)
        draws = generator(plan.seed, "label_ranking_figures", "digits per image", str(count))
        scenes = replace(dataset, digits_per_image=(count, count), overlap=overlap)
        images, label_ranks = scenes.scenes(digits, plan.rows, draws)
        for name, ranker in rankers.items():
            accuracy = ranked(ranker(images)[0], label_ranks)["accuracy"].numpy()
            # The same resamples for every model: their differences are paired.
            draws = np.random.default_rng(derived_seed(seed, "label_ranking_figures", str(count)))
            figure = interval(accuracy, resamples=resamples, generator=draws)
            rows.append({"digits": count, "model": name, "accuracy": figure["value"]} | figure)
    return pd.DataFrame(rows).drop(columns="value")


def main(params: Settings) -> None:
    plan = load_experiments(params).label_ranking_figures
    dataset = RankedMnist(**params.ranked_mnist.model_dump())
    device = compute(device=params.compute.device, precision=params.compute.precision).device
    digits = load("data/digits", DIGITS_OF["test"], threads=params.compute.threads)
    folders = {name: f"models/runs/{name}" for name in RUNS} | {THREE_DIGITS: f"experiments/models/{THREE_DIGITS}"}
    rankers = {name: label_ranking.load(folder, device=device) for name, folder in folders.items()}
    rlsep = rankers["label_ranking-rlsep"]
    bootstrap = {"resamples": params.evaluate.resamples, "seed": params.evaluate.seed}
    recipe = calibration_recipes(
        digits, plan.calibration_rows, canvas=dataset.canvas,
        generator=generator(plan.seed, "label_ranking_figures", "calibration"),
    )  # fmt: skip
    scores = rlsep(dataset.images(recipe, digits))[0]
    with replaced_folder("results/label_ranking_figures") as folder:
        frames(folder, rlsep, digits, dataset, count=plan.frames, seed=plan.seed)
        figures = calibration(scores, recipe["size"], canvas=dataset.canvas, **bootstrap)
        (folder / "calibration.json").write_text(json.dumps(figures, indent=2) + "\n")
        table = by_number_of_digits(rankers, digits, plan, dataset, **bootstrap)
        table.to_csv(folder / "digits_per_image.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    run(main)
