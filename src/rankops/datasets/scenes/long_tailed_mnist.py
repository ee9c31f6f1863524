"""Long-tailed MNIST: which digits are there, some classes common and some rare, among ink that is no digit."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from scipy.stats import binom
from torch import Tensor

from rankops.datasets.scenes import drawing, facts, layout
from rankops.datasets.scenes.digits import Digits
from rankops.io.parquet import IMAGE, as_fixed_lists, decode_images, encode_images, matrix, read_table

__all__ = [
    "MOST_DISTRACTORS", "SCHEMA", "SHUFFLES", "Recipes", "distribution", "expectations", "load", "measure", "pictures",
    "recipes", "shuffled", "tables",
]  # fmt: skip

CLASSES = 10
MOST_DISTRACTORS = 10
HALF = drawing.GLYPH // 2
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
    flat = glyphs.reshape(-1, drawing.GLYPH, drawing.GLYPH)
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
    sizes, tops, lefts, which = layout.arranged(
        there, canvas=canvas, scale=scale, overlap=overlap, used=most + many, generator=generator
    )  # fmt: skip
    sizes, tops, lefts = (
        torch.zeros(there.shape).scatter(1, which, values) for values in (sizes, tops, lefts)
    )  # fmt: skip
    glyphs = digits.drawn(torch.arange(CLASSES).expand(rows, -1), generator)
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


def pictures(recipe: Recipes, digits: Digits, *, canvas: int) -> Tensor:
    """The images (n, canvas, canvas) uint8 of some recipes, digits and distractors in one product.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    size, top, left, glyph = _boxes(recipe)
    rows = digits.rows_of(glyph)
    wrong = (digits.glyph[rows] != glyph) & (size > 0)
    if wrong.any():
        row, box = wrong.nonzero()[0].tolist()
        what = f"class {box}" if box < CLASSES else f"distractor {box - CLASSES}"
        raise ValueError(f"scene {row}: glyph {int(glyph[row, box])} of {what} is not in its split")
    glyphs = digits.images[rows]
    row, slot = (recipe.distractor_size > 0).nonzero(as_tuple=True)
    glyphs[row, CLASSES + slot] = shuffled(glyphs[row, CLASSES + slot], recipe.distractor_shuffle[row, slot])
    return drawing.draw(glyphs, size, top, left, canvas=canvas)


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
        columns = {
            "id": pa.array(range(first + start, first + start + count), pa.int64()),
            "image": encode_images(pictures(recipe, digits, canvas=canvas).numpy(), threads=threads),
            "labels": as_fixed_lists((recipe.size > 0).long()),
            "difficult": as_fixed_lists(torch.zeros(count, CLASSES, dtype=torch.bool)),
        }
        yield pa.table(columns | {name: as_fixed_lists(getattr(recipe, name)) for name in _RECIPE}, schema=SCHEMA)


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
    size, top, left, glyph = where = _boxes(recipe)
    there = size > 0
    is_way = (recipe.distractor_shuffle >= 0) & (recipe.distractor_shuffle < len(SHUFFLES))
    drawable = (torch.isin(glyph, digits.glyph) | ~there).all(1) & (is_way | ~there[:, CLASSES:]).all(1)

    def draw(rows: Tensor) -> Tensor:
        part = Recipes(**{name: getattr(recipe, name)[rows] for name in _RECIPE})
        return pictures(part, digits, canvas=images.shape[-1])

    scene = facts.scene_facts(split, ids, images, drawable=drawable, draw=draw) | {
        "digits": labels.sum(1).numpy(),
        "distractors": there[:, CLASSES:].sum(1).numpy(),
        "labels_follow_recipe": (labels == there[:, :CLASSES]).all(1).numpy(),
        "difficult": difficult.any(1).numpy(),
        "overlap": facts.largest_overlap(size, top, left).numpy(),
        **{f"label_{label}": labels[:, label].numpy() for label in range(CLASSES)},
    }
    halves = [values.split([CLASSES, MOST_DISTRACTORS], dim=1) for values in where]
    digit, distractor = (
        facts.box_facts(split, ids, images, digits, tuple(half[number] for half in halves), name)
        for number, name in enumerate(("label", "distractor"))
    )
    digit["glyph_has_this_label"] = digit["glyph_class"] == digit["label"]
    distractor["shuffle_is_known"] = is_way[there[:, CLASSES:]].numpy()
    distractor["source_is_curved"] = (distractor["glyph_class"] >= 0) & (distractor["glyph_class"] != STROKE)
    return scene, digit, distractor


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
    (least, most), (few, many) = digits_per_image, distractors
    total = sum(rows.values())
    classes, numbers, _ = distribution(
        most_frequent=most_frequent, least_frequent=least_frequent, digits_per_image=digits_per_image
    )
    of_any_box = facts.box_expectations(canvas=canvas, scale=scale)
    return {
        "scenes": [
            *facts.scene_expectations(canvas=canvas, rows=rows, digits_per_image=digits_per_image, overlap=overlap),
            {"type": facts.BETWEEN, "column": "distractors", "min_value": few, "max_value": many},
            {"type": facts.IN_SET, "column": "labels_follow_recipe", "value_set": [True]},
            {"type": facts.IN_SET, "column": "difficult", "value_set": [False]},
            facts.weighted("digits", list(range(least, most + 1)), numbers.tolist(), total),
            facts.uniform("distractors", list(range(few, many + 1)), total),
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
        "digits": [*of_any_box, {"type": facts.IN_SET, "column": "glyph_has_this_label", "value_set": [True]}],
        "distractors": [
            *of_any_box,
            {"type": facts.IN_SET, "column": "shuffle_is_known", "value_set": [True]},
            {"type": facts.IN_SET, "column": "source_is_curved", "value_set": [True]},
        ],
    }
