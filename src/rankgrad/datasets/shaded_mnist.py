"""Shaded MNIST: gray digits of different size and brightness; one of the two determines their importance.

These are the four gray sets of UniMLR (Yesilkaynak et al. 2025, arXiv:2508.21772), at any resolution.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, in_set
from rankgrad.datasets.ranked_mnist import RECIPE, RankedMnist
from rankgrad.datasets.scenes import drawing
from rankgrad.datasets.scenes.base import Recipe, schema_of
from rankgrad.datasets.scenes.digits import CLASSES, Digits
from rankgrad.ranks import dense_ranks

__all__ = ["SCHEMA", "ShadedMnist", "gray_of"]

SCHEMA = schema_of(RECIPE | {"brightness": pa.list_(pa.float32(), CLASSES)})  # 0 = absent


@dataclass(frozen=True, kw_only=True)
class ShadedMnist(RankedMnist):
    """Scenes of distinct digits, ranked by size or by brightness.

    Attributes:
        brightness: smallest and largest, drawn uniformly; 1 is white, see `gray_of`.
        ranked_by: the property that determines label ranks; the other one has no influence.
    """

    brightness: tuple[float, float]
    ranked_by: Literal["size", "brightness"]

    schema: ClassVar[pa.Schema] = SCHEMA

    def __post_init__(self) -> None:
        super().__post_init__()
        dark, bright = self.brightness
        if not 0 < dark <= bright <= 1:
            raise ValueError(f"brightness is {dark} to {bright}, expected the smaller first, above 0 and up to 1")
        option = "scale" if self.ranked_by == "size" else "brightness"
        least, most = getattr(self, option)
        if least == most:
            raise ValueError(f"ranked_by is {self.ranked_by}, but {option} is {least} to {most}: all digits are equal")

    @property
    def importance(self) -> str:
        return self.ranked_by

    @property
    def least_ink(self) -> float:
        return gray_of(torch.tensor(self.brightness[0])).item()

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        recipe = super().draw(digits, numbers, generator)
        dark, bright = self.brightness
        drawn = dark + (bright - dark) * torch.rand(recipe["size"].shape, generator=generator)
        recipe["brightness"] = drawn * (recipe["size"] > 0)
        return recipe | {"label_ranks": dense_ranks(recipe[self.ranked_by])}

    def pictures(self, recipe: Recipe, digits: Digits) -> Tensor:
        size, top, left, glyph = self.places(recipe)
        gray = gray_of(recipe["brightness"])[..., None, None]
        shaded = (digits.images[digits.rows_of(glyph)] * gray).round().to(torch.uint8)
        return drawing.draw(shaded, size, top, left, canvas=self.canvas)

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        brightness, present = recipe["brightness"], recipe["size"] > 0
        (dark, bright), rounding = self.brightness, 1e-6
        between = (brightness >= dark - rounding) & (brightness <= bright + rounding)
        in_range = torch.where(present, between, brightness == 0).all(1)
        return super().recipe_facts(recipe, split) | {"brightness_is_of_its_range": in_range.numpy()}

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        expected = super().expected(rows)
        expected["scenes"].append(in_set("brightness_is_of_its_range", True))
        return expected


def gray_of(brightness: Tensor) -> Tensor:
    """Return the sRGB gray level (0 to 1) with a given CIE lightness (0 to 1), which matches perceived brightness.

    >>> gray_of(torch.tensor([0.0, 0.1, 0.5, 1.0]))
    tensor([0.0000, 0.1077, 0.4663, 1.0000])
    """
    lightness = 100 * brightness
    light = torch.where(lightness > 8, ((lightness + 16) / 116) ** 3, lightness * (27 / 24389))
    return torch.where(light > 0.0031308, 1.055 * light ** (1 / 2.4) - 0.055, 12.92 * light)
