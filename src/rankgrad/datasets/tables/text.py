"""Tables of text: CSV, TSV and JSON lines, read as cells of text."""

import codecs
import csv
import logging
import math
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd

from rankgrad.io.written import as_text
from rankgrad.plain_text import LONGEST, parsed_json, whole_text

__all__ = ["cells_of", "delimited_rows", "emptied", "json_rows", "number_of_json", "text_header"]

csv.field_size_limit(LONGEST)  # Python's own is an eighth of it


def cells_of(values: Iterable[Any]) -> pd.Series:
    """Return cells as they are, text stripped and whole, bytes as text; a missing or empty one is None."""
    texts = (as_text(cell) if isinstance(cell, bytes) else cell for cell in values)
    return pd.Series(
        [(whole_text(cell).strip() or None) if isinstance(cell, str) else cell for cell in texts], dtype=object
    )


def emptied(cells: pd.Series, empty: Collection[str]) -> pd.Series:
    """Return cells with None in place of texts that stand for a missing value, such as `n/a`."""
    if not empty or cells.dtype != object:
        return cells
    return cells_of(None if isinstance(cell, str) and cell in empty else cell for cell in cells)


def _codec(encoding: str) -> str:
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def _not_encoded(path: Path, encoding: str) -> ValueError:
    """Say where a file is of another encoding."""
    contents = path.read_bytes()
    line = "row 1"
    try:
        contents.decode(_codec(encoding))
    except UnicodeDecodeError as error:
        line = contents[: error.start].count(b"\n") + 1
        line = f"line {line}: byte 0x{contents[error.start : error.start + 1].hex()}"
    other = "utf-16" if contents[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or 0 in contents else "cp1252"
    return ValueError(
        f"{path}: {line}: not text in {encoding}; save the file as UTF-8, or say its encoding, perhaps {other}: "
        f"`--encoding {other}` of a command, `encoding: {other}` of a dataset in the params"
    )


@contextmanager
def _opened(path: Path, encoding: str) -> Generator[TextIO]:
    """Open a text file; one of another encoding is a ValueError that names it."""
    try:
        file = path.open(encoding=_codec(encoding), newline="")
    except LookupError as error:
        raise ValueError(
            f"{path}: `encoding: {encoding}` is none that Python knows; expected utf-8, cp1252, ..."
        ) from error
    try:
        with file:
            yield file
    except UnicodeError as error:
        raise _not_encoded(path, encoding) from error


class Header(NamedTuple):
    """The names of a CSV's columns, what separates its cells, and how many lines stand before."""

    names: list[str]
    separator: str
    lines: int


def text_header(path: Path, encoding: str, *, tabs: bool) -> Header:
    """Return the header of a CSV: what separates its cells is what cuts it into most.

    A line such as `sep=;`, which Excel writes, or a comment of one cell is passed over.
    """
    with _opened(path, encoding) as file:
        start = file.read(LONGEST)
    if "\0" in start:
        raise _not_encoded(path, encoding)
    separators = "\t" if tabs else ",;\t|"
    first, second = _cut(path, start, separators), _cut(path, start.partition("\n")[2], separators)
    comment = start.startswith("#") and len(first.names) == 1 and len(second.names) > 1
    if comment or re.match(r"sep=.\r?\n", start):
        return second._replace(lines=1)
    if not any(first.names):
        raise ValueError(f"{path}: the first line is empty, expected the names of the columns")
    return first


def _cut(path: Path, start: str, separators: str) -> Header:
    try:
        headers = []
        for separator in separators:
            names = next(csv.reader(StringIO(start, newline=""), delimiter=separator), [])
            headers.append(Header(names, separator, 0))
    except csv.Error as error:
        raise ValueError(f"{path}: the first line names no columns ({error}); expected a header") from error
    header = max(headers, key=lambda header: len(header.names))
    return header._replace(names=[name.strip() for name in header.names])


def delimited_rows(path: Path, columns: Sequence[str], *, encoding: str, tabs: bool) -> Iterator[list[str]]:
    """Read the cells of columns of a CSV or TSV row by row; every row has as many cells as the header."""
    header, number = text_header(path, encoding, tabs=tabs), 0
    first: dict[str, int] = {}  # position of each name; of a name twice the first
    for position, name in enumerate(header.names):
        first.setdefault(name, position)
    positions = [first[name] for name in columns]
    with _opened(path, encoding) as file:
        for _ in range(header.lines):
            file.readline()
        reader = csv.reader(file, delimiter=header.separator, strict=True)
        try:
            next(reader)
            for number, row in enumerate(_with_cells(path, reader), 1):
                if len(row) != len(header.names):
                    raise ValueError(
                        f"{path}: row {number} (line {reader.line_num + header.lines}) has {len(row)} cells, expected "
                        f"{len(header.names)} as the header, separated by {header.separator!r}; correct it, with "
                        "quotes around a cell that holds one"
                    )
                yield [row[position] for position in positions]
        except csv.Error as error:
            raise ValueError(
                f"{path}: row {number + 1} (line {reader.line_num + header.lines}): {error}; expected quotes that are "
                f"closed around a cell, doubled within it, and at most {LONGEST:,} characters"
            ) from error


def _with_cells(path: Path, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the rows with a cell that is not blank; spreadsheets write lines such as `;;;` below a table."""
    blank = 0
    for row in rows:
        if any(map(str.strip, row)):
            yield row
        else:
            blank += bool(row)
    if blank:
        _log_blank(path, blank)


@lru_cache(maxsize=100)
def _log_blank(path: Path, count: int) -> None:
    """Log once how many rows of a file are left out because all of their cells are blank."""
    logging.warning("%s: %d blank rows left out", path, count)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key is there twice")
    return row


def number_of_json(text: str) -> float | Decimal:
    """Return a number of JSON with a point; one that float64 may make another's as it is written.

    Below 2^53 these are numbers of more digits than programs write of a float64, such as nanoseconds of a time stamp.
    """
    value = float(text)
    if (repr(value) == text and abs(value) < 2.0**53) or math.isinf(value):
        return value
    written = Decimal(text)
    exact = [Decimal(value)] if abs(value) >= 2.0**53 else [Decimal(repr(value)), Decimal(f"{value:.17g}")]
    return value if written in exact else written


def json_rows(path: Path, encoding: str, **how: Any) -> Iterator[dict[str, Any]]:
    """Read the objects of JSON lines, by options of `json.loads`; empty lines and rows without a cell are left out."""
    number, blank = 1, 0
    with _opened(path, encoding) as file:
        for line in filter(str.strip, file):
            try:
                row = parsed_json(line, object_pairs_hook=_unique_keys, **how)
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}: row {number}: not JSON ({str(error)[:100]}); expected an object a line"
                ) from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}: row {number}: {str(row)[:80]}, expected an object of columns")
            if all(cell is None or cell == "" for cell in row.values()):
                blank += 1
                continue
            yield row
            number += 1
    if blank:
        _log_blank(path, blank)
