"""Write values as JSON and text that every program can read: without NaN, dates, or bytes in JSON, as valid UTF-8."""

import json
import logging
import math
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rankgrad.plain_text import text_of_bytes

__all__ = ["as_json", "as_text", "encodable", "log_once", "printable", "without_formula"]

# Text that spreadsheets run as a formula, which may start programs; -5 and +4.5e3 are numbers.
FORMULA = re.compile(r"[\t\r\n]|\s*[=@]|\s*[+-](?=.)(?![\d.,]+(e[+-]?\d+)?\s*$)", re.IGNORECASE)
TURNS = frozenset("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # break or reverse lines


def encodable(text: str) -> str:
    r"""Return text that UTF-8 can hold: write invalid bytes of a file name, or half an emoji, as `\udcff`.

    >>> encodable("caf\udce9.png"), encodable("café.png")
    ('caf\\udce9.png', 'café.png')
    """
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    r"""Return text that is safe in a terminal or a log: control characters are escaped as in Python.

    >>> printable("a\x1b]0;owned\x07 b\n"), printable("naïve 👩‍🔬")
    ('a\\x1b]0;owned\\x07 b\\n', 'naïve 👩\u200d🔬')
    """
    if text.isprintable():
        return text
    return "".join(
        ascii(letter)[1:-1] if unicodedata.category(letter) in ("Cc", "Cs") or letter in TURNS else letter
        for letter in text
    )


@lru_cache(maxsize=100)
def log_once(line: str) -> None:
    """Log a warning once, even if a file is read several times, or several rows have the same reason."""
    logging.warning("%s", line)


def without_formula(text: str) -> str:
    """Return text that a spreadsheet shows but does not run: put a ' before text that begins like a formula.

    >>> without_formula("=cmd|'/C calc'!A0"), without_formula("-5"), without_formula("a=b")
    ("'=cmd|'/C calc'!A0", '-5', 'a=b')
    """
    return f"'{text}" if FORMULA.match(text) else text


def as_text(value: Any) -> str:
    r"""Return a value as text: whole numbers without a decimal point, bytes as UTF-8 if valid, else as hexadecimal.

    >>> as_text(7.0), as_text(0.1), as_text(b"ab"), as_text(b"\xff"), as_text(b"\x20\0")
    ('7', '0.1', 'ab', 'ff', '2000')
    """
    if isinstance(value, bytes):
        return text_of_bytes(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return encodable(str(value))


def as_json(value: Any, *, ascii: bool = True, **options: Any) -> str:
    r"""Return a value as JSON: null for numbers that are not finite, text for other types, such as dates.

    Args:
        value: mappings, lists, numbers, and text, or anything that `str` converts.
        ascii: escape all letters outside ASCII; if False, only those that UTF-8 cannot hold.
        options: options of `json.dumps`.

    >>> as_json({"value": float("nan"), "seeds": {"1": 0.5}})
    '{"value": null, "seeds": {"1": 0.5}}'
    >>> as_json("caf\udce9", ascii=False)
    '"caf\\udce9"'
    """
    return encodable(json.dumps(_plain(value), ensure_ascii=ascii, allow_nan=False, **options))


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's; the core does not import NumPy
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else as_text(value)
