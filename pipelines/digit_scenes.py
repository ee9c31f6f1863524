"""Scenes of Ranked MNIST drawn in memory: new ones to train on, and those of RLSEP's Figs. 1, 3 and 5."""

from typing import Any

import torch
from torch import Tensor

from rankops.datasets.scenes import layout, ranked_mnist
from rankops.datasets.scenes.digits import Digits

__all__ = ["SCALES", "calibration_recipes", "frame_recipes", "pictures", "scenes_of"]

CLASSES = 10
SCALES = (4.0, 3.0, 2.0, 1.0)  # of the calibration set's four digits; a digit of scale s has s * canvas / 8 pixels
SMALLEST, LARGEST = SCALES[-1], SCALES[0]
GROWS, STAYS, SHRINKS = 1, 2, 3  # digits of Fig. 1


def pictures(recipe: ranked_mnist.Recipes, digits: Digits, *, canvas: int) -> Tensor:
    """The images (n, canvas, canvas) uint8 of recipes, drawn in pieces, so that the glyphs need little memory."""
    rows = len(recipe.size)
    images = torch.empty(rows, canvas, canvas, dtype=torch.uint8)
    for start, count in layout.pieces(rows, pixels=canvas**2, most=2000):
        piece = slice(start, start + count)
        part = ranked_mnist.Recipes(**{name: getattr(recipe, name)[piece] for name in ranked_mnist.RECIPE})
        images[piece] = ranked_mnist.pictures(part, digits, canvas=canvas)
    return images


def scenes_of(digits: Digits, rows: int, *, canvas: int, **options: Any) -> tuple[Tensor, Tensor]:
    """Scenes as the stage ranked_mnist draws them, for training and figures of label ranking.

    Args:
        digits: of one split.
        rows: number of scenes.
        canvas: pixels on a side.
        options: as for `rankops.datasets.scenes.ranked_mnist.recipes`.

    Returns:
        Images (rows, canvas, canvas) uint8 and label ranks (rows, 10).

    Raises:
        ValueError: see `rankops.datasets.scenes.ranked_mnist.recipes`.
    """
    recipe = ranked_mnist.recipes(digits, rows, canvas=canvas, **options)
    return pictures(recipe, digits, canvas=canvas), recipe.label_ranks


def calibration_recipes(
    digits: Digits, rows: int, *, canvas: int, generator: torch.Generator
) -> ranked_mnist.Recipes:  # fmt: skip
    """Scenes of four digits of scales exactly 1, 2, 3 and 4, without overlap (RLSEP, Fig. 3).

    Boxes are placed as those of Ranked MNIST; where one finds no free place, the scene's places are drawn again.

    Args:
        digits: of one split.
        rows: number of scenes.
        canvas: pixels on a side.
        generator: source of all draws.
    """
    classes = torch.rand(rows, CLASSES, generator=generator).argsort(1)[:, : len(SCALES)]  # distinct
    sizes = (canvas / 8 * torch.tensor(SCALES)).repeat(rows, 1)
    tops, lefts = torch.zeros_like(sizes), torch.zeros_like(sizes)
    pending = torch.arange(rows)
    while len(pending):  # two of three scenes fit at once
        new_tops, new_lefts, fits = layout.placed(sizes[pending], canvas, 0.0, generator)
        tops[pending[fits]], lefts[pending[fits]] = new_tops[fits], new_lefts[fits]
        pending = pending[~fits]
    there = torch.ones_like(classes, dtype=torch.bool)
    return ranked_mnist.recipes_of(there, classes, sizes, tops, lefts, digits.drawn(classes, generator))


def frame_recipes(digits: Digits, frames: int, *, canvas: int, generator: torch.Generator) -> ranked_mnist.Recipes:
    """One scene over time: digit 1 grows from scale 1 to 4, digit 3 shrinks from 4 to 1, digit 2 stays (RLSEP, Fig. 1).

    Each keeps its glyph, and its center in a quarter of the canvas, which scale 4 fills.

    Args:
        digits: of one split.
        frames: how many.
        canvas: pixels on a side.
        generator: draws the glyphs.
    """
    classes = torch.tensor([GROWS, STAYS, SHRINKS])
    growing = torch.linspace(SMALLEST, LARGEST, frames)
    middle = torch.full((frames,), (SMALLEST + LARGEST) / 2)
    sizes = canvas / 8 * torch.stack([growing, middle, growing.flip(0)], 1)
    centers = canvas / 4 * torch.tensor([[1.0, 1.0, 3.0], [1.0, 3.0, 3.0]])  # rows, columns
    tops, lefts = centers.unsqueeze(1) - sizes / 2
    glyphs, classes = (values.expand(frames, -1) for values in (digits.drawn(classes, generator), classes))
    return ranked_mnist.recipes_of(torch.ones_like(classes, dtype=torch.bool), classes, sizes, tops, lefts, glyphs)
