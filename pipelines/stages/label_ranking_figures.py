"""Measure what scores of label rankers do with the size and the number of digits (RLSEP, Figs. 1, 3 and 5)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn
from tqdm import tqdm

from pipelines.config import Settings
from pipelines.config.schema import required
from rankops.bootstrap import interval
from rankops.datasets.ranked_mnist import RankedMnist
from rankops.datasets.scenes.digits import DIGITS_OF, Digits, load
from rankops.datasets.scenes.rlsep import SCALES, calibration_recipes, frame_recipes
from rankops.inputs.image import of_tensor
from rankops.io.atomic import replaced_folder
from rankops.io.checkpoints import load_model
from rankops.metrics.label_ranking import ranked
from rankops.metrics.spearman import spearman
from rankops.seeding import derived_seed, generator
from rankops.tasks.label_ranking import LabelRanking
from rankops.training.device import find_device

NAME = "label_ranking_figures"
BINS = 60
TASK = LabelRanking()


def frames(folder: Path, ranker: nn.Module, scenes: RankedMnist, digits: Digits, *, count: int, seed: int) -> None:
    """Write Fig. 1: frames.csv, and frames.png with the frames from left to right."""
    recipe = frame_recipes(digits, count, canvas=scenes.canvas, generator=generator(seed, NAME, "frames"))
    images = scenes.images(recipe, digits)
    scores, _ = TASK.scores(ranker, of_tensor(images))
    columns = {"frame": range(1, count + 1)}
    for label in (recipe["size"][0] > 0).nonzero().flatten().tolist():
        columns |= {f"size_{label}": recipe["size"][:, label].numpy(), f"score_{label}": scores[:, label].numpy()}
    pd.DataFrame(columns).to_csv(folder / "frames.csv", index=False, float_format="%.6g")
    Image.fromarray(np.concatenate(list(images.numpy()), axis=1)).save(folder / "frames.png")


def calibration(scores: Tensor, size: Tensor, *, canvas: int, resamples: int, seed: int) -> dict:
    """Return Fig. 3, scores by true scale.

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
    mask = size > 0
    # Sizes are products of floats: the nearest scale counts.
    groups = {f"{scale:g}": (size - canvas / 8 * scale).abs() < 1e-3 * canvas for scale in sorted(SCALES)}
    by_scale = {}
    for name, chosen in (groups | {"absent": ~mask}).items():
        values = scores[chosen].double()
        by_scale[name] = {
            "count": len(values),
            "mean": values.mean().item(),
            "deviation": values.std(correction=0).item(),
            "histogram": np.histogram(values.numpy(), edges)[0].tolist(),
        }
    largest_first = size.argsort(dim=1, descending=True)[:, : len(SCALES)]
    ordered = (scores.gather(1, largest_first).diff(dim=1) < 0).all(1)
    return {
        "bin_edges": edges.tolist(),
        "scales": by_scale,
        "spearman": spearman(scores[mask], size[mask]).item(),
        "exactly_ordered": interval(ordered.double().numpy(), resamples=resamples, seed=seed),
    }


def by_number_of_digits(params: Settings, *, device: torch.device, resamples: int, seed: int) -> pd.DataFrame:
    """Return Fig. 5: ranked accuracy on images of so many digits, with its 95 % interval.

    Each run of `retrained` is tested on images with as many digits as it was trained on; its line has the name of its
    loss. The run `partial` is tested on all of them.
    """
    plan = required(params.label_ranking_figures, NAME)
    tests: dict[str, dict[str, str]] = {}  # by dataset, and by line
    for name in plan.retrained:
        run = params.runs[name]
        tests.setdefault(run.dataset, {"partial": plan.partial})[run.loss.name] = name
    rows = []
    for dataset, lines in tqdm(tests.items(), desc="digits per image"):
        split = TASK.load(Path("data") / dataset, "test", threads=params.compute.threads)
        for line, name in lines.items():
            scores, _ = TASK.scores(load_model(f"models/runs/{name}", device=device), split.inputs)
            accuracy = ranked(scores, split.truth)["accuracy"].numpy()
            # The same resamples for every ranker: their differences are paired.
            leaf = interval(accuracy, resamples=resamples, seed=derived_seed(seed, NAME, dataset))
            digits = _scenes(params, dataset).digits_per_image[0]
            rows.append({"digits": digits, "line": line, "accuracy": leaf.pop("value")} | leaf)
    return pd.DataFrame(rows)


def _scenes(params: Settings, key: str) -> RankedMnist:
    return params.datasets[key].built()


def main(params: Settings) -> None:
    plan = required(params.label_ranking_figures, NAME)
    scenes = _scenes(params, params.runs[plan.run].dataset)
    digits = load("data/digits", DIGITS_OF["test"])
    device = find_device(params.compute.device)
    ranker = load_model(f"models/runs/{plan.run}", device=device)
    draws = generator(plan.seed, NAME, "calibration")
    recipe = calibration_recipes(digits, plan.calibration_rows, canvas=scenes.canvas, generator=draws)
    scores, _ = TASK.scores(ranker, of_tensor(scenes.images(recipe, digits)))
    bootstrap = {"resamples": params.evaluate.resamples, "seed": derived_seed(params.evaluate.seed, NAME)}
    with replaced_folder(f"metrics/{NAME}") as folder:
        frames(folder, ranker, scenes, digits, count=plan.frames, seed=plan.seed)
        measured = calibration(scores, recipe["size"], canvas=scenes.canvas, **bootstrap)
        (folder / "calibration.json").write_text(json.dumps(measured, indent=2) + "\n")
        table = by_number_of_digits(params, device=device, **bootstrap)
        table.to_csv(folder / "digits_per_image.csv", index=False, float_format="%.6g")
