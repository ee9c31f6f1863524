"""Normalize untrusted text, so that equal-looking text becomes equal, in time linear in its length.

All text is normalized here before it is compared, counted, or tokenized: cells of tables, requests, and names of
classes and features.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from numbers import Number
from typing import Any

__all__ = [
    "LONGEST",
    "NAME",
    "PAIR",
    "check_name",
    "emptied",
    "emptied_numbers",
    "is_word",
    "key_in",
    "name_in",
    "parsed_json",
    "parts_in",
    "plain_name",
    "plain_text",
    "spelled_alike",
    "text_in",
    "text_of_bytes",
    "tokens_of",
    "whole_text",
    "words_of",
]

MARKS = 30  # longest run of combining characters to keep: the limit of Unicode's stream-safe text (UAX #15)
NAME = 1000  # characters in the name of a column, category, class, group, or id
LONGEST = 2**20  # characters of a text
DIGITS = 1000  # digits of a whole number
PAIR = "\x1e"  # ASCII's record separator, a word that separates the two texts of a pair

FOREIGN = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS + 1},}}")  # a combining mark is never a letter, a space, or ASCII
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))  # invisible characters
WHOLE = re.compile(r"(-?\d+)\.0*", re.ASCII)
ROUND = re.compile(r"(-?\d+)\.0{1,2}", re.ASCII)  # 1.000 may be a thousand
MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00(:00(\.0+)?)?", re.ASCII)
# Thai, Lao, Burmese, Khmer, Japanese, Chinese: each character is a word.
SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# Vowels and accents, which `\w` lacks: of Latin, Hebrew, Arabic, and the scripts of India.
SIGNS = r"\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
JOINERS = INVISIBLE | dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f\ufe0e\ufe0f"))  # parts of words and of emoji
APOSTROPHES = r"'\u2019"  # they separate words, as an underscore does
WORDS = re.compile(rf"[{SPACELESS}]|(?:[^\W_{SPACELESS}]|[{SIGNS}])+|{PAIR}")
PUNCTUATION = (
    rf"[!-&(-/:-@\[-^`{{-~]+|[^\w\s\x00-\x7f{APOSTROPHES}{SPACELESS}{SIGNS}]"  # a run such as :), or one emoji
)
TOKENS = re.compile(f"{WORDS.pattern}|{PUNCTUATION}")
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
    if _is_missing(cell):
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


def text_in(cell: Any) -> str:
    """Return the text in a cell, see `plain_text`; "" for an empty cell.

    Raises:
        ValueError: the text is too long, or the cell is a list or an object.
    """
    text = "" if _is_missing(cell) else _text_of(cell)
    if len(text) > LONGEST:
        raise ValueError(f"{text[:20]!r}... with {len(text):,} characters, expected at most {LONGEST:,}")
    return plain_text(text)


def words_of(text: str) -> list[str]:
    """Split a text into lowercase words without punctuation.

    >>> words_of("The dog's toy!!! :)")
    ['the', 'dog', 's', 'toy']
    """
    return WORDS.findall(_visible(text))


def tokens_of(text: str) -> list[str]:
    """Split a text into lowercase words and punctuation marks, which often tell how it is meant.

    >>> tokens_of("The dog's toy!!! :)")
    ['the', 'dog', 's', 'toy', '!!!', ':)']
    """
    return TOKENS.findall(_visible(text))


def _visible(text: str) -> str:
    lower = text.lower()
    return plain_text(lower if lower.isascii() else lower.translate(JOINERS))  # a separate accent would split a word


def is_word(token: str) -> bool:
    """Return whether a token is a word, not a punctuation mark.

    >>> is_word("toy"), is_word("!!!")
    (True, False)
    """
    return WORDS.match(token) is not None


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
    """Return a cell; None if it is one of the texts that stand for a missing value, such as `n/a`, or their number.

    >>> emptied(" n/a ", ["n/a"]), emptied(-999, ["-999"]), emptied("-999.0", ["-999"]), emptied(True, ["1"])
    (None, None, None, True)
    >>> emptied("007", ["7"]), emptied("1.000", ["1"])
    ('007', '1.000')
    """
    if not empty:
        return cell
    if isinstance(cell, str):
        text = cell.strip()
        whole = ROUND.fullmatch(text) if text.endswith("0") else None
        return None if text in empty or (whole is not None and whole[1] in empty) else cell
    is_number = isinstance(cell, Number) and not isinstance(cell, bool)
    return None if is_number and cell in emptied_numbers((*empty,)) else cell


@lru_cache
def emptied_numbers(empty: tuple[str, ...]) -> frozenset[float]:
    """Return the numbers among the texts that stand for a missing value, such as -999."""
    numbers = set[float]()
    for text in empty:
        with suppress(ValueError):
            numbers.add(float(text))
    return frozenset(numbers)


def text_of_bytes(value: bytes) -> str:
    """Decode bytes as UTF-8, or else as hexadecimal digits.

    Bytes that contain 0 are treated as numbers; otherwise, some of them would be decoded as text with white space.
    """
    try:
        return value.hex() if 0 in value else value.decode()
    except UnicodeDecodeError:
        return value.hex()


def _is_missing(cell: Any) -> bool:
    return not _is_list(cell) and (cell is None or cell != cell)  # NaN, or NaT, a missing time in pandas


def _is_list(cell: Any) -> bool:
    return isinstance(cell, list | tuple | set | Mapping) or bool(getattr(cell, "ndim", 0))


def _text_of(cell: Any) -> str:
    if _is_list(cell):
        raise ValueError(f"{str(cell)[:60]}, expected text or a number")
    if isinstance(cell, bytes):
        return text_of_bytes(cell)
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


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
