"""Facts of scenes that validation checks, and the expectations on them."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankops.datasets.scenes.digits import Digits

__all__ = [
    "box_expectations",
    "box_facts",
    "largest_overlap",
    "ranks_follow_sizes",
    "scene_expectations",
    "scene_facts",
    "uniform",
    "weighted",
]


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
        # Rounding may differ by one gray level between processors.
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
