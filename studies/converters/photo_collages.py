"""Collages of photos whose labels are ranked by size, as the digits of Ranked MNIST are.

The photos are those of CIFAR-10 (Krizhevsky, 2009), as JPEG files: `cifar10/train/<class>/` and `cifar10/test/<class>/`
beside the collages' folder.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from rankgrad.io.pictures import as_png
from studies.converters.writing import block_of, convert, drawn_splits

CANVAS = 64  # pixels per side
BLOCK = block_of(
    "photo_collages", size=CANVAS, image="image", label_ranks="rank_*", id="name", split="split", gate_share=0
)
SIZES = 16, 40  # smallest and largest side of a photo
PHOTOS = 2, 3  # fewest and most photos of a collage
APART = 3  # smallest difference between the sides of two photos
PHOTOS_PER_COLLAGE = 8  # a split has as many collages as an eighth of its photos

Place = tuple[int, int, int]  # side, top, and left


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each collage: a picture, and the rank of each class by the size of its photo.

    No photo is in the collages of two splits. Each collage has photos of different classes.
    """
    home = raw.with_name("cifar10")  # a dataset's own folder is hashed file by file
    folders = sorted(path.name for path in (home / "train").iterdir() if path.is_dir())
    photos = {split: {name: list[Path]() for name in folders} for split in ("train", "val", "test")}
    for path in sorted((home / "train").glob("*/*.jpg")):
        [split] = drawn_splits([path.name], val=0.1)
        photos[split][path.parent.name].append(path)
    for path in sorted((home / "test").glob("*/*.jpg")):
        photos["test"][path.parent.name].append(path)
    for split, by_class in photos.items():
        if empty := [name for name, paths in by_class.items() if not paths]:
            raise ValueError(f"no *.jpg of {empty[0]} for {split} in {home}, expected photos of each class")
    draws, rows = np.random.default_rng(1), []
    for split, by_class in photos.items():
        for number in range(sum(map(len, by_class.values())) // PHOTOS_PER_COLLAGE):
            places = _places(draws, int(draws.integers(PHOTOS[0], PHOTOS[1] + 1)))
            classes = [folders[index] for index in draws.choice(len(folders), len(places), replace=False)]
            chosen = [by_class[name][int(draws.integers(len(by_class[name])))] for name in classes]
            ranks = {f"rank_{name}": 0 for name in folders}
            for rank, (_, name) in enumerate(sorted(zip(places, classes, strict=True)), 1):
                ranks[f"rank_{name}"] = rank
            picture = _collage(chosen, places, draws)
            rows.append({"name": f"{split}-{number}", "image": picture, "split": split, **ranks})
    return pd.DataFrame(rows)


def _places(draws: np.random.Generator, count: int) -> list[Place]:
    """Return places of photos that neither overlap nor are about equally large; all are drawn again until they fit."""
    while True:
        sides = draws.integers(SIZES[0], SIZES[1] + 1, count)
        corners = draws.integers(0, CANVAS - sides + 1, (2, count))
        places = [(int(side), int(top), int(left)) for side, top, left in zip(sides, *corners, strict=True)]
        if not any(_collide(one, other) for one, other in combinations(places, 2)):
            return places


def _collide(one: Place, other: Place) -> bool:
    """Return whether two places overlap or are about equally large."""
    (side, top, left), (other_side, other_top, other_left) = one, other
    rows_meet = top < other_top + other_side and other_top < top + side
    columns_meet = left < other_left + other_side and other_left < left + side
    return abs(side - other_side) < APART or (rows_meet and columns_meet)


def _collage(photos: Sequence[Path], places: Sequence[Place], draws: np.random.Generator) -> bytes:
    """Return a PNG of photos on a background of one random color."""
    canvas = Image.new("RGB", (CANVAS, CANVAS), tuple(draws.integers(0, 256, 3).tolist()))
    for path, (side, top, left) in zip(photos, places, strict=True):
        with Image.open(path) as photo:
            canvas.paste(photo.convert("RGB").resize((side, side), Image.Resampling.LANCZOS), (left, top))
    return as_png(canvas)


if __name__ == "__main__":
    convert(table, BLOCK)
