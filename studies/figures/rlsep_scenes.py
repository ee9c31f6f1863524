"""Draw the scenes of RLSEP's figures: four digits of known scales (Fig. 3), and growing and shrinking ones (Fig. 1)."""

import torch

from rankgrad.datasets.ranked_mnist import recipes_of
from rankgrad.datasets.scenes import layout
from rankgrad.datasets.scenes.base import Recipe
from rankgrad.datasets.scenes.digits import CLASSES, Digits

SCALES = (4.0, 3.0, 2.0, 1.0)  # of the calibration set's four digits; a digit of scale s has s * canvas / 8 pixels
GROWS, STAYS, SHRINKS = 1, 2, 3  # digits of Fig. 1


def calibration_recipes(digits: Digits, rows: int, *, canvas: int, generator: torch.Generator) -> Recipe:
    """Draw scenes of four digits with scales 1, 2, 3, and 4, without overlap.

    Boxes are placed as in Ranked MNIST; if one finds no free position, the scene's positions are drawn again.

    Args:
        digits: the digits of one split.
        rows: number of scenes.
        canvas: pixels per side.
        generator: source of all draws.
    """
    classes = torch.rand(rows, CLASSES, generator=generator).argsort(1)[:, : len(SCALES)]  # distinct
    sizes = (canvas / 8 * torch.tensor(SCALES)).repeat(rows, 1)
    tops, lefts = torch.zeros_like(sizes), torch.zeros_like(sizes)
    pending = torch.arange(rows)
    while len(pending):  # two of three scenes fit at the first try
        new_tops, new_lefts, fits = layout.placed(sizes[pending], canvas, 0.0, generator)
        tops[pending[fits]], lefts[pending[fits]] = new_tops[fits], new_lefts[fits]
        pending = pending[~fits]
    mask = torch.ones_like(classes, dtype=torch.bool)
    return recipes_of(mask, classes, sizes, tops, lefts, digits.drawn(classes, generator))


def frame_recipes(digits: Digits, frames: int, *, canvas: int, generator: torch.Generator) -> Recipe:
    """Draw one scene over time: digit 1 grows from scale 1 to 4, digit 3 shrinks from 4 to 1, and digit 2 stays.

    Each keeps its glyph and its center, in a quarter of the canvas, which a digit of scale 4 fills.

    Args:
        digits: the digits of one split.
        frames: number of frames.
        canvas: pixels per side.
        generator: draws the glyphs.
    """
    classes = torch.tensor([GROWS, STAYS, SHRINKS])
    growing = torch.linspace(min(SCALES), max(SCALES), frames)
    middle = torch.full((frames,), (min(SCALES) + max(SCALES)) / 2)
    sizes = canvas / 8 * torch.stack([growing, middle, growing.flip(0)], 1)
    centers = canvas / 4 * torch.tensor([[1.0, 1.0, 3.0], [1.0, 3.0, 3.0]])  # rows, columns
    tops, lefts = centers.unsqueeze(1) - sizes / 2
    glyphs, classes = (values.expand(frames, -1) for values in (digits.drawn(classes, generator), classes))
    return recipes_of(torch.ones_like(classes, dtype=torch.bool), classes, sizes, tops, lefts, glyphs)
