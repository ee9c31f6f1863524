"""Names of features, and how to compute the features of a row from them.

The name of a feature defines its value: `km` is the number in this column; `brand=bmw` is 1 if the column has this
value, else 0; `sequence[39/56]=A` is 1 if the column's text has this letter at position 39 of 56; `title[word=new]` is
1 if the column's text has this word; `age[empty=41.5]` is the number in this column, or 41.5 if the cell is empty; and
`age[empty]` is 1 if the cell is empty.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from rankgrad.numbers import PLAIN, Writing, number_at
from rankgrad.plain_text import name_in, text_in, tokens_of

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
    "words_by_column",
    "words_names",
]

LETTER = re.compile(r"(.+)\[(\d+)/(\d+)\]", re.DOTALL)  # column, position from 1, and number of letters
FILLED = re.compile(r"(.+)\[empty(?:=(.+))?\]", re.DOTALL)  # column, and the number for an empty cell
WORD = re.compile(r"([^=]+)\[word=(.+)\]", re.DOTALL)  # column, and the word or mark
WORDS, LEAST = 2000, 3  # most words of a column that become features, and fewest rows that have such a word
Part = tuple[int, int] | Literal["word"] | None  # of a cell: a letter, a word, or all of it


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the distinct columns from which features are computed.

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
    """Compute the features of a row from their names.

    If no feature has a cell's value in its name, or the cell is empty, all features of the column are 0. An empty
    number gets the number in its feature's name, if there is one.

    Args:
        row: cells by column.
        names: names of the features.
        unknown: called with the column and the value if no feature has this value.
        writing: how numbers and dates are written in text.

    Raises:
        ValueError: a number is missing or invalid, or a text has the wrong number of letters.

    >>> names = ["km", "brand=bmw", "brand=vw", "sequence[3/3]=D"]
    >>> numbers_of({"km": 7, "brand": "vw", "sequence": "ACD"}, names)
    [7.0, 0.0, 1.0, 1.0]
    >>> numbers_of({"km": 7, "brand": "lada", "sequence": "ACD"}, names, unknown=print)
    brand lada
    [7.0, 0.0, 0.0, 1.0]
    >>> numbers_of({"title": "Old red lamp"}, ["title[word=lamp]", "title[word=new]"])
    [1.0, 0.0]
    >>> numbers_of({"age": None}, ["age[empty=41.5]", "age[empty]"])
    [41.5, 1.0]
    >>> numbers_of({"km": "1.306,5"}, ["km"], writing=Writing(",", "."))
    [1306.5]
    """
    numbers, fills = [0.0] * len(names), fills_of(tuple(names))
    for (column, part), places in _asked(tuple(names)).items():
        if part == "word":
            for word in places.keys() & tokens_of(_text(row, column)):
                numbers[places[word]] = 1.0
        elif column in fills and is_empty(row.get(column)):
            numbers[places[None]] = fills[column]
            if "" in places:
                numbers[places[""]] = 1.0
        elif None in places:
            numbers[places[None]] = number_at(row, column, writing)
        elif (place := places.get(value := _value(row, column, part))) is not None:
            numbers[place] = 1.0
        elif value and unknown:
            unknown(column, value)
        for known, place in places.items():
            if known is not None and names[place] in row:  # a number whose column's own name has a `=`
                numbers[place] = number_at(row, names[place], writing)
    return numbers


@lru_cache(maxsize=16)
def _asked(names: tuple[str, ...]) -> dict[tuple[str, Part], dict[str | None, int]]:
    """Map columns (with the position of a letter) to their values or words, and these to positions in the features.

    The value None stands for any number.
    """
    asked: dict[tuple[str, Part], dict[str | None, int]] = {}
    for place, name in enumerate(names):
        if word := WORD.fullmatch(name):
            asked.setdefault((word[1], "word"), {})[word[2]] = place
            continue
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
    """Return, by column of names, words, or letters, the positions of its features: one list, or one list per letter.

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
    """Return the number for empty cells, by column.

    >>> fills_of(("km", "age[empty=41.5]", "age[empty]"))
    {'age': 41.5}
    """
    filled = [match for match in map(FILLED.fullmatch, names) if match and match[2] is not None]
    return {match[1]: float(match[2]) for match in filled}


def filled_names(column: str, numbers: "pd.Series") -> list[str]:
    """Return two features of a column: its numbers, with the median for empty cells (NaN), and 1 if empty."""
    if numbers.isna().all():
        return []
    name = f"{column}[empty={float(numbers.median())!r}]"
    return [name, empty_name(column)] if numbers.isna().any() else [name]


@lru_cache(maxsize=16)
def words_by_column(names: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """Return the words that are features, by column.

    >>> words_by_column(("km", "title[word=lamp]"))
    {'title': frozenset({'lamp'})}
    """
    of_cells = _asked(names).items()
    return {column: frozenset(map(str, words)) for (column, part), words in of_cells if part == "word"}


def words_names(column: str, texts: Iterable[str]) -> list[str]:
    """Return a feature for each of the most frequent words and marks in a column of training rows.

    >>> words_names("title", ["a red lamp", "A new lamp", "a lamp", "a bed"])
    ['title[word=lamp]']
    """
    rows = [{*tokens_of(text)} for text in texts]
    counts = Counter(word for words in rows for word in words)
    usual = [word for word, count in counts.items() if LEAST <= count < len(rows)]
    usual.sort(key=lambda word: (-counts[word], word))
    return [f"{column}[word={word}]" for word in sorted(usual[:WORDS])]


def empty_name(column: str) -> str:
    """Return the name of the feature that is 1 if a column's cell is empty."""
    return f"{column}[empty]"


def title_of(name: str) -> str:
    """Return a feature's name for display, without the number for empty cells.

    >>> title_of("age[empty=41.5]"), title_of("age[empty]"), title_of("brand=vw")
    ('age', 'age[empty]', 'brand=vw')
    """
    filled = FILLED.fullmatch(name)
    return filled[1] if filled and filled[2] is not None else name


def is_feature_name(column: str) -> bool:
    """Return whether a column's name has the form of a feature of one value, so that the two would be confused."""
    return "=" in column or column.endswith("[word") or any(form.fullmatch(column) for form in (LETTER, FILLED))


def is_empty(cell: Any) -> bool:
    """Return whether a cell of numbers is empty: None, NaN, an empty text, or `nan` as programs write it.

    >>> is_empty("NaN"), is_empty(float("nan")), is_empty(0)
    (True, True, False)
    """
    return cell is None or cell != cell or (isinstance(cell, str) and cell.lower() in ("", "nan"))


def _value(row: Mapping[str, Any], column: str, letter: tuple[int, int] | None) -> str:
    if letter is None:
        with _of_column(column):
            return name_in(row.get(column))
    place, count = letter
    if len(text := _text(row, column)) != count:
        raise ValueError(f"{column} has {len(text)} letters, expected {count} as in training: align the text")
    return text[place - 1]


def _text(row: Mapping[str, Any], column: str) -> str:
    with _of_column(column):
        return text_in(row.get(column))


@contextmanager
def _of_column(column: str) -> Generator[None]:
    """Name the column in a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from error
