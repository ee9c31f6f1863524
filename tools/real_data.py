"""Show what was kept of losses on real data: `python -m tools.real_data [PROJECT]`.

It writes the tables of results/kanji/ and results/solar_cells/ into docs/real_data.md. With the folder of the project
that trained them it also draws test kanji with the order that each loss gives, as docs/kanji.png, and writes into
results/references.json what can be had: of kanji without the picture, of solar cells by scores that are never equal.
"""

import json
import sys
from functools import reduce
from hashlib import md5
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from pipelines.config.schema import NONE
from pipelines.ops.git import git
from pipelines.reporting import plots
from pipelines.reporting.examples import places
from pipelines.reporting.results import number
from rankops.datasets.files.splits import label_ranks_of, target_of
from rankops.datasets.kanji import CANVAS, Kanji, area_of, draw
from rankops.io.atomic import replaced_file
from rankops.io.parquet import decode_images, matrix, read_table
from rankops.metrics.label_ranking import ranked
from rankops.metrics.spearman import spearman
from tools.page import difference, markdown, write_results

PAGE, PICTURE = Path("docs/real_data.md"), Path("docs/kanji.png")
REFERENCES = Path("results/references.json")  # of a row without a network: its name and value, and the test file's hash
TABLES = {  # comparison, baseline, and metrics by title; the first is the one that is compared
    "kanji": (
        "label_ranking",
        "cross-entropy",
        {
            "ranked 0-1": "ranked.exact_match",
            "ranked accuracy": "ranked.accuracy",
            "ranked mAP": "ranked.mean_average_precision",
            "unranked 0-1": "unranked.exact_match",
        },
    ),
    "solar_cells": ("score_ranking", "MSE", {"Spearman": "spearman"}),
}
SHOWN, SEED = ("cross_entropy", "lsep", "plackett_luce", "rlsep"), 1
EXAMPLES, TILE = 6, 44  # test kanji, and pixels of a component


def table(name: str) -> str:
    """Return what was kept as a table, with differences from the baseline in the first metric."""
    (comparison, baseline, metrics), folder = TABLES[name], Path("results") / name
    runs = json.loads((folder / f"comparisons/{comparison}.json").read_text())["metrics"]["runs"]
    rows = []
    for run, compared in runs.items():
        kept = json.loads((folder / f"{run}.json").read_text())
        leaves = [reduce(getitem, place.split("."), kept["metrics"]) for place in metrics.values()]
        first, *others = (number(leaf["value"], leaf["low"], leaf["high"]) for leaf in leaves)
        made = kept["params"]["run"]
        loss = made["loss"]["name"] + (f", {made['sorter']}" if made["sorter"] != NONE else "")
        rows.append([loss, first, *difference(compared), *others])
    reference = json.loads(REFERENCES.read_text())[name]
    rows.append([f"*{reference['what']}*", f"{reference['value']:.3f}", *[""] * (1 + len(metrics))])
    title, *more = metrics
    return markdown(["loss", title, f"difference from {baseline}", "p (Holm)", *more], rows)


def ceiling(project: Path) -> float:
    """Return the Spearman of test cells with scores that put them in a right order, but no two of which are equal."""
    path = project / "data/solar_cells/test.parquet"
    grades = target_of(read_table(path, ["target"]), path)
    return spearman(grades.argsort().argsort().double(), grades).item()


def usual_order(project: Path) -> float:
    """Return ranked 0-1 of one who knows the components of a test kanji, and their mean place in training alone."""
    paths = [project / f"data/kanji/{split}.parquet" for split in ("train", "test")]
    train, test = (label_ranks_of(read_table(path, ["label_ranks"]), path) for path in paths)
    relative = torch.where(train > 0, (train - 0.5) / train.max(1, keepdim=True).values, 0)
    usual = relative.sum(0) / (train > 0).sum(0)
    return ranked(torch.where(test > 0, usual, -1), test)["exact_match"].mean().item()


def keep_reference(name: str, what: str, value: float, project: Path) -> None:
    """Write what can be had of a dataset into results/references.json."""
    kept = json.loads(REFERENCES.read_text()) if REFERENCES.is_file() else {}
    test = md5((project / f"data/{name}/test.parquet").read_bytes()).hexdigest()
    kept[name] = {"what": what, "value": value, "test_md5": test, "commit": git(".", "rev-parse", "HEAD")}
    with replaced_file(REFERENCES) as partial:
        partial.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def sheet(project: Path) -> None:
    """Draw test kanji, taken evenly from all; their components are drawn too, as few fonts have them."""
    drawings, labels = Kanji().read(project / "data/raw/kanji")
    glyphs: dict[str, Any] = {}
    for place, label in enumerate(labels):
        seen = sorted((one.components[label] for one in drawings if label in one.components), key=area_of)
        ink = draw(_filling(seen[len(seen) // 2]), TILE)
        glyphs[str(place)] = np.dstack([np.zeros((TILE, TILE, 3), np.uint8), ink])
    path = project / "data/kanji/test.parquet"
    read = read_table(path, ["image", "label_ranks"])
    truth = matrix(read, "label_ranks", path=path).numpy()
    rows = np.linspace(0, len(truth) - 1, EXAMPLES).astype(int)
    images = decode_images(read["image"].take(rows), path=path, threads=1)
    orders = [{"true": places(truth[row], truth[row])} for row in rows]
    for loss in SHOWN:
        path = project / f"predictions/label_ranking-{loss}-kanji.parquet"
        read = read_table(path, ["seed", "label_ranks"])
        ranks = matrix(read.filter(read["seed"].to_numpy() == SEED), "label_ranks", path=path).numpy()
        for row, order in zip(rows, orders, strict=True):
            order[loss] = places(truth[row], ranks[row])
    plots.orders(PICTURE, list(images), orders, glyphs=glyphs)
    with Image.open(PICTURE) as image:
        image.convert("RGB").quantize(16).save(PICTURE, optimize=True)


def _filling(strokes: list[np.ndarray]) -> list[np.ndarray]:
    """Return strokes in the middle of the canvas, as large as they fit."""
    low, high = (part(np.concatenate(strokes), axis=0) for part in (np.min, np.max))
    scale = 0.86 * CANVAS / (high - low).max()
    return [(points - (low + high) / 2) * scale + CANVAS / 2 for points in strokes]


if __name__ == "__main__":
    try:
        for project in map(Path, sys.argv[1:]):
            if (project / "data/kanji").is_dir():
                keep_reference("kanji", "the true components, in their usual order", usual_order(project), project)
                sheet(project)
            if (project / "data/solar_cells").is_dir():
                keep_reference("solar_cells", "the true order, without equal scores", ceiling(project), project)
        for name in TABLES:
            write_results(PAGE, table(name), by=f"{name}, by tools/real_data.py")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
