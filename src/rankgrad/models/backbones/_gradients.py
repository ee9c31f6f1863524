"""Oriented gradients of pictures, which brightness and contrast hardly change."""

import torch
from torch import Tensor, nn

__all__ = ["DIRECTIONS", "binned", "oriented_gradients"]

DIRECTIONS = 9  # bins of a histogram, over half a circle
AROUND = 5  # cells per side of the square whose histograms are normalized together
TINY = 1e-6
FAINTEST = 0.02  # contrast below which gradients are noise, which normalization must not scale up


def oriented_gradients(pictures: Tensor, cell: int) -> Tensor:
    """Return histograms of the directions of gradients in each cell, normalized by those around it, and mean colors.

    Each pixel adds the length of its gradient, in the color where that is largest, to the two nearest of nine
    directions (Dalal and Triggs, 2005).

    Args:
        pictures: (n, colors, height, width), uint8 or float in 0..255.
        cell: pixels per side of a cell.

    Returns:
        Maps (n, 9 + colors, height // cell, width // cell), float32.

    >>> oriented_gradients(torch.zeros(2, 1, 32, 32, dtype=torch.uint8), 2).shape
    torch.Size([2, 10, 16, 16])
    """
    pixels = pictures.float() / 255
    padded = nn.functional.pad(pixels, (1, 1, 1, 1), mode="replicate")
    down = padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
    right = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]
    squares, color = (down.square() + right.square()).max(1, keepdim=True)
    lengths = (squares + TINY**2).sqrt() - TINY  # unlike a root of 0, it has a finite gradient
    angle = torch.atan2(down.gather(1, color), right.gather(1, color))
    histograms = nn.functional.avg_pool2d(binned(angle / torch.pi, lengths, DIRECTIONS), cell)
    energy = histograms.square().sum(1, keepdim=True)
    around = nn.functional.avg_pool2d(energy, AROUND, stride=1, padding=AROUND // 2)
    contrast = (around + TINY**2).sqrt()
    return torch.cat([histograms / (contrast + FAINTEST), nn.functional.avg_pool2d(pixels, cell)], 1)


def binned(turns: Tensor, lengths: Tensor, bins: int) -> Tensor:
    """Return maps (n, bins, height, width) with the length of each pixel in the two bins nearest to its direction.

    Args:
        turns: the directions (n, 1, height, width), as parts of a whole turn.
        lengths: (n, 1, height, width).
        bins: bins of a whole turn.

    >>> maps = binned(torch.full((1, 1, 1, 1), 0.125), torch.ones(1, 1, 1, 1), 4)
    >>> maps.flatten().tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    place = turns.remainder(1) * bins
    below = place.floor()
    first = below.long() % bins  # rounding can make a place equal to the number of bins
    maps = lengths.new_zeros(len(lengths), bins, *lengths.shape[2:])
    maps.scatter_add_(1, first, lengths * (1 - (place - below)))
    maps.scatter_add_(1, (first + 1) % bins, lengths * (place - below))
    return maps
