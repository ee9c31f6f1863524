"""Cells of a person's own table as what their role says: numbers, names, paths, labels, days. Errors name the row."""

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rankgrad.datasets.tables.files import Sheet
from rankgrad.inputs.image import StoredPicture
from rankgrad.numbers import Writing, exact, number_in, vector_in, writings_of
from rankgrad.plain_text import name_in, parts_in, text_in

__all__ = [
    "as_flags",
    "as_labels",
    "as_names",
    "as_numbers",
    "as_options",
    "as_paths",
    "as_periods",
    "as_ranks",
    "as_texts",
    "as_vectors",
    "first_place",
    "has_word",
    "is_single",
    "missing_in",
    "require_same",
    "series",
    "split_into",
]

LARGEST = float(np.finfo(np.float32).max)  # whose squares float64 holds, as a mean and a deviation need it
EXACT = 2.0**53  # up to which float64 holds every whole number
PERIODS = {"day": "D", "week": "W", "month": "M", "year": "Y"}


def first_place(sheet: Sheet, rows: pd.Index, wrong: Any) -> tuple[int, str]:
    """Return the position of the first wrong row, and its place in the files, for messages."""
    position = int(np.asarray(wrong).argmax())
    return position, sheet.place(int(rows[position]))


def _shown(cell: Any) -> str:
    """Return a cell for messages, as people write it and not too long."""
    if isinstance(cell, StoredPicture):
        return "a picture"
    return repr(cell.item() if isinstance(cell, np.generic) else cell)[:60]


def series(values: Iterable[Any], index: pd.Index) -> pd.Series:
    """Return a column of any objects: of lists of arrays pandas would make a table."""
    column = pd.Series(index=index, dtype=object)
    column[:] = list(values)
    return column


def missing_in(cells: pd.Series, *, numeric: bool) -> np.ndarray:
    """Return which cells (n,) hold nothing: an empty one, a null, an empty list; where numbers are meant, NaN too."""
    if cells.dtype != object:
        return cells.isna().to_numpy()

    def empty(cell: Any) -> bool:
        if isinstance(cell, str):
            return not cell or (numeric and cell.lower() == "nan")
        if isinstance(cell, list | np.ndarray):
            return len(cell) == 0
        return cell is None or cell is pd.NaT or (isinstance(cell, float) and bool(np.isnan(cell)))

    return np.array([empty(cell) for cell in cells], bool)


def as_numbers(sheet: Sheet, cells: pd.Series, *, least: float = -LARGEST, what: str = "a finite number") -> np.ndarray:
    """Return cells as numbers (n,), float64.

    Raises:
        ValueError: one is none, infinite, too large for float32, or less than `least`; the message names its row. Or
            float64 would make two of them equal that differ; the message names both rows.
    """
    if cells.dtype.kind in "mM":  # which NumPy would take for nanoseconds
        place = sheet.place(int(cells.index[0]))
        raise ValueError(
            f"{place}: {cells.name} is {cells.iloc[0]}, expected {what}; make numbers of its days or times"
        )
    if cells.dtype.kind in "iufb":
        values = cells.to_numpy(np.float64)
    else:
        values = np.array([_number(sheet, number, cell, cells.name) for number, cell in cells.items()], np.float64)
    wrong = ~((values >= least) & (values <= LARGEST))
    if wrong.any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(
            f"{place}: {cells.name} is {_shown(cells.iloc[position])}, expected {what}; correct or remove the row"
        )
    _require_apart(sheet, cells.index, values, cells.to_numpy(), str(cells.name))
    return values


def _number(sheet: Sheet, number: Any, cell: Any, name: Any) -> float:
    try:
        return number_in(cell, sheet.writing)
    except ValueError as error:
        readable = writings_of([cell]) if isinstance(cell, str) else []
        advice = f"say {' or '.join(map(as_options, readable))}" if readable else "correct or remove the row"
        raise ValueError(f"{sheet.place(number)}: {name} is {error}; {advice}") from error


def as_options(writing: Writing) -> str:
    """Return options by which numbers of a writing are read, for messages."""
    thousands = f" and `thousands: {writing.thousands!r}`" if writing.thousands else ""
    return f"`decimal: {writing.decimal!r}`{thousands}"


def is_single(cells: pd.Series) -> bool:
    """Return whether cells are numbers of at most 32 bits after the point, such as embeddings, or vectors of them."""
    kinds = {cell.dtype for cell in cells} if isinstance(cells.iloc[0], np.ndarray) else {cells.dtype}
    return kinds <= {np.dtype(np.float16), np.dtype(np.float32)}


def _require_apart(sheet: Sheet, rows: pd.Index, values: np.ndarray, cells: Any, name: str) -> None:
    """Raise ValueError if values are equal in float64 whose cells say different numbers: an order would be lost."""
    kind = getattr(cells, "dtype", np.dtype(object)).kind
    if kind == "f":
        return  # it was lost before, if it was
    first: dict[float, tuple[Any, int]] = {}
    for position in np.flatnonzero((np.abs(values) >= EXACT) | (kind == "O")).tolist():
        cell = cells[position]
        known, other = first.setdefault(values[position], (cell, position))
        if known != cell and exact(known, sheet.writing) != exact(cell, sheet.writing):
            raise ValueError(
                f"{sheet.place(int(rows[position]))}: {name} is {str(cell)[:60]} here and {str(known)[:60]} in row "
                f"{sheet.row[int(rows[other])]}, which float64 makes equal, expected numbers that stay apart: subtract "
                "the smallest from all, or round them"
            )


def as_vectors(sheet: Sheet, cells: pd.Series) -> np.ndarray:
    """Return cells that are lists of numbers, or text of numbers, as (n, k): float32 if all are, else float64.

    Raises:
        ValueError: one is no list of finite numbers, or of another length than the first; the message names its row. Or
            float64 would make two numbers of a place equal that differ; the message names both rows.
    """
    if all(isinstance(cell, np.ndarray) for cell in cells) and len({cell.shape for cell in cells}) == 1:
        whole = np.stack(list(cells))
        if whole.dtype.kind == "f" and whole.ndim == 2 and (np.abs(whole) <= LARGEST).all():
            return whole.astype(np.float32 if is_single(cells) else np.float64)
    vectors, written = [], []
    for number, cell in cells.items():
        try:
            numbers = vector_in(cell, sheet.writing)
            vector = [number_in(value, sheet.writing) for value in numbers]
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {cells.name} is {error}, as a list of numbers") from error
        if vectors and len(vector) != len(vectors[0]):
            raise ValueError(
                f"{sheet.place(number)}: {cells.name} has {len(vector)} numbers, expected {len(vectors[0])} as in the "
                "first row"
            )
        for place, value in enumerate(vector):
            if not abs(value) <= LARGEST:
                raise ValueError(
                    f"{sheet.place(number)}: {cells.name}[{place + (sheet.lowest or 0)}] is {value}, expected a finite "
                    "number; correct or remove the row"
                )
        vectors.append(vector)
        written.append(numbers)
    values = np.array(vectors, np.float64).reshape(len(vectors), -1)
    for place in range(values.shape[1]):
        name = f"{cells.name}[{place + (sheet.lowest or 0)}]"
        _require_apart(sheet, cells.index, values[:, place], [numbers[place] for numbers in written], name)
    return values


def has_word(caption: str) -> bool:
    """Return whether there is a letter or a digit in a caption."""
    return any(map(str.isalnum, caption))


def as_names(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Return cells as names, see `rankgrad.plain_text.name_in`.

    Raises:
        ValueError: one is a list or an object, or too long for a name; the message names its row.
    """
    return _converted(sheet, cells, name_in)


def as_texts(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Return cells as text, see `rankgrad.plain_text.text_in`.

    Raises:
        ValueError: one is a list or an object; the message names its row.
    """
    return _converted(sheet, cells, text_in)


def _converted(sheet: Sheet, cells: pd.Series, convert: Callable[[Any], Any]) -> pd.Series:
    texts = []
    for number, cell in cells.items():
        try:
            texts.append(convert(cell))
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {cells.name} is {error}") from error
    return series(texts, cells.index)


def as_paths(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Return paths of files below the raw folder, as plain ones; pictures that a Parquet file stores stay as they are.

    Raises:
        ValueError: one leads elsewhere; the message names its row.
    """
    plain = []
    for number, cell in cells.items():
        if isinstance(cell, StoredPicture):
            plain.append(cell)
            continue
        if not isinstance(cell, str) or cell.startswith("/") or ".." in cell.split("/") or "\0" in cell:
            raise ValueError(
                f"{sheet.place(number)}: {cells.name} is {_shown(cell)}, expected the path of a file below the folder "
                "of the table, without `..`; move the file there and correct the cell"
            )
        plain.append(posixpath.normpath(cell))
    return pd.Series(plain, cells.index, dtype=object)


def as_labels(sheet: Sheet, cells: pd.Series, separator: str) -> pd.Series:
    """Return the labels of each cell, a list of names.

    Raises:
        ValueError: a label is there twice in a cell; the message names its row.
    """
    rows = []
    for number, cell in cells.items():
        try:
            labels = _labels_of(cell, separator)
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {cells.name} {error}") from error
        rows.append(labels)
    return pd.Series(rows, cells.index, dtype=object)


def _labels_of(cell: Any, separator: str) -> list[str]:
    if isinstance(cell, str) and cell[:1] in tuple("[({"):
        raise ValueError(
            f"is {cell[:60]!r}, a list that was written as text, expected names with {separator!r} between them, or a "
            "list in Parquet or JSON lines"
        )
    parts = cell.split(separator) if isinstance(cell, str) else cell
    parts = list(parts) if isinstance(parts, list | np.ndarray) else [parts]
    if isinstance(cell, list | np.ndarray) and any(part is None or part != part for part in parts):
        raise ValueError("has nan, expected names of labels")
    labels = [name for name in map(name_in, parts) if name]
    for name, count in Counter(labels).items():
        if count > 1:
            raise ValueError(f"has {name!r} twice, expected each label once; correct the cell")
    return labels


def as_flags(sheet: Sheet, cells: pd.DataFrame) -> np.ndarray:
    """Return columns of 0 and 1 as (n, K), int64; raise ValueError for anything else, which names row and column."""
    values = np.column_stack([as_numbers(sheet, cells[name], what="0 or 1") for name in cells])
    if (wrong := (values != 0) & (values != 1)).any():
        position, place = first_place(sheet, cells.index, wrong.any(1))
        column = int(wrong[position].argmax())
        raise ValueError(f"{place}: {cells.columns[column]} is {values[position, column]:g}, expected 0 or 1")
    return values.astype(np.int64)


def as_ranks(sheet: Sheet, cells: pd.DataFrame) -> np.ndarray:
    """Return columns of label ranks as (n, K), int64: 0 for absent, others 1 upwards without a gap.

    Raises:
        ValueError: a rank is no whole number of at least 0, a row has gaps, or no label; the message names the row.
    """
    values = np.column_stack([as_numbers(sheet, cells[name], least=0, what="0, 1, 2, ...") for name in cells])
    for position, row in enumerate(values):
        present = sorted({rank for rank in row if rank})
        if not present or present != list(range(1, len(present) + 1)):
            found = ", ".join(f"{rank:g}" for rank in row)
            raise ValueError(
                f"{sheet.place(int(cells.index[position]))}: label ranks are {found}; expected 0 for absent labels and "
                "1, 2, 3, ... without a gap for the others, the most important with the largest, at least one"
            )
    return values.astype(np.int64)


def as_periods(sheet: Sheet, cells: pd.Series, first: str, every: str) -> np.ndarray:
    """Return the delivery (n,) of each row: 0 up to the day `first`, then 1, 2, ... for each period that has rows.

    Raises:
        ValueError: a cell is no day; the message names its row.
    """
    text = cells.map(lambda cell: cell.isoformat() if hasattr(cell, "isoformat") else str(cell)).astype(object)
    days = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True).dt.tz_localize(None)
    # `now` and `today` would be another day at each reading.
    if (wrong := days.isna() | ~text.str.match(r"\d")).any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: {cells.name} is {_shown(cells.iloc[position])}, expected a day such as 2026-11-30")
    later = days.dt.normalize() > pd.Timestamp(first)
    periods = days.dt.to_period(PERIODS[every])
    order = {period: number for number, period in enumerate(sorted(periods[later].unique()), 1)}
    return np.array([order[period] if after else 0 for period, after in zip(periods, later, strict=True)], np.int64)


def split_into(sheet: Sheet, cells: pd.Series, separator: str) -> pd.Series:
    """Return the parts of each cell, see `parts_in`; an error names the row."""
    return _converted(sheet, cells, lambda cell: parts_in(cell, separator))


def require_same(sheet: Sheet, frame: pd.DataFrame, by: str, columns: Sequence[str], what: str) -> None:
    """Raise ValueError if rows that belong together differ in a column; the message names two of them.

    Args:
        sheet: of the rows.
        frame: the rows.
        by: column whose values belong together.
        columns: that must be the same.
        what: they are, for the message.
    """
    for column in columns:
        firsts = frame.groupby(by, sort=False)[column].transform("first")
        if (wrong := (firsts != frame[column])).any():
            position, place = first_place(sheet, frame.index, wrong)
            row = frame.iloc[position]
            other = int(frame.index[frame[by] == row[by]][0])
            raise ValueError(
                f"{place}: {what} {row[by]} has the {column} {row[column]} here and {frame.loc[other, column]} in "
                f"row {sheet.row[other]}; expected one {column} for all of its rows: correct one of them"
            )
