"""Ranked MNIST: digits of different sizes on a canvas; the bigger, the more important (RLSEP, Section 5.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.datasets.scenes import drawing, facts, layout
from rankops.datasets.scenes.digits import Digits
from rankops.io.parquet import IMAGE, as_fixed_lists, decode_images, encode_images, matrix, read_table
from rankops.metrics.dense_ranks import dense_ranks

__all__ = [
    "RECIPE", "SCHEMA", "Recipes", "digit_facts", "expectations", "load", "measure", "pictures", "read_recipe",
    "recipe_columns", "recipes", "recipes_of", "tables",
]  # fmt: skip

CLASSES = 10
RECIPE = {
    "label_ranks": pa.int64(),
    "size": pa.float32(),
    "top": pa.float32(),
    "left": pa.float32(),
    "glyph": pa.int64(),
}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("image", IMAGE)] + [(name, pa.list_(kind, CLASSES)) for name, kind in RECIPE.items()]
)


@dataclass(frozen=True)
class Recipes:
    """From which scenes are drawn; each tensor (n, 10), one column a digit class."""

    label_ranks: Tensor  # int64; 0 = absent, larger = bigger on the canvas
    size: Tensor  # float32 pixels; 0 = absent
    top: Tensor  # float32 pixels
    left: Tensor  # float32 pixels
    glyph: Tensor  # int64, see Digits; -1 = absent


def recipes(
    digits: Digits,
    rows: int,
    *,
    canvas: int,
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    generator: torch.Generator,
) -> Recipes:
    """Draws scenes: how many digits, of which classes, which glyphs, how large and where.

    A digit is scaled by s ~ U(scale); its side is s * canvas / 8 pixels (28 s at the paper's 224). Boxes are placed
    largest first; where one finds no free place, the scene's sizes and places are drawn again, its classes stay.

    Args:
        digits: of one split.
        rows: number of scenes.
        canvas: pixels on a side.
        digits_per_image: least and most.
        scale: least and most.
        overlap: largest share of the smaller box that two boxes may have in common.
        generator: source of all draws.

    Raises:
        ValueError: a class has no digit, or the digits do not fit on the canvas.
    """
    least, most = digits_per_image
    classes = torch.rand(rows, CLASSES, generator=generator).argsort(1)[:, :most]  # distinct
    counts = torch.randint(least, most + 1, (rows, 1), generator=generator)
    there = torch.arange(most) < counts
    # Which of a scene's classes is the largest is random already: sizes go to them in their order.
    sizes, tops, lefts, _ = layout.arranged(
        there, canvas=canvas, scale=scale, overlap=overlap, used=most, generator=generator
    )  # fmt: skip
    return recipes_of(there, classes, sizes, tops, lefts, digits.drawn(classes, generator))


def recipes_of(
    there: Tensor, classes: Tensor, sizes: Tensor, tops: Tensor, lefts: Tensor, glyphs: Tensor
) -> Recipes:  # fmt: skip
    """From one column a digit of the scene, each (n, digits), to one column a class.

    Args:
        there: boolean, False where a scene has fewer digits.
        classes: of the digits, distinct in each scene.
        sizes, tops, lefts, glyphs: as in `Recipes`.
    """

    def by_class(values: Tensor, absent: float) -> Tensor:
        empty = torch.full((len(values), CLASSES), absent, dtype=values.dtype)
        return empty.scatter(1, classes, torch.where(there, values, torch.as_tensor(absent, dtype=values.dtype)))

    size = by_class(sizes, 0.0)
    return Recipes(dense_ranks(size), size, by_class(tops, 0.0), by_class(lefts, 0.0), by_class(glyphs, -1))


def pictures(recipe: Recipes, digits: Digits, *, canvas: int) -> Tensor:
    """The images (n, canvas, canvas) uint8 of some recipes.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    rows = digits.rows_of(recipe.glyph)
    wrong = (digits.glyph[rows] != recipe.glyph) & (recipe.size > 0)
    if wrong.any():
        row, label = wrong.nonzero()[0].tolist()
        raise ValueError(f"scene {row}: glyph {int(recipe.glyph[row, label])} of class {label} is not in its split")
    # Columns that no scene uses are 0 and cost nothing; glyphs are gathered by `draw`'s own choice of rows.
    return drawing.draw(digits.images[rows], recipe.size, recipe.top, recipe.left, canvas=canvas)


def tables(digits: Digits, rows: int, *, threads: int, first: int = 0, **options: Any) -> Iterator[pa.Table]:
    """One split in pieces, so that memory does not grow with the number of images.

    Args:
        digits: of the split.
        rows: number of images.
        threads: to encode images with.
        first: number of the first row, where others came before.
        options: as for `recipes`.
    """
    canvas = options["canvas"]
    for start, count in layout.pieces(rows, pixels=canvas**2, most=2000):
        recipe = recipes(digits, count, **options)
        images = pictures(recipe, digits, canvas=canvas)
        columns = {
            "id": pa.array(range(first + start, first + start + count), pa.int64()),
            "image": encode_images(images.numpy(), threads=threads),
        }
        yield pa.table(columns | recipe_columns(recipe), schema=SCHEMA)


def recipe_columns(recipe: Recipes) -> dict[str, pa.Array]:
    """The columns of `RECIPE`."""
    return {name: as_fixed_lists(getattr(recipe, name)) for name in RECIPE}


def read_recipe(read: pa.Table, path: Path) -> Recipes:
    """Back from columns.

    Raises:
        ValueError: a column does not have a value for each class.
    """
    return Recipes(**{name: matrix(read, name, path=path, length=CLASSES) for name in RECIPE})


def load(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Recipes]:
    """Images (n, canvas, canvas) uint8 and recipes of one split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or an image is.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", *RECIPE])
    images = torch.from_numpy(decode_images(read["image"], path=path, threads=threads))
    return images, read_recipe(read, path)


def measure(folder: str | Path, digits: Digits, split: str, *, threads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the expectations are held against.

    Returns:
        One row a scene (is the image what its recipe draws, do ranks follow from sizes?), and one row a digit on a
        scene (its box, its ink, its glyph).
    """
    images, recipe = load(folder, split, threads=threads)
    ids = read_table(Path(folder) / f"{split}.parquet", ["id"])["id"].to_numpy()
    there = recipe.size > 0
    drawable = (torch.isin(recipe.glyph, digits.glyph) | ~there).all(-1)

    def draw(rows: Tensor) -> Tensor:
        part = Recipes(**{name: getattr(recipe, name)[rows] for name in RECIPE})
        return pictures(part, digits, canvas=images.shape[-1])

    scene = facts.scene_facts(split, ids, images, drawable=drawable, draw=draw) | {
        "digits": there.sum(1).numpy(),
        "ranks_follow_sizes": facts.ranks_follow_sizes(recipe.label_ranks, recipe.size).numpy(),
        "overlap": facts.largest_overlap(recipe.size, recipe.top, recipe.left).numpy(),
    }
    return scene, digit_facts(split, ids, images, digits, recipe)


def digit_facts(split: str, ids: np.ndarray, images: Tensor, digits: Digits, recipe: Recipes) -> dict[str, Any]:
    """One row a digit on a scene, see `rankops.datasets.scenes.facts.box_facts`."""
    where = (recipe.size, recipe.top, recipe.left, recipe.glyph)
    digit = facts.box_facts(split, ids, images, digits, where, "label")
    return digit | {"glyph_has_this_label": digit["glyph_class"] == digit["label"]}


def expectations(
    *, canvas: int, rows: dict[str, int], digits_per_image: tuple[int, int], scale: tuple[float, float], overlap: float
) -> dict[str, list[dict[str, Any]]]:
    """What must hold for scenes and for digits, as plain data: `type` and arguments of an expectation."""
    least, most = digits_per_image
    small, large = (canvas / 8 * one for one in scale)
    total = sum(rows.values())
    return {
        "scenes": [
            *facts.scene_expectations(canvas=canvas, rows=rows, digits_per_image=digits_per_image, overlap=overlap),
            {"type": facts.IN_SET, "column": "ranks_follow_sizes", "value_set": [True]},
            facts.uniform("digits", list(range(least, most + 1)), total),
        ],
        "digits": [
            *facts.box_expectations(canvas=canvas, scale=scale),
            {"type": facts.IN_SET, "column": "glyph_has_this_label", "value_set": [True]},
            facts.uniform("label", list(range(CLASSES)), total),
            # Scenes that do not fit are drawn again, which favors small digits a little; never large ones.
            {
                "type": "expect_column_mean_to_be_between",
                "column": "size",
                "min_value": (small + 0.25 * (large - small)) * (1 - 1e-6),
                "max_value": (small + large) / 2 * (1 + 1e-6) + 4 * (large - small) / total**0.5,
            },
        ],
    }
