"""Ranked MNIST: digits of different sizes on a canvas; the bigger, the more important (RLSEP, Section 5.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops import scenes
from rankops.datasets.digits import Digits
from rankops.label_ranks import dense_ranks
from rankops.tables import IMAGE, decode_images, encode_images, read_table

__all__ = ["SCHEMA", "Recipes", "expectations", "load", "measure", "pictures", "placed", "recipes", "tables"]

CLASSES = 10
PLACES_TRIED = 32
ROUNDS = 1000
_RECIPE = {
    "label_ranks": pa.int64(),
    "size": pa.float32(),
    "top": pa.float32(),
    "left": pa.float32(),
    "glyph": pa.int64(),
}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("image", IMAGE)] + [(name, pa.list_(kind, CLASSES)) for name, kind in _RECIPE.items()]
)


@dataclass(frozen=True)
class Recipes:
    """From which scenes are drawn; each tensor (n, 10), one column a digit class."""

    label_ranks: Tensor  # int64; 0 = absent, larger = bigger on the canvas
    size: Tensor  # float32 pixels; 0 = absent
    top: Tensor  # float32 pixels
    left: Tensor  # float32 pixels
    glyph: Tensor  # int64, see Digits; -1 = absent


def placed(sizes: Tensor, canvas: int, overlap: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Places boxes, the largest first, each at the first of some random places that is free.

    Args:
        sizes: (n, T), descending, 0 = not there.

    Returns:
        tops, lefts (n, T) and whether all boxes of a scene found a place (n,).
    """
    scenes_, slots = sizes.shape
    tops, lefts = torch.zeros_like(sizes), torch.zeros_like(sizes)
    fits = torch.ones(scenes_, dtype=torch.bool)
    for slot in range(slots):
        size = sizes[:, slot, None]
        places = torch.rand(2, scenes_, PLACES_TRIED, generator=generator) * (canvas - size)
        free = torch.ones(scenes_, PLACES_TRIED, dtype=torch.bool)
        for earlier in range(slot):
            other = sizes[:, earlier, None]
            shared = [
                torch.minimum(at + size, before + other) - torch.maximum(at, before)
                for at, before in zip(places, (tops[:, earlier, None], lefts[:, earlier, None]), strict=True)
            ]
            # The smaller of two boxes is this one.
            free &= shared[0].clamp(min=0) * shared[1].clamp(min=0) <= overlap * size * size
        first = free.to(torch.uint8).argmax(-1, keepdim=True)
        there = sizes[:, slot] > 0
        tops[:, slot] = torch.where(there, places[0].gather(1, first).squeeze(1), 0.0)
        lefts[:, slot] = torch.where(there, places[1].gather(1, first).squeeze(1), 0.0)
        fits &= free.any(-1) | ~there
    return tops, lefts, fits


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
    base = canvas / 8
    least, most = digits_per_image
    classes = torch.rand(rows, CLASSES, generator=generator).argsort(1)[:, :most]  # distinct
    counts = torch.randint(least, most + 1, (rows, 1), generator=generator)
    there = torch.arange(most) < counts
    sizes, tops, lefts = (torch.zeros(rows, most) for _ in range(3))
    pending = torch.arange(rows)
    for _ in range(ROUNDS):
        scales = torch.rand(len(pending), most, generator=generator) * (scale[1] - scale[0]) + scale[0]
        drawn = (base * scales * there[pending]).sort(dim=-1, descending=True).values
        new_tops, new_lefts, fits = placed(drawn, canvas, overlap, generator)
        done = pending[fits]
        sizes[done], tops[done], lefts[done] = drawn[fits], new_tops[fits], new_lefts[fits]
        pending = pending[~fits]
        if not len(pending):
            break
    else:
        raise ValueError(
            f"ranked_mnist: {len(pending)} of {rows} scenes with {least} to {most} digits of scale {scale[0]} to "
            f"{scale[1]} found no place in {ROUNDS} draws: fewer or smaller digits, or more overlap (now {overlap})"
        )
    # Uniform among the digits of the class: rows of one class stand together after a sort.
    by_class = digits.labels.argsort(stable=True)
    sizes_of = torch.bincount(digits.labels, minlength=CLASSES)
    if (sizes_of == 0).any():
        raise ValueError(f"ranked_mnist: no digit of class {int((sizes_of == 0).nonzero()[0])} among {len(by_class)}")
    begins = sizes_of.cumsum(0) - sizes_of
    within = (torch.rand(rows, most, generator=generator) * sizes_of[classes]).long()
    glyphs = digits.glyph[by_class[begins[classes] + within]]

    def by_column(values: Tensor, absent: float) -> Tensor:
        empty = torch.full((rows, CLASSES), absent, dtype=values.dtype)
        return empty.scatter(1, classes, torch.where(there, values, torch.as_tensor(absent, dtype=values.dtype)))

    size = by_column(sizes, 0.0)
    return Recipes(dense_ranks(size), size, by_column(tops, 0.0), by_column(lefts, 0.0), by_column(glyphs, -1))


def pictures(recipe: Recipes, digits: Digits, *, canvas: int) -> Tensor:
    """The images (n, canvas, canvas) uint8 of some recipes.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    order = digits.glyph.argsort()
    place = torch.searchsorted(digits.glyph[order], recipe.glyph.clamp(min=0)).clamp(max=len(order) - 1)
    rows = order[place]
    wrong = (digits.glyph[rows] != recipe.glyph) & (recipe.size > 0)
    if wrong.any():
        row, label = wrong.nonzero()[0].tolist()
        raise ValueError(f"scene {row}: glyph {int(recipe.glyph[row, label])} of class {label} is not in its split")
    # Columns that no scene uses are 0 and cost nothing; glyphs are gathered by `draw`'s own choice of rows.
    return scenes.draw(digits.images[rows], recipe.size, recipe.top, recipe.left, canvas=canvas)


def tables(digits: Digits, rows: int, *, threads: int, **options: Any) -> Iterator[pa.Table]:
    """One split in pieces, so that memory does not grow with the number of images; `options` as for `recipes`."""
    # Pieces of 25 MB: larger ones come as fresh pages from the system each time, which costs as much as drawing.
    chunk = max(1, min(2000, 25_000_000 // options["canvas"] ** 2))
    for start in range(0, rows, chunk):
        count = min(chunk, rows - start)
        recipe = recipes(digits, count, **options)
        images = pictures(recipe, digits, canvas=options["canvas"])
        columns = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(getattr(recipe, name).numpy().ravel()), CLASSES)
            for name in _RECIPE
        }
        numbers = pa.array(range(start, start + count), pa.int64())
        yield pa.table(
            {"id": numbers, "image": encode_images(images.numpy(), threads=threads)} | columns, schema=SCHEMA
        )


def _matrix(read: pa.Table, name: str, path: Path) -> Tensor:
    values = read[name].combine_chunks()
    flat = values.flatten().to_numpy(zero_copy_only=False)
    if len(flat) != CLASSES * len(read):
        raise ValueError(f"{path}: column {name}: {len(flat)} values in {len(read)} rows, expected {CLASSES} a row")
    return torch.from_numpy(flat.reshape(len(read), CLASSES).copy())


def load(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Recipes]:
    """Images (n, canvas, canvas) uint8 and recipes of one split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or an image is.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", *_RECIPE])
    images = torch.from_numpy(decode_images(read["image"], path=path, threads=threads))
    return images, Recipes(**{name: _matrix(read, name, path) for name in _RECIPE})


def measure(folder: str | Path, digits: Digits, split: str, *, threads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the expectations are held against.

    Returns:
        One row a scene (is the image what its recipe draws, do ranks follow from sizes?), and one row a digit on a
        scene (its box, its ink, its glyph).
    """
    images, recipe = load(folder, split, threads=threads)
    ids = read_table(Path(folder) / f"{split}.parquet", ["id"])["id"].to_numpy()
    canvas = images.shape[-1]
    there = recipe.size > 0
    known = torch.isin(recipe.glyph, digits.glyph)
    drawable = (known | ~there).all(-1)
    difference = torch.full((len(images),), 255)
    sub = Recipes(**{name: getattr(recipe, name)[drawable] for name in _RECIPE})
    drawn = pictures(sub, digits, canvas=canvas)
    difference[drawable] = (drawn.short() - images[drawable].short()).abs().flatten(1).amax(1).long()
    # Largest share of the smaller box that two boxes of a scene have in common.
    ends = [(at, at + recipe.size) for at in (recipe.top, recipe.left)]
    sides = [
        (torch.minimum(high.unsqueeze(2), high.unsqueeze(1)) - torch.maximum(low.unsqueeze(2), low.unsqueeze(1)))
        for low, high in ends
    ]
    shared = sides[0].clamp(min=0) * sides[1].clamp(min=0)
    smaller = torch.minimum(recipe.size.unsqueeze(2), recipe.size.unsqueeze(1)) ** 2
    pairs = there.unsqueeze(2) & there.unsqueeze(1) & ~torch.eye(CLASSES, dtype=torch.bool)
    overlap = torch.where(pairs, shared / smaller.clamp(min=1e-6), 0.0).flatten(1).amax(1)
    scene = {
        "split": [split] * len(images),
        "id": ids,
        "side": np.full(len(images), canvas),
        "pixels": [sha256(image.tobytes()).hexdigest() for image in images.numpy()],
        "digits": there.sum(1).numpy(),
        "ranks_follow_sizes": (recipe.label_ranks == dense_ranks(recipe.size)).all(1).numpy(),
        "highest_rank": recipe.label_ranks.amax(1).numpy(),
        "difference_from_recipe": difference.numpy(),
        "overlap": overlap.numpy(),
    }
    row, label = there.nonzero(as_tuple=True)
    # Ink in a box is a difference of corners of the image's summed table.
    summed = torch.nn.functional.pad(images.long().cumsum(1).cumsum(2), (1, 0, 1, 0))
    top, left, size = recipe.top[row, label], recipe.left[row, label], recipe.size[row, label]
    low = [at.floor().long().clamp(0, canvas) for at in (top, left)]
    high = [(at + size).ceil().long().clamp(0, canvas) for at in (top, left)]
    ink = (
        summed[row, high[0], high[1]] - summed[row, low[0], high[1]]
        - summed[row, high[0], low[1]] + summed[row, low[0], low[1]]
    )  # fmt: skip
    order = digits.glyph.argsort()
    place = torch.searchsorted(digits.glyph[order], recipe.glyph[row, label]).clamp(0, len(order) - 1)
    digit = {
        "split": [split] * len(row),
        "id": ids[row.numpy()],
        "label": label.numpy(),
        "glyph": recipe.glyph[row, label].numpy(),
        "size": size.numpy(),
        "glyph_is_of_this_split": known[row, label].numpy(),
        "glyph_has_this_label": (known[row, label] & (digits.labels[order[place]] == label)).numpy(),
        "inside_canvas": ((top >= 0) & (left >= 0) & (torch.maximum(top, left) + size <= canvas + 1e-3)).numpy(),
        "ink_in_box": (ink / size.square()).numpy(),
    }
    return scene, digit


def expectations(
    *, canvas: int, rows: dict[str, int], digits_per_image: tuple[int, int], scale: tuple[float, float], overlap: float
) -> dict[str, list[dict[str, Any]]]:
    """What must hold for scenes and for digits, as plain data: `type` and arguments of an expectation."""
    between, in_set = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
    least, most = digits_per_image
    small, large = canvas / 8 * scale[0], canvas / 8 * scale[1]
    total = sum(rows.values())
    middle = (small + large) / 2
    return {
        "scenes": [
            {"type": "expect_table_row_count_to_equal", "value": total},
            {"type": in_set, "column": "split", "value_set": list(rows)},
            {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
            {"type": "expect_column_values_to_be_unique", "column": "pixels"},
            {"type": in_set, "column": "side", "value_set": [canvas]},
            {"type": between, "column": "digits", "min_value": least, "max_value": most},
            {"type": in_set, "column": "ranks_follow_sizes", "value_set": [True]},
            {"type": between, "column": "highest_rank", "min_value": 1, "max_value": most},
            # Rounding may differ by one grey level between processors.
            {"type": between, "column": "difference_from_recipe", "max_value": 1},
            {"type": between, "column": "overlap", "max_value": overlap + 1e-4},
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "digits",
                "partition_object": {
                    "values": list(range(least, most + 1)),
                    "weights": [1 / (most - least + 1)] * (most - least + 1),
                },
                "threshold": 4 * (most - least + 1) / total,
            },
        ],
        "digits": [
            {"type": in_set, "column": "glyph_is_of_this_split", "value_set": [True]},
            {"type": in_set, "column": "glyph_has_this_label", "value_set": [True]},
            {"type": in_set, "column": "inside_canvas", "value_set": [True]},
            {"type": between, "column": "size", "min_value": small * (1 - 1e-6), "max_value": large * (1 + 1e-6)},
            {"type": between, "column": "ink_in_box", "min_value": 1.0},
            # Scenes that do not fit are drawn again, which favours small digits a little; never large ones.
            {
                "type": "expect_column_mean_to_be_between",
                "column": "size",
                "min_value": (small + 0.25 * (large - small)) * (1 - 1e-6),
                "max_value": middle * (1 + 1e-6) + 4 * (large - small) / total**0.5,
            },
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "label",
                "partition_object": {"values": list(range(CLASSES)), "weights": [1 / CLASSES] * CLASSES},
                "threshold": 4 * CLASSES / total,
            },
        ],
    }
