"""Boxes on a canvas: where the glyphs of a scene are placed."""

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["arranged", "arranged_in_turn", "pieces", "placed"]


PLACES_TRIED = 32
ROUNDS = 1000
PIECE = 25_000_000  # larger ones come as fresh pages from the system each time, which costs as much as drawing


def pieces(rows: int, *, pixels: int, most: int, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
    """Yield where pieces of a split begin and how many rows they have, so that memory does not grow with the split.

    Args:
        rows: of the split.
        pixels: of a row.
        most: rows of a piece, if those have fewer than 25 MB.
        multiple_of: rows that stay together.

    >>> list(pieces(5, pixels=10_000_000, most=2000))
    [(0, 2), (2, 2), (4, 1)]
    """
    size = multiple_of * max(1, min(most, PIECE // pixels) // multiple_of)
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def placed(sizes: Tensor, canvas: int, overlap: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Place boxes, the largest first, each at the first of some random places that is free.

    Args:
        sizes: (n, T), descending, 0 = not there.

    Returns:
        tops, lefts (n, T) and whether all boxes of a scene found a place (n,).
    """
    scenes, slots = sizes.shape
    tops, lefts = torch.zeros_like(sizes), torch.zeros_like(sizes)
    fits = torch.ones(scenes, dtype=torch.bool)
    for slot in range(slots):
        size = sizes[:, slot, None]
        places = torch.rand(2, scenes, PLACES_TRIED, generator=generator) * (canvas - size)
        free = torch.ones(scenes, PLACES_TRIED, dtype=torch.bool)
        for earlier in range(slot):
            shared = _shared(places, size, tops[:, earlier, None], lefts[:, earlier, None], sizes[:, earlier, None])
            free &= shared <= overlap * size * size  # the smaller of two boxes is this one
        first = free.to(torch.uint8).argmax(-1, keepdim=True)
        present = sizes[:, slot] > 0
        tops[:, slot] = torch.where(present, places[0].gather(1, first).squeeze(1), 0.0)
        lefts[:, slot] = torch.where(present, places[1].gather(1, first).squeeze(1), 0.0)
        fits &= free.any(-1) | ~present
    return tops, lefts, fits


def _shared(places: Tensor, size: Tensor, top: Tensor, left: Tensor, other: Tensor) -> Tensor:
    """Return the area that boxes at places (2, ...) have in common with an earlier box."""
    height = torch.minimum(places[0] + size, top + other) - torch.maximum(places[0], top)
    width = torch.minimum(places[1] + size, left + other) - torch.maximum(places[1], left)
    return height.clamp(min=0) * width.clamp(min=0)


def arranged(
    mask: Tensor,
    *,
    canvas: int,
    scale: tuple[float, float],
    overlap: float,
    used: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw sizes and places of boxes: a box of scale s ~ U(scale) has s * canvas / 8 pixels on a side.

    Boxes are placed largest first; where one finds no free place, all of the scene's are drawn again.

    Args:
        mask: (n, T) bool, which boxes are there.
        canvas: pixels on a side.
        scale: least and most.
        overlap: largest share of the smaller box that two boxes may have in common.
        used: most boxes of a scene that are there.
        generator: source of all draws.

    Returns:
        Sizes, tops and lefts (n, used), largest first, 0 = not there; and which of the T boxes each is (n, used).

    Raises:
        ValueError: the boxes of some scenes do not fit.
    """
    rows, boxes = mask.shape
    sizes, tops, lefts = (torch.zeros(rows, used) for _ in range(3))
    which = torch.zeros(rows, used, dtype=torch.int64)
    pending = torch.arange(rows)
    for _ in range(ROUNDS):
        scales = torch.rand(len(pending), boxes, generator=generator) * (scale[1] - scale[0]) + scale[0]
        drawn, order = (canvas / 8 * scales * mask[pending]).sort(dim=-1, descending=True)
        drawn, order = drawn[:, :used], order[:, :used]  # what no scene uses is not placed
        new_tops, new_lefts, fits = placed(drawn, canvas, overlap, generator)
        done = pending[fits]
        for values, new in ((sizes, drawn), (tops, new_tops), (lefts, new_lefts), (which, order)):
            values[done] = new[fits]
        pending = pending[~fits]
        if not len(pending):
            return sizes, tops, lefts, which
    raise ValueError(
        f"{len(pending)} of {rows} scenes with up to {used} boxes of scale {scale[0]} to {scale[1]} found no place in "
        f"{ROUNDS} draws: fewer or smaller ones, or more overlap (now {overlap})"
    )


def arranged_in_turn(
    mask: Tensor, *, canvas: int, scale: tuple[float, float], overlap: float, margin: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Place boxes one after the other, each with its own size and position, drawn again at every try.

    RLSEP's authors draw like this (MrGranddy/UniMLR): a box that finds no position in a thousand tries is left out, and
    no scene is drawn again. Later boxes are therefore smaller on average.

    Args:
        mask: (n, T) bool, which boxes are there.
        canvas, scale, overlap, generator: see `arranged`.
        margin: pixels between a box and the edge of the canvas, at least.

    Returns:
        Sizes, tops and lefts (n, T), 0 = not there.
    """
    rows, boxes = mask.shape
    sizes, tops, lefts = (torch.zeros(rows, boxes) for _ in range(3))
    for slot in range(boxes):
        pending = mask[:, slot].nonzero().squeeze(1)
        for _ in range(ROUNDS // PLACES_TRIED + 1):
            size = canvas / 8 * (torch.rand(len(pending), PLACES_TRIED, generator=generator) * (scale[1] - scale[0]))
            size += canvas / 8 * scale[0]
            places = margin + torch.rand(2, *size.shape, generator=generator) * (canvas - 2 * margin - size)
            free = torch.ones(size.shape, dtype=torch.bool)
            for earlier in range(slot):
                top, left, other = (values[pending, earlier, None] for values in (tops, lefts, sizes))
                smaller = torch.minimum(size, other)
                free &= _shared(places, size, top, left, other) <= overlap * smaller * smaller
            first, fits = free.to(torch.uint8).argmax(-1, keepdim=True), free.any(-1)
            done = pending[fits]
            for values, new in ((sizes, size), (tops, places[0]), (lefts, places[1])):
                values[done, slot] = new.gather(1, first).squeeze(1)[fits]
            pending = pending[~fits]
            if not len(pending):
                break
    return sizes, tops, lefts
