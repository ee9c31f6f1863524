"""Text of strangers, made plain: what looks the same is the same, and the work grows with its length alone.

All text passes through here before anything compares, counts or tokenizes it: cells of tables, requests, names of
classes and features.
"""

import json
import re
import unicodedata
from typing import Any

__all__ = ["LONGEST", "NAME", "check_name", "parsed_json", "plain_name", "plain_text", "whole_text"]

MARKS = 30  # combining characters in a row that are kept: Unicode's stream-safe text (UAX #15) has no more
NAME = 1000  # characters of a name: of a column, category, class, group or id
LONGEST = 2**20  # characters of a text
DIGITS = 1000  # of a whole number

FOREIGN = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS + 1},}}")  # no mark is a letter, a space or ASCII
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a character beyond 16 bits, as JSON may write it


def plain_text(text: str) -> str:
    r"""Return text without white space around it, its accents composed; keyboards write them in several ways.

    Of a run of combining characters the first 30 stay. No language has more, and to put n of them in order takes n²
    steps. To refuse them would end a data set for one decorated comment.

    >>> plain_text(" cafe\u0301 ") == "caf\u00e9", len(plain_text("a" + 50_000 * "\u0327"))
    (True, 31)
    """
    text = whole_text(text).strip()
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", FOREIGN.sub(_with_few_marks, text))
    return FOREIGN.sub(_with_few_marks, composed)  # a few marks are composed of two


def _with_few_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run[0]:
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        if marks <= MARKS:
            kept.append(character)
    return "".join(kept)


def whole_text(text: str) -> str:
    r"""Return text with U+FFFD in place of half a character, as an emoji that was cut leaves; no file can hold it.

    >>> whole_text("cut \ud83d") == "cut \ufffd", whole_text("\ud83d\ude00") == "\U0001f600"
    (True, True)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def plain_name(text: str) -> str:
    r"""Return a name as `plain_text` does, with a space in place of any white space.

    Raises:
        ValueError: it is longer than a name.

    >>> plain_name("Anna\u00a0 Lee")
    'Anna Lee'
    """
    check_name(text)
    return " ".join(plain_text(text).split())


def check_name(name: str) -> None:
    """Raise a ValueError if a name is too long for one."""
    if len(name) > NAME:
        raise ValueError(f"{name[:20]!r}... has {len(name):,} characters, expected a name of at most {NAME:,}")


def parsed_json(text: str, **how: Any) -> Any:
    """Return what JSON says, its texts whole, see `whole_text`.

    Args:
        text: JSON.
        how: see `json.loads`.

    Raises:
        ValueError: it is none, or has a number of more than 1,000 digits.
        RecursionError: too many brackets.
    """
    value = json.loads(text, parse_int=_whole_number, **how)
    if HALF.search(text):
        text = whole_text(json.dumps(value, ensure_ascii=False, default=str))  # of decimals, see `how`
        value = json.loads(text, parse_int=_whole_number, **how)
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits, expected at most {DIGITS:,}")
    return int(digits)
