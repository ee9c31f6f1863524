"""Files of a person's own tables: CSV, TSV, JSON lines, Parquet, SVMlight and NPZ, read into one frame of cells."""

import re
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import lru_cache
from io import BytesIO
from itertools import islice
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.lib import format as npy

from rankgrad.datasets.tables.formats import Format, format_of
from rankgrad.datasets.tables.text import cells_of, json_rows, read_delimited, read_json, text_header
from rankgrad.io.parquet import columns_of, parquet_file
from rankgrad.lookup import did_you_mean, listed
from rankgrad.plain_text import LONGEST, check_name

__all__ = [
    "Sheet",
    "Stored",
    "columns_like",
    "names_in",
    "read_sheet",
    "require_columns",
    "stored_pictures",
]

SVMLIGHT = ["label", "qid", "all"]  # what its columns are called here
PIECE = 64  # rows of a Parquet file of pictures that are read together
PAIR = re.compile(r"(\d{1,18}):(\S+)")
COLUMNS = 2**16
INDEX = 2**20 - 1  # of SVMlight, as many features as a model may have: a vector has a number for each below it
DENSE, SMALL = 2**30, 2**24  # numbers of all vectors of a file, and so many of any file, however small
SPARSE = 64  # numbers of vectors for each byte of a file


class Stored(NamedTuple):
    """A picture that is stored in a Parquet file: the file, and the row from 0 on."""

    path: Path
    row: int


class Sheet(NamedTuple):
    """What files hold.

    Attributes:
        frame: a row a row, by columns; cells of text files are text, a missing one is None.
        paths: the files.
        file: which of them each row (n,) is from.
        row: its number in that file, from 1 on, a header not counted.
        decimal: the point or comma in the text of numbers.
    """

    frame: pd.DataFrame
    paths: list[Path]
    file: np.ndarray
    row: np.ndarray
    decimal: str = "."

    def place(self, number: Any) -> str:
        """Return where a row is, for messages."""
        return f"{self.paths[self.file[number]]}: row {self.row[number]}"


def columns_like(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a name stands for: itself, or, if it ends in `*`, all that begin so.

    >>> columns_like("f_*", ["id", "f_1", "f_2"])
    ['f_1', 'f_2']
    """
    start = pattern.removesuffix("*")
    return [name for name in names if name.startswith(start)] if start != pattern else [pattern]


def read_sheet(
    paths: Sequence[Path],
    columns: Callable[[list[str]], list[str]],
    *,
    kind: Format | None,
    encoding: str,
    decimal: str = ".",
    head: int | None,
    pictures: Collection[str] | None = None,
) -> Sheet:
    """Read some columns of files, one below another.

    Args:
        paths: of the files.
        columns: which of the columns that a file has are to be read; raises ValueError if one is missing.
        kind: their format; None for that of each suffix.
        encoding: of files of text.
        decimal: in their numbers, see `Sheet`.
        head: how many rows of each; None for all.
        pictures: columns whose bytes are pictures, and not text; None for all that hold bytes.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: one is not as its format says, or has other columns than the first; the message names file and row.
    """
    frames: list[pd.DataFrame] = []
    for path in paths:
        own = format_of(path, kind)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; put it there, or correct `file:`")
        names = names_in(path, own, encoding)
        try:
            wanted = columns(names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if frames and (other := set(wanted) ^ set(frames[0])):
            raise ValueError(
                f"{path}: column {min(other)} is here or in {paths[0]}, not in both; expected the same columns"
            )
        stamp = path.stat()
        shown = frozenset(wanted if pictures is None else pictures)
        frames.append(_read(path, own, encoding, tuple(wanted), head, shown, (stamp.st_mtime_ns, stamp.st_size)))
    frames = _as_wide(frames) if own == "svmlight" and "all" in wanted else frames
    counts = [len(frame) for frame in frames]
    if not sum(counts):
        raise ValueError(f"{paths[0]}: no rows, expected at least one")
    whole = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    return Sheet(
        whole,
        list(paths),
        np.repeat(np.arange(len(frames)), counts),
        np.concatenate([np.arange(n) + 1 for n in counts]),
        decimal,
    )


def names_in(path: Path, kind: Format, encoding: str = "utf-8") -> list[str]:
    """Return the names of a file's columns.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not of this format, or a name is there twice.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    names = {
        "csv": lambda: text_header(path, encoding, tabs=False)[0],
        "tsv": lambda: text_header(path, encoding, tabs=True)[0],
        "jsonl": lambda: list(dict.fromkeys(name for row in json_rows(path, encoding) for name in row)),
        "parquet": lambda: columns_of(path),
        "svmlight": lambda: SVMLIGHT,
        "npz": lambda: list(_arrays(path)),
    }[kind]()
    if len(names) > COLUMNS:
        raise ValueError(f"{path}: {len(names):,} columns, expected at most {COLUMNS:,}")
    if twice := [name for name, count in Counter(names).items() if name and count > 1]:
        raise ValueError(f"{path}: column {listed(twice[:1])!r} is there twice; rename or remove one of the two")
    for name in names:
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(f"{path}: a column: {error}") from error
    return names


@lru_cache(maxsize=8)  # each split reads it again
def _read(
    path: Path,
    kind: Format,
    encoding: str,
    columns: tuple[str, ...],
    head: int | None,
    pictures: frozenset[str],
    stamp: tuple[int, int],
) -> pd.DataFrame:
    match kind:
        case "csv" | "tsv":
            frame = read_delimited(path, columns, encoding=encoding, tabs=kind == "tsv", head=head)
        case "jsonl":
            frame = read_json(path, columns, encoding=encoding, head=head)
        case "parquet":
            frame = _read_parquet(path, columns, head, pictures)
        case "svmlight":
            frame = _read_svmlight(path, columns, head)
        case "npz":
            frame = _read_npz(path, columns, head)
    for name in columns:
        if _is_text(frame[name]):
            longest = frame[name].map(lambda cell: len(cell) if isinstance(cell, str) else 0)
            if (longest > LONGEST).any():
                row = int((longest > LONGEST).to_numpy().argmax())
                raise ValueError(
                    f"{path}: row {row + 1}: {name} has {longest.iloc[row]:,} characters, expected at most "
                    f"{LONGEST:,}; is a quote not closed?"
                )
    return frame


def _is_text(cells: pd.Series) -> bool:
    """Whether cells may be text, or a list."""
    return cells.dtype == object or isinstance(cells.dtype, pd.StringDtype)


# Parquet.


def _holds_pictures(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _read_parquet(path: Path, columns: Sequence[str], head: int | None, pictures: Collection[str]) -> pd.DataFrame:
    with parquet_file(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        rows = rows if head is None else min(head, rows)
        plain = [name for name in columns if name not in pictures or not _holds_pictures(schema.field(name).type)]
        batches = file.iter_batches(batch_size=max(rows, 1) if head else 2**16, columns=plain)
        found = pa.Table.from_batches(
            islice(batches, 1 if head else None), pa.schema([schema.field(one) for one in plain])
        )
        # Metadata tell of pandas' index alone.
        found = found.slice(0, rows).replace_schema_metadata(None)
        frame = found.to_pandas(integer_object_nulls=True)
        for name in plain:
            if isinstance(schema.field(name).type, pa.BaseExtensionType):  # such as UUIDs, of which pandas makes bytes
                frame[name] = found[name].to_pylist()
    for name in plain:
        if frame[name].dtype == object or isinstance(frame[name].dtype, pd.CategoricalDtype | pd.StringDtype):
            frame[name] = cells_of(frame[name])
    for name in set(columns) - set(plain):  # pictures are read when they are decoded
        frame[name] = [Stored(path, row) for row in range(rows)]
    return frame[list(columns)]


def stored_pictures(cells: Sequence[Stored], column: str) -> Iterator[bytes | None]:
    """Read pictures that are stored in Parquet files one by one; memory does not grow with the files.

    Args:
        cells: of the pictures; those that stand behind another in a file are found without reading it again.
        column: of bytes, or of `{bytes, path}`.
    """
    rows: Iterator[tuple[int, Any]] = iter(())
    open_path, position = None, -1
    for cell in cells:
        if cell.path != open_path or cell.row < position:
            open_path, rows = cell.path, _numbered(cell.path, column)
        position, found = next(one for one in rows if one[0] == cell.row)
        position += 1
        yield found["bytes"] if isinstance(found, dict) else found


def _numbered(path: Path, column: str) -> Iterator[tuple[int, Any]]:
    with parquet_file(path) as file:
        batches = file.iter_batches(batch_size=PIECE, columns=[column])
        yield from enumerate(value.as_py() for batch in batches for value in batch.column(0))


# SVMlight and NPZ.


def _read_svmlight(path: Path, columns: Sequence[str], head: int | None) -> pd.DataFrame:
    """Labels, queries and vectors; index k is place k, whichever other rows there are."""
    from sklearn.datasets import load_svmlight_file

    contents = path.read_bytes().removeprefix(BOM_UTF8)
    if head is not None:
        contents = b"".join(islice(BytesIO(contents), head))
    try:
        values, label, query = load_svmlight_file(BytesIO(contents), query_id=True, zero_based=True)
        if len(query) not in (0, len(label)):
            raise ValueError("some rows have a qid")
    except (ValueError, OverflowError) as error:  # names no row
        raise _fault_of_svmlight(path, contents, error) from error
    if "qid" in columns and not len(query):
        raise ValueError(f"{path}: row 1: no qid, expected one in each row, as `2 qid:7 1:0.5 2:0.1`")
    most = min(DENSE, max(SMALL, SPARSE * len(contents)))  # a file of a kilobyte takes no gigabytes
    if values.shape[1] > INDEX or values.shape[0] * values.shape[1] > most:
        row = int(np.searchsorted(values.indptr, values.indices.argmax(), side="right"))
        raise ValueError(
            f"{path}: row {row} has the index {values.indices.max()}; expected below {INDEX:,}, and {most:,} numbers "
            f"at most in {values.shape[0]:,} rows, as each has a number for each index: number the features from 1 on"
        )
    if ((np.abs(label) >= 2**53) | (label % 1 != 0)).any():  # which float64 may make equal: their own text does not
        lines = (line.partition(b"#")[0].split() for line in contents.splitlines())
        label = cells_of(cells[0].decode() for cells in lines if cells)
    large = (np.abs(values.data) >= 2**53).any()
    vectors = _as_written(contents, values.shape[1]) if large else [*values.astype(np.float64).toarray()]
    found = {"label": label, "qid": query if len(query) else None, "all": vectors}
    return pd.DataFrame({name: found[name] for name in columns}, index=range(len(label)))


def _as_written(contents: bytes, width: int) -> list[list[Decimal]]:
    """Return vectors of SVMlight as their text has them, which float64 may not."""
    vectors = []
    for line in contents.splitlines():
        if cells := line.partition(b"#")[0].decode().split():
            vectors.append([Decimal(0)] * width)
            for index, _, value in (cell.partition(":") for cell in cells[1:] if not cell.startswith("qid:")):
                vectors[-1][int(index)] = Decimal(value, Context(traps=[]))
    return vectors


def _as_wide(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return frames of SVMlight with vectors of one length: the last zeros of a file are not written."""
    widest = max((len(frame["all"].iloc[0]) for frame in frames if len(frame)), default=0)
    return [
        frame.assign(all=[np.pad(vector, (0, widest - len(vector))) for vector in frame["all"]])
        if len(frame) and len(frame["all"].iloc[0]) < widest else frame
        for frame in frames
    ]  # fmt: skip


def _fault_of_svmlight(path: Path, contents: bytes, error: Exception) -> ValueError:
    """Say which row of a file is not as SVMlight has it."""
    number = 0
    for line in contents.decode(errors="replace").splitlines():
        cells = line.partition("#")[0].split()
        number += bool(cells)
        query = cells[1].removeprefix("qid:") if len(cells) > 1 and cells[1].startswith("qid:") else None
        pairs = [PAIR.fullmatch(cell) for cell in cells[2:]]
        indices = [int(pair[1]) for pair in pairs if pair]
        unread = [cell for cell, pair in zip(cells[2:], pairs, strict=True) if not pair or not _is_number(pair[2])]
        faults = {
            "no number as its label": cells and not _is_number(cells[0]),
            "no qid": cells and query is None,
            f"the qid {query!r:.40}, which is no whole number below 2^63": query is not None and not _is_qid(query),
            f"{(unread or [''])[0]!r:.40}, which is no `index:number`": unread,
            f"an index of {INDEX:,} or more": max(indices, default=0) >= INDEX,
            "indices that are not sorted": indices != sorted(indices),
            "an index twice": len(set(indices)) < len(indices),
        }
        for fault, found in faults.items():
            if found:
                return ValueError(f"{path}: row {number} has {fault}: {line[:80]!r}; expected `2 qid:7 1:0.5 2:0.1`")
    return ValueError(f"{path}: not SVMlight ({error}); expected rows such as `2 qid:7 1:0.5 2:0.1`")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_qid(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) is not None and abs(int(text)) < 2**63


@contextmanager
def _whole_npz(path: Path) -> Generator[None]:
    try:
        yield
    except (BadZipFile, OSError, ValueError, EOFError, KeyError, RuntimeError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole NPZ file ({error}); make it again with numpy.savez") from error


def _arrays(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Return shape and type of each array of an NPZ, which is not read; single numbers are no columns."""
    found = {}
    with _whole_npz(path), ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                shape, _, kind = _npy_header(file)
                size = prod(shape) * kind.itemsize
                held = archive.getinfo(name).file_size - file.tell()
            if size != held and not kind.hasobject:
                raise ValueError(f"{name} says that it has {size:,} bytes, but has {held:,}")
            if shape:
                found[name.removesuffix(".npy")] = shape, kind
    return found


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether columns lie together, and the type of an array; the file is then where its values begin."""
    first = npy.read_magic(file) == (1, 0)
    return (npy.read_array_header_1_0 if first else npy.read_array_header_2_0)(file)


def _first_values(file: IO[bytes], head: int | None) -> np.ndarray:
    """Read the first rows of an array, in this machine's order of bytes; what a header claims takes no memory."""
    shape, by_columns, kind = _npy_header(file)
    if head is not None and not by_columns:
        shape = min(head, shape[0]), *shape[1:]
    values = np.frombuffer(file.read(prod(shape) * kind.itemsize), kind)
    values = values.reshape(shape, order="F" if by_columns else "C")[:head]
    if kind.kind == "S":
        return np.char.decode(values, "utf-8")
    return values.astype(np.float64 if kind.kind == "f" and kind.itemsize > 8 else kind.newbyteorder("="))


def _read_npz(path: Path, columns: Sequence[str], head: int | None) -> pd.DataFrame:
    arrays, found = _arrays(path), {}
    rows = arrays[columns[0]][0][:1]
    for name in columns:
        shape, kind = arrays[name]
        if kind.hasobject:
            raise ValueError(
                f"{path}: array {name} holds pickled objects, which could run code and are not read; expected numbers "
                "or text: save it with a plain dtype"
            )
        if len(shape) not in (1, 2) or shape[:1] != rows or kind.names:
            raise ValueError(
                f"{path}: array {name} is {shape} of {kind}, expected {rows[0] if rows else 'n'} numbers or rows as "
                f"{columns[0]} has"
            )
        if kind.kind not in "biufSUM" or (kind.kind == "M" and len(shape) > 1):
            raise ValueError(f"{path}: array {name} is of {kind}, expected real numbers or text")
    with _whole_npz(path), ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        for name in columns:
            with archive.open(members[name]) as file:
                values = _first_values(file, head)
            cells = pd.Series(list(values) if values.ndim == 2 else values)
            found[name] = cells_of(cells) if _is_text(cells) else cells
    return pd.DataFrame(found)


def require_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError if a column is not among the names that a file has."""
    known = set(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"no column {name!r}; it has {listed(map(repr, names))}{did_you_mean(name, names)}")
