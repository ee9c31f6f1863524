"""Compute the facts about scenes that validation checks."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from rankgrad.datasets.scenes.digits import Digits

__all__ = ["box_facts", "hashes", "largest_overlap", "ranks_follow"]


def hashes(images: Tensor) -> list[str]:
    """Return a hash of the pixels of each image (n, ...)."""
    return [sha256(image.tobytes()).hexdigest() for image in images.numpy()]


def largest_overlap(size: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Return the largest fraction of the smaller box that two boxes of a scene share (n,).

    >>> box = torch.tensor([[4.0, 2.0]])
    >>> largest_overlap(box, torch.tensor([[0.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([0.5000])
    """
    low = torch.stack([top, left])
    high = low + size
    sides = torch.minimum(high.unsqueeze(3), high.unsqueeze(2)) - torch.maximum(low.unsqueeze(3), low.unsqueeze(2))
    smaller = torch.minimum(size.unsqueeze(2), size.unsqueeze(1)).square()
    return (sides.clamp(min=0).prod(0) / smaller.clamp(min=1e-6)).triu(1).flatten(1).amax(1)


def ranks_follow(label_ranks: Tensor, importance: Tensor) -> Tensor:
    """Return whether label ranks order all pairs by size, or by another property, and have no gaps (n,).

    0 means absent. This check shares no code with the drawing of scenes.
    """
    ordered = importance.unsqueeze(2) - importance.unsqueeze(1)
    ranked = label_ranks.unsqueeze(2) - label_ranks.unsqueeze(1)
    levels = (importance.sort(dim=1).values.diff(dim=1, prepend=torch.zeros(len(importance), 1)) > 0).sum(1)
    follow = (ordered.sign() == ranked.sign()).flatten(1).all(1) & (label_ranks.amax(1) == levels)
    return follow & ((label_ranks > 0) == (importance > 0)).all(1)


def box_facts(images: Tensor, digits: Digits, boxes: Sequence[Tensor]) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Measure each box in the scenes: its glyph, whether it lies inside the canvas, and how much ink it holds.

    Args:
        images: images (n, canvas, canvas), uint8.
        digits: the digits of the scenes' split.
        boxes: sizes, tops, lefts, and glyphs, (n, T) each; size 0 means absent.

    Returns:
        The scene (row of `images`) and the slot (0..T-1) of each box, and columns with one value per box.
    """
    canvas, sizes = images.shape[-1], boxes[0]
    row, slot = (sizes > 0).nonzero(as_tuple=True)
    size, top, left, glyph = (values[row, slot] for values in boxes)
    is_own = torch.isin(glyph, digits.glyph)
    ink = _ink(images, row, size, top, left)
    inside = (top >= 0) & (left >= 0) & (torch.maximum(top, left) + size <= canvas + 1e-3)  # up to rounding
    label = digits.labels[digits.rows_of(glyph)]  # an arbitrary label if the glyph is not in this split
    return (
        row,
        slot,
        {
            "glyph": glyph.numpy(),
            "size": size.numpy(),
            "glyph_is_of_this_split": is_own.numpy(),
            "glyph_class": torch.where(is_own, label, -1).numpy(),
            "inside_canvas": inside.numpy(),
            "ink_in_box": (ink / size.square()).numpy(),  # mean gray level, about 0 to 255
        },
    )


def _ink(images: Tensor, row: Tensor, size: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Return the sum of the pixels in each box (n,)."""
    canvas, pixels = images.shape[-1], images.numpy()
    corners = torch.stack([top, left], 1)
    firsts = corners.floor().long().clamp(0, canvas).tolist()
    lasts = (corners + size.unsqueeze(1)).ceil().long().clamp(0, canvas).tolist()
    sums = []
    for image, (up, start), (down, end) in zip(row.tolist(), firsts, lasts, strict=True):
        sums.append(int(pixels[image, up:down, start:end].sum()))
    return torch.tensor(sums, dtype=torch.int64)
