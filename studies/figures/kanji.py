"""Draw evenly spaced test kanji with the order of their components by each loss: reports/kanji.png."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipelines.reporting import plots
from rankgrad.io.parquet import decode_image, encoded_images, matrix, read_table
from rankgrad.tasks.label_ranking import label_ranks_of, places
from studies.converters.kanji import CANVAS, area_of, draw, drawings

TEST, PICTURE = Path("data/kanji/test.parquet"), Path("reports/kanji.png")
SEED = 1
SHOWN = {  # by name in the picture
    "usual order": "kanji-usual_order",
    "MSE": "label_ranking-mse-kanji",
    "rlsep": "label_ranking-rlsep-kanji",
}
EXAMPLES, TILE = 6, 44  # test kanji, and pixels of a component


def glyphs() -> dict[str, Any]:
    """Return a picture of each component, since few fonts have them."""
    kanji, labels = drawings(Path("data/raw/kanji"))
    glyphs = {}
    for number, label in enumerate(labels):
        strokes = sorted((drawing.components[label] for drawing in kanji if label in drawing.components), key=area_of)
        ink = draw(_filling(strokes[len(strokes) // 2]), TILE)
        glyphs[str(number)] = np.dstack([np.zeros((TILE, TILE, 3), np.uint8), ink])
    return glyphs


def _filling(strokes: list[np.ndarray]) -> list[np.ndarray]:
    """Return strokes centered on the canvas, as large as possible."""
    every = np.concatenate(strokes)
    low, high = every.min(axis=0), every.max(axis=0)
    scale = 0.86 * CANVAS / (high - low).max()
    return [(points - (low + high) / 2) * scale + CANVAS / 2 for points in strokes]


def main() -> None:
    read = read_table(TEST, ["image", "label_ranks"])
    truth = matrix(read, "label_ranks", path=TEST).numpy()
    rows = np.linspace(0, len(truth) - 1, EXAMPLES).astype(int)
    images = [decode_image(image, where=str(TEST)) for image in encoded_images(read["image"].take(rows), path=TEST)]
    orders = [{"true": places(truth[row], truth[row])} for row in rows]
    for name, run in SHOWN.items():
        path = Path(f"predictions/{run}.parquet")
        read = read_table(path, ["seed", "scores", "selected"])
        read = read.filter(read["seed"].to_numpy() == SEED)
        scores, selected = (matrix(read, column, path=path) for column in ("scores", "selected"))
        ranks = label_ranks_of(scores, selected > 0).numpy()
        for row, order in zip(rows, orders, strict=True):
            order[name] = places(truth[row], ranks[row])
    PICTURE.parent.mkdir(exist_ok=True)
    plots.orders(PICTURE, images, orders, glyphs=glyphs())
    with Image.open(PICTURE) as image:
        image.convert("RGB").quantize(16).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
