"""Draw pictures with captions, one to three a picture: colored shapes, side by side.

`python draw.py FOLDER [ROWS]`
"""

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLORS = {"red": (200, 40, 40), "green": (40, 160, 60), "blue": (40, 70, 200), "yellow": (230, 200, 40)}
SHAPES = ("circle", "square", "triangle")
FORMS = (
    "a {0} {1} left of a {2} {3}",
    "{2} {3} on the right, {0} {1} on the left",
    "on the left a {0} {1}, then a {2} {3}",
)


def draw(folder: Path, rows: int = 600) -> None:
    """Write `captions.csv` (image, caption), one row per caption, and the pictures that it names."""
    draws = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    with (folder / "captions.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "caption"])
        for row in range(rows):
            image = Image.new("RGB", (128, 96), tuple(draws.integers(220, 256, 3).tolist()))
            words: list[str] = []
            for side in (0, 1):
                color, shape = draws.choice(list(COLORS)), draws.choice(SHAPES)
                box = (side * 64 + draws.integers(2, 14), draws.integers(4, 44), draws.integers(30, 48))
                paint(ImageDraw.Draw(image), shape, COLORS[color], *map(int, box))
                words += [color, shape]
            image.save(folder / "images" / f"{row:04d}.png")
            for form in draws.permutation(FORMS)[: draws.integers(1, 4)]:
                table.writerow([f"images/{row:04d}.png", form.format(*words)])


def paint(pen: ImageDraw.ImageDraw, shape: str, color: tuple[int, int, int], x: int, y: int, size: int) -> None:
    box = (x, y, x + size, y + size)
    if shape == "circle":
        pen.ellipse(box, fill=color)
    elif shape == "square":
        pen.rectangle(box, fill=color)
    else:
        pen.polygon([(x + size / 2, y), (x, y + size), (x + size, y + size)], fill=color)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), *map(int, sys.argv[2:]))
