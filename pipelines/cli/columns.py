"""The columns of a table: what their cells hold, by the first rows, and what they are called like."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from rankgrad import lookup
from rankgrad.datasets.tables.files import Sheet
from rankgrad.datasets.tables.suspects import SAME_ORDER, rank_correlation
from rankgrad.numbers import PLAIN, number_in, vector_in, writings_of

__all__ = ["Column", "check_cells", "plain", "same_order"]

MOSTLY = 0.5  # of cells
SECONDS = 1e8  # beyond it a number called a time counts seconds since 1970
# What columns of a role are often called.
CALLED = {
    "labels": r"(tags?|labels?|categor|class|genres?|topics?)",
    "target": r"(target|score|price|value|rating|grade|y$|ctr|rate|label$|views?|likes?)",
    "relevance": r"(relevance|grade|rel$|label$|click|judg|prefer|better)",
    "captions": r"(captions?|description|sentence|text|title)",
    "text": r"(text|document|doc$|passage|answer|response|body|content|review)",
    "chosen": r"(chosen|preferred|accepted|winner|win)$",
    "rejected": r"(rejected|dispreferred|loser|lose)$",
    "margin": r"margin$",
    "query": r"(qid|query|question|pair|prompt|search|request)(_?id)?$",
    "group": r"(group|user|customer|session|product|owner|patient|subject|author|shop|store)s?"
    r"(_?(id|key|name|number|no|nr|code))?$",
    "id": r"(id|key|name|sku|index|idx|no|nr|row|number|code|uuid|isbn|ean|unnamed: 0)\.?$",
    "key": r"(id|key|sku|nr|code|uuid|isbn|ean|zip|zip_?code|post_?code|plz|phone|telephone)\.?$",
    "date": r"(date|day$|time|ts$|epoch|added|created|month)",
    "split": r"(split|fold|subset|partition)",
    "weight": r"(sample|row|example|case)_?weights?$",
    "rank": r"(rank|ranking|position|place)$",
}  # fmt: skip
ALIGNED = re.compile(r"[A-Z*.-]{8,}|[acgtun*.-]{8,}")  # proteins and genes
UNIT = re.compile(  # 4,5 kg, $7 and USD 7, but not lab 7
    r"([^\w\s]{0,2}|([A-Z]{2,4}|kr|eur|usd|gbp|chf|[A-Z][a-z]|[A-Za-z]{2,4}\.) )\s?[+-]?\d[\d.,' ]*\s?[^\d\s|;,]{0,8}"
)
MONTHS = "(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*"
DAY = re.compile(
    r"\d{4}[-/]\d{1,2}([-/]\d{1,2}.*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d\d(:\d\d.*)?|"
    rf"(\d{{1,2}}[. -]+)?{MONTHS}[. ,-]+(\d{{1,2}},? )?\d{{2,4}}|\d{{4}}-?[wq]\d+|[wq]\d{{1,2}}[ /-]\d{{4}}",
    re.IGNORECASE,
)
WRITTEN_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\.0)?")  # 20260131
CODE = re.compile(r"0\d+")  # of a place or an article
PRINTED = re.compile(r"\s*(tensor\(|array\()?\s*(\[|\{|\(.*[, ])")  # a list, or an array of NumPy, as text


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a column that are not empty, in the first rows of a file.

    Attributes:
        name: of the column.
        cells: by the numbers of their rows.
        sheet: the rows.
        is_last: whether it is the last column that has cells.
    """

    name: str
    cells: pd.Series
    sheet: Sheet
    is_last: bool = False

    @cached_property
    def texts(self) -> pd.Series:
        return self.cells[self.cells.map(lambda cell: isinstance(cell, str))]

    @cached_property
    def names(self) -> pd.Series:
        return self.cells.map(str)

    @cached_property
    def numbers(self) -> pd.Series:
        """The number of each cell, NaN of others."""
        return self.cells.map(self._number).astype(np.float64)

    def _number(self, cell: Any) -> float:
        try:
            return number_in(cell, self.sheet.writing)
        except ValueError:
            return np.nan

    @cached_property
    def all_lists(self) -> bool:
        return all(isinstance(cell, list | np.ndarray) for cell in self.cells)

    @cached_property
    def firsts(self) -> pd.Series:
        """The first item of each list."""
        return self.cells.map(lambda cell: cell[0])

    @cached_property
    def content(self) -> str:
        """What the cells hold: the name of an input type, labels, captions, object, time, number or name."""
        return next(content for recognize in CONTENTS if (content := recognize(self)) is not None)

    @cached_property
    def hindrance(self) -> str | None:
        """The first cell that is no number, of numbers with a unit or but for some cells."""
        wrong = self.names[self.numbers.isna()]
        if self.content not in ("name", "text") or not len(wrong) or self.is_called("labels"):
            return None
        with_unit = np.mean([UNIT.fullmatch(cell) is not None for cell in wrong])
        return wrong.iloc[0] if max(with_unit, self.numbers.notna().mean()) > MOSTLY else None

    @property
    def has_names(self) -> bool:
        return self.content in ("name", "text") and self.hindrance is None

    @property
    def is_unique(self) -> bool:
        return self.content in ("number", "name", "text", "image") and self.names.is_unique

    @property
    def is_whole(self) -> bool:
        return self.content == "number" and bool((self.numbers % 1 == 0).all())

    @property
    def is_category(self) -> bool:
        """Whether cells are names that come again."""
        kinds = self.names.nunique() if self.has_names else 0
        return 2 <= kinds <= max(2, len(self.cells) // 10) and 2 * kinds <= len(self.cells)

    @property
    def is_aligned(self) -> bool:
        """Whether cells are words of capitals, all of one length, as aligned proteins and genes are."""
        if self.content != "name" or self.is_category or self.names.map(len).nunique() > 1:
            return False
        return self.all_match(ALIGNED)

    @cached_property
    def separator(self) -> str | None:
        """What joins the labels of a cell, if several have it and labels come again."""
        for separator in "|;," if self.has_names else "":
            labels = split_labels(self.cells, separator)
            count = sum(map(len, labels))
            often = self.names.str.contains(separator, regex=False).mean() > 0.1
            if often and len(set().union(*labels)) <= max(2, count // 3):
                return separator
        return None

    def all_match(self, pattern: re.Pattern[str]) -> bool:
        return all(pattern.fullmatch(str(cell)) for cell in self.cells)

    def is_called(self, role: str) -> bool:
        return re.search(rf"(^|[^a-z]){CALLED[role]}", plain(self.name)) is not None

    def is_exactly_called(self, role: str) -> bool:
        return re.fullmatch(CALLED[role], plain(self.name)) is not None

    def place(self, row: Any) -> str:
        return f"{self.sheet.place(row)}: {self.name}"


def plain(name: str) -> str:
    """Return a column's name in lower case, as in passenger_id for PassengerId."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def split_labels(cells: pd.Series, separator: str) -> list[list[str]]:
    """Return the labels of each cell."""
    rows = []
    for cell in cells:
        labels = cell if isinstance(cell, list | np.ndarray) else str(cell).split(separator)
        rows.append([str(label).strip() for label in labels if str(label).strip()])
    return rows


def in_one_order(rows: list[list[str]]) -> bool:
    """Return whether labels stand in the same order in almost all rows, as where somebody ticked boxes."""
    surplus: dict[frozenset[str], int] = {}
    count = 0
    for row in rows:
        for first, second in pairwise(row):
            pair = frozenset((first, second))
            surplus[pair] = surplus.get(pair, 0) + (1 if first < second else -1)
            count += 1
    return sum(map(abs, surplus.values())) > 0.9 * count or not count


def same_order(column: Column, other: Column) -> bool:
    """Return whether two columns of numbers give rows the same order, or the reverse."""
    numbers = pd.DataFrame({"column": column.numbers, "other": other.numbers})
    return abs(rank_correlation(numbers["column"].to_numpy(), numbers["other"].to_numpy())) > SAME_ORDER


# What cells hold: each function recognizes one content, and the first that does decides.


def labels(column: Column) -> str | None:
    """Recognize lists of names, or of whole numbers if the lists differ in length; of sentences they are captions."""
    if not column.all_lists:
        return None
    if column.firsts.map(lambda item: isinstance(item, str)).all():
        return "captions" if lookup.find("inputs", "text").fits([*column.firsts]) else "labels"
    differ = column.cells.map(len).nunique() > 1 and column.firsts.map(lambda item: isinstance(item, int)).all()
    return "labels" if differ else None


def objects(column: Column) -> str | None:
    """Recognize objects of JSON, lists of lists or of objects, and lists beside other cells."""
    if column.all_lists:
        return None if column.firsts.map(np.isscalar).all() else "object"
    return "object" if column.cells.map(lambda cell: isinstance(cell, dict | list | np.ndarray)).any() else None


def whole_inputs(column: Column) -> str | None:
    """Recognize an input in each cell: files of an input type, such as pictures, or vectors."""
    for name in lookup.names("inputs"):
        input_type = lookup.find("inputs", name)
        if (input_type.files or input_type.vectors) and input_type.fits([*column.cells]):
            return name
    return "features" if _are_vectors(column) else None


def _are_vectors(column: Column) -> bool:
    """Return whether cells are text of three or more numbers, in all as many."""
    lengths = set()
    for cell in column.cells:
        try:
            lengths.add(len(vector_in(cell, column.sheet.writing)) if isinstance(cell, str) else 0)
        except ValueError:
            return False
        if len(lengths) > 1 or min(lengths) < 3:
            return False
    return True


def days(column: Column) -> str | None:
    """Recognize days and times: also 20260131, and seconds since 1970 in a column called like a date."""
    if column.cells.dtype.kind in "mM" or isinstance(column.cells.iloc[0], date):
        return "time"
    if column.all_match(DAY) or column.all_match(WRITTEN_DAY):
        return "time"
    return "time" if column.is_called("date") and (column.numbers > SECONDS).all() else None


def numbers(column: Column) -> str | None:
    """Recognize numbers; those with a leading zero, such as 01067, are codes."""
    has_code = any(CODE.fullmatch(text) for text in column.texts)
    return "number" if column.numbers.notna().all() and not has_code else None


def sentences(column: Column) -> str | None:
    """Recognize sentences: three words or more a cell on average."""
    return "text" if lookup.find("inputs", "text").fits([*column.cells]) else None


def names(column: Column) -> str:
    """Recognize anything else as a name."""
    return "name"


CONTENTS: tuple[Callable[[Column], str | None], ...] = (
    labels, objects, whole_inputs, days, numbers, sentences, names,
)  # fmt: skip


# Cells that have two readings, or none.


def check_cells(column: Column, *, is_writing_known: bool) -> None:
    """Raise ValueError if cells are not as `rankgrad.datasets.table` reads them; the message says what to write."""
    _refuse_printed_lists(column)
    if column.content == "image":
        _refuse_addresses(column)
    elif not is_writing_known and not column.is_called("labels"):
        _refuse_two_readings(column)


def _refuse_printed_lists(column: Column) -> None:
    printed = column.texts[column.texts.map(lambda text: PRINTED.match(text) is not None)]
    if len(printed) > MOSTLY * len(column.cells):
        raise ValueError(
            f"{column.place(printed.index[0])} is {printed.iloc[0][:60]!r}, a list that was written as text; store "
            "lists in Parquet or JSON lines, or labels as a|b and numbers in a column each"
        )


def _refuse_addresses(column: Column) -> None:
    for row, path in column.texts.items():
        if "://" in path:
            raise ValueError(
                f"{column.place(row)} is {path[:60]!r}, an address; download the pictures into the folder of the "
                "table, and write their paths"
            )
        if "\\" in path:
            raise ValueError(f"{column.place(row)} is {path[:60]!r}; write / in place of \\ in paths")


def _refuse_two_readings(column: Column) -> None:
    """Refuse numbers that are not as programs write them, or that may be others: 1.306 is 1306 in German."""
    readings = writings_of(column.texts) if len(column.texts) else []
    if not readings or readings == [PLAIN]:
        return
    row, text = next((row, text) for row, text in column.texts.items() if writings_of([text]) != [PLAIN])
    options = []
    for reading in readings:
        thousands = f" --thousands {reading.thousands!r}" if reading.thousands else ""
        options.append(f"--decimal {reading.decimal!r}{thousands}")
    raise ValueError(
        f"{column.place(row)} has numbers such as {text!r}; say how they are written: {' or '.join(options)}"
    )
