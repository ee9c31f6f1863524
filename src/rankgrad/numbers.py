"""Read numbers and dates in cells of tables, in inputs for a model, and in requests."""

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from rankgrad.plain_text import text_of_bytes

__all__ = [
    "ORDERS",
    "PLAIN",
    "Writing",
    "days_in",
    "exact",
    "number_at",
    "number_in",
    "orders_of",
    "vector_in",
    "writing_of",
    "writings_of",
]

EXAMPLES = {"YMD": "2026-11-30", "DMY": "30.11.2026", "MDY": "11/30/2026"}
ORDERS = (*EXAMPLES,)  # of year, month, and day in a date
DATE = re.compile(r"(\d{1,4})[-./](\d{1,2})[-./](\d{1,4})(?:[T ,]+(\d{1,2})(:.+))?", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Writing(NamedTuple):
    """How numbers and dates are written in text.

    Attributes:
        decimal: the decimal point or comma.
        thousands: the separator of thousands, such as `.` in 1.306; "" for none.
        dates: columns of dates, each with the order of year, month, and day.
    """

    decimal: str = "."
    thousands: str = ""
    dates: tuple[tuple[str, str], ...] = ()

    def order_of(self, column: Any) -> str | None:
        """Return the order of year, month, and day in a column of dates; None for any other column."""
        return dict(self.dates).get(column)


PLAIN = Writing()
WRITINGS = (
    PLAIN, Writing(","), Writing(",", "."), Writing(".", ","), Writing(",", " "), Writing(".", " "), Writing(".", "'"),
    Writing(",", "'"),
)  # fmt: skip


def writing_of(about: Mapping[str, Any]) -> Writing:
    """Return how numbers in text are written in a model's training table, from the `input` of its recipe."""
    return Writing(about.get("decimal", "."), about.get("thousands", ""), (*about.get("dates", {}).items(),))


@lru_cache
def _pattern(writing: Writing) -> re.Pattern[str]:
    decimal, digits = re.escape(writing.decimal), "[0-9]+"
    if writing.thousands:
        digits = rf"(?:[1-9][0-9]{{0,2}}(?:{_group(writing)}[0-9]{{3}})+|[0-9]+)"
    return re.compile(rf"[+-]?(?:{digits}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _group(writing: Writing) -> str:
    """Return the pattern of a thousands separator; a space matches non-breaking spaces too."""
    spelled = {" ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
    return spelled.get(writing.thousands, re.escape(writing.thousands))


def _written(text: str, writing: Writing) -> str:
    """Convert the text of a number to Python's notation.

    Raises:
        ValueError: the text is not a number.
    """
    text = text.strip()
    if not _pattern(writing).fullmatch(text):
        raise _no_number(text)
    if writing.thousands:
        text = re.sub(_group(writing), "", text)
    return text.replace(writing.decimal, ".")


def _no_number(cell: Any, expected: str = "a number") -> ValueError:
    found = "empty" if cell is None or cell == "" else reprlib.repr(cell)
    return ValueError(f"{found}, expected {expected}")


def number_in(cell: Any, writing: Writing = PLAIN) -> float:
    """Return the number in a cell: a numeric cell unchanged, text according to `writing`.

    Raises:
        ValueError: the cell has no number, or it is too large for float64; the message continues "x is".

    >>> number_in(" 1e3 "), number_in(7), number_in("-1.306,5", Writing(",", "."))
    (1000.0, 7.0, -1306.5)
    """
    cell = text_of_bytes(cell) if isinstance(cell, bytes) else cell
    try:
        return float(_written(cell, writing) if isinstance(cell, str) else cell)
    except (TypeError, OverflowError):  # OverflowError: a whole number of 400 digits
        raise _no_number(cell) from None


def days_in(cell: Any, order: str) -> float:
    """Return the days from 1970-01-01 (UTC) to the date in a cell; a time of day is a fraction.

    Text has year, month, and day in the given order, or begins with a year of four digits. A time may follow.

    Raises:
        ValueError: the cell has no such date; the message continues "x is".

    >>> days_in("1970-01-02 18:00", "YMD"), days_in("31.12.1969", "DMY"), days_in("1970-01-02T00:00:00+01:00", "DMY")
    (1.75, -1.0, 0.9583333333333334)
    """
    text = cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    if (date := DATE.fullmatch(text.strip())) is not None:
        letters = "YMD" if len(date[1]) == 4 else order
        year, month, day = (date[1 + letters.index(letter)] for letter in "YMD")
        with suppress(ValueError):
            moment = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{date[4] or '':0>2}{date[5] or ':00'}")
            return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) / timedelta(days=1)
    raise _no_number(cell, f"a date such as {EXAMPLES[order]}")


def orders_of(cells: Iterable[Any]) -> list[str]:
    """Return the orders of year, month, and day in which all cells are dates; keep the first that reads the same dates.

    >>> orders_of(["2026-11-30"]), orders_of(["30.11.2026", "1.2.2026"]), orders_of(["1.2.2026"])
    (['YMD'], ['DMY'], ['DMY', 'MDY'])
    """
    return _fitting(days_in, cells, ORDERS)


def number_at(row: Mapping[str, Any], column: str, writing: Writing) -> float:
    """Return the number in a column of a row, or the days in a column of dates.

    Raises:
        ValueError: see `number_in` and `days_in`; the message names the column.
    """
    order, cell = writing.order_of(column), row.get(column)
    try:
        return days_in(cell, order) if order else number_in(cell, writing)
    except ValueError as error:
        raise ValueError(f"{column} is {error}") from None


def exact(cell: Any, writing: Writing = PLAIN) -> Decimal:
    """Return the number in a cell with all its digits, see `number_in`."""
    cell = cell.item() if hasattr(cell, "item") else cell  # convert a NumPy number
    if isinstance(cell, float) and abs(cell) < 2.0**53:
        return Decimal(repr(cell))  # 0.1, as text and other formats have it
    return Decimal(_written(cell, writing) if isinstance(cell, str) else cell, Context(traps=[]))


def vector_in(cell: Any, writing: Writing = PLAIN) -> list[Any]:
    """Return the numbers of a vector as they are written, from a list or from text with or without brackets.

    Raises:
        ValueError: the cell is neither, a number is invalid, or numbers are left out, as when NumPy prints long
            vectors.

    >>> vector_in("[0.5, 1]"), vector_in("0,5 1", Writing(",")), vector_in([0.5, 1])
    (['0.5', '1'], ['0,5', '1'], [0.5, 1])
    """
    kind = getattr(getattr(cell, "dtype", None), "kind", "")  # of a NumPy array, which may hold dates
    text = cell.tolist() if kind and kind in "iufbO" else cell
    if isinstance(text, list):
        return text
    if not isinstance(text, str):
        raise ValueError(f"{str(cell)[:60]!r}, expected a list of numbers")
    if "..." in text or "\u2026" in text:
        raise ValueError(f"{reprlib.repr(text)}, a vector abbreviated with ..., expected all numbers")
    between = r"[\s;|]+" if writing.decimal == "," else r"[\s,;|]+"
    numbers = re.split(between, text.strip("[]() "))
    for number in numbers:
        _written(number, writing)
    return numbers


def writings_of(texts: Iterable[str]) -> list[Writing]:
    """Return the notations in which all these texts are numbers; keep the first of those that read the same numbers.

    >>> writings_of(["1,5", "2"]) == [Writing(",")], writings_of(["1.30", "353"]) == [PLAIN]
    (True, True)
    >>> writings_of(["1.306", "353"]) == [PLAIN, Writing(",", ".")]
    True
    """
    return _fitting(number_in, texts, WRITINGS)


def _fitting(read: Callable[[Any, Any], float], cells: Iterable[Any], notations: Iterable[Any]) -> list[Any]:
    """Return the notations in which all cells can be read; keep the first of those that give the same numbers."""
    cells, readings = list(cells), dict[tuple[float, ...], Any]()
    for notation in notations:
        with suppress(ValueError):
            readings.setdefault(tuple(read(cell, notation) for cell in cells), notation)
    return list(readings.values())
