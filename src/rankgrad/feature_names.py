"""What features are called, and how they follow from a row.

The name of a feature says what it is of a row: `km` the number in this column; `brand=bmw` whether the column has this
value, 0 or 1; `sequence[39/56]=A` whether this letter stands at this place of the column's 56 letters;
`age[empty=41.5]` the number in this column, or 41.5 if the cell is empty; and `age[empty]` whether it is empty.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rankgrad.numbers import PLAIN, Writing, number_in
from rankgrad.plain_text import name_in, text_in

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "columns_of",
    "empty_name",
    "filled_names",
    "fills_of",
    "is_empty",
    "is_feature_name",
    "numbers_of",
    "places_of_values",
    "title_of",
]

LETTER = re.compile(r"(.+)\[(\d+)/(\d+)\]", re.DOTALL)  # column, place from 1 on, and how many there are
FILLED = re.compile(r"(.+)\[empty(?:=(.+))?\]", re.DOTALL)  # column, and the number that an empty cell gets
Letter = tuple[int, int] | None


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that features are made of, each once.

    >>> columns_of(["km", "brand=bmw", "brand=vw", "sequence[1/3]=A", "sequence[3/3]=C"])
    ['km', 'brand', 'sequence']
    """
    return list(dict.fromkeys(column for column, _ in _asked(tuple(names))))


def numbers_of(
    row: Mapping[str, Any],
    names: Sequence[str],
    *,
    unknown: Callable[[str, str], object] | None = None,
    writing: Writing = PLAIN,
) -> list[float]:
    """Return the features of a row by its columns' names.

    A value that no feature is named by is none of them, and so is an empty cell of names. An empty number gets the one
    that its feature names, if it names one.

    Args:
        row: cells by column.
        names: of the features.
        unknown: is told of each value that no feature is named by: the column and the value.
        writing: of numbers that are text.

    Raises:
        ValueError: a number is missing or none, or a text has another number of letters.

    >>> names = ["km", "brand=bmw", "brand=vw", "sequence[3/3]=D"]
    >>> numbers_of({"km": 7, "brand": "vw", "sequence": "ACD"}, names)
    [7.0, 0.0, 1.0, 1.0]
    >>> numbers_of({"km": 7, "brand": "lada", "sequence": "ACD"}, names, unknown=print)
    brand lada
    [7.0, 0.0, 0.0, 1.0]
    >>> numbers_of({"age": None}, ["age[empty=41.5]", "age[empty]"])
    [41.5, 1.0]
    >>> numbers_of({"km": "1.306,5"}, ["km"], writing=Writing(",", "."))
    [1306.5]
    """
    numbers, fills = [0.0] * len(names), fills_of(tuple(names))
    for (column, letter), places in _asked(tuple(names)).items():
        if column in fills and is_empty(row.get(column)):
            numbers[places[None]] = fills[column]
            if "" in places:
                numbers[places[""]] = 1.0
        elif None in places:
            numbers[places[None]] = _number(row, column, writing)
        elif (place := places.get(value := _value(row, column, letter))) is not None:
            numbers[place] = 1.0
        elif value and unknown:
            unknown(column, value)
        for known, place in places.items():
            if known is not None and names[place] in row:  # a number whose column's own name has a `=`
                numbers[place] = _number(row, names[place], writing)
    return numbers


@lru_cache(maxsize=16)
def _asked(names: tuple[str, ...]) -> dict[tuple[str, Letter], dict[str | None, int]]:
    """Return the columns of features, with the place of a letter, and where which value counts: None for any number."""
    asked: dict[tuple[str, Letter], dict[str | None, int]] = {}
    for place, name in enumerate(names):
        if filled := FILLED.fullmatch(name):
            asked.setdefault((filled[1], None), {})["" if filled[2] is None else None] = place
            continue
        column, found, value = name.partition("=")
        letter = LETTER.fullmatch(column) if found else None
        key = (letter[1], (int(letter[2]), int(letter[3]))) if letter else (column, None)
        asked.setdefault(key, {})[value if found else None] = place
    return asked


@lru_cache(maxsize=16)
def places_of_values(names: tuple[str, ...]) -> dict[str, list[list[int]]]:
    """Return by column where the features of its values stand: a list, or one for each letter.

    >>> places_of_values(("km", "brand=bmw", "brand=vw", "sequence[3/3]=D"))
    {'brand': [[1, 2]], 'sequence': [[3]]}
    """
    places_of: dict[str, list[list[int]]] = {}
    for (column, _), place_of in _asked(names).items():
        places = [place for value, place in place_of.items() if value]  # None is a number's, "" of an empty one
        if places:
            places_of.setdefault(column, []).append(places)
    return places_of


@lru_cache(maxsize=16)
def fills_of(names: tuple[str, ...]) -> dict[str, float]:
    """Return the numbers that empty cells get, by column.

    >>> fills_of(("km", "age[empty=41.5]", "age[empty]"))
    {'age': 41.5}
    """
    filled = [match for match in map(FILLED.fullmatch, names) if match and match[2] is not None]
    return {match[1]: float(match[2]) for match in filled}


def filled_names(column: str, numbers: "pd.Series") -> list[str]:
    """Return features of a column of numbers whose empty cells, NaN, get the median: it, and whether one was empty."""
    if numbers.isna().all():
        return []
    name = f"{column}[empty={float(numbers.median())!r}]"
    return [name, empty_name(column)] if numbers.isna().any() else [name]


def empty_name(column: str) -> str:
    """Return the name of the feature that says whether a column's cell is empty."""
    return f"{column}[empty]"


def title_of(name: str) -> str:
    """Return what a feature is called for people: without the number that an empty cell gets.

    >>> title_of("age[empty=41.5]"), title_of("age[empty]"), title_of("brand=vw")
    ('age', 'age[empty]', 'brand=vw')
    """
    filled = FILLED.fullmatch(name)
    return filled[1] if filled and filled[2] is not None else name


def is_feature_name(column: str) -> bool:
    """Return whether a column is called as a feature of one value is, which it would be taken for."""
    return "=" in column or LETTER.fullmatch(column) is not None or FILLED.fullmatch(column) is not None


def is_empty(cell: Any) -> bool:
    """Return whether a cell of numbers is empty: None, NaN, no text, or `nan` as programs write it.

    >>> is_empty("NaN"), is_empty(float("nan")), is_empty(0)
    (True, True, False)
    """
    return cell is None or cell != cell or (isinstance(cell, str) and cell.lower() in ("", "nan"))


def _number(row: Mapping[str, Any], column: str, writing: Writing) -> float:
    try:
        return number_in(row.get(column), writing)
    except ValueError as error:
        raise ValueError(f"{column} is {error}") from None


def _value(row: Mapping[str, Any], column: str, letter: Letter) -> str:
    if letter is None:
        try:
            return name_in(row.get(column))
        except ValueError as error:
            raise ValueError(f"{column}: {error}") from error
    place, count = letter
    cell = row.get(column)
    if len(text := text_in("" if cell is None else cell)) != count:
        raise ValueError(f"{column} has {len(text)} letters, expected {count} as in training: align it")
    return text[place - 1]
