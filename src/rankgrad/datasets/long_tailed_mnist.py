"""Long-tailed MNIST: scenes of common and rare digits, among distractors that are not digits."""

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, between, frequencies, in_set, mean
from rankgrad.datasets.scenes import drawing, layout
from rankgrad.datasets.scenes.base import Recipe, Scenes, schema_of
from rankgrad.datasets.scenes.digits import CLASSES, Digits

__all__ = ["LongTailedMnist", "SCHEMA", "SHUFFLES", "shuffled"]  # noqa: RUF022 - the dataset comes first

DISTRACTORS = 10  # number of columns, and so the maximum
HALF = drawing.GLYPH // 2
STROKE = 1  # a piece of a 1 looks like a 1, so distractors are made of other classes
# A class's count fails validation if its probability is below this; by chance, that happens to one of the 10 classes in
# 1 of 100,000 datasets.
BELIEVED = 1e-6


def _shuffles() -> Tensor:
    """Return the ways to shuffle a glyph so that it shows no digit: (ways, 4 quadrants, 3), source quadrant and flips.

    Nearly symmetric digits, such as 0, 1, 3, or 8, survive a shuffle that mirrors quadrants when they change sides.
    Ink with an empty middle would be easy to recognize. Therefore, two diagonal quadrants keep their inner corner in
    the middle, and the other two are turned inside out.
    """
    ways = []
    for sources, turned in product(permutations(range(4)), ((0, 3), (1, 2))):
        way = []
        for quadrant, source in enumerate(sources):
            # Quadrants are numbered 0 1 / 2 3: the row is the number's second bit and the column its first.
            change, turn = source ^ quadrant, quadrant in turned
            way.append((source, change >> 1 ^ turn, change & 1 ^ turn))
        ways.append(way)
    return torch.tensor(ways)


SHUFFLES = _shuffles()

FLOATS, NUMBERS = pa.list_(pa.float32(), CLASSES), pa.list_(pa.int64(), CLASSES)
SCHEMA = schema_of(
    {
        "labels": NUMBERS,
        "difficult": pa.list_(pa.bool_(), CLASSES),
        "size": FLOATS,  # pixels; 0 = absent
        "top": FLOATS,
        "left": FLOATS,
        "glyph": NUMBERS,  # see Digits; -1 = absent
        "distractor_size": FLOATS,
        "distractor_top": FLOATS,
        "distractor_left": FLOATS,
        "distractor_glyph": NUMBERS,  # the glyph that is shuffled
        "distractor_shuffle": NUMBERS,  # row of SHUFFLES; -1 = absent
    }
)


@dataclass(frozen=True, kw_only=True)
class LongTailedMnist(Scenes):
    """Scenes of common and rare digits among distractors, which are shuffled digits other than 1.

    Attributes:
        digits_per_image: smallest and largest number; scenes with fewer or more are drawn again.
        scale: scale of digits and of distractors.
        most_frequent, least_frequent: frequencies of classes 0 and 9; those in between fall geometrically.
        distractors: smallest and largest number in a scene; their number is uniform.
    """

    most_frequent: float
    least_frequent: float
    distractors: tuple[int, int]

    schema: ClassVar[pa.Schema] = SCHEMA
    boxes: ClassVar[dict[str, tuple[str, str]]] = {
        "digits": ("label", ""),
        "distractors": ("distractor", "distractor_"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        few, many = self.distractors
        if not 0 <= few <= many <= DISTRACTORS:
            raise ValueError(f"distractors is {few} to {many}, expected the smaller first, from 0 to {DISTRACTORS}")
        if not 0 < self.least_frequent <= self.most_frequent < 1:
            raise ValueError(
                f"least_frequent is {self.least_frequent} and most_frequent {self.most_frequent}, expected "
                "0 < least_frequent <= most_frequent < 1"
            )
        if (kept := self.distribution()[2]) < 0.01:
            least, most = self.digits_per_image
            raise ValueError(
                f"digits_per_image is {least} to {most}, but only a fraction of {kept:.2g} of scenes with these "
                "frequencies has so many digits, expected at least 0.01: change digits_per_image or the frequencies"
            )

    @property
    def frequencies(self) -> Tensor:
        """The frequency of each class (10,), float64."""
        steps = torch.arange(CLASSES, dtype=torch.float64) / (CLASSES - 1)
        return self.most_frequent * (self.least_frequent / self.most_frequent) ** steps

    def distribution(self) -> tuple[Tensor, Tensor, float]:
        r"""Return exact frequencies, given that scenes with too few or too many digits are drawn again.

        Sums $\prod_{c \in S} p_c \prod_{c \notin S} (1 - p_c)$ over the $2^{10}$ sets S of classes.

        Returns:
            The frequency of each class (10,), the frequency of each number of digits, and the fraction of draws that
            are kept.
        """
        sets = torch.arange(2**CLASSES).unsqueeze(1) >> torch.arange(CLASSES) & 1
        chances = torch.where(sets == 1, self.frequencies, 1 - self.frequencies).prod(1)
        sizes = sets.sum(1)
        least, most = self.digits_per_image
        chances = torch.where((sizes >= least) & (sizes <= most), chances, 0.0)
        kept = chances.sum()
        numbers = torch.zeros(CLASSES + 1, dtype=torch.float64).index_add(0, sizes, chances)[least : most + 1]
        return chances @ sets.double() / kept, numbers / kept, kept.item()

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        rows, (few, many) = len(numbers), self.distractors
        present = self._presence(rows, generator)
        counts = torch.randint(few, many + 1, (rows, 1), generator=generator)
        mask = torch.cat([present, torch.arange(DISTRACTORS) < counts], dim=1)
        *boxes, which = layout.arranged(
            mask,
            canvas=self.canvas,
            scale=self.scale,
            overlap=self.overlap,
            used=self.digits_per_image[1] + many,
            generator=generator,
        )
        sizes, tops, lefts = (torch.zeros(mask.shape).scatter(1, which, values) for values in boxes)
        glyphs = digits.drawn(torch.arange(CLASSES).expand(rows, -1), generator)
        curved = digits.glyph[digits.labels != STROKE]
        sources = curved[torch.randint(len(curved), (rows, DISTRACTORS), generator=generator)]
        ways = torch.randint(len(SHUFFLES), (rows, DISTRACTORS), generator=generator)
        glyphs = torch.where(mask, torch.cat([glyphs, sources], dim=1), -1)
        recipe = {"labels": present.long(), "difficult": torch.zeros_like(present)}
        for name, values in {"size": sizes, "top": tops, "left": lefts, "glyph": glyphs}.items():
            recipe[name], recipe[f"distractor_{name}"] = values.split([CLASSES, DISTRACTORS], dim=1)
        return recipe | {"distractor_shuffle": torch.where(mask[:, CLASSES:], ways, -1)}

    def _presence(self, rows: int, generator: torch.Generator) -> Tensor:
        """Return which classes are present (rows, 10), bool."""
        least, most = self.digits_per_image
        present = torch.zeros(rows, CLASSES, dtype=torch.bool)
        pending = torch.arange(rows)
        while len(pending):
            draws = torch.rand(len(pending), CLASSES, generator=generator, dtype=torch.float64)
            present[pending] = draws < self.frequencies
            counts = present[pending].sum(1)
            pending = pending[(counts < least) | (counts > most)]
        return present

    def pictures(self, recipe: Recipe, digits: Digits) -> Tensor:
        size, top, left, glyph = self.places(recipe)
        glyphs = digits.images[digits.rows_of(glyph)]
        row, slot = (recipe["distractor_size"] > 0).nonzero(as_tuple=True)
        ways = recipe["distractor_shuffle"][row, slot] % len(SHUFFLES)  # validation reports invalid ones
        glyphs[row, CLASSES + slot] = shuffled(glyphs[row, CLASSES + slot], ways)
        return drawing.draw(glyphs, size, top, left, canvas=self.canvas)

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        labels, shuffle, present = recipe["labels"], recipe["distractor_shuffle"], recipe["distractor_size"] > 0
        return {
            "distractors": present.sum(1).numpy(),
            "labels_follow_recipe": (labels == (recipe["size"] > 0)).all(1).numpy(),
            "difficult": recipe["difficult"].any(1).numpy(),
            "shuffles_are_known": (((shuffle >= 0) & (shuffle < len(SHUFFLES))) | ~present).all(1).numpy(),
            **{f"label_{label}": labels[:, label].numpy() for label in range(CLASSES)},
        }

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        from scipy.stats import binom  # takes a second to import; only validation needs it

        expected, total = super().expected(rows), sum(rows.values())
        (least, most), (few, many) = self.digits_per_image, self.distractors
        classes, numbers, _ = self.distribution()
        expected["scenes"] += [
            between("distractors", few, many),
            in_set("labels_follow_recipe", True),
            in_set("difficult", False),
            in_set("shuffles_are_known", True),
            frequencies("digits", dict(zip(range(least, most + 1), numbers.tolist(), strict=True)), total=total),
            frequencies("distractors", {k: 1 / (many + 1 - few) for k in range(few, many + 1)}, total=total),
        ]
        expected["scenes"] += [
            mean(
                f"label_{label}",
                (binom.ppf(BELIEVED / 2, total, chance) - 0.5) / total,
                (binom.isf(BELIEVED / 2, total, chance) + 0.5) / total,
            )
            for label, chance in enumerate(classes.tolist())
        ]
        expected["distractors"].append(in_set("glyph_class", *(c for c in range(CLASSES) if c != STROKE)))
        return expected


def shuffled(glyphs: Tensor, ways: Tensor) -> Tensor:
    """Return glyphs (..., 28, 28) with shuffled and flipped quadrants; `ways` (...) are rows of SHUFFLES."""
    flat = glyphs.reshape(-1, drawing.GLYPH, drawing.GLYPH)
    sources, down, across = SHUFFLES[ways.flatten()].unbind(-1)  # (k, 4) each
    quadrants = flat.view(-1, 2, HALF, 2, HALF).transpose(2, 3).flatten(1, 2)  # (k, 4, 14, 14)
    moved = quadrants.gather(1, sources[:, :, None, None].expand_as(quadrants))
    moved = torch.where(down[:, :, None, None] == 1, moved.flip(2), moved)
    moved = torch.where(across[:, :, None, None] == 1, moved.flip(3), moved)
    return moved.view(-1, 2, 2, HALF, HALF).transpose(2, 3).reshape(glyphs.shape)
