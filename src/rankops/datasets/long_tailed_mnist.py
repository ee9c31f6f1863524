"""Long-tailed MNIST: which digits are there, some classes common and some rare, among ink that is no digit."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import binom
from torch import Tensor

from rankops import scenes
from rankops.datasets.digits import Digits
from rankops.datasets.ranked_mnist import placed
from rankops.tables import IMAGE, decode_images, encode_images, matrix, read_table

__all__ = [
    "MOST_DISTRACTORS", "SCHEMA", "SHUFFLES", "Recipes", "distribution", "expectations", "load", "measure", "pictures",
    "recipes", "shuffled", "tables",
]  # fmt: skip

CLASSES = 10
MOST_DISTRACTORS = 10
ROUNDS = 1000
HALF = scenes.GLYPH // 2
STROKE = 1  # a piece of a 1 is a stroke again, as good as a 1: distractors are made of other classes
# Chance below which a class's count is not believed: of 10 classes, 1 in 100,000 datasets has one by chance.
BELIEVED = 1e-6


def _shuffles() -> Tensor:
    """Ways to make ink that is no digit of a glyph: (ways, 4 quadrants, 3), from which quadrant, flipped how.

    A digit that is as good as symmetric, such as 0, 1, 3 or 8, survives any shuffle in which quadrants are mirrored
    as they change sides, and ink that shuns the middle is told from a digit by that alone. So two quadrants in a
    diagonal keep what was in the middle there, and the other two are turned inside out.
    """
    ways = []
    for sources, turned in product(permutations(range(4)), ((0, 3), (1, 2))):
        # Quadrants are numbered 0 1 / 2 3: the row is the number's second bit and the column its first.
        ways.append(
            [
                (source, (source ^ place) >> 1 ^ (place in turned), (source ^ place) & 1 ^ (place in turned))
                for place, source in enumerate(sources)
            ]
        )
    return torch.tensor(ways)


SHUFFLES = _shuffles()

_RECIPE = {
    "size": pa.float32(),
    "top": pa.float32(),
    "left": pa.float32(),
    "glyph": pa.int64(),
    "distractor_size": pa.float32(),
    "distractor_top": pa.float32(),
    "distractor_left": pa.float32(),
    "distractor_glyph": pa.int64(),
    "distractor_shuffle": pa.int64(),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("image", IMAGE),
        ("labels", pa.list_(pa.int64(), CLASSES)),
        ("difficult", pa.list_(pa.bool_(), CLASSES)),
        *((name, pa.list_(kind, CLASSES)) for name, kind in _RECIPE.items()),
    ]
)


@dataclass(frozen=True)
class Recipes:
    """From which scenes are drawn; each tensor (n, 10), one column a digit class, or one a distractor."""

    size: Tensor  # float32 pixels; 0 = absent
    top: Tensor  # float32 pixels
    left: Tensor  # float32 pixels
    glyph: Tensor  # int64, see Digits; -1 = absent
    distractor_size: Tensor  # float32 pixels; 0 = absent
    distractor_top: Tensor  # float32 pixels
    distractor_left: Tensor  # float32 pixels
    distractor_glyph: Tensor  # int64; whose ink it is; -1 = absent
    distractor_shuffle: Tensor  # int64, row of SHUFFLES; -1 = absent


def _frequencies(most_frequent: float, least_frequent: float) -> Tensor:
    """How often each class is drawn, (10,) float64: falling geometrically from class 0 to class 9."""
    if not 0 < least_frequent <= most_frequent < 1:
        raise ValueError(
            f"long_tailed_mnist: frequencies fall from {most_frequent} (most_frequent) to {least_frequent} "
            "(least_frequent), expected 1 > most_frequent >= least_frequent > 0"
        )
    steps = torch.arange(CLASSES, dtype=torch.float64) / (CLASSES - 1)
    return most_frequent * (least_frequent / most_frequent) ** steps


def distribution(
    *, most_frequent: float, least_frequent: float, digits_per_image: tuple[int, int]
) -> tuple[Tensor, Tensor, float]:
    r"""What classes have exactly, given that scenes with too few or too many digits are drawn again.

    Sums $\prod_{c \in S} p_c \prod_{c \notin S} (1 - p_c)$ over the $2^{10}$ sets S of classes.

    Args:
        most_frequent, least_frequent: $p_0$ and $p_9$; those between fall geometrically.
        digits_per_image: least and most.

    Returns:
        The frequency of each class (10,), of each number of digits from least to most, and the share of all draws that
        is kept.

    Raises:
        ValueError: frequencies are not between 0 and 1, or grow.

    >>> classes, numbers, kept = distribution(most_frequent=0.5, least_frequent=0.02, digits_per_image=(1, 5))
    >>> round(classes[0].item(), 4), round(classes[9].item(), 4), round(kept, 4)
    (0.582, 0.0232, 0.8582)
    """
    frequencies = _frequencies(most_frequent, least_frequent)
    sets = torch.arange(2**CLASSES).unsqueeze(1) >> torch.arange(CLASSES) & 1
    chances = torch.where(sets == 1, frequencies, 1 - frequencies).prod(1)
    sizes = sets.sum(1)
    least, most = digits_per_image
    chances = torch.where((sizes >= least) & (sizes <= most), chances, 0.0)
    kept = chances.sum()
    numbers = torch.zeros(CLASSES + 1, dtype=torch.float64).index_add(0, sizes, chances)[least : most + 1]
    return chances @ sets.double() / kept, numbers / kept, kept.item()


def shuffled(glyphs: Tensor, ways: Tensor) -> Tensor:
    """Glyphs (..., 28, 28) with their quadrants shuffled and flipped; `ways` (...) are rows of SHUFFLES."""
    flat = glyphs.reshape(-1, scenes.GLYPH, scenes.GLYPH)
    sources, down, across = SHUFFLES[ways.flatten()].unbind(-1)  # (k, 4) each
    quadrants = flat.view(-1, 2, HALF, 2, HALF).transpose(2, 3).flatten(1, 2)  # (k, 4, 14, 14)
    moved = quadrants.gather(1, sources[:, :, None, None].expand_as(quadrants))
    moved = torch.where(down[:, :, None, None] == 1, moved.flip(2), moved)
    moved = torch.where(across[:, :, None, None] == 1, moved.flip(3), moved)
    return moved.view(-1, 2, 2, HALF, HALF).transpose(2, 3).reshape(glyphs.shape)


def _presence(
    rows: int,
    *,
    most_frequent: float,
    least_frequent: float,
    digits_per_image: tuple[int, int],
    generator: torch.Generator,
) -> Tensor:
    """Which classes are there, (rows, 10) bool; scenes with too few or too many digits are drawn again."""
    least, most = digits_per_image
    chance = distribution(
        most_frequent=most_frequent, least_frequent=least_frequent, digits_per_image=digits_per_image
    )[2]  # fmt: skip
    if chance < 0.01:
        raise ValueError(
            f"long_tailed_mnist: of scenes with frequencies from {most_frequent} to {least_frequent}, a share of "
            f"{chance:.2g} has {least} to {most} digits, expected at least 0.01: other frequencies or numbers of digits"
        )
    frequencies = _frequencies(most_frequent, least_frequent)
    there = torch.zeros(rows, CLASSES, dtype=torch.bool)
    pending = torch.arange(rows)
    while len(pending):
        there[pending] = torch.rand(len(pending), CLASSES, generator=generator, dtype=torch.float64) < frequencies
        counts = there[pending].sum(1)
        pending = pending[(counts < least) | (counts > most)]
    return there


def recipes(
    digits: Digits,
    rows: int,
    *,
    canvas: int,
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    most_frequent: float,
    least_frequent: float,
    distractors: tuple[int, int],
    generator: torch.Generator,
) -> Recipes:
    """Draws scenes: each class with its own frequency, and distractors, which are shuffled digits other than 1.

    Digits and distractors are scaled by s ~ U(scale); their side is s * canvas / 8 pixels. Boxes are placed largest
    first; where one finds no free place, the scene's sizes and places are drawn again, its classes stay.

    Args:
        digits: of one split.
        rows: number of scenes.
        canvas: pixels on a side.
        digits_per_image: least and most; scenes with fewer or more are drawn again.
        scale: least and most, of digits and distractors alike.
        overlap: largest share of the smaller box that two boxes may have in common.
        most_frequent, least_frequent: how often classes 0 and 9 are drawn; those between fall geometrically.
        distractors: least and most in a scene, at most 10; their number is uniform.
        generator: source of all draws.

    Raises:
        ValueError: a class has no digit, an option is impossible, or the boxes do not fit on the canvas.
    """
    few, many = distractors
    if not 0 <= few <= many <= MOST_DISTRACTORS:
        raise ValueError(
            f"long_tailed_mnist: distractors is {few} to {many}, expected the smaller first, from 0 to "
            f"{MOST_DISTRACTORS}"
        )
    least, most = digits_per_image
    if not 1 <= least <= most <= CLASSES:
        raise ValueError(
            f"long_tailed_mnist: digits_per_image is {least} to {most}, expected the smaller first, from 1 to {CLASSES}"
        )
    present = _presence(
        rows, most_frequent=most_frequent, least_frequent=least_frequent, digits_per_image=digits_per_image,
        generator=generator,
    )  # fmt: skip
    counts = torch.randint(few, many + 1, (rows, 1), generator=generator)
    there = torch.cat([present, torch.arange(MOST_DISTRACTORS) < counts], dim=1)
    boxes = there.shape[1]
    sizes, tops, lefts = (torch.zeros(rows, boxes) for _ in range(3))
    pending = torch.arange(rows)
    for _ in range(ROUNDS):
        scales = torch.rand(len(pending), boxes, generator=generator) * (scale[1] - scale[0]) + scale[0]
        drawn = (canvas / 8 * scales * there[pending]).sort(dim=-1, descending=True)
        # What no scene uses is not placed.
        used = drawn.values[:, : most + many]
        new_tops, new_lefts, fits = placed(used, canvas, overlap, generator)
        done = pending[fits]
        for values, new in ((sizes, used), (tops, new_tops), (lefts, new_lefts)):
            values[done] = torch.zeros(len(done), boxes).scatter(1, drawn.indices[fits, : most + many], new[fits])
        pending = pending[~fits]
        if not len(pending):
            break
    else:
        raise ValueError(
            f"long_tailed_mnist: {len(pending)} of {rows} scenes with up to {most} digits and {many} distractors of "
            f"scale {scale[0]} to {scale[1]} found no place in {ROUNDS} draws: fewer or smaller ones, or more overlap "
            f"(now {overlap})"
        )
    # Uniform among the digits of the class: rows of one class stand together after a sort.
    by_class = digits.labels.argsort(stable=True)
    sizes_of = torch.bincount(digits.labels, minlength=CLASSES)
    if (sizes_of == 0).any():
        missing = int((sizes_of == 0).nonzero()[0])
        raise ValueError(f"long_tailed_mnist: no digit of class {missing} among {len(by_class)}")
    begins = sizes_of.cumsum(0) - sizes_of
    within = (torch.rand(rows, CLASSES, generator=generator) * sizes_of).long()
    glyphs = digits.glyph[by_class[begins + within]]
    curved = digits.glyph[digits.labels != STROKE]
    others = curved[torch.randint(len(curved), (rows, MOST_DISTRACTORS), generator=generator)]
    ways = torch.randint(len(SHUFFLES), (rows, MOST_DISTRACTORS), generator=generator)
    glyphs = torch.where(there, torch.cat([glyphs, others], dim=1), -1)
    ways = torch.where(there[:, CLASSES:], ways, -1)
    both = [values.split([CLASSES, MOST_DISTRACTORS], dim=1) for values in (sizes, tops, lefts, glyphs)]
    return Recipes(*(digit for digit, _ in both), *(distractor for _, distractor in both), ways)


def _boxes(recipe: Recipes) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sizes, tops, lefts and glyphs of digits and distractors together, (n, 20) each."""
    names = ("size", "top", "left", "glyph")
    return tuple(torch.cat([getattr(recipe, name), getattr(recipe, f"distractor_{name}")], 1) for name in names)


def _rows_of(glyph: Tensor, digits: Digits) -> Tensor:
    """Rows of `digits` that hold these glyphs; any row where none does."""
    order = digits.glyph.argsort()
    return order[torch.searchsorted(digits.glyph[order], glyph).clamp(max=len(order) - 1)]


def pictures(recipe: Recipes, digits: Digits, *, canvas: int) -> Tensor:
    """The images (n, canvas, canvas) uint8 of some recipes, digits and distractors in one product.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    size, top, left, glyph = _boxes(recipe)
    rows = _rows_of(glyph, digits)
    wrong = (digits.glyph[rows] != glyph) & (size > 0)
    if wrong.any():
        row, box = wrong.nonzero()[0].tolist()
        what = f"class {box}" if box < CLASSES else f"distractor {box - CLASSES}"
        raise ValueError(f"scene {row}: glyph {int(glyph[row, box])} of {what} is not in its split")
    glyphs = digits.images[rows]
    row, slot = (recipe.distractor_size > 0).nonzero(as_tuple=True)
    glyphs[row, CLASSES + slot] = shuffled(glyphs[row, CLASSES + slot], recipe.distractor_shuffle[row, slot])
    return scenes.draw(glyphs, size, top, left, canvas=canvas)


def tables(digits: Digits, rows: int, *, threads: int, **options: Any) -> Iterator[pa.Table]:
    """One split in pieces, so that memory does not grow with the number of images; `options` as for `recipes`."""
    # Pieces of 25 MB, see `ranked_mnist.tables`.
    chunk = max(1, min(2000, 25_000_000 // options["canvas"] ** 2))
    for start in range(0, rows, chunk):
        count = min(chunk, rows - start)
        recipe = recipes(digits, count, **options)
        values = {
            "labels": (recipe.size > 0).long(),
            "difficult": torch.zeros(count, CLASSES, dtype=torch.bool),
            **{field.name: getattr(recipe, field.name) for field in fields(recipe)},
        }
        columns = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(flat.numpy().ravel()), CLASSES)
            for name, flat in values.items()
        }
        images = encode_images(pictures(recipe, digits, canvas=options["canvas"]).numpy(), threads=threads)
        numbers = pa.array(range(start, start + count), pa.int64())
        yield pa.table({"id": numbers, "image": images} | columns, schema=SCHEMA)


def load(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor, Tensor, Recipes]:
    """Images (n, canvas, canvas) uint8, labels (n, 10) int64, which are difficult (n, 10) bool, recipes of one split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or an image is.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "labels", "difficult", *_RECIPE])
    images = torch.from_numpy(decode_images(read["image"], path=path, threads=threads))
    recipe = Recipes(**{name: matrix(read, name, path=path) for name in _RECIPE})
    return images, matrix(read, "labels", path=path), matrix(read, "difficult", path=path), recipe


def measure(
    folder: str | Path, digits: Digits, split: str, *, threads: int
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What the expectations are held against.

    Returns:
        One row a scene (is the image what its recipe draws, do labels follow from it?), one row a digit on a scene
        (its box, its ink, its glyph), and one row a distractor (its box, its glyph).
    """
    images, labels, difficult, recipe = load(folder, split, threads=threads)
    ids = read_table(Path(folder) / f"{split}.parquet", ["id"])["id"].to_numpy()
    canvas = images.shape[-1]
    size, top, left, glyph = _boxes(recipe)
    there, known = size > 0, torch.isin(glyph, digits.glyph)
    is_way = (recipe.distractor_shuffle >= 0) & (recipe.distractor_shuffle < len(SHUFFLES))
    drawable = (known | ~there).all(1) & (is_way | ~there[:, CLASSES:]).all(1)
    difference = torch.full((len(images),), 255)
    for rows in drawable.nonzero().flatten().split(2000):
        part = Recipes(**{name: getattr(recipe, name)[rows] for name in _RECIPE})
        drawn = pictures(part, digits, canvas=canvas)
        difference[rows] = (drawn.short() - images[rows].short()).abs().flatten(1).amax(1).long()
    # Largest share of the smaller box that two boxes of a scene have in common.
    low = torch.stack([top, left])
    high = low + size
    sides = torch.minimum(high.unsqueeze(3), high.unsqueeze(2)) - torch.maximum(low.unsqueeze(3), low.unsqueeze(2))
    smaller = torch.minimum(size.unsqueeze(2), size.unsqueeze(1)).square()
    overlap = (sides.clamp(min=0).prod(0) / smaller.clamp(min=1e-6)).triu(1).flatten(1).amax(1)
    scene = {
        "split": [split] * len(images),
        "id": ids,
        "side": np.full(len(images), canvas),
        "pixels": [sha256(image.tobytes()).hexdigest() for image in images.numpy()],
        "digits": labels.sum(1).numpy(),
        "distractors": there[:, CLASSES:].sum(1).numpy(),
        "labels_follow_recipe": (labels == there[:, :CLASSES]).all(1).numpy(),
        "difficult": difficult.any(1).numpy(),
        "difference_from_recipe": difference.numpy(),
        "overlap": overlap.numpy(),
        **{f"label_{label}": labels[:, label].numpy() for label in range(CLASSES)},
    }
    inside = (top >= 0) & (left >= 0) & (torch.maximum(top, left) + size <= canvas + 1e-3)
    # Ink in a box is a difference of corners of the image's summed table.
    row, box = there.nonzero(as_tuple=True)
    summed = torch.nn.functional.pad(images.long().cumsum(1).cumsum(2), (1, 0, 1, 0))
    begin = [at[row, box].floor().long().clamp(0, canvas) for at in (top, left)]
    end = [(at + size)[row, box].ceil().long().clamp(0, canvas) for at in (top, left)]
    ink = (
        summed[row, end[0], end[1]] - summed[row, begin[0], end[1]]
        - summed[row, end[0], begin[1]] + summed[row, begin[0], begin[1]]
    )  # fmt: skip
    box_facts = {
        "glyph": glyph[row, box],
        "size": size[row, box],
        "glyph_is_of_this_split": known[row, box],
        "inside_canvas": inside[row, box],
        "ink_in_box": ink / size[row, box].square(),
        "glyph_has_this_label": known[row, box] & (digits.labels[_rows_of(glyph[row, box], digits)] == box),
        "shuffle_is_known": is_way[row, (box - CLASSES).clamp(min=0)],
        "source_is_curved": known[row, box] & (digits.labels[_rows_of(glyph[row, box], digits)] != STROKE),
    }

    def facts(chosen: Tensor, name: str, first: int, *left_out: str) -> dict[str, Any]:
        place = {"split": [split] * int(chosen.sum()), "id": ids[row[chosen].numpy()]}
        kept = {fact: values[chosen].numpy() for fact, values in box_facts.items() if fact not in left_out}
        return place | {name: (box[chosen] - first).numpy()} | kept

    digit = facts(box < CLASSES, "label", 0, "shuffle_is_known", "source_is_curved")
    return scene, digit, facts(box >= CLASSES, "distractor", CLASSES, "glyph_has_this_label")


def expectations(
    *,
    canvas: int,
    rows: dict[str, int],
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    most_frequent: float,
    least_frequent: float,
    distractors: tuple[int, int],
) -> dict[str, list[dict[str, Any]]]:
    """What must hold for scenes, digits and distractors, as plain data: `type` and arguments of an expectation."""
    between, in_set = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
    (least, most), (few, many) = digits_per_image, distractors
    small, large = canvas / 8 * scale[0], canvas / 8 * scale[1]
    total = sum(rows.values())
    classes, numbers, _ = distribution(
        most_frequent=most_frequent, least_frequent=least_frequent, digits_per_image=digits_per_image
    )
    boxes = [
        {"type": in_set, "column": "glyph_is_of_this_split", "value_set": [True]},
        {"type": in_set, "column": "inside_canvas", "value_set": [True]},
        {"type": between, "column": "size", "min_value": small * (1 - 1e-6), "max_value": large * (1 + 1e-6)},
        {"type": between, "column": "ink_in_box", "min_value": 1.0},
    ]
    return {
        "scenes": [
            {"type": "expect_table_row_count_to_equal", "value": total},
            {"type": in_set, "column": "split", "value_set": list(rows)},
            {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
            {"type": "expect_column_values_to_be_unique", "column": "pixels"},
            {"type": in_set, "column": "side", "value_set": [canvas]},
            {"type": between, "column": "digits", "min_value": least, "max_value": most},
            {"type": between, "column": "distractors", "min_value": few, "max_value": many},
            {"type": in_set, "column": "labels_follow_recipe", "value_set": [True]},
            {"type": in_set, "column": "difficult", "value_set": [False]},
            # Rounding may differ by one grey level between processors.
            {"type": between, "column": "difference_from_recipe", "max_value": 1},
            {"type": between, "column": "overlap", "max_value": overlap + 1e-4},
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "digits",
                "partition_object": {"values": list(range(least, most + 1)), "weights": numbers.tolist()},
                "threshold": 4 * (most - least + 1) / total,
            },
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "distractors",
                "partition_object": {
                    "values": list(range(few, many + 1)),
                    "weights": [1 / (many - few + 1)] * (many - few + 1),
                },
                "threshold": 4 * (many - few + 1) / total,
            },
            *(
                {
                    "type": "expect_column_mean_to_be_between",
                    "column": f"label_{label}",
                    "min_value": (binom.ppf(BELIEVED / 2, total, chance) - 0.5) / total,
                    "max_value": (binom.isf(BELIEVED / 2, total, chance) + 0.5) / total,
                }
                for label, chance in enumerate(classes.tolist())
            ),
        ],
        "digits": [*boxes, {"type": in_set, "column": "glyph_has_this_label", "value_set": [True]}],
        "distractors": [
            *boxes,
            {"type": in_set, "column": "shuffle_is_known", "value_set": [True]},
            {"type": in_set, "column": "source_is_curved", "value_set": [True]},
        ],
    }
