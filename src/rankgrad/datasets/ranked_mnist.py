"""Ranked MNIST: digits of different sizes on a canvas; larger digits are more important (RLSEP, Section 5.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, frequencies, in_set, mean
from rankgrad.datasets.scenes import layout, measures
from rankgrad.datasets.scenes.base import Recipe, Scenes, schema_of
from rankgrad.datasets.scenes.digits import CLASSES, Digits
from rankgrad.ranks import dense_ranks

__all__ = ["RankedMnist", "RECIPE", "SCHEMA", "recipes_of"]  # noqa: RUF022 - the dataset comes first

# Each cell has a list with one value per digit class.
RECIPE = {
    "label_ranks": pa.list_(pa.int64(), CLASSES),  # 0 = absent; larger ranks for larger digits
    "size": pa.list_(pa.float32(), CLASSES),  # pixels; 0 = absent
    "top": pa.list_(pa.float32(), CLASSES),
    "left": pa.list_(pa.float32(), CLASSES),
    "glyph": pa.list_(pa.int64(), CLASSES),  # see Digits; -1 = absent
}
SCHEMA = schema_of(RECIPE)
MARGIN = 10 / 224  # margin as a fraction of the canvas, for the arrangement `in_turn`


@dataclass(frozen=True, kw_only=True)
class RankedMnist(Scenes):
    """Scenes of distinct digits, ranked by their sizes.

    Attributes:
        arrangement: `largest_first`, which draws all sizes of a scene again if a digit finds no free position; or
            `in_turn`, as in the RLSEP authors' code: each digit gets its own size and position, drawn again at every
            try, at least 10 of 224 pixels from the edges.
    """

    arrangement: Literal["largest_first", "in_turn"] = "largest_first"

    schema: ClassVar[pa.Schema] = SCHEMA

    def __post_init__(self) -> None:
        super().__post_init__()
        room = 1 - 2 * MARGIN
        if self.arrangement == "in_turn" and self.scale[1] / 8 > room:
            raise ValueError(
                f"scale is {self.scale[0]} to {self.scale[1]}, expected at most {8 * room:.2f} with arrangement in_turn"
            )

    @property
    def importance(self) -> str:
        """The column that determines label ranks."""
        return "size"

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        return self.recipes(digits, len(numbers), self.digits_per_image, generator)

    def recipes(self, digits: Digits, rows: int, counts: tuple[int, int], generator: torch.Generator) -> Recipe:
        """Draw scenes: the number of digits, their classes, glyphs, sizes, and positions.

        Boxes are placed largest first; if one finds no free position, the scene's sizes and positions are drawn again,
        but its classes stay. For `in_turn`, see the class.

        Args:
            digits: the digits of one split.
            rows: number of scenes.
            counts: smallest and largest number of digits in a scene.
            generator: source of all draws.

        Raises:
            ValueError: a class has no digit, or the digits do not fit on the canvas.
        """
        few, many = counts
        classes = torch.rand(rows, CLASSES, generator=generator).argsort(1)[:, :many]  # distinct
        mask = torch.arange(many) < torch.randint(few, many + 1, (rows, 1), generator=generator)
        boxes = {"canvas": self.canvas, "scale": self.scale, "overlap": self.overlap, "generator": generator}
        if self.arrangement == "in_turn":
            sizes, tops, lefts = layout.arranged_in_turn(mask, margin=MARGIN * self.canvas, **boxes)
            mask = sizes > 0
        else:
            # The order of classes is random, so sizes can be assigned to them in order.
            sizes, tops, lefts, _ = layout.arranged(mask, used=many, **boxes)
        return recipes_of(mask, classes, sizes, tops, lefts, digits.drawn(classes, generator))

    def scenes(self, digits: Digits, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw scenes in memory, for training on new scenes.

        Returns:
            Images (rows, canvas, canvas) uint8 and label ranks (rows, 10).
        """
        recipe = self.draw(digits, range(rows), generator)
        return self.images(recipe, digits), recipe["label_ranks"]

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        follow = measures.ranks_follow(recipe["label_ranks"], recipe[self.importance])
        return {f"ranks_follow_{self.importance}": follow.numpy()}

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        expected, total = super().expected(rows), sum(rows.values()) // self.family
        (few, many), (small, large) = self.digits_per_image, (self.canvas / 8 * scale for scale in self.scale)
        expected["scenes"] += [
            in_set(f"ranks_follow_{self.importance}", True),
            frequencies("digits", {count: 1 / (many + 1 - few) for count in range(few, many + 1)}, total=total),
        ]
        expected["digits"] += [
            frequencies("label", dict.fromkeys(range(CLASSES), 1 / CLASSES), total=total),
            # Scenes that do not fit are drawn again, which favors small digits slightly, but never large ones.
            mean(
                "size",
                (small + 0.25 * (large - small)) * (1 - 1e-6),
                (small + large) / 2 * (1 + 1e-6) + 4 * (large - small) / total**0.5,
            ),
        ]
        return expected


def recipes_of(mask: Tensor, classes: Tensor, sizes: Tensor, tops: Tensor, lefts: Tensor, glyphs: Tensor) -> Recipe:
    """Return recipes with one column per class from values with one column per digit of the scene (n, digits).

    Args:
        mask: boolean, False for missing digits of scenes that have fewer.
        classes: classes of the digits, distinct in each scene.
        sizes, tops, lefts, glyphs: as in `RECIPE`.
    """

    def by_class(values: Tensor, absent: float) -> Tensor:
        empty = torch.full((len(values), CLASSES), absent, dtype=values.dtype)
        return empty.scatter(1, classes, torch.where(mask, values, torch.as_tensor(absent, dtype=values.dtype)))

    size = by_class(sizes, 0.0)
    return {
        "label_ranks": dense_ranks(size),
        "size": size,
        "top": by_class(tops, 0.0),
        "left": by_class(lefts, 0.0),
        "glyph": by_class(glyphs, -1),
    }
