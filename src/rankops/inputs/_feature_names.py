"""What features are called, and how they follow from a row.

The name of a feature says what it is of a row: `km` the number in this column, `brand=bmw` whether the column has this
value, 0 or 1, and `sequence[39]=A` whether this letter stands at this place of the column's text.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

__all__ = ["columns_of", "numbers_of", "plain"]

LETTER = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


def plain(cell: Any) -> str:
    """Return a cell as text; keyboards write the accents of one name in several ways.

    >>> plain(2.0), plain(" bmw")
    ('2', 'bmw')
    """
    name = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    return unicodedata.normalize("NFC", name.strip())


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that features are made of, each once.

    >>> columns_of(["km", "brand=bmw", "brand=vw", "sequence[1]=A", "sequence[3]=C"])
    ['km', 'brand', 'sequence']
    """
    return list(dict.fromkeys(column for column, _ in _asked(tuple(names))))


def numbers_of(row: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """Return the features of a row by its columns' names; a value that no feature is named by is none of them.

    Raises:
        ValueError: a cell is missing, is no number where one is meant, or has too few letters.

    >>> numbers_of({"km": 7, "brand": "vw", "sequence": "ACD"}, ["km", "brand=bmw", "brand=vw", "sequence[3]=D"])
    [7.0, 0.0, 1.0, 1.0]
    """
    numbers = [0.0] * len(names)
    for (column, letter), places in _asked(tuple(names)).items():
        if column not in row and (called := [place for place in places.values() if names[place] in row]):
            for place in called:  # a number whose column's name has a `=`
                numbers[place] = _number(names[place], row[names[place]])
            continue
        cell = row.get(column)
        if cell is None or cell == "":
            raise ValueError(f"{column} is empty, expected {'a number' if None in places else 'a name'}")
        if None in places:
            numbers[places[None]] = _number(column, cell)
        elif (place := places.get(_value(column, plain(cell), letter))) is not None:
            numbers[place] = 1.0
    return numbers


@cache
def _asked(names: tuple[str, ...]) -> dict[tuple[str, int | None], dict[str | None, int]]:
    """Return the columns of features, with the place of a letter, and where which value counts: None for any number."""
    asked: dict[tuple[str, int | None], dict[str | None, int]] = {}
    for place, name in enumerate(names):
        column, found, value = name.partition("=")
        letter = LETTER.fullmatch(column) if found else None
        key = (letter[1], int(letter[2])) if letter else (column, None)
        asked.setdefault(key, {})[value if found else None] = place
    return asked


def _number(column: str, cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise ValueError(f"{column} is {cell!r}, expected a number") from None


def _value(column: str, text: str, letter: int | None) -> str:
    if letter is None:
        return text
    if letter > len(text):
        raise ValueError(f"{column} has {len(text)} letters, expected as many as in training, at least {letter}")
    return text[letter - 1]
