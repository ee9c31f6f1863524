"""What features are called, and how they follow from a row.

The name of a feature says what it is of a row: `km` the number in this column; `brand=bmw` whether the column has this
value, 0 or 1; `sequence[39/56]=A` whether this letter stands at this place of the column's 56 letters.
"""

import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from rankgrad.io.written import as_text
from rankgrad.plain_text import plain_name, plain_text

__all__ = ["LETTER", "columns_of", "has_point", "letters_in", "named", "number_in", "numbers_of", "plain", "with_point"]

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
LETTER = re.compile(r"(.+)\[(\d+)/(\d+)\]", re.DOTALL)  # column, place from 1 on, and how many there are
Letter = tuple[int, int] | None


def plain(cell: Any) -> str:
    """Return the name in a cell, see `rankgrad.plain_text.plain_name`.

    Raises:
        ValueError: it is longer than a name.

    >>> plain(2.0), plain(" bmw")
    ('2', 'bmw')
    """
    return plain_name(_text_of(cell))


def letters_in(cell: Any) -> str:
    """Return the letters in a cell, each at its place."""
    return plain_text(_text_of(cell))


def _text_of(cell: Any) -> str:
    cell = _duration(cell) if isinstance(cell, timedelta) else as_text(cell) if isinstance(cell, bytes) else cell
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _duration(cell: timedelta) -> str:
    """Return a duration as pandas writes it: training reads its `Timedelta`, and predictions Python's `timedelta`.

    >>> _duration(timedelta(seconds=1)), _duration(-timedelta(milliseconds=1))
    ('0 days 00:00:01', '-1 days +23:59:59.999000')
    """
    hours, seconds = divmod(cell.seconds, 3600)
    text = f"{cell.days} days {'+' if cell.days < 0 else ''}{hours:02}:{seconds // 60:02}:{seconds % 60:02}"
    nanoseconds = getattr(cell, "nanoseconds", 0)
    if cell.microseconds or nanoseconds:
        text += f".{cell.microseconds:06}" + (f"{nanoseconds:03}" if nanoseconds else "")
    return text


def named(cell: Any) -> str:
    """Return the name in a cell, alike in all formats of files; "" for none.

    Raises:
        ValueError: it is longer than a name, or a list or an object.

    >>> named(True), named("true"), named(2), named("2.0"), named(None)
    ('True', 'True', '2', '2', '')
    """
    if isinstance(cell, list | Mapping):
        raise ValueError(f"{str(cell)[:60]}, expected text or a number")
    if cell is None or cell != cell:  # NaN, and a time that is missing, of which pandas makes NaT
        return ""
    text = plain(cell)
    if text.lower() in ("true", "false"):
        return text.capitalize()
    return text.partition(".")[0] if re.fullmatch(r"-?\d+\.0+", text) else text


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that features are made of, each once.

    >>> columns_of(["km", "brand=bmw", "brand=vw", "sequence[1/3]=A", "sequence[3/3]=C"])
    ['km', 'brand', 'sequence']
    """
    return list(dict.fromkeys(column for column, _ in _asked(tuple(names))))


def with_point(cell: Any) -> Any:
    """Return the text of a number with a decimal comma with a point in its place; any other cell as it is.

    >>> with_point("-1,5"), with_point("1,2,3"), with_point(7)
    ('-1.5', '1,2,3', 7)
    """
    return cell.replace(",", ".") if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell) else cell


def has_point(cell: Any) -> bool:
    """Return whether a cell is text with a point, which among decimal commas may part thousands: 1.234 may be 1,234."""
    return isinstance(cell, str) and "." in cell


def number_in(cell: Any, name: str) -> float:
    """Return the number in a cell.

    Raises:
        ValueError: there is none; the message begins with the name.
    """
    try:
        text = as_text(cell) if isinstance(cell, bytes) else cell
        if isinstance(text, str) and ("_" in text or not text.strip().isascii()):
            raise ValueError("Python reads these, tables of training do not")
        return float(text)
    except (TypeError, ValueError, OverflowError):  # the last of a whole number of 400 digits
        shown = "empty" if cell is None or cell == "" else reprlib.repr(cell)
        raise ValueError(f"{name} is {shown}, expected a number") from None


def numbers_of(
    row: Mapping[str, Any], names: Sequence[str], *, unknown: Callable[[str, str], object] | None = None
) -> list[float]:
    """Return the features of a row by its columns' names.

    A value that no feature is named by is none of them, and so is an empty cell of names.

    Args:
        row: cells by column.
        names: of the features.
        unknown: is told of each value that no feature is named by: the column and the value.

    Raises:
        ValueError: a number is missing or none, or a text has another number of letters.

    >>> names = ["km", "brand=bmw", "brand=vw", "sequence[3/3]=D"]
    >>> numbers_of({"km": 7, "brand": "vw", "sequence": "ACD"}, names)
    [7.0, 0.0, 1.0, 1.0]
    >>> numbers_of({"km": 7, "brand": "lada", "sequence": "ACD"}, names, unknown=print)
    brand lada
    [7.0, 0.0, 0.0, 1.0]
    """
    numbers = [0.0] * len(names)
    for (column, letter), places in _asked(tuple(names)).items():
        if None in places:
            numbers[places[None]] = number_in(row.get(column), column)
        elif (place := places.get(value := _value(row, column, letter))) is not None:
            numbers[place] = 1.0
        elif value and unknown:
            unknown(column, value)
        for known, place in places.items():
            if known is not None and names[place] in row:  # a number whose column's own name has a `=`
                numbers[place] = number_in(row[names[place]], names[place])
    return numbers


@lru_cache(maxsize=16)
def _asked(names: tuple[str, ...]) -> dict[tuple[str, Letter], dict[str | None, int]]:
    """Return the columns of features, with the place of a letter, and where which value counts: None for any number."""
    asked: dict[tuple[str, Letter], dict[str | None, int]] = {}
    for place, name in enumerate(names):
        column, found, value = name.partition("=")
        letter = LETTER.fullmatch(column) if found else None
        key = (letter[1], (int(letter[2]), int(letter[3]))) if letter else (column, None)
        asked.setdefault(key, {})[_as_in_cells(value, letter) if found else None] = place
    return asked


def _as_in_cells(value: str, letter: re.Match[str] | None) -> str:
    """Return a value as rows have it: models of an earlier version have names with white space as it was."""
    return value if letter else plain(value)


def _value(row: Mapping[str, Any], column: str, letter: Letter) -> str:
    if letter is None:
        try:
            return named(row.get(column))
        except ValueError as error:
            raise ValueError(f"{column}: {error}") from error
    place, count = letter
    cell = row.get(column)
    if len(text := letters_in("" if cell is None else cell)) != count:
        raise ValueError(f"{column} has {len(text)} letters, expected {count} as in training: align it")
    return text[place - 1]
