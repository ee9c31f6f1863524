"""Measure a label ranker's scores over changing sizes of digits, and by true size (RLSEP, Figs. 1 and 3)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn

from pipelines.config import Settings, load
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes import digits as digits_of
from rankgrad.datasets.scenes.digits import Digits
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
from studies import calibration
from studies.figures.rlsep_scenes import calibration_recipes, frame_recipes

FOLDER, RUN = Path("metrics/measured"), "label_ranking-rlsep-label_attention"
FRAMES, ROWS, SEED = 30, 2000, 1
TASK = LabelRanking()


def frames(folder: Path, ranker: nn.Module, scenes: RankedMnist, digits: Digits) -> list[Row]:
    """Write Fig. 1 as frames.csv and frames.png, with frames from left to right; return its first and last values."""
    recipe = frame_recipes(digits, FRAMES, canvas=scenes.canvas, generator=generator(SEED, "frames"))
    images = scenes.images(recipe, digits)
    scores, _ = TASK.scores(ranker, of_tensor(images))
    columns, measured = {}, {}
    for label in (recipe["size"][0] > 0).nonzero().flatten().tolist():
        side, score = recipe["size"][:, label].double(), scores[:, label].double()
        columns |= {f"size_{label}": side.numpy(), f"score_{label}": score.numpy()}
        of_digit = measured[f"digit_{label}"] = {}
        for name, values in (("side", side), ("score", score)):
            of_digit[name] = {"first": values[0], "last": values[-1]}
        if side[0] != side[-1]:
            of_digit["spearman"] = spearman(score, side)
    pd.DataFrame(columns).to_csv(folder / "frames.csv", index_label="frame", float_format="%.6g")
    Image.fromarray(np.concatenate(list(images.numpy()), axis=1)).save(folder / "frames.png")
    return [*rows_of(RUN, measured)]


def steps(folder: Path, scores: Tensor, size: Tensor, *, resamples: int, seed: int) -> list[Row]:
    """Write Fig. 3 as histograms.json, with `bin_edges` and the counts of each scale; return scores by true scale.

    Args:
        folder: the folder for the file.
        scores, size: see `studies.calibration.groups_of`.
        resamples, seed: for the interval of `exactly_ordered`, the fraction of images whose scores are ordered by size.
    """
    groups = calibration.groups_of(scores, size)
    edges, counts = calibration.histograms(groups)
    histograms = {"bin_edges": edges.tolist()} | {name: count.tolist() for name, count in counts.items()}
    (folder / "histograms.json").write_text(json.dumps(histograms) + "\n")
    ordered = calibration.exactly_ordered(groups).astype(float)
    measured = calibration.moments(groups) | {
        "spearman": spearman(scores[size > 0], size[size > 0]),
        "exactly_ordered": interval(ordered, resamples=resamples, seed=seed),
    }
    return [*rows_of(RUN, measured)]


@torch.inference_mode()
def main(params: Settings) -> None:
    scenes = params.datasets[params.runs[RUN].dataset].built()
    digits = digits_of.read(params.datasets["ranked_mnist"].raw)[digits_of.DIGITS_OF["test"]]
    ranker = load_model(f"models/runs/{RUN}", device=find_device(params.compute.device))
    recipe = calibration_recipes(digits, ROWS, canvas=scenes.canvas, generator=generator(SEED, "calibration"))
    scores, _ = TASK.scores(ranker, of_tensor(scenes.images(recipe, digits)))
    resamples, seed = params.evaluate.resamples, derived_seed(params.evaluate.seed, "calibration")
    with replaced_folder(FOLDER / "sizes") as folder:
        rows = frames(folder, ranker, scenes, digits)
        rows += steps(folder, scores, recipe["size"], resamples=resamples, seed=seed)
    with replaced_file(FOLDER / "sizes.csv") as partial:
        results.write(partial, rows)


if __name__ == "__main__":
    main(load())
