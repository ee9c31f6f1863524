"""Read numbers in cells of tables, in inputs for a model, and in requests."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from rankgrad.plain_text import text_of_bytes

__all__ = ["PLAIN", "Writing", "exact", "number_in", "vector_in", "writing_of", "writings_of"]


class Writing(NamedTuple):
    """How numbers are written in text.

    Attributes:
        decimal: the decimal point or comma.
        thousands: the separator of thousands, such as `.` in 1.306; "" for none.
    """

    decimal: str = "."
    thousands: str = ""


PLAIN = Writing()
WRITINGS = (
    PLAIN, Writing(","), Writing(",", "."), Writing(".", ","), Writing(",", " "), Writing(".", " "), Writing(".", "'"),
    Writing(",", "'"),
)  # fmt: skip


def writing_of(about: Mapping[str, Any]) -> Writing:
    """Return how numbers in text are written in a model's training table, from the `input` of its recipe."""
    return Writing(about.get("decimal", "."), about.get("thousands", ""))


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


def _no_number(cell: Any) -> ValueError:
    found = "empty" if cell is None or cell == "" else reprlib.repr(cell)
    return ValueError(f"{found}, expected a number")


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
    texts, numbers = list(texts), dict[tuple[float, ...], Writing]()
    for writing in WRITINGS:
        try:
            numbers.setdefault(tuple(number_in(text, writing) for text in texts), writing)
        except ValueError:
            continue
    return list(numbers.values())
