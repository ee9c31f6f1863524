"""What training does to images besides showing them."""

import torch
from torch import Tensor, nn

__all__ = ["shifted"]


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Moves each image by up to `most` pixels both ways, at random; what comes in is black.

    Args:
        images: (n, colours, height, width).
        most: largest move, in pixels.
        generator: draws the moves.

    >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
    >>> shifted(images, 0, torch.Generator()).equal(images)
    True
    """
    if most == 0:
        return images
    count, colours, height, width = images.shape
    moves = torch.randint(0, 2 * most + 1, (2, count, 1), generator=generator).to(images.device)
    rows = torch.arange(height, device=images.device) + moves[0]
    columns = torch.arange(width, device=images.device) + moves[1]
    padded = nn.functional.pad(images, [most] * 4)
    numbers = torch.arange(count, device=images.device)[:, None, None, None]
    colour = torch.arange(colours, device=images.device)[None, :, None, None]
    return padded[numbers, colour, rows[:, None, :, None], columns[:, None, None, :]]
