"""Ten digits as a pen draws them, by formula: the demo needs no data set."""

import math
from functools import cache

import torch
from torch import Tensor

from rankgrad.datasets.scenes.drawing import GLYPH

__all__ = ["pen_digits"]

WIDTH = 3.2  # of the pen, in pixels
Stroke = list[tuple[float, float]]  # corners (x, y) in pixels of the glyph


def _arc(x: float, y: float, width: float, height: float, first: float, last: float) -> Stroke:
    """Part of an ellipse, in degrees clockwise from the right."""
    angles = [math.radians(first + (last - first) * step / 24) for step in range(25)]
    return [(x + width * math.cos(angle), y + height * math.sin(angle)) for angle in angles]


STROKES: list[list[Stroke]] = [
    [_arc(14, 14, 5.5, 9, 0, 360)],
    [[(11.5, 8), (14.5, 5), (14.5, 23)]],
    [[*_arc(14, 10, 5, 5, -170, 35), (9, 23), (20, 23)]],
    [_arc(13.5, 9.5, 4.8, 4.5, -150, 90), _arc(13.5, 18.5, 5.5, 4.8, -90, 150)],
    [[(11, 5), (8.5, 15), (20, 15)], [(17.5, 8), (16.5, 24)]],
    [[(19, 5), (11, 5), (10, 13), *_arc(13.5, 17.5, 5.5, 5.5, -130, 145)]],
    [[(17, 5), (11, 12)], _arc(14, 18, 4.8, 5, 200, 560)],
    [[(8.5, 6), (19.5, 6), (13, 23)]],
    [_arc(14, 9.5, 4.2, 4.5, 0, 360), _arc(14, 18.6, 5, 4.7, 0, 360)],
    [_arc(13.5, 10, 4.8, 4.8, 0, 360), [(18, 12), (16.5, 23)]],
]


@cache
def pen_digits() -> Tensor:
    """Draw the digits 0 to 9 with a round pen: glyphs (10, 28, 28) uint8.

    >>> glyphs = pen_digits()
    >>> glyphs.shape, int(glyphs.max()), int(glyphs[:, 0].max())
    (torch.Size([10, 28, 28]), 255, 0)
    """
    middles = torch.arange(GLYPH) + 0.5
    pixels = torch.stack(torch.meshgrid(middles, middles, indexing="xy"), -1).view(-1, 2)
    share = torch.linspace(0, 1, 50).view(-1, 1, 1)
    glyphs = []
    for strokes in STROKES:
        corners = [torch.tensor(stroke, dtype=torch.float32) for stroke in strokes]
        ink = torch.cat([stroke[:-1].lerp(stroke[1:], share).view(-1, 2) for stroke in corners])
        distance = torch.cdist(pixels, ink).amin(1)
        glyphs.append((WIDTH / 2 + 0.5 - distance).clamp(0, 1).view(GLYPH, GLYPH))
    return (torch.stack(glyphs) * 255).round().to(torch.uint8)
