"""Read CSV, TSV, JSON Lines, Parquet, and SVMlight files into frames of cells."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rankgrad.datasets.tables.formats import Format, format_of
from rankgrad.datasets.tables.svmlight import lengthen, svmlight_columns, svmlight_rows
from rankgrad.datasets.tables.text import (
    cells_of,
    delimited_rows,
    json_rows,
    number_of_json,
    text_header,
)
from rankgrad.inputs.image import StoredPicture
from rankgrad.io.parquet import columns_of, is_text, parquet_file
from rankgrad.io.written import log_once
from rankgrad.lookup import did_you_mean, listed
from rankgrad.numbers import PLAIN, Writing
from rankgrad.plain_text import check_name, emptied_numbers

__all__ = [
    "Sheet",
    "columns_like",
    "names_in",
    "pieces_of",
    "read_sheet",
    "require_columns",
    "stored_pictures",
]

PIECE = 64  # rows of a Parquet file of pictures to read at once
COLUMNS = 2**16


class Sheet(NamedTuple):
    """The contents of one or several files.

    Attributes:
        frame: the rows; cells of text files are text, missing ones None.
        paths: the files.
        file: the index in `paths` of each row's file (n,).
        row: each row's number in its file (n,), from 1, not counting the header.
        writing: how numbers in text are written.
        lowest: the lowest index of SVMlight vectors, 0 or 1; None for other formats.
        names: the names of all columns of the files, whether read or not.
        head: the number of rows read of each file if a file may have more, else None.
    """

    frame: pd.DataFrame
    paths: list[Path]
    file: np.ndarray
    row: np.ndarray
    writing: Writing = PLAIN
    lowest: int | None = None
    names: Sequence[str] = ()
    head: int | None = None

    @property
    def title(self) -> str:
        """The files, and how many of their rows were read, for messages that count rows."""
        title = str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} other files"
        return title if self.head is None else f"{title}, first {self.head:,} rows"

    def place(self, number: Any) -> str:
        """Return the file and number of a row, for messages."""
        return f"{self.paths[self.file[number]]}: row {self.row[number]}"


def columns_like(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a pattern stands for: a name itself or, if it ends in `*`, all that start with the rest.

    >>> columns_like("f_*", ["id", "f_1", "f_2"])
    ['f_1', 'f_2']
    """
    start = pattern.removesuffix("*")
    return [pattern] if start == pattern or pattern in names else [name for name in names if name.startswith(start)]


def read_sheet(
    paths: Sequence[Path],
    columns: Callable[[list[str]], list[str]],
    *,
    kind: Format | None,
    encoding: str = "utf-8",
    empty: Collection[str] = (),
    writing: Writing = PLAIN,
    head: int | None = None,
    pictures: Collection[str] | None = None,
) -> Sheet:
    """Read columns of several files, and concatenate their rows.

    Args:
        paths: the files.
        columns: chooses the columns to read from those that a file has; raises ValueError if one is missing.
        kind: their format; None to go by each file's suffix.
        encoding: the encoding of text files.
        empty: texts that stand for a missing value, such as `n/a`.
        writing: how numbers in text are written.
        head: how many rows of each file to read; None for all.
        pictures: columns whose bytes are pictures rather than text; None for all columns of bytes.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file does not match its format, or its columns differ from the first's; the message names file
            and row.
    """
    frames: list[pd.DataFrame] = []
    every_name: dict[str, None] = {}
    for path in paths:
        form = format_of(path, kind)
        names = names_in(path, form, encoding)
        every_name |= dict.fromkeys(names)
        try:
            chosen = columns(names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if frames and (other := set(chosen) ^ set(frames[0])):
            raise ValueError(
                f"{path}: column {min(other)} is only in this file or only in {paths[0]}; expected the same columns"
            )
        pieces = [
            *pieces_of(
                path, chosen, form=form, encoding=encoding, empty=empty, head=head, pictures=pictures, decode_later=True
            )
        ]
        frames.append(pd.concat(pieces) if pieces else pd.DataFrame(columns=chosen))
    counts = [len(frame) for frame in frames]
    if not sum(counts):
        raise ValueError(f"{paths[0]}: no rows, expected at least one")
    lowest = lengthen(frames) if "all" in frames[0] and format_of(paths[0], kind) == "svmlight" else None
    return Sheet(
        frames[0].reset_index(drop=True) if len(frames) == 1 else pd.concat(frames, ignore_index=True),
        list(paths),
        np.repeat(np.arange(len(frames)), counts),
        np.concatenate([frame.index.to_numpy(np.int64) for frame in frames]),
        writing,
        lowest,
        [*every_name],
        head if head in counts else None,
    )


def names_in(path: Path, form: Format, encoding: str = "utf-8") -> list[str]:
    """Return the names of a file's columns.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: it does not match the format, or a name occurs twice.
    """
    if path.is_dir():
        raise ValueError(f"{path}: a folder, expected a file; name its files, as in `file: '{path.name}/*.parquet'`")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; put it there, or correct the name")
    match form:
        case "csv" | "tsv":
            names = text_header(path, encoding, tabs=form == "tsv").names
        case "jsonl":
            names = list(dict.fromkeys(name for _, row in json_rows(path, encoding) for name in row))
        case "parquet":
            names = columns_of(path)
        case "svmlight":
            names = svmlight_columns(path)
    if len(names) > COLUMNS:
        raise ValueError(f"{path}: {len(names):,} columns, expected at most {COLUMNS:,}")
    for name, count in Counter(names).items():
        if name and count > 1:
            raise ValueError(f"{path}: column {listed([name])!r} is there twice; rename or remove one of them")
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(f"{path}: name of a column: {error}") from error
    return names


def pieces_of(
    path: Path,
    columns: Sequence[str],
    *,
    form: Format,
    encoding: str = "utf-8",
    empty: Collection[str] = (),
    size: int = 2**16,
    head: int | None = None,
    pictures: Collection[str] | None = None,
    decode_later: bool = False,
) -> Iterator[pd.DataFrame]:
    """Return columns of a file as frames of at most `size` rows, whose index has the number of each row from 1 on.

    Args:
        path: the file to read.
        columns: the columns to read; the file must have them.
        form: its format.
        encoding: the encoding of CSV, TSV, and JSON Lines.
        empty: texts that stand for a missing value, such as `n/a`.
        size: the most rows of a frame.
        head: how many rows to read in total; None for every row.
        pictures: columns of Parquet whose bytes are pictures rather than text; None means every column of bytes.
        decode_later: yield a `StoredPicture` (file and row) for each picture of Parquet instead of its bytes.

    Raises:
        ValueError: the file does not match its format; the message names the row if possible.
    """
    match form:
        case "csv" | "tsv":
            rows = delimited_rows(path, columns, encoding=encoding, tabs=form == "tsv")
        case "jsonl":
            objects = json_rows(path, encoding, parse_float=number_of_json)
            rows = ((number, map(row.get, columns)) for number, row in objects)
        case "svmlight":
            rows = enumerate(svmlight_rows(path, columns), 1)
        case "parquet":
            return _parquet_pieces(path, columns, size, head, pictures, decode_later, empty)
    return _frames(islice(rows, head), columns, size, empty)


def _frames(
    rows: Iterable[tuple[int, Iterable[Any]]], columns: Sequence[str], size: int, empty: Collection[str]
) -> Iterator[pd.DataFrame]:
    rows = iter(rows)
    while piece := list(islice(rows, size)):
        numbers, rows_of_cells = zip(*piece, strict=True)
        cells = [cells_of(column, empty) for column in zip(*rows_of_cells, strict=True)]
        yield pd.DataFrame(dict(zip(columns, cells, strict=True))).set_axis(numbers)


# Parquet.


def _holds_pictures(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _parquet_pieces(
    path: Path,
    columns: Sequence[str],
    size: int,
    head: int | None,
    pictures: Collection[str] | None,
    later: bool,
    empty: Collection[str],
) -> Iterator[pd.DataFrame]:
    with parquet_file(path) as file:
        schema, left, start = file.schema_arrow, file.metadata.num_rows if head is None else head, 0
        files = [name for name in columns if _holds_pictures(schema.field(name).type)]
        files = files if pictures is None else [name for name in files if name in pictures]
        columns_read = [name for name in columns if not (later and name in files)]
        blank = _blank_rows(file)
        if len(blank):
            log_once(f"{path}: {len(blank)} blank rows left out")
        for batch in file.iter_batches(batch_size=min(size, max(left, 1)), columns=columns_read):
            batch = batch.cast(_without_views(batch.schema))
            rows = np.setdiff1d(np.arange(start, start + len(batch)), blank)[:left]
            is_start = np.array_equal(rows - start, np.arange(len(rows)))
            filled = batch.slice(0, len(rows)) if is_start else batch.take(pa.array(rows - start))
            frame = _frame_of(pa.Table.from_batches([filled]), files, empty)
            for name in set(columns) - set(columns_read):
                frame[name] = [StoredPicture(path, row) for row in rows.tolist()]
            if len(rows):
                yield frame[list(columns)].set_axis(rows + 1)
            start, left = start + len(batch), left - len(rows)
            if not left:
                return


def _without_views(schema: pa.Schema) -> pa.Schema:
    """Return a schema without views of strings and bytes, whose rows Arrow cannot take."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


def _is_filled(column: pq.Statistics | None) -> bool:
    """Return whether the statistics of a column show that every cell has a value; a text may be empty or blank."""
    if column is None or column.null_count != 0:
        return False
    return column.physical_type != "BYTE_ARRAY" or (column.has_min_max and str(column.min).strip() != "")


def _blank_rows(file: pq.ParquetFile) -> np.ndarray:
    """Return the indices of rows without a value in any column; read only groups of rows that may have one."""
    indices, start = [np.zeros(0, np.int64)], 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        statistics = [group.column(index).statistics for index in range(group.num_columns)]
        if not any(map(_is_filled, statistics)):
            is_blank = np.ones(group.num_rows, bool)
            for name in file.schema_arrow.names:
                column = file.read_row_group(number, columns=[name]).column(0)
                if is_text(column.type):
                    is_blank &= np.array([not (text or "").strip() for text in column.to_pylist()], bool)
                else:
                    is_blank &= np.asarray(column.is_null(nan_is_null=True), bool)
                if not is_blank.any():
                    break
            indices.append(start + np.flatnonzero(is_blank))
        start += group.num_rows
    return np.concatenate(indices)


def _frame_of(batch: pa.Table, pictures: Collection[str], empty: Collection[str]) -> pd.DataFrame:
    batch = batch.replace_schema_metadata(None)  # it may describe an index of pandas
    for position, field in enumerate(batch.schema):
        if pa.types.is_time64(field.type):  # Python's times have no nanoseconds
            batch = batch.set_column(position, field.name, batch[field.name].cast(pa.string()))
    frame = batch.to_pandas(integer_object_nulls=True)
    for field in batch.schema:
        cells = frame[field.name]
        if field.name in pictures:
            continue
        if isinstance(field.type, pa.BaseExtensionType):  # such as UUIDs, which pandas turns into bytes
            frame[field.name] = cells_of(batch[field.name].to_pylist(), empty)
        elif cells.dtype == object or isinstance(cells.dtype, pd.CategoricalDtype | pd.StringDtype):
            frame[field.name] = cells_of(cells, empty)
        elif empty and cells.dtype.kind in "iuf":
            numbers = np.array([*emptied_numbers((*empty,))])
            is_empty = cells.isin(numbers.astype(cells.dtype) if cells.dtype.kind == "f" else numbers)
            if is_empty.any():
                frame[field.name] = (cells if cells.dtype.kind == "f" else cells.astype(object)).mask(is_empty)
    return frame


def stored_pictures(cells: Sequence[StoredPicture], column: str) -> Iterator[bytes | None]:
    """Read pictures from Parquet files one by one; memory does not grow with the files.

    Args:
        cells: the pictures; a file is read in one pass if its pictures are in its order.
        column: the column of pictures, bytes or `{bytes, path}`.
    """
    rows: Iterator[tuple[int, Any]] = iter(())
    open_path, position = None, -1
    for cell in cells:
        if cell.path != open_path or cell.row < position:
            open_path, rows = cell.path, _numbered(cell.path, column)
        position, picture = next(row for row in rows if row[0] == cell.row)
        position += 1
        yield picture["bytes"] if isinstance(picture, dict) else picture


def _numbered(path: Path, column: str) -> Iterator[tuple[int, Any]]:
    with parquet_file(path) as file:
        batches = file.iter_batches(batch_size=PIECE, columns=[column])
        yield from enumerate(value.as_py() for batch in batches for value in batch.column(0))


def require_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError if a column is not among a file's names."""
    present = set(names)
    if not names:
        raise ValueError("no rows, expected at least one")
    for name in columns:
        if name not in present:
            raise ValueError(f"no column {name!r}; it has {listed(map(repr, names))}{did_you_mean(name, names)}")
