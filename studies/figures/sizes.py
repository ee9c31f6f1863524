"""Measure a label ranker's scores while sizes of digits change, and by their size (RLSEP, Figs. 1 and 3)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn

from pipelines.config import Settings, load
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes import digits as digits_of
from rankgrad.datasets.scenes.rlsep import SCALES, calibration_recipes, frame_recipes
from rankgrad.evaluation import interval
from rankgrad.inputs.image import of_tensor
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file, replaced_folder
from rankgrad.io.checkpoints import load_model
from rankgrad.io.results import Row, rows_of
from rankgrad.metrics.spearman import spearman
from rankgrad.seeding import derived_seed, generator
from rankgrad.tasks.label_ranking import LabelRanking
from rankgrad.training.device import find_device

FOLDER, RUN = Path("metrics/measured"), "label_ranking-rlsep-label_attention"
FRAMES, ROWS, BINS, SEED = 30, 2000, 60, 1
TASK = LabelRanking()


def frames(folder: Path, ranker: nn.Module, scenes: RankedMnist, digits: Any) -> list[Row]:
    """Write Fig. 1, frames.csv and frames.png with the frames from left to right; return its first and last values."""
    recipe = frame_recipes(digits, FRAMES, canvas=scenes.canvas, generator=generator(SEED, "frames"))
    images = scenes.images(recipe, digits)
    scores, _ = TASK.scores(ranker, of_tensor(images))
    columns, rows = {}, []
    for label in (recipe["size"][0] > 0).nonzero().flatten().tolist():
        side, score = recipe["size"][:, label].double(), scores[:, label].double()
        columns |= {f"size_{label}": side.numpy(), f"score_{label}": score.numpy()}
        for name, values in (("side", side), ("score", score)):
            ends = {"first": values[0].item(), "last": values[-1].item()}
            rows += [Row(RUN, f"digit_{label}.{name}.{end}", value) for end, value in ends.items()]
        if side[0] != side[-1]:
            rows.append(Row(RUN, f"digit_{label}.spearman", spearman(score, side).item()))
    pd.DataFrame(columns).to_csv(folder / "frames.csv", index_label="frame", float_format="%.6g")
    Image.fromarray(np.concatenate(list(images.numpy()), axis=1)).save(folder / "frames.png")
    return rows


def calibration(scores: Tensor, size: Tensor, *, canvas: int, resamples: int, seed: int) -> dict[str, Any]:
    """Return Fig. 3, scores by true scale.

    Args:
        scores: (n, K).
        size: (n, K) pixels; 0 = absent.
        canvas: pixels on a side.
        resamples, seed: of the interval.

    Returns:
        By scale, and for `absent` labels, `count`, `mean` and `deviation` of the fitted normal distribution; `spearman`
        of score and size over all digits of all images; and `exactly_ordered`, the share of images whose digits' scores
        are in the order of their sizes.
    """
    mask, found = size > 0, {}
    for name, chosen in _by_scale(size, canvas).items():
        values = scores[chosen].double()
        measured = {"count": len(values), "mean": values.mean().item(), "deviation": values.std(correction=0).item()}
        found[f"scale_{name}"] = measured
    largest_first = size.argsort(dim=1, descending=True)[:, : len(SCALES)]
    ordered = (scores.gather(1, largest_first).diff(dim=1) < 0).all(1)
    found["spearman"] = spearman(scores[mask], size[mask]).item()
    return found | {"exactly_ordered": interval(ordered.double().numpy(), resamples=resamples, seed=seed)}


def histograms(scores: Tensor, size: Tensor, *, canvas: int) -> dict[str, Any]:
    """Return `bin_edges`, and how many scores each has by true scale; arguments as of `calibration`."""
    edges = np.linspace(scores.min().item(), scores.max().item(), BINS + 1)
    counts = {name: np.histogram(scores[one].numpy(), edges)[0] for name, one in _by_scale(size, canvas).items()}
    return {"bin_edges": edges.tolist()} | {name: count.tolist() for name, count in counts.items()}


def _by_scale(size: Tensor, canvas: int) -> dict[str, Tensor]:
    # Sizes are products of floats: the nearest scale counts.
    of_scale = {f"{scale:g}": (size - canvas / 8 * scale).abs() < 1e-3 * canvas for scale in sorted(SCALES)}
    return of_scale | {"absent": size == 0}


@torch.inference_mode()
def main(params: Settings) -> None:
    scenes = params.datasets[params.runs[RUN].dataset].built()
    digits = digits_of.read(params.datasets["ranked_mnist"].raw)[digits_of.DIGITS_OF["test"]]
    ranker = load_model(f"models/runs/{RUN}", device=find_device(params.compute.device))
    draws = generator(SEED, "calibration")
    recipe = calibration_recipes(digits, ROWS, canvas=scenes.canvas, generator=draws)
    scores, _ = TASK.scores(ranker, of_tensor(scenes.images(recipe, digits)))
    resampling = {"resamples": params.evaluate.resamples, "seed": derived_seed(params.evaluate.seed, "calibration")}
    with replaced_folder(FOLDER / "sizes") as folder:
        rows = frames(folder, ranker, scenes, digits)
        counts = histograms(scores, recipe["size"], canvas=scenes.canvas)
        (folder / "histograms.json").write_text(json.dumps(counts) + "\n")
    rows += rows_of(RUN, calibration(scores, recipe["size"], canvas=scenes.canvas, **resampling))
    with replaced_file(FOLDER / "sizes.csv") as partial:
        results.write(partial, rows)


if __name__ == "__main__":
    main(load())
