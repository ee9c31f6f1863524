"""Boxes on a canvas: where glyphs of a scene are placed, and the facts and expectations that all made scenes share."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankops.datasets.digits import Digits

__all__ = [
    "BETWEEN", "IN_SET", "arranged", "box_expectations", "box_facts", "largest_overlap", "pieces", "placed",
    "ranks_follow_sizes", "scene_expectations", "scene_facts", "uniform", "weighted",
]  # fmt: skip

PLACES_TRIED = 32
ROUNDS = 1000
PIECE = 25_000_000  # larger ones come as fresh pages from the system each time, which costs as much as drawing


def pieces(rows: int, *, pixels: int, most: int, multiple_of: int = 1) -> Iterator[tuple[int, int]]:
    """Where pieces of a split begin and how many rows they have, so that memory does not grow with the split.

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
    """Places boxes, the largest first, each at the first of some random places that is free.

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
            other = sizes[:, earlier, None]
            shared = [
                torch.minimum(at + size, before + other) - torch.maximum(at, before)
                for at, before in zip(places, (tops[:, earlier, None], lefts[:, earlier, None]), strict=True)
            ]
            # The smaller of two boxes is this one.
            free &= shared[0].clamp(min=0) * shared[1].clamp(min=0) <= overlap * size * size
        first = free.to(torch.uint8).argmax(-1, keepdim=True)
        there = sizes[:, slot] > 0
        tops[:, slot] = torch.where(there, places[0].gather(1, first).squeeze(1), 0.0)
        lefts[:, slot] = torch.where(there, places[1].gather(1, first).squeeze(1), 0.0)
        fits &= free.any(-1) | ~there
    return tops, lefts, fits


def arranged(
    there: Tensor,
    *,
    canvas: int,
    scale: tuple[float, float],
    overlap: float,
    used: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sizes and places of boxes: a box of scale s ~ U(scale) has s * canvas / 8 pixels on a side.

    Boxes are placed largest first; where one finds no free place, all of the scene's are drawn again.

    Args:
        there: (n, T) bool, which boxes are there.
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
    rows, boxes = there.shape
    sizes, tops, lefts = (torch.zeros(rows, used) for _ in range(3))
    which = torch.zeros(rows, used, dtype=torch.int64)
    pending = torch.arange(rows)
    for _ in range(ROUNDS):
        scales = torch.rand(len(pending), boxes, generator=generator) * (scale[1] - scale[0]) + scale[0]
        drawn, order = (canvas / 8 * scales * there[pending]).sort(dim=-1, descending=True)
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


def scene_facts(
    split: str, ids: np.ndarray, images: Tensor, *, drawable: Tensor, draw: Callable[[Tensor], Tensor], most: int = 2000
) -> dict[str, Any]:
    """One row a scene: its side, a hash of its pixels, and how far they are from what its recipe draws.

    Args:
        split: its name.
        ids: (n,).
        images: (n, ..., canvas, canvas) uint8.
        drawable: (n,) bool; where a recipe cannot be drawn, the difference is 255.
        draw: the images of some rows.
        most: rows drawn at once.
    """
    difference = torch.full((len(images),), 255)
    for rows in drawable.nonzero().flatten().split(most):
        difference[rows] = (draw(rows).short() - images[rows].short()).abs().flatten(1).amax(1).long()
    return {
        "split": [split] * len(images),
        "id": ids,
        "side": np.full(len(images), images.shape[-1]),
        "pixels": [sha256(image.tobytes()).hexdigest() for image in images.numpy()],
        "difference_from_recipe": difference.numpy(),
    }


def largest_overlap(size: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Largest share of the smaller box that two boxes of a scene have in common, (n,).

    >>> box = torch.tensor([[4.0, 2.0]])
    >>> largest_overlap(box, torch.tensor([[0.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([0.5000])
    """
    low = torch.stack([top, left])
    high = low + size
    sides = torch.minimum(high.unsqueeze(3), high.unsqueeze(2)) - torch.maximum(low.unsqueeze(3), low.unsqueeze(2))
    smaller = torch.minimum(size.unsqueeze(2), size.unsqueeze(1)).square()
    return (sides.clamp(min=0).prod(0) / smaller.clamp(min=1e-6)).triu(1).flatten(1).amax(1)


def ranks_follow_sizes(label_ranks: Tensor, size: Tensor) -> Tensor:
    """Whether label ranks order all pairs as sizes do and none is left out, (n,); without the code that makes them."""
    ordered = size.unsqueeze(2) - size.unsqueeze(1)
    ranked = label_ranks.unsqueeze(2) - label_ranks.unsqueeze(1)
    levels = (size.sort(dim=1).values.diff(dim=1, prepend=torch.zeros(len(size), 1)) > 0).sum(1)
    follow = (ordered.sign() == ranked.sign()).flatten(1).all(1) & (label_ranks.amax(1) == levels)
    return follow & ((label_ranks > 0) == (size > 0)).all(1)


def box_facts(
    split: str, ids: np.ndarray, images: Tensor, digits: Digits, boxes: tuple[Tensor, Tensor, Tensor, Tensor], name: str
) -> dict[str, Any]:
    """One row a box that is there: which, whose glyph, whether it is inside, and how much ink is in it.

    Args:
        split: its name.
        ids: (n,) of the scenes.
        images: (n, canvas, canvas) uint8.
        digits: of the split.
        boxes: sizes, tops, lefts and glyphs, (n, T) each.
        name: of the column that says which of the T a box is.
    """
    canvas = images.shape[-1]
    size, top, left, glyph = boxes
    row, number = (size > 0).nonzero(as_tuple=True)
    size, top, left, glyph = (values[row, number] for values in boxes)
    known = torch.isin(glyph, digits.glyph)
    # Ink in a box is a difference of corners of the image's summed table.
    summed = torch.nn.functional.pad(images.long().cumsum(1).cumsum(2), (1, 0, 1, 0))
    begin = [at.floor().long().clamp(0, canvas) for at in (top, left)]
    end = [(at + size).ceil().long().clamp(0, canvas) for at in (top, left)]
    ink = (
        summed[row, end[0], end[1]] - summed[row, begin[0], end[1]]
        - summed[row, end[0], begin[1]] + summed[row, begin[0], begin[1]]
    )  # fmt: skip
    return {
        "split": [split] * len(row),
        "id": ids[row.numpy()],
        name: number.numpy(),
        "glyph": glyph.numpy(),
        "size": size.numpy(),
        "glyph_is_of_this_split": known.numpy(),
        "glyph_class": torch.where(known, digits.labels[digits.rows_of(glyph)], -1).numpy(),
        "inside_canvas": ((top >= 0) & (left >= 0) & (torch.maximum(top, left) + size <= canvas + 1e-3)).numpy(),
        "ink_in_box": (ink / size.square()).numpy(),
    }


BETWEEN, IN_SET = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"


def uniform(column: str, values: list[int], total: int) -> dict[str, Any]:
    """The expectation that a column has each of some values equally often, within chance."""
    return weighted(column, values, [1 / len(values)] * len(values), total)


def weighted(column: str, values: list[int], weights: list[float], total: int) -> dict[str, Any]:
    """The expectation that a column has values with the given frequencies, within chance."""
    return {
        "type": "expect_column_kl_divergence_to_be_less_than",
        "column": column,
        "partition_object": {"values": values, "weights": weights},
        "threshold": 4 * len(values) / total,
    }


def scene_expectations(
    *, canvas: int, rows: dict[str, int], digits_per_image: tuple[int, int], overlap: float
) -> list[dict[str, Any]]:
    """What must hold for the scenes of any made dataset."""
    least, most = digits_per_image
    return [
        {"type": "expect_table_row_count_to_equal", "value": sum(rows.values())},
        {"type": IN_SET, "column": "split", "value_set": list(rows)},
        {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
        {"type": "expect_column_values_to_be_unique", "column": "pixels"},
        {"type": IN_SET, "column": "side", "value_set": [canvas]},
        {"type": BETWEEN, "column": "digits", "min_value": least, "max_value": most},
        # Rounding may differ by one grey level between processors.
        {"type": BETWEEN, "column": "difference_from_recipe", "max_value": 1},
        {"type": BETWEEN, "column": "overlap", "max_value": overlap + 1e-4},
    ]


def box_expectations(*, canvas: int, scale: tuple[float, float]) -> list[dict[str, Any]]:
    """What must hold for the boxes of any made dataset."""
    small, large = (canvas / 8 * one for one in scale)
    return [
        {"type": IN_SET, "column": "glyph_is_of_this_split", "value_set": [True]},
        {"type": IN_SET, "column": "inside_canvas", "value_set": [True]},
        {"type": BETWEEN, "column": "size", "min_value": small * (1 - 1e-6), "max_value": large * (1 + 1e-6)},
        {"type": BETWEEN, "column": "ink_in_box", "min_value": 1.0},
    ]
