"""Strangers' text, made plain: what looks the same becomes the same, in time linear in its length.

All text passes through here before anything compares, counts or tokenizes it: cells of tables, requests, names of
classes and features.
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

__all__ = [
    "LONGEST",
    "NAME",
    "check_name",
    "key_in",
    "name_in",
    "near_names",
    "parsed_json",
    "parts_in",
    "plain_name",
    "plain_text",
    "text_in",
    "text_of_bytes",
    "whole_text",
]

MARKS = 30  # combining characters in a row that are kept: Unicode's stream-safe text (UAX #15) has no more
NAME = 1000  # characters of a name: of a column, category, class, group or id
LONGEST = 2**20  # characters of a text
DIGITS = 1000  # of a whole number

FOREIGN = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS + 1},}}")  # no mark is a letter, a space or ASCII
ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; in other scripts a mark makes another letter
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))  # no reader sees a difference
WHOLE = re.compile(r"(-?\d+)\.0*", re.ASCII)
MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00(:00(\.0+)?)?", re.ASCII)
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
    r"""Return a name as `plain_text` does, with a space in place of any white space, without what nobody sees.

    Raises:
        ValueError: it is longer than a name.

    >>> plain_name("Anna\u00a0 Lee\u200b")
    'Anna Lee'
    """
    check_name(text)
    return " ".join(plain_text(text if text.isascii() else text.translate(INVISIBLE)).split())


def name_in(cell: Any) -> str:
    """Return the name in a cell, the same one from every format of files; "" for none.

    Names of groups, ids, labels, categories and splits all come from here.

    Raises:
        ValueError: it is longer than a name, or a list or an object.

    >>> name_in(7), name_in(7.0), name_in("7.0"), name_in("007"), name_in(None)
    ('7', '7', '7', '007', '')
    >>> name_in(True), name_in("true"), name_in("2026-01-31 00:00:00")
    ('True', 'True', '2026-01-31')
    """
    if not _is_list(cell) and (cell is None or cell != cell):  # NaN, and NaT, a missing time of pandas
        return ""
    text = plain_name(_text_of(cell))
    if text.lower() in ("true", "false"):
        return text.capitalize()
    shorter = WHOLE.fullmatch(text) or MIDNIGHT.fullmatch(text)
    return shorter[1] if shorter else text


def key_in(cell: Any) -> str:
    """Return the name in a cell, see `name_in`; of a text too long for one its beginning and its digest.

    Rows may share a text as well as a name: a prompt, a query.

    Raises:
        ValueError: it is a list or an object.

    >>> key_in(7.0), len(key_in("word " * 1000))
    ('7', 117)
    """
    if isinstance(cell, str) and len(cell) > NAME:
        text = " ".join(plain_text(cell).split())
        if len(text) > NAME:
            return f"{text[:100]} {sha256(text.encode()).hexdigest()[:16]}"
    return name_in(cell)


def near_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that differ only in upper case, in signs between letters, in accents, or as ä and ae do.

    >>> near_names(["cat", "Cat", "T-shirt", "t shirt", "poet", "pot"])
    [('Cat', 'cat'), ('T-shirt', 't shirt')]
    >>> near_names(["Müller", "Mueller", "cafe", "café", "Straße", "Strasse"])
    [('Mueller', 'Müller'), ('cafe', 'café'), ('Strasse', 'Straße')]
    """
    groups = defaultdict[str, set[str]](set)
    for name in names:
        plain = re.sub(r"[\s_-]+", " ", name.casefold())  # which makes ss of ß
        for spelling in (plain, plain.translate(UMLAUTS)):
            groups[ACCENTS.sub("", unicodedata.normalize("NFD", spelling))].add(name)
    near = [sorted(group) for group in groups.values() if len(group) > 1]
    return [*dict.fromkeys((first, second) for first, second, *_ in near)]


def text_in(cell: Any) -> str:
    """Return the text in a cell, see `plain_text`.

    Raises:
        ValueError: it is too long for a text, or a list or an object.
    """
    text = _text_of(cell)
    if len(text) > LONGEST:
        raise ValueError(f"{text[:20]!r}... of {len(text):,} characters, expected at most {LONGEST:,}")
    return plain_text(text)


def parts_in(cell: Any, separator: str) -> list[str]:
    """Return the parts of a cell: of a list, or of text that a separator joins.

    Raises:
        ValueError: it is neither.

    >>> parts_in("a | b", "|"), parts_in(["a"], "|")
    (['a', 'b'], ['a'])
    """
    if isinstance(cell, str):
        cell = cell.split(separator)
    elif not isinstance(cell, list) and getattr(cell, "ndim", 0) != 1:
        raise ValueError(f"{str(cell)[:60]!r}, expected text, or a list of it")
    return [str(part).strip() for part in cell]


def text_of_bytes(value: bytes) -> str:
    """Return bytes as UTF-8, or else as hexadecimal digits.

    Bytes with a 0 are numbers, not text: without this rule, those that begin like white space would become text.
    """
    try:
        return value.hex() if 0 in value else value.decode()
    except UnicodeDecodeError:
        return value.hex()


def _is_list(cell: Any) -> bool:
    return isinstance(cell, list | tuple | set | Mapping) or bool(getattr(cell, "ndim", 0))


def _text_of(cell: Any) -> str:
    if _is_list(cell):
        raise ValueError(f"{str(cell)[:60]}, expected text or a number")
    if isinstance(cell, bytes):
        return text_of_bytes(cell)
    if isinstance(cell, timedelta):
        return _duration(cell)
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _duration(cell: timedelta) -> str:
    """Return a duration as pandas writes it: training reads its `Timedelta`, and requests have Python's `timedelta`.

    >>> _duration(timedelta(seconds=1)), _duration(-timedelta(milliseconds=1))
    ('0 days 00:00:01', '-1 days +23:59:59.999000')
    """
    hours, seconds = divmod(cell.seconds, 3600)
    text = f"{cell.days} days {'+' if cell.days < 0 else ''}{hours:02}:{seconds // 60:02}:{seconds % 60:02}"
    nanoseconds = getattr(cell, "nanoseconds", 0)
    if cell.microseconds or nanoseconds:
        text += f".{cell.microseconds:06}" + (f"{nanoseconds:03}" if nanoseconds else "")
    return text


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
