"""Draw photos with ordered tags: shapes of different sizes, the largest first. `python draw.py FOLDER [ROWS]`."""

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

TAGS = ("circle", "square", "triangle", "cross", "ring")


def draw(folder: Path, rows: int = 600) -> None:
    """Write `photos.csv` (photo, tags, shop) and the photos that it names."""
    draws = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    with (folder / "photos.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["photo", "tags", "shop"])
        for row in range(rows):
            chosen = draws.permutation(TAGS)[: draws.integers(2, 5)]
            sizes = np.sort(draws.choice(np.arange(10, 40), len(chosen), replace=False))[::-1]
            image = Image.new("RGB", (160, 120), tuple(draws.integers(150, 256, 3).tolist()))
            for tag, size, cell in zip(chosen, sizes, draws.permutation(6), strict=False):
                shape(ImageDraw.Draw(image), tag, 27 + 53 * (cell % 3), 30 + 60 * (cell // 3), size / 2, draws)
            image.save(folder / "images" / f"{row:04d}.jpg", quality=90)
            table.writerow([f"images/{row:04d}.jpg", "|".join(chosen), f"shop {row // 4}"])


def shape(pen: ImageDraw.ImageDraw, tag: str, x: float, y: float, half: float, draws: np.random.Generator) -> None:
    color, box = tuple(draws.integers(0, 130, 3).tolist()), (x - half, y - half, x + half, y + half)
    match tag:
        case "circle":
            pen.ellipse(box, fill=color)
        case "square":
            pen.rectangle(box, fill=color)
        case "triangle":
            pen.polygon([(x, y - half), (x - half, y + half), (x + half, y + half)], fill=color)
        case "cross":
            pen.line([(x - half, y), (x + half, y)], fill=color, width=max(2, int(half / 2)))
            pen.line([(x, y - half), (x, y + half)], fill=color, width=max(2, int(half / 2)))
        case _:
            pen.ellipse(box, outline=color, width=max(2, int(half / 3)))


if __name__ == "__main__":
    draw(Path(sys.argv[1]), *map(int, sys.argv[2:]))
