"""The ranges of the training rows' numbers, which a published version's folder holds, and new values outside them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad import lookup
from rankgrad.inputs import type_of

__all__ = ["REFERENCE", "Ranges", "are_outside", "in_words", "outside_ranges", "ranges_in"]

REFERENCE = "reference"  # the folder with the description of the training data, in a version's folder
MARGIN = 0.1  # of a range's width, beyond which a number is outside
Ranges = Mapping[str, tuple[float, float]]  # the smallest and the largest number by input, in the order of the inputs


def ranges_in(folder: Path) -> Ranges:
    """Return the ranges in the folder of a model; none if it is not a published version, or its inputs have none.

    Raises:
        ValueError: the description of the training data is corrupt.
    """
    path = folder / REFERENCE / "about.json"
    if not path.is_file():
        return {}
    try:
        ranges = json.loads(path.read_text()).get("ranges", {})
        return {name: (float(low), float(high)) for name, (low, high) in ranges.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: is corrupt ({error}); publish the version again with `make repro`") from error


def are_outside(ranges: Ranges, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Return which inputs of rows (n, k) have a number outside their ranges, by more than a tenth of their width.

    A number just outside is common: each new row has one with probability 2 / (n + 1) after n training rows.

    Args:
        ranges: the ranges of the k inputs.
        lowest, highest: the extremes of each input in a row (n, k), such as over the documents of a query.

    >>> are_outside({"age": (0.0, 99.0)}, np.array([[7.0], [-1.0]]), np.array([[7.0], [9.0]])).tolist()
    [[False], [False]]
    >>> are_outside({"age": (0.0, 99.0)}, np.array([[-10.0]]), np.array([[7.0]])).tolist()
    [[True]]
    """
    low, high = np.array([*ranges.values()]).reshape(-1, 2).T
    margin = MARGIN * (high - low)
    return (lowest < low - margin) | (highest > high + margin)


def outside_ranges(
    ranges: Ranges, rows: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]
) -> dict[int, dict[str, str]]:
    """Return, by the index of each row with numbers outside the ranges, these numbers in words by input.

    Args:
        ranges: from `ranges_in`.
        rows: checked rows, see `rankgrad.tasks.Task.checked`.
        recipe: the recipe of the network that answers them.
    """
    about, lists = recipe["input"], lookup.find("tasks", recipe["task"]).reads.lists
    input_type = type_of(about)
    # Prepare the cells of all rows at once, which is faster.
    cells, starts = [], {}
    for index, row in enumerate(rows if ranges else ()):
        if input_type.name in row:  # a row may have only a caption
            starts[index] = len(cells)
            cells += row[input_type.name] if lists else [row[input_type.name]]
    if not cells:
        return {}
    items = input_type.prepared(cells, about, where=f"rows 0 to {len(rows) - 1}").double().numpy()
    lowest, highest = (extreme.reduceat(items, [*starts.values()]) for extreme in (np.minimum, np.maximum))

    is_outside, indices, names = are_outside(ranges, lowest, highest), [*starts], [*ranges]
    words: dict[int, dict[str, str]] = {}
    for position, column in np.argwhere(is_outside):
        name = names[column]
        low, high = ranges[name]
        extremes = lowest[position, column], highest[position, column]
        value = max(extremes, key=lambda number, low=low, high=high: max(low - number, number - high))
        is_date = name in (about.get("dates") or ())
        shown, *bounds = (in_words(number, is_date=is_date) for number in (value, low, high))
        words.setdefault(indices[position], {})[name] = f"{name} {shown} (training: {' to '.join(bounds)})"
    return words


def in_words(number: float, *, is_date: bool) -> str:
    """Return a number in words; of a date, which is a number of days since 1970-01-01, the date.

    >>> in_words(5000.0, is_date=False), in_words(20_000.5, is_date=True)
    ('5,000', '2024-10-04')
    """
    return str(np.datetime64(int(number), "D")) if is_date else f"{number:,.6g}"
