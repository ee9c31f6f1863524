"""Show what the label rankers of kanji can do: `python -m tools.kanji [PROJECT]`.

It writes the table of results/kanji/ into docs/real_data.md. With the folder of the project that trained them, it also
draws test kanji with the order that each loss gives, as docs/kanji.png.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipelines.reporting import plots
from pipelines.reporting.examples import places
from pipelines.reporting.results import number
from rankops.datasets.public.kanji import CANVAS, Kanji, area_of, draw
from rankops.io.parquet import decode_images, matrix, read_table
from tools.page import write_results

RESULTS, PICTURE = Path("results/kanji"), Path("docs/kanji.png")
SHOWN, SEED = ("cross_entropy", "plackett_luce", "rlsep"), 1
EXAMPLES, TILE = 6, 44  # test kanji, and pixels of a component


def table() -> str:
    """Return what was kept as a table, with differences in exact order from the baseline."""
    runs = json.loads((RESULTS / "comparisons/label_ranking.json").read_text())["metrics"]["runs"]
    lines = ["| loss | ranked 0-1 | difference from cross-entropy | p (Holm) | ranked accuracy | ranked mAP | seeds |"]
    lines.append("| --- " * 7 + "|")
    for name, compared in runs.items():
        kept = json.loads((RESULTS / f"{name}.json").read_text())
        leaves = [kept["metrics"]["ranked"][one] for one in ("exact_match", "accuracy", "mean_average_precision")]
        exact, *others = (number(leaf["value"], leaf["low"], leaf["high"]) for leaf in leaves)
        gain = compared.get("difference")
        difference = [number(gain["value"], gain["low"], gain["high"], sign=True), f"{compared['p']:.3f}"]
        row = [kept["params"]["run"]["loss"]["name"], exact, *(difference if gain else ["", ""]), *others]
        lines.append(f"| {' | '.join(row)} | {len(kept['training']['seeds'])} |")
    return "\n".join(lines) + "\n"


def sheet(project: Path) -> None:
    """Draw test kanji that have four components; these are drawn too, as few fonts have them."""
    drawings, labels = Kanji().read(project / "data/raw/kanji")
    glyphs: dict[str, Any] = {}
    for place, label in enumerate(labels):
        largest = max((one.components[label] for one in drawings if label in one.components), key=area_of)
        ink = draw(_filling(largest), TILE)
        glyphs[str(place)] = np.dstack([np.zeros((TILE, TILE, 3), np.uint8), ink])
    path = project / "data/kanji/test.parquet"
    read = read_table(path, ["image", "label_ranks"])
    truth = matrix(read, "label_ranks", path=path).numpy()
    rows = np.flatnonzero((truth > 0).sum(1) == 4)
    rows = rows[np.linspace(0, len(rows) - 1, EXAMPLES).astype(int)]
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
            sheet(Path(sys.argv[1]))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
