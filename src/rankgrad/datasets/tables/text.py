"""Read text tables: CSV, TSV, and JSON Lines."""

import codecs
import csv
import math
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd

from rankgrad.io.written import as_text, log_once
from rankgrad.plain_text import LONGEST, emptied, parsed_json, whole_text

__all__ = ["cells_of", "delimited_rows", "json_rows", "number_of_json", "text_header"]

ENCODINGS = ("cp1252", "cp1250", "cp932", "gb18030")  # of Western and Central Europe, Japan, and China
FOREIGN = re.compile(r"\w*[^\x00-\x7f][^\s,;|]*")  # a word with a character that is not ASCII
SHOWN = 3  # such words in a message
csv.field_size_limit(LONGEST)  # Python's default is an eighth of this


def cells_of(values: Iterable[Any], empty: Collection[str]) -> pd.Series:
    """Return cells with text stripped and bytes decoded; None for missing and empty ones, and for texts in `empty`."""
    texts = (as_text(cell) if isinstance(cell, bytes) else cell for cell in values)
    stripped = ((whole_text(cell).strip() or None) if isinstance(cell, str) else cell for cell in texts)
    return pd.Series([emptied(cell, empty) for cell in stripped], dtype=object)


def _codec(encoding: str) -> str:
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _not_encoded(path: Path, encoding: str) -> ValueError:
    """Return the error for a file in another encoding, with the first byte that shows it, and how others read it."""
    contents = path.read_bytes()
    if contents.startswith(b"PK\x03\x04"):
        return ValueError(f"{path}: a ZIP file or an Excel workbook, expected text; export it as CSV in UTF-8")
    line = "row 1"
    try:
        contents.decode(_codec(encoding))
    except UnicodeDecodeError as error:
        line = contents[: error.start].count(b"\n") + 1
        line = f"line {line}: byte 0x{contents[error.start : error.start + 1].hex()}"
    readings: dict[str, str] = {}
    for other in _encodings_of(contents):
        with suppress(UnicodeError):
            text = contents.decode(other)
            words = [*dict.fromkeys(FOREIGN.findall(text[:LONGEST]))][:SHOWN] or [text]
            readings.setdefault(text, f"`--encoding {other}` reads {' '.join(words)[:40]!r}")
    return ValueError(
        f"{path}: {line}: not text in {encoding}; save the file as UTF-8, or name its encoding: "
        f"{', '.join(readings.values()) or '`--encoding NAME`'}; of a dataset in the params, it is `encoding: NAME`"
    )


def _encodings_of(contents: bytes) -> Sequence[str]:
    """Return encodings that a file may have, the most frequent first."""
    if 0 not in contents:
        return ENCODINGS
    if contents[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return ("utf-16",)
    return ("utf-16-le",) if contents[1::2].count(0) > contents[::2].count(0) else ("utf-16-be",)


def _check_not_utf8(path: Path, encoding: str) -> None:
    """Raise ValueError if a file is UTF-8, but is read in an encoding that takes any bytes, such as cp1252."""
    with path.open("rb") as file:
        is_marked = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
    sign, codec = None, codecs.lookup(encoding).name
    if is_marked and codec != "utf-8-sig":
        sign = "its byte order mark"
    elif codec.startswith(("cp125", "iso8859")):
        sign = _first_foreign_word(path, path.stat().st_mtime_ns)
    if sign is not None:
        raise ValueError(
            f"{path}: is UTF-8, as {sign[:40]} shows, not text in {encoding}; expected `--encoding utf-8` of a "
            "command, `encoding: utf-8` of a dataset in the params"
        )


@lru_cache
def _first_foreign_word(path: Path, changed: int) -> str | None:
    """Return the first word of a UTF-8 file that is not ASCII; None if there is none, or the file is not UTF-8.

    A table is opened several times, so the answer is kept until the file has `changed`.
    """
    word = None
    with suppress(UnicodeDecodeError), path.open(encoding="utf-8") as file:
        for text in iter(lambda: file.read(LONGEST), ""):
            match = FOREIGN.search(text) if word is None else None
            if match is not None:
                word = match[0]
        return word
    return None


@contextmanager
def _opened(path: Path, encoding: str) -> Generator[TextIO]:
    """Open a text file; raise ValueError if it is in another encoding."""
    try:
        file = path.open(encoding=_codec(encoding), newline="")
    except LookupError as error:
        raise ValueError(f"{path}: `encoding: {encoding}` is unknown to Python; expected utf-8, cp1252, ...") from error
    try:
        with file:
            _check_not_utf8(path, file.encoding)
            yield file
    except UnicodeError as error:
        raise _not_encoded(path, encoding) from error


class Header(NamedTuple):
    """The column names of a CSV, its delimiter, and how many lines precede the header."""

    names: list[str]
    separator: str
    lines: int


def text_header(path: Path, encoding: str, *, tabs: bool) -> Header:
    """Return the header of a CSV; its delimiter is the one that splits it into the most cells.

    A first line such as `sep=;`, which Excel writes, and comments are skipped: lines that begin with `#`, unless the
    last of them has as many cells as the line below it.
    """
    with _opened(path, encoding) as file:
        start = file.read(LONGEST)
    if "\0" in start:
        raise _not_encoded(path, encoding)
    separators = "\t" if tabs else ",;\t|"
    if re.match(r"sep=.\r?\n", start):
        return _cut(path, start.partition("\n")[2], separators)._replace(lines=1)
    comment, below, lines = "", start, 0
    while below.startswith("#"):
        comment, below, lines = below, below.partition("\n")[2], lines + 1
    first_line = below.partition("\n")[0]
    if tabs and "\t" not in first_line and any(separator in first_line for separator in ",;|"):
        raise ValueError(f"{path}: the first line, {first_line[:60]!r}, has no tab; rename the file to .csv")
    header = _cut(path, below, separators)
    if lines and len(header.names) > 1:
        last = _cut(path, comment, separators)
        is_header = (last.separator, len(last.names)) == (header.separator, len(header.names))
        return last._replace(lines=lines - 1) if is_header else header._replace(lines=lines)
    if not start.strip():
        raise ValueError(f"{path}: the file is empty, expected the names of the columns and rows")
    first = _cut(path, start, separators)
    named = [name for name in first.names if name]
    if not named or (len(named) == 1 and len(first.names) > 2):  # the row numbers of pandas have no name
        problem = f"has one name, {named[0][:30]!r}, and {len(first.names)} cells" if named else "is empty"
        raise ValueError(
            f"{path}: the first line {problem}, expected the names of the columns; remove the lines above these names"
        )
    return first


def _cut(path: Path, start: str, separators: str) -> Header:
    try:
        headers = []
        for separator in separators:
            names = next(csv.reader(StringIO(start, newline=""), delimiter=separator), [])
            headers.append(Header(names, separator, 0))
    except csv.Error as error:
        raise ValueError(f"{path}: the first line is not valid CSV ({error}); expected the column names") from error
    header = max(headers, key=lambda header: len(header.names))
    return header._replace(names=[name.strip() for name in header.names])


def delimited_rows(path: Path, columns: Sequence[str], *, encoding: str, tabs: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row from 1 on, and its cells in some columns of a CSV or TSV.

    Raises:
        ValueError: a row has another number of cells than the header, or is not valid CSV.
    """
    header, number, blank = text_header(path, encoding, tabs=tabs), 0, 0
    position_of = {name: position for position, name in enumerate(header.names)}
    positions = [position_of[name] for name in columns]
    with _opened(path, encoding) as file:
        for _ in range(header.lines):
            file.readline()
        reader = csv.reader(file, delimiter=header.separator, strict=True)
        try:
            next(reader)
            for number, row in enumerate(filter(None, reader), 1):  # an empty line is no row
                if not any(map(str.strip, row)):  # spreadsheets write lines such as `;;;`
                    blank += 1
                    continue
                if len(row) != len(header.names):
                    raise ValueError(
                        f"{path}: row {number} (line {reader.line_num + header.lines}) has {len(row)} cells, expected "
                        f"{len(header.names)} as in the header, separated by {header.separator!r}; correct the row, "
                        f"and put quotes around a cell that contains {header.separator!r}"
                        + ("; if the first line is a title, remove it" if len(header.names) == 1 else "")
                    )
                yield number, [row[position] for position in positions]
        except csv.Error as error:
            raise ValueError(
                f"{path}: row {number + 1} (line {reader.line_num + header.lines}): {error}; expected closed quotes "
                f"around a cell, doubled quotes within it, and at most {LONGEST:,} characters"
            ) from error
    if blank:
        log_once(f"{path}: {blank} blank rows left out")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key occurs twice")
    return row


def number_of_json(text: str) -> float | Decimal:
    """Return a JSON number with a decimal point: a float, or a Decimal if float64 could make it equal another number.

    Below 2^53, those are numbers with more digits than a float64 prints, such as time stamps with nanoseconds.
    """
    value = float(text)
    if (repr(value) == text and abs(value) < 2.0**53) or math.isinf(value):
        return value
    written = Decimal(text)
    exact = [Decimal(value)] if abs(value) >= 2.0**53 else [Decimal(repr(value)), Decimal(f"{value:.17g}")]
    return value if written in exact else written


def json_rows(path: Path, encoding: str, **how: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row of JSON Lines from 1 on, and its object, read with options of `json.loads`.

    Blank lines are no rows; rows without a value are skipped.
    """
    blank = 0
    with _opened(path, encoding) as file:
        for number, line in enumerate(filter(str.strip, file), 1):
            try:
                row = parsed_json(line, object_pairs_hook=_unique_keys, **how)
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}: row {number}: not JSON ({str(error)[:100]}); expected one object per line, which pandas "
                    'writes with `table.to_json(FILE, orient="records", lines=True)`'
                ) from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}: row {number}: {str(row)[:80]}, expected an object with columns as keys")
            if all(cell is None or cell == "" for cell in row.values()):
                blank += 1
                continue
            yield number, row
    if blank:
        log_once(f"{path}: {blank} blank rows left out")
