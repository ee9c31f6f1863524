"""Place boxes on a canvas, for the glyphs of a scene."""

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["arranged", "arranged_in_turn", "pieces", "placed"]


PLACES_TRIED = 32  # positions of a box to try at once
ROUNDS = 1000  # draws of a scene before raising an error
BOXES_ACROSS = 8  # boxes of scale 1 fill the width of the canvas
# For larger arrays, the system allocates new pages each time, which costs as much as drawing.
PIECE_BYTES = 25_000_000


def pieces(rows: int, *, pixels: int, most: int, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the first row and the number of rows of each piece of a split; memory does not grow with the split.

    Args:
        rows: rows of the split.
        pixels: pixels of a row.
        most: most rows of a piece; fewer if they would take more than 25 MB.
        multiple_of: rows that stay together, even if they take more.

    >>> list(pieces(5, pixels=10_000_000, most=2000))
    [(0, 2), (2, 2), (4, 1)]
    """
    fitting = min(most, PIECE_BYTES // pixels)  # a pixel is a byte
    families = max(1, fitting // multiple_of)
    size = families * multiple_of
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def placed(sizes: Tensor, canvas: int, overlap: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Place boxes, the largest first, each at the first free one of several random positions.

    Args:
        sizes: sizes (n, T), descending, 0 for no box.
        canvas: pixels per side.
        overlap: see `arranged`.
        generator: source of all draws.

    Returns:
        Tops and lefts (n, T), and whether all boxes of a scene could be placed (n,).
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
            free &= shared <= overlap * size * size  # this is the smaller one of two boxes
        first = free.to(torch.uint8).argmax(-1, keepdim=True)
        present = sizes[:, slot] > 0
        tops[:, slot] = torch.where(present, places[0].gather(1, first).squeeze(1), 0.0)
        lefts[:, slot] = torch.where(present, places[1].gather(1, first).squeeze(1), 0.0)
        fits &= free.any(-1) | ~present
    return tops, lefts, fits


def _shared(places: Tensor, size: Tensor, top: Tensor, left: Tensor, earlier_size: Tensor) -> Tensor:
    """Return the area that boxes at positions (2, ...) share with an earlier box."""
    height = torch.minimum(places[0] + size, top + earlier_size) - torch.maximum(places[0], top)
    width = torch.minimum(places[1] + size, left + earlier_size) - torch.maximum(places[1], left)
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
    """Draw sizes and positions of boxes: a box of scale s ~ U(scale) has s * canvas / 8 pixels per side.

    Boxes are placed largest first. If one finds no free position, all boxes of the scene are drawn again.

    Args:
        mask: which boxes exist (n, T), bool.
        canvas: pixels per side.
        scale: smallest and largest.
        overlap: largest fraction of the smaller box that two boxes may share.
        used: largest number of boxes in a scene.
        generator: source of all draws.

    Returns:
        Sizes, tops, and lefts (n, used), largest first, 0 for no box; and the column of each box in `mask` (n, used).

    Raises:
        ValueError: the boxes of some scenes do not fit.
    """
    rows, boxes = mask.shape
    sizes, tops, lefts = (torch.zeros(rows, used) for _ in range(3))
    columns = torch.zeros(rows, used, dtype=torch.int64)
    pending = torch.arange(rows)
    for _ in range(ROUNDS):
        scales = torch.rand(len(pending), boxes, generator=generator) * (scale[1] - scale[0]) + scale[0]
        drawn, order = (canvas / BOXES_ACROSS * scales * mask[pending]).sort(dim=-1, descending=True)
        drawn, order = drawn[:, :used], order[:, :used]  # the others do not exist in any scene
        new_tops, new_lefts, fits = placed(drawn, canvas, overlap, generator)
        done = pending[fits]
        for values, new in ((sizes, drawn), (tops, new_tops), (lefts, new_lefts), (columns, order)):
            values[done] = new[fits]
        pending = pending[~fits]
        if not len(pending):
            return sizes, tops, lefts, columns
    raise ValueError(
        f"{len(pending)} of {rows} scenes with up to {used} boxes of scale {scale[0]} to {scale[1]} do not fit after "
        f"{ROUNDS} draws: set fewer or smaller digits, or more overlap (now {overlap})"
    )


def arranged_in_turn(
    mask: Tensor, *, canvas: int, scale: tuple[float, float], overlap: float, margin: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Place boxes one after the other; draw a new size and position at every try.

    The RLSEP authors' code does the same (MrGranddy/UniMLR): a box without a free position in a thousand tries is left
    out, and no scene is drawn again. Later boxes are therefore smaller on average.

    Args:
        mask: which boxes exist (n, T), bool.
        canvas, scale, overlap, generator: see `arranged`.
        margin: smallest distance in pixels between a box and the edge of the canvas.

    Returns:
        Sizes, tops, and lefts (n, T), 0 for no box.
    """
    rows, boxes = mask.shape
    sizes, tops, lefts = (torch.zeros(rows, boxes) for _ in range(3))
    for slot in range(boxes):
        pending = mask[:, slot].nonzero().squeeze(1)
        for _ in range(ROUNDS // PLACES_TRIED + 1):
            drawn = torch.rand(len(pending), PLACES_TRIED, generator=generator)
            size = canvas / BOXES_ACROSS * (drawn * (scale[1] - scale[0]))
            size += canvas / BOXES_ACROSS * scale[0]
            places = margin + torch.rand(2, *size.shape, generator=generator) * (canvas - 2 * margin - size)
            free = torch.ones(size.shape, dtype=torch.bool)
            for earlier in range(slot):
                top, left, earlier_size = (values[pending, earlier, None] for values in (tops, lefts, sizes))
                smaller = torch.minimum(size, earlier_size)
                free &= _shared(places, size, top, left, earlier_size) <= overlap * smaller * smaller
            first = free.to(torch.uint8).argmax(-1, keepdim=True)
            fits = free.any(-1)
            done = pending[fits]
            for values, new in ((sizes, size), (tops, places[0]), (lefts, places[1])):
                values[done, slot] = new.gather(1, first).squeeze(1)[fits]
            pending = pending[~fits]
            if not len(pending):
                break
    return sizes, tops, lefts
