"""Decode and resize the pictures of a user's own table, and encode them in the form of `rankgrad.io.parquet.IMAGE`."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rankgrad.datasets.tables.files import Sheet, stored_pictures
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.inputs.image import StoredPicture
from rankgrad.io.pictures import as_jpeg, as_png, open_photo

__all__ = ["decoded", "require_files"]


class _Photo(NamedTuple):
    """A picture: the name of its file, and its bytes if a Parquet file stores them."""

    file: str
    contents: bytes | None = None


def require_files(raw: Path, sheet: Sheet, cells: pd.Series) -> None:
    """Raise FileNotFoundError with the row if a file is missing; cells are paths or lists of paths."""
    files = _each(cells)
    missing = files[[isinstance(file, str) and not os.path.isfile(raw / file) for file in files]]
    if len(missing):
        raise FileNotFoundError(
            f"{sheet.place(missing.index[0])}: {raw / missing.iloc[0]}: no such file ({len(missing)} of {len(files)} "
            "files are missing); put it there, or correct the cell"
        )


def decoded(
    table: TableOptions, raw: Path, sheet: Sheet, pieces: Iterator[pd.DataFrame], *, size: int, threads: int
) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Yield pieces of examples with decoded pictures, and the names of the rows that were left out.

    Raises:
        ValueError: a picture is broken and `skip_broken` is not set; the message names its row.
    """
    with ThreadPoolExecutor(threads) as pool:
        for piece in pieces:
            cells = _each(piece["input"])
            made = pool.map(partial(_stored, table, raw, size), _photos(cells, table.image or ""))
            pictures = pd.Series([*made], cells.index, dtype=object)
            wrong = pictures.map(lambda picture: isinstance(picture, ValueError))
            if wrong.any() and not table.skip_broken:
                row, cell = next(cells[wrong].items())
                picture = table.input if isinstance(cell, StoredPicture) else cell
                raise ValueError(
                    f"{sheet.place(row)}: {picture}: {pictures[wrong].iloc[0]}; replace it, or set skip_broken: true"
                )
            is_whole = ~piece.index.isin(cells.index[wrong])
            in_lists = isinstance(piece["input"].iloc[0], list)
            entered = pictures.groupby(level=0).agg(list) if in_lists else pictures
            yield piece.assign(input=entered)[is_whole], piece["name"][~is_whole].tolist()


def _each(cells: pd.Series) -> pd.Series:
    """Return the pictures of all rows, one per entry, indexed by the number of their row."""
    return cells.map(lambda cell: cell if isinstance(cell, list) else [cell]).explode()


def _photos(cells: pd.Series, column: str) -> Iterator[_Photo]:
    stored = stored_pictures([cell for cell in cells if isinstance(cell, StoredPicture)], column)
    for cell in cells:
        if isinstance(cell, StoredPicture):
            yield _Photo(f"{cell.path.name}:{cell.row + 1}", next(stored) or b"")
        else:
            yield _Photo(cell)


def _stored(table: TableOptions, raw: Path, size: int, photo: _Photo) -> dict[str, Any] | ValueError:
    contents = (raw / photo.file).read_bytes() if photo.contents is None else photo.contents
    try:
        picture = open_photo(contents, size, "L" if table.gray else "RGB", pad=table.pad)
        encoded = as_png(picture) if table.gray else as_jpeg(picture)
    except ValueError as error:
        return error
    return {"bytes": encoded, "path": photo.file}
