"""Show what the label rankers of kanji can do: `python -m tools.kanji [PROJECT]`.

It writes the table of results/kanji/ into docs/real_data.md. With the folder of the project that trained them, it also
draws test kanji with the order that each loss gives, as docs/kanji.png, and prints what can be had without the picture.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from pipelines.reporting import plots
from pipelines.reporting.examples import places
from pipelines.reporting.results import number
from rankops.datasets.public.kanji import CANVAS, Kanji, area_of, draw
from rankops.datasets.splits import read_label_ranks
from rankops.io.parquet import decode_images, matrix, read_table
from rankops.metrics.label_ranking import ranked
from tools.page import markdown, write_results

RESULTS, PICTURE = Path("results/kanji"), Path("docs/kanji.png")
SHOWN, SEED = ("cross_entropy", "lsep", "plackett_luce", "rlsep"), 1
EXAMPLES, TILE = 6, 44  # test kanji, and pixels of a component


def table() -> str:
    """Return what was kept as a table, with differences in exact order from the baseline."""
    runs = json.loads((RESULTS / "comparisons/label_ranking.json").read_text())["metrics"]["runs"]
    columns = ["loss", "ranked 0-1", "difference from cross-entropy", "p (Holm)", "ranked accuracy", "ranked mAP"]
    rows = []
    for name, compared in runs.items():
        kept = json.loads((RESULTS / f"{name}.json").read_text())
        ranks, sets = kept["metrics"]["ranked"], kept["metrics"]["unranked"]["exact_match"]
        leaves = [ranks["exact_match"], ranks["accuracy"], ranks["mean_average_precision"], sets]
        exact, *others = (number(leaf["value"], leaf["low"], leaf["high"]) for leaf in leaves)
        difference = ["", ""]
        if gain := compared.get("difference"):
            difference = [number(gain["value"], gain["low"], gain["high"], sign=True), f"{compared['p']:.3f}"]
        rows.append([kept["params"]["run"]["loss"]["name"], exact, *difference, *others])
    return markdown([*columns, "unranked 0-1"], rows)


def usual_order(project: Path) -> float:
    """Return ranked 0-1 of one who knows the components of a test kanji, and their mean place in training alone."""
    train, test = (read_label_ranks(project / "data/kanji", split, threads=1)[1] for split in ("train", "test"))
    relative = torch.where(train > 0, (train - 0.5) / train.max(1, keepdim=True).values, 0)
    usual = relative.sum(0) / (train > 0).sum(0)
    return ranked(torch.where(test > 0, usual, -1), test)["exact_match"].mean().item()


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
        write_results(Path("docs/real_data.md"), table(), by="tools/kanji.py")
        if sys.argv[1:]:
            print(f"usual order: {usual_order(Path(sys.argv[1])):.3f}")
            sheet(Path(sys.argv[1]))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
