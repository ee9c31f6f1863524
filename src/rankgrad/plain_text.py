"""Normalize untrusted text, so that equal-looking text becomes equal, in time linear in its length.

All text is normalized here before it is compared, counted, or tokenized: cells of tables, requests, and names of
classes and features.
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

__all__ = [
    "LONGEST",
    "NAME",
    "check_name",
    "emptied",
    "key_in",
    "name_in",
    "near_names",
    "parsed_json",
    "parts_in",
    "plain_name",
    "plain_text",
    "spelled_alike",
    "text_in",
    "text_of_bytes",
    "typos_in",
    "whole_text",
]

MARKS = 30  # longest run of combining characters to keep: the limit of Unicode's stream-safe text (UAX #15)
NAME = 1000  # characters in the name of a column, category, class, group, or id
LONGEST = 2**20  # characters of a text
DIGITS = 1000  # digits of a whole number
LETTERS, WORD, COMPARED = 5, 60, 10_000  # fewest letters and most characters of a name with a typo; most names
RARE, TYPED = 2, 10  # a typo is in so few rows, and the right name in so many times as many

FOREIGN = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS + 1},}}")  # a combining mark is never a letter, a space, or ASCII
ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek, and Cyrillic; in other scripts, a mark makes another letter
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))  # invisible characters
WHOLE = re.compile(r"(-?\d+)\.0*", re.ASCII)
MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00(:00(\.0+)?)?", re.ASCII)
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character beyond 16 bits, as in JSON


def plain_text(text: str) -> str:
    r"""Strip white space and compose accents, which keyboards write in several ways.

    Keep the first 30 combining characters of a run. No language uses more, and sorting n of them takes n² steps.
    Raising an error instead would reject a whole dataset because of one decorated comment.

    >>> plain_text(" cafe\u0301 ") == "caf\u00e9", len(plain_text("a" + 50_000 * "\u0327"))
    (True, 31)
    """
    text = whole_text(text).strip()
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", FOREIGN.sub(_with_few_marks, text))
    return FOREIGN.sub(_with_few_marks, composed)  # composing can turn one mark into two


def _with_few_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run[0]:
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        if marks <= MARKS:
            kept.append(character)
    return "".join(kept)


def whole_text(text: str) -> str:
    r"""Replace half a character, such as half an emoji after truncation, with U+FFFD; files cannot store it.

    >>> whole_text("cut \ud83d") == "cut \ufffd", whole_text("\ud83d\ude00") == "\U0001f600"
    (True, True)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def plain_name(text: str) -> str:
    r"""Normalize a name as `plain_text` does, turn white space into single spaces, and remove invisible characters.

    Raises:
        ValueError: the name is too long.

    >>> plain_name("Anna\u00a0 Lee\u200b")
    'Anna Lee'
    """
    check_name(text)
    return " ".join(plain_text(text if text.isascii() else text.translate(INVISIBLE)).split())


def name_in(cell: Any) -> str:
    """Return the name in a cell, which is the same for every file format; "" for an empty cell.

    Used for the names of groups, ids, labels, categories, and splits.

    Raises:
        ValueError: the name is too long, or the cell is a list or an object.

    >>> name_in(7), name_in(7.0), name_in("7.0"), name_in("007"), name_in(None)
    ('7', '7', '7', '007', '')
    >>> name_in(True), name_in("true"), name_in("2026-01-31 00:00:00")
    ('True', 'True', '2026-01-31')
    """
    if not _is_list(cell) and (cell is None or cell != cell):  # NaN, or NaT, a missing time in pandas
        return ""
    text = plain_name(_text_of(cell))
    if text.lower() in ("true", "false"):
        return text.capitalize()
    shorter = WHOLE.fullmatch(text) or MIDNIGHT.fullmatch(text)
    return shorter[1] if shorter else text


def key_in(cell: Any) -> str:
    """Return the name in a cell, see `name_in`; for text that is too long, return its beginning and its digest.

    Rows may belong together by a long text, such as a prompt or a query.

    Raises:
        ValueError: the cell is a list or an object.

    >>> key_in(7.0), len(key_in("word " * 1000))
    ('7', 117)
    """
    if isinstance(cell, str) and len(cell) > NAME:
        text = " ".join(plain_text(cell).split())
        if len(text) > NAME:
            return f"{text[:100]} {sha256(text.encode()).hexdigest()[:16]}"
    return name_in(cell)


def spelled_alike(text: str) -> str:
    """Return a text in lower case without repeated spaces.

    >>> spelled_alike("A  Lamp")
    'a lamp'
    """
    return " ".join(text.casefold().split())


def near_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that differ only in case, characters between words, accents, or ä and ae.

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


def typos_in(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of a rare name and a frequent one from which it differs by one character that is no digit.

    Pairs that `near_names` returns are left out. Of more than 10,000 names, such as ids, none is compared.

    Args:
        counts: in how many rows each name occurs.

    >>> typos_in({"Berlin": 20, "Berlln": 2, "Merlin": 9, "house 12": 90, "house 1": 1, "modell": 1, "model": 10})
    [('Berlln', 'Berlin'), ('modell', 'model')]
    """
    words = [name for name in counts if len(name) <= WORD and sum(map(str.isalpha, name)) >= LETTERS]
    words = sorted(words, key=counts.__getitem__, reverse=True) if len(counts) <= COMPARED else []
    frequent: dict[str, str] = {}
    for name in words:
        if counts[name] >= TYPED:
            for spelling in _blanked(name):
                frequent.setdefault(spelling, name)
    typos, rare = [], [name for name in words if counts[name] <= RARE]
    for name in rare:
        near = {frequent[spelling] for spelling in _blanked(name) if spelling in frequent}
        for other in sorted(near):
            is_frequent = counts[other] >= TYPED * counts[name]
            if is_frequent and _digits(name) == _digits(other) and not near_names([name, other]):
                typos.append((name, other))
    return typos


def _digits(name: str) -> list[str]:
    return [*filter(str.isdigit, name)]


def _blanked(name: str) -> list[str]:
    """Return a name with a blank for, or before, each character; names that one edit makes equal share one."""
    replaced = [f"{name[:index]}\0{name[index + 1 :]}" for index in range(len(name))]
    return replaced + [f"{name[:index]}\0{name[index:]}" for index in range(len(name) + 1)]


def text_in(cell: Any) -> str:
    """Return the text in a cell, see `plain_text`.

    Raises:
        ValueError: the text is too long, or the cell is a list or an object.
    """
    text = _text_of(cell)
    if len(text) > LONGEST:
        raise ValueError(f"{text[:20]!r}... with {len(text):,} characters, expected at most {LONGEST:,}")
    return plain_text(text)


def parts_in(cell: Any, separator: str) -> list[str]:
    """Return the parts of a cell, from a list or from text with a separator.

    Raises:
        ValueError: the cell is neither.

    >>> parts_in("a | b", "|"), parts_in(["a", None], "|")
    (['a', 'b'], ['a'])
    """
    if isinstance(cell, str):
        cell = cell.split(separator)
    elif not isinstance(cell, list) and getattr(cell, "ndim", 0) != 1:
        raise ValueError(f"{str(cell)[:60]!r}, expected text, or a list of texts")
    return [str(part).strip() for part in cell if part is not None]


def emptied(cell: Any, empty: Collection[str]) -> Any:
    """Return a cell; None if it is one of the texts that stand for a missing value, such as `n/a`."""
    return None if isinstance(cell, str) and cell.strip() in empty else cell


def text_of_bytes(value: bytes) -> str:
    """Decode bytes as UTF-8, or else as hexadecimal digits.

    Bytes that contain 0 are treated as numbers; otherwise, some of them would be decoded as text with white space.
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
    """Return a duration in the notation of pandas, so that a request's `timedelta` equals training's `Timedelta`.

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
    """Raise a ValueError if a name is too long."""
    if len(name) > NAME:
        raise ValueError(f"{name[:20]!r}... has {len(name):,} characters, expected a name of at most {NAME:,}")


def parsed_json(text: str, **how: Any) -> Any:
    """Parse JSON and repair its texts, see `whole_text`.

    Args:
        text: JSON.
        how: options of `json.loads`.

    Raises:
        ValueError: the text is not JSON, or has a number with more than 1,000 digits.
        RecursionError: brackets are nested too deep.
    """
    value = json.loads(text, parse_int=_whole_number, **how)
    if HALF.search(text):
        text = whole_text(json.dumps(value, ensure_ascii=False, default=str))  # `default` converts decimals, see `how`
        value = json.loads(text, parse_int=_whole_number, **how)
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number with {len(digits):,} digits, expected at most {DIGITS:,}")
    return int(digits)
