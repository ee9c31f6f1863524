"""Pictures of four digits side by side, of value 0 to 9999: items to be sorted (Grover et al. 2019, Section 6.2)."""

import torch
from torch import Tensor

from rankops.datasets.scenes.digits import Digits

__all__ = ["draw"]

LENGTH = 4


def draw(digits: Digits, items: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw items, each of four digits that are drawn with replacement.

    Args:
        digits: of one split, so that items of different splits share no digit.
        items: how many.
        generator: of the draws.

    Returns:
        Images (items, 28, 112) uint8 and their values (items,) int64.
    """
    rows = torch.randint(len(digits.images), (items, LENGTH), generator=generator)
    images = digits.images[rows].transpose(1, 2).flatten(2)
    return images, (digits.labels[rows] * 10 ** torch.arange(LENGTH - 1, -1, -1)).sum(-1)
