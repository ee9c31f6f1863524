"""Convert cells of a table by their role: numbers, names, paths, labels, days. Errors name the row."""

import logging
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rankgrad.datasets.tables.files import Sheet
from rankgrad.inputs.image import StoredPicture
from rankgrad.io.written import as_json
from rankgrad.numbers import PLAIN, Writing, days_in, exact, number_in, orders_of, vector_in, writings_of
from rankgrad.plain_text import name_in, text_in, tokens_of

__all__ = [
    "FLAGS",
    "SPLIT_NAMES",
    "as_days",
    "as_flags",
    "as_numbers",
    "as_options",
    "as_periods",
    "as_ranks",
    "as_vectors",
    "converted",
    "first_vector",
    "has_word",
    "is_single",
    "labels_in",
    "missing_in",
    "path_in",
    "require_alike",
    "require_same",
    "separator_of",
    "series",
    "split_in",
    "words_in",
]

LARGEST = float(np.finfo(np.float32).max)  # float64 can hold its square, which the mean and deviation need
EXACT = 2.0**53  # float64 holds every whole number up to here
SEPARATORS = "|;,/+&"  # of labels in a cell
SPLIT_NAMES = {  # in lower case
    "train": ("train", "training", "trn", "tr"),
    "val": ("val", "vali", "valid", "validation", "dev", "va"),
    "test": ("test", "testing", "tst", "te"),
    "gate": ("gate",),
}
FLAGS = {  # in lower case
    "true": 1, "yes": 1, "y": 1, "ja": 1, "oui": 1, "si": 1, "sí": 1,
    "false": 0, "no": 0, "n": 0, "nein": 0, "non": 0,
}  # fmt: skip
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
PERIODS = {"day": "D", "week": "W", "month": "M", "year": "Y"}
DAY, MONTH = re.compile(r"\d{8}", re.ASCII), re.compile(r"\d{4}(-\d\d)?", re.ASCII)  # 20261130; 2026-11, and 2026


def _shown(cell: Any) -> str:
    """Return a cell as text for messages, shortened."""
    if isinstance(cell, StoredPicture):
        return "a picture"
    return repr(cell.item() if isinstance(cell, np.generic) else cell)[:60]


def series(values: Iterable[Any], index: pd.Index) -> pd.Series:
    """Return a column of objects; without this, pandas would turn a list of arrays into a table."""
    column = pd.Series(index=index, dtype=object)
    column[:] = list(values)
    return column


def missing_in(cells: pd.Series, *, numeric: bool) -> np.ndarray:
    """Return which cells (n,) are empty text, null, NaN, or an empty list; with `numeric`, also the text `nan`."""
    if cells.dtype != object:
        return cells.isna().to_numpy()
    return np.array([_is_empty(cell, numeric=numeric) for cell in cells], bool)


def _is_empty(cell: Any, *, numeric: bool) -> bool:
    if isinstance(cell, str):
        return not cell or (numeric and cell.lower() == "nan")
    if isinstance(cell, list | np.ndarray):
        return all(item is None for item in cell)
    return cell is None or cell is pd.NaT or (isinstance(cell, float) and cell != cell)


def converted(sheet: Sheet, cells: pd.Series, convert: Callable[[Any], Any], verb: str = "is ") -> pd.Series:
    """Convert each cell with a function, such as `name_in` of `rankgrad.plain_text`; an error names the row."""
    values = []
    for number, cell in cells.items():
        try:
            values.append(convert(cell))
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {cells.name} {verb}{error}") from error
    return series(values, cells.index).rename(cells.name)


# Numbers.


def as_numbers(sheet: Sheet, cells: pd.Series, *, least: float = -LARGEST, what: str = "a finite number") -> pd.Series:
    """Return cells as numbers, float64; those of a column of dates in `sheet.writing` as days.

    Raises:
        ValueError: a cell is not a number, is infinite, too large for float32, or less than `least`; the message names
            its row. Or two different numbers are equal in float64; the message names both rows.
    """
    order = sheet.writing.order_of(cells.name)
    if cells.dtype.kind in "mM" and not order:  # NumPy would convert these to nanoseconds
        raise ValueError(
            f"{sheet.place(cells.index[0])}: {cells.name} is {cells.iloc[0]}, expected {what}; convert its dates or "
            "times to numbers, or, if it is a feature, name it in `dates`"
        )
    is_number = cells.dtype.kind in "iufb" and not order
    read = partial(_number, sheet.writing, order)
    numbers = (cells if is_number else converted(sheet, cells, read)).astype(np.float64)
    for row, cell in cells[~numbers.between(least, LARGEST)].items():
        raise ValueError(
            f"{sheet.place(row)}: {cells.name} is {_shown(cell)}, expected {what}; correct or remove the row"
        )
    if cells.dtype.kind != "f" and not order:  # floats were rounded before they came here
        _require_apart(sheet, cells, numbers.to_numpy())
    if cells.dtype == object and sheet.writing.decimal == "." and not sheet.writing.thousands and not order:
        _tell_thousands(sheet, cells)
    return numbers


def _tell_thousands(sheet: Sheet, cells: pd.Series) -> None:
    """Log a warning if whole numbers stand beside numbers that all have three decimals: 1.306 may be 1306."""
    pointed = cells[[isinstance(cell, str) and "." in cell for cell in cells]]
    if 0 < len(pointed) < len(cells) and all(map(THOUSANDS.fullmatch, pointed)):
        logging.warning(
            "%s: %s is %s; all of its decimals have three digits: if they are thousands, set `--thousands .` of init, "
            "`thousands: '.'` and `decimal: ','` of a dataset",
            sheet.place(pointed.index[0]), cells.name, pointed.iloc[0],
        )  # fmt: skip


def _number(writing: Writing, order: str | None, cell: Any) -> float:
    try:
        return days_in(cell, order) if order else number_in(cell, writing)
    except ValueError as error:
        readable = writings_of([cell]) if isinstance(cell, str) and not order else []
        advice = "correct or remove the row"
        if isinstance(cell, str):
            has_unit = order is None and any(map(str.isdigit, cell))
            advice += " (write numbers without units)" if has_unit else ""
            advice += f", or set `empty: [{as_json(cell[:30], ascii=False)}]` if it stands for a missing value"
        if readable and writing == PLAIN:
            advice = f"say {' or '.join(map(as_options, readable))}"
        elif readable:
            advice = f"the dataset says {as_options(writing)}: write this number so, or correct the option"
        raise ValueError(f"{error}; {advice}") from error


def as_options(writing: Writing) -> str:
    """Return the options that read numbers of this format, for messages."""
    thousands = f" and `thousands: {writing.thousands!r}`" if writing.thousands else ""
    return f"`decimal: {writing.decimal!r}`{thousands}"


def is_single(cells: pd.Series) -> bool:
    """Return whether cells are float16 or float32 numbers, such as embeddings, or vectors of them."""
    kinds = {cell.dtype for cell in cells} if isinstance(cells.iloc[0], np.ndarray) else {cells.dtype}
    return kinds <= {np.dtype(np.float16), np.dtype(np.float32)}


def _require_apart(sheet: Sheet, cells: pd.Series, numbers: np.ndarray) -> None:
    """Raise ValueError if two cells differ but their numbers (n,) are equal in float64: their order would be lost."""
    written, first = cells.to_numpy(), dict[float, int]()
    for position in np.flatnonzero((np.abs(numbers) >= EXACT) | (written.dtype == object)).tolist():
        other = first.setdefault(numbers[position], position)
        cell, earlier = written[position], written[other]
        if earlier != cell and exact(earlier, sheet.writing) != exact(cell, sheet.writing):
            raise ValueError(
                f"{sheet.place(cells.index[position])}: {cells.name} is {str(cell)[:60]} here and {str(earlier)[:60]} "
                f"in row {sheet.row[cells.index[other]]}, which are equal in float64, expected numbers that differ: "
                "subtract the smallest from all, or round them"
            )


def as_vectors(sheet: Sheet, cells: pd.Series) -> np.ndarray:
    """Return cells that are lists of numbers, or text of numbers, as (n, k): float32 if all are, else float64.

    Raises:
        ValueError: a cell is not a list of finite numbers, or its length differs; the message names its row. Or two
            different numbers at the same index are equal in float64; the message names both rows.
    """
    if all(isinstance(cell, np.ndarray) for cell in cells) and len({cell.shape for cell in cells}) == 1:
        vectors = np.stack(list(cells))
        if vectors.dtype.kind == "f" and vectors.ndim == 2 and (np.abs(vectors) <= LARGEST).all():
            return vectors.astype(np.float32 if is_single(cells) else np.float64)
    rows = converted(sheet, cells, partial(vector_in, writing=sheet.writing))
    require_alike(sheet, rows, "numbers")
    columns = []
    for index, numbers in enumerate(zip(*rows, strict=True)):
        name = f"{cells.name}[{index}]" if sheet.lowest is None else f"feature {index + sheet.lowest}"
        columns.append(as_numbers(sheet, pd.Series(numbers, cells.index, object, name)))
    return np.column_stack(columns)


def first_vector(sheet: Sheet, cells: pd.Series) -> int | None:
    """Return the row of the first cell that is not empty if it is a vector: a list, or text that is no number."""
    if sheet.writing.order_of(cells.name):
        return None
    cells = cells[~missing_in(cells, numeric=True)]
    if not len(cells) or not isinstance(cells.iloc[0], str | list | np.ndarray):
        return None
    try:
        number_in(cells.iloc[0], sheet.writing)
    except (ValueError, TypeError):  # TypeError: an array
        return int(cells.index[0])
    return None


def require_alike(sheet: Sheet, cells: pd.Series, what: str, advice: str = "") -> None:
    """Raise ValueError if a cell does not have as many letters, numbers, or frames as the first one."""
    lengths = cells.map(len)
    first = lengths.iloc[0]
    for row, length in lengths[lengths != first].items():
        raise ValueError(
            f"{sheet.place(row)}: {cells.name} has {length} {what}, expected {first} as in the first row{advice}"
        )


def _flag_in(cell: Any) -> Any:
    """Return 1 for texts such as True and yes, and 0 for False and no; any other cell is unchanged."""
    return FLAGS.get(cell.lower(), cell) if isinstance(cell, str) else cell


def as_flags(sheet: Sheet, cells: pd.DataFrame) -> np.ndarray:
    """Return columns of 0 and 1, or words in `FLAGS`, as (n, K), int64; raise ValueError by row for anything else."""
    columns = []
    for name in cells:
        flags = as_numbers(sheet, cells[name].map(_flag_in), what="0 or 1")
        for row, flag in flags[~flags.isin([0, 1])].items():
            raise ValueError(f"{sheet.place(row)}: {name} is {flag:g}, expected 0 or 1")
        columns.append(flags)
    return np.column_stack(columns).astype(np.int64)


def as_ranks(sheet: Sheet, cells: pd.DataFrame) -> np.ndarray:
    """Return columns of label ranks as (n, K), int64: 0 for absent labels, 1, 2, 3, ... without a gap for the others.

    Raises:
        ValueError: a rank is not a whole number of at least 0, or a row has gaps or no label; the message names it.
    """
    ranks = np.column_stack([as_numbers(sheet, cells[name], least=0, what="0, 1, 2, ...") for name in cells])
    for row, row_ranks in zip(cells.index, ranks, strict=True):
        present = sorted({rank for rank in row_ranks if rank})
        if not present or present != list(range(1, len(present) + 1)):
            raise ValueError(
                f"{sheet.place(row)}: label ranks are {', '.join(f'{rank:g}' for rank in row_ranks)}; expected 0 for "
                "absent labels and 1, 2, 3, ... without a gap for the others, the most important last, and at least "
                "one label"
            )
    return ranks.astype(np.int64)


# Text.


def has_word(caption: str) -> bool:
    """Return whether a caption has a letter or a digit."""
    return any(map(str.isalnum, caption))


def words_in(cell: Any) -> str:
    """Return the text in a cell, see `text_in`; raise ValueError if it has neither a word nor a mark."""
    text = text_in(cell)
    if not tokens_of(text):
        raise ValueError(f"{text[:60]!r}, expected at least one word; correct or remove the row")
    return text


def path_in(cell: Any) -> Any:
    """Return the normalized path of a file below the raw folder; a picture stored in a Parquet file is unchanged.

    Raises:
        ValueError: the path leads out of the folder.
    """
    if isinstance(cell, StoredPicture):
        return cell
    if not isinstance(cell, str) or cell.startswith("/") or ".." in cell.split("/") or "\0" in cell:
        raise ValueError(
            f"{_shown(cell)}, expected the path of a file below the table's folder, without `..`; move the file there "
            "and correct the cell"
        )
    return posixpath.normpath(cell)


def split_in(cell: Any) -> str:
    """Return the split that a cell names, such as val for Validation.

    Raises:
        ValueError: there is no such split; the message continues "x is".
    """
    name = name_in(cell)
    for split, names in SPLIT_NAMES.items():
        if name.lower() in names:
            return split
    raise ValueError(f"{name!r}, expected train, val, test or gate")


def labels_in(cell: Any, separator: str) -> list[str]:
    """Return the labels of a cell.

    Raises:
        ValueError: a label occurs twice, or a list has a missing one; the message continues after the column's name.
    """
    if isinstance(cell, str) and cell[:1] in tuple("[({"):
        raise ValueError(
            f"is {cell[:60]!r}, a list written as text, expected names separated by {separator!r}, or a list in "
            "Parquet or JSON Lines"
        )
    is_list = isinstance(cell, list | np.ndarray)
    names = cell if is_list else cell.split(separator) if isinstance(cell, str) else [cell]
    if is_list and any(name is None or name != name for name in names):
        raise ValueError("has nan, expected names of labels")
    labels = [name for name in map(name_in, names) if name]
    for name, count in Counter(labels).items():
        if count > 1:
            raise ValueError(f"has {name!r} twice, expected each label once; correct the cell")
    return labels


def separator_of(names: Iterable[str]) -> str | None:
    """Return a separator that splits different names into fewer labels: these names combine the labels of a cell.

    If several names combine labels, there may be as many labels as names.

    >>> separator_of(["mug", "lamp", "mug/lamp"]), separator_of(["Paris, France", "Paris, Texas"])
    ('/', None)
    >>> separator_of(["cat;dog", "dog;cat"]), separator_of(["Lee", "Lee; Sons"])
    (';', None)
    """
    names = {*names}
    for separator in SEPARATORS:
        labels, combined = set(), 0
        for name in names:
            joined = name.rstrip(separator) if separator in "|;" else name  # some programs write cat|dog|
            parts = [part.strip() for part in joined.split(separator)]
            is_combined = len(parts) > 1 and all(parts)  # C++ is a name
            labels |= {*parts} if is_combined else {joined}
            combined += is_combined
        if len(labels) < len(names) + (combined > 1):
            return separator
    return None


# Dates, and rows that belong together.


def as_days(sheet: Sheet, cells: pd.Series, order: str) -> pd.Series:
    """Return the days from 1970-01-01 to the date in each cell.

    Args:
        sheet: the sheet of the cells, for the numbers of rows.
        cells: dates such as 2026-11-30, 2026-11, 2026, and 20261130, or in another order.
        order: the order of year, month, and day in other cells.

    Raises:
        ValueError: a cell is not a date; the message names its row.
    """
    return converted(sheet, cells, partial(_day, order)).astype(np.float64)


def _day(order: str, cell: Any) -> float:
    text = str(cell)
    if DAY.fullmatch(text):
        cell = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    elif MONTH.fullmatch(text):
        cell = f"{text}-01-01"[: len("2026-11-30")]
    try:
        return days_in(cell, order)
    except ValueError as error:
        orders = " or ".join(f"`order: {order}`" for order in orders_of([cell]))
        raise ValueError(f"{error}{f'; or add {orders} to `date`' if orders else ''}") from error


def as_periods(sheet: Sheet, cells: pd.Series, first: str, every: str, order: str) -> np.ndarray:
    """Return the delivery (n,) of each row: 0 up to the date `first`, then 1, 2, ... for each period that has rows.

    Raises:
        ValueError: a cell is not a date; the message names its row.
    """
    days = np.floor(as_days(sheet, cells, order).to_numpy()).astype(np.int64)
    dates = days.astype("datetime64[D]")
    periods = dates.astype(f"datetime64[{PERIODS[every]}]").astype(np.int64)
    if every == "week":
        periods = (days + 3) // 7  # 1970-01-01 was a Thursday, and a week begins on Monday
    deliveries, is_later = np.zeros(len(days), np.int64), dates > np.datetime64(first)
    deliveries[is_later] = np.unique(periods[is_later], return_inverse=True)[1] + 1
    return deliveries


def require_same(sheet: Sheet, frame: pd.DataFrame, by: str, columns: Sequence[str], what: str) -> None:
    """Raise ValueError if rows that belong together differ in a column; the message names two of them.

    Args:
        sheet: the sheet of the rows, for their numbers.
        frame: the rows.
        by: rows with the same value in this column belong together.
        columns: the columns in which these rows must agree.
        what: what such rows are together, such as `query`, for the message.
    """
    for column in columns:
        firsts = frame.groupby(by, sort=False)[column].transform("first")
        for row, value in frame[column][firsts != frame[column]].items():
            other = frame.index[frame[by] == frame.loc[row, by]][0]
            raise ValueError(
                f"{sheet.place(row)}: {what} {frame.loc[row, by]} has the {column} {value} here and "
                f"{frame.loc[other, column]} in row {sheet.row[other]}; expected the same {column} in all of its rows: "
                "correct one of them"
            )
