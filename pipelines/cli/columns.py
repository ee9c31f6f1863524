"""The columns of a table: the content of their first cells, the roles that their names suggest, and their roles."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rankgrad import lookup
from rankgrad.datasets.tables.cells import FLAGS, missing_in, separator_of
from rankgrad.datasets.tables.files import Sheet, names_in, read_sheet, require_columns, stored_pictures
from rankgrad.datasets.tables.formats import Format, format_of
from rankgrad.datasets.tables.suspects import SAME_ORDER, rank_correlation
from rankgrad.inputs.image import StoredPicture
from rankgrad.numbers import ORDERS, PLAIN, Writing, days_in, number_in, orders_of, vector_in, writings_of
from rankgrad.plain_text import parts_in

__all__ = [
    "MOSTLY",
    "Column",
    "Columns",
    "Truth",
    "check_cells",
    "if_empty",
    "in_one_order",
    "is_called_like",
    "is_within",
    "listed",
    "plain",
    "refuse_two_readings",
    "same_order",
    "split_labels",
    "whole_sheet",
]

HEAD = 1000  # number of first rows to inspect
MOSTLY = 0.5  # fraction of cells, or of groups
SHOWN, MOST_WORDS = 3, 10  # texts in an error, and words that may mean a missing value
COMBINED = 0.1  # fraction of cells with a separator above which they are labels: some companies are Lee; Sons
# Typical column names of each role.
CALLED = {
    "labels": r"(tags?|labels?|categor|class|genres?|topics?)",
    "target": r"(target|score|price|value|rating|grade|y$|y_?true$|actual$|ctr|rate|label$|views?|likes?)",
    "outcome": r"(sales|revenue|turnover|clicks|orders)(_per_[a-z]+)?$",  # of a product, whose price may be an input
    "relevance": r"(relevance|grade|rel(_?score)?$|label$|click|judg(ed|e?ments?)(_?score)?$|prefer|better|stars?$|"
    r"rating)",
    "judged": r"(relevance|rel|judge?ments?)(_?(grade|label|score))?$",  # of documents
    "captions": r"(captions?|description|sentence|text|title)",
    "text": r"(text|document|doc$|passage|article$|answer|response|body|content|review)",
    "chosen": r"(chosen|preferred|accepted|winner|win|better)$",
    "rejected": r"(rejected|dispreferred|loser|lose|worse)$",
    "margin": r"margin$",
    "query": r"(qid|query|question|pair|prompt|search|request)(_?(id|text|string|terms?|phrase))?$",
    "group": r"(group|user|customer|session|product|owner|patient|subject|author|shop|store)s?"
    r"(_?(id|key|name|number|no|nr|code))?$",
    "id": r"(id|key|name|sku|index|idx|no|nr|row|number|code|uuid|isbn|ean|unnamed:_0|row_?names|(index_)?level_0)$",
    "index": r"(unnamed:_\d+(_\d+)?|(index_)?level_0|row_?(names?|num|number|index|idx))$",  # as programs call it
    "key": r"(id|key|sku|nr|[a-z]*nummer|code|uuid|isbn|ean|zip|zip_?code|postal|post_?code|plz|phone|telephone)$",
    "afterwards": r"(sold|closed|end(ed)?$|finish|complet|return|deliver|shipped|paid|cancel|churn|resol|updat|modif)",
    "prediction": r"(y_?hat|pred(s|icted|ictions?)?)([^a-z]|$)",
    "judge": r"(judge|rater|annotator|labell?er|assessor|evaluator)(_?(id|name|nr|no|number))?$",
    "split": r"(k_?)?(split|fold|subset|partition)(_?(id|nr|no|number))?",
    "side of a split": r"(is|in)_(train(ing)?|test(ing)?|val|validation|hold_?out)(_?set)?$",
    "weight": r"(sample|row|example|case)_?weights?$",
    "rank": r"(rank|ranking|position|place)$",
}  # fmt: skip
ALIGNED = re.compile(r"[A-Z*.-]{8,}|[acgtun*.-]{8,}")  # proteins and genes
BOTH = re.compile(r"[+-]?\d{1,3}(([.' \u00a0\u2009\u202f\u2019]\d{3})+,|(,\d{3})+\.)\d+")  # 1.306,50 and 1,306.50
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
# A list, or an array of NumPy, as text; not an interval of pandas, such as (0, 10].
PRINTED = re.compile(r"\s*(tensor\(|array\()?\s*(?!\([^()]*\]$|\[[^\[\]]*\)$)(\[|\{|\(.*[, ])")


@dataclass(frozen=True, eq=False)
class Column:
    """The nonempty cells of a column in the first rows of a file.

    Attributes:
        name: name of the column.
        cells: cells by row number.
        sheet: the rows.
        is_first, is_last: whether it is the first or the last column with cells.
    """

    name: str
    cells: pd.Series
    sheet: Sheet
    is_first: bool = False
    is_last: bool = False

    @cached_property
    def texts(self) -> pd.Series:
        return self.cells[self.cells.map(lambda cell: isinstance(cell, str))].astype(object)  # never float16

    @cached_property
    def names(self) -> pd.Series:
        return self.cells.map(str)

    @cached_property
    def numbers(self) -> pd.Series:
        """The number in each cell; NaN for cells without a number."""
        return self.cells.map(self._number).astype(np.float64)

    def _number(self, cell: Any) -> float:
        try:
            return number_in(cell, self.sheet.writing)
        except ValueError:
            return np.nan

    @cached_property
    def content(self) -> str:
        """The content of the cells: the name of an input type, labels, captions, object, time, number, or name."""
        return _content_of(self)

    @cached_property
    def hindrance(self) -> str | None:
        """The first cell that is not a number, in a column of numbers with units or with a few other cells."""
        wrong = self.names[self.numbers.isna()]
        if self.content not in ("name", "text") or not len(wrong) or self.is_called("labels"):
            return None
        with_unit = np.mean([UNIT.fullmatch(cell) is not None for cell in wrong])
        return wrong.iloc[0] if max(with_unit, self.numbers.notna().mean()) > MOSTLY else None

    @property
    def words(self) -> list[str]:
        """Ten cells, or fewer, without digits in a column of numbers, which may mean a missing value."""
        if self.hindrance is None:
            return []
        words = [word for word in self.names[self.numbers.isna()].unique() if not re.search(r"\d", word)]
        return words[:MOST_WORDS]

    @property
    def advice_on_hindrance(self) -> str:
        """What to do about the cells that are not numbers."""
        cell = self.hindrance or ""
        place = self.sheet.row[self.cells.index[self.names == self.hindrance][0]]
        found = f"numbers except for cells such as {shlex.quote(cell[:60])} in row {place}"
        if readings := writings_of([cell]):
            same = [reading.thousands for reading in readings if reading.decimal == self.sheet.writing.decimal]
            advice = f", or pass `--thousands {shlex.quote(same[0])}`" if same and same[0] else ""
            return f"{found}, a number in another notation: write all numbers of the column alike{advice}"
        if UNIT.fullmatch(cell):
            return f"{found}: write plain numbers such as 1234.5 or -7, and move units to the header"
        return f"{found}: {if_empty(*(self.words or [cell]))}"

    @cached_property
    def no_date(self) -> str | None:
        """The first cell that is not a date, such as 31.02.2026, in a column of dates with a few other cells."""
        if self.content == "time":
            by_order = [[cell for cell in self.names if not _is_date(cell, order)] for order in ORDERS]
            others = min(by_order, key=len)
        else:
            others = [cell for cell in self.names if not DAY.fullmatch(cell)]
        is_mixed = self.content in ("name", "time") and 0 < len(others) < MOSTLY * len(self.cells)
        return others[0] if is_mixed else None

    @property
    def typed(self) -> str:
        """The name as one types it in a shell."""
        return shlex.quote(self.name)

    @property
    def has_names(self) -> bool:
        return self.content in ("name", "text") and self.hindrance is None

    @property
    def has_sentences(self) -> bool:
        """Whether most cells are texts with several words."""
        return self.content in ("text", "name") and self.names.str.contains(r"\s").mean() > MOSTLY

    @property
    def is_whole_input(self) -> bool:
        """Whether each cell is a complete input: files of an input type, or vectors."""
        return self.content != "text" and self.content in lookup.names("inputs")

    @property
    def is_text(self) -> bool:
        """Whether cells are texts to read: sentences that rarely repeat."""
        return self.content == "text" and not self.is_category and self.hindrance is None

    @property
    def is_unique(self) -> bool:
        return self.content in ("number", "name", "text", "image") and self.names.is_unique

    @property
    def is_whole(self) -> bool:
        return self.content == "number" and bool((self.numbers % 1 == 0).all())

    @property
    def is_flag(self) -> bool:
        """Whether all cells are words such as true and no."""
        return self.has_names and bool(self.names.str.lower().isin(FLAGS).all())

    @property
    def is_category(self) -> bool:
        """Whether cells are names that repeat."""
        count = self.names.nunique() if self.has_names else 0
        return 2 <= count <= max(2, len(self.cells) // 10) and 2 * count <= len(self.cells)

    @property
    def is_aligned(self) -> bool:
        """Whether cells are uppercase words of equal length, like aligned proteins and genes."""
        if self.content != "name" or self.is_category or self.names.map(len).nunique() > 1:
            return False
        return self.all_match(ALIGNED)

    @cached_property
    def separator(self) -> str | None:
        """The separator that splits the cells into fewer labels than there are different cells, even if few have it."""
        return separator_of(self.names) if self.has_names else None

    @cached_property
    def date_orders(self) -> list[str]:
        """The orders of year, month, and day in which all cells are dates."""
        return orders_of(self.cells)

    @property
    def usual_date_order(self) -> str:
        """The order in which most cells are dates."""
        return max(ORDERS, key=lambda order: sum(_is_date(cell, order) for cell in self.names))

    @property
    def has_labels(self) -> bool:
        """Whether cells are lists of labels, or many have a separator that is rare in other names and labels repeat."""
        if self.separator not in ("|", ";", ","):
            return self.content == "labels"
        other_marks = rf"[.!?]\s|[{'|;,'.replace(self.separator, '')}]"
        if self.names.str.contains(other_marks).mean() > COMBINED:  # sentences
            return False
        labels = split_labels(self.cells, self.separator)
        are_repeated = len(set().union(*labels)) <= max(2, sum(map(len, labels)) // 3)  # not phrases of a caption
        return are_repeated and self.names.str.contains(self.separator, regex=False).mean() > COMBINED

    def all_match(self, pattern: re.Pattern[str]) -> bool:
        return all(pattern.fullmatch(str(cell)) for cell in self.cells)

    def is_called(self, role: str) -> bool:
        is_short = role == "query" and plain(self.name) == "q" and self.has_sentences  # a number may be called q, too
        return is_short or is_called_like(self.name, role)

    def is_exactly_called(self, role: str) -> bool:
        return re.fullmatch(CALLED[role], plain(self.name)) is not None

    def shown(self, row: Any) -> str:
        """Return the location and content of a cell, for messages."""
        return f"{self.sheet.place(row)}: {self.name} is {str(self.cells[row])!r:.60}"


def if_empty(*cells: str) -> str:
    """Return the advice for texts that may mean a missing value."""
    options = " ".join(f"--empty {shlex.quote(cell)}" for cell in dict.fromkeys(cells))
    return f"if {'it means' if len({*cells}) == 1 else 'they mean'} a missing value, pass `{options}`"


def _is_date(cell: str, order: str) -> bool:
    try:
        days_in(cell, order)
    except ValueError:
        return False
    return True


class Columns:
    """The columns of a file's first rows, and which of them have no role yet.

    Attributes:
        path, form, encoding, sheet: the file, its format and encoding, and its first rows.
        empty: texts that mean a missing value.
        writing: how numbers are written.
        is_writing_known: whether the user or the cells tell how; otherwise, `writing` is a program's notation.
        all: columns by name, without empty columns.
        named: columns that the user names, by role; they get no other role.
        task: the task that the user names or that follows from the named columns; None for any.
        free: columns without a role.
        structure: the table's options for split, weight, group, and id.
        reasons: why columns are not used.
    """

    def __init__(
        self,
        path: Path,
        encoding: str,
        empty: Sequence[str],
        writing: Writing | None,
        named: Mapping[str, str],
        task: str | None,
    ) -> None:
        self.path, self.form, self.encoding, self.empty = path, format_of(path), encoding, empty
        self.writing = PLAIN
        names = names_in(path, self.form, encoding)
        if self.form == "svmlight":
            names = [name for name in names if name != "qid"]  # not every file has queries
        self.sheet = self.read(names, head=HEAD)
        self.all: dict[str, Column] = {}
        cells = {name: _filled(self.sheet, name) for name in names if name}
        filled = [name for name in cells if len(cells[name])]
        known = writing or _common_writing([Column(name, cells[name], self.sheet) for name in filled])
        self.is_writing_known, self.writing = known is not None, known or PLAIN
        self.sheet = self.sheet._replace(writing=self.writing)
        for name in filled:
            is_first, is_last = name == filled[0], name == filled[-1]
            self.all[name] = Column(name, cells[name], self.sheet, is_first=is_first, is_last=is_last)
        self._check(named)
        self.named = {role: self.all[name] for role, name in named.items()}
        self.task = "query_ranking" if task is None and "query" in named else task
        self.free = [column for column in self.all.values() if column not in self.named.values()]
        self.structure: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        if "" in names and len(_filled(self.sheet, "")):
            self.reasons["a column without a name"] = "name it in the header to use it"
        if empty := [name for name in cells if name not in self.all]:
            self.reasons[listed(empty)] = f"empty in the first {len(self.sheet.frame):,} rows"

    def _check(self, named: Mapping[str, str]) -> None:
        """Raise if a named column does not exist, or is named twice."""
        try:
            require_columns([*named.values()], [*self.all])
        except ValueError as error:
            raise self.refusal(str(error)) from None
        for name in named.values():
            flags = [f"--{role}" for role in named if named[role] == name]
            if len(flags) > 1:
                raise self.refusal(f"{' and '.join(flags)} are both {name}; name a column only once")
        if "group" in named and "query" in named:
            raise self.refusal("--group and --query: rows of a query already stay in one split; pass only one of them")

    def read(self, names: list[str], *, head: int | None) -> Sheet:
        """Return the first rows of the file, or all, with some of its columns."""
        return read_sheet(
            [self.path], lambda _: names, kind=self.form, encoding=self.encoding, empty=self.empty,
            writing=self.writing, head=head,
        )  # fmt: skip

    @property
    def group(self) -> Column | None:
        """The column of groups or queries; None if there is none, or not yet."""
        return self.all.get(self.structure.get("group", ""))

    def whole(self, column: Column) -> Column:
        """Return a column with all nonempty cells of the whole file."""
        sheet = self.whole_sheet([column.name])
        return Column(column.name, _filled(sheet, column.name), sheet)

    def whole_sheet(self, names: Sequence[str]) -> Sheet:
        """Return all rows of the file, with some of its columns."""
        sheet = whole_sheet(self.path, (*names,), self.form, self.encoding, (*self.empty,))
        return sheet._replace(writing=self.writing)

    def refusal(self, text: str) -> ValueError:
        return ValueError(f"{self.path}: {text}")

    def question(self, columns: Sequence[Column], reason: str, flag: str, other: str = "") -> ValueError:
        """Return an error that asks the user to choose a column, with the options to type, and another way out."""
        choices = " or ".join(f"`--{flag} {column.typed}`" for column in columns[:3])
        return self.refusal(
            f"{' and '.join(column.name for column in columns[:3])} {reason}: choose one with {choices}{other}"
        )

    def of_content(self, content: str) -> list[Column]:
        return [column for column in self.free if column.content == content]

    def use(self, *columns: Column) -> None:
        """Remove columns from the free ones."""
        self.free = [column for column in self.free if column not in columns]

    def leave_out(self, column: Column, reason: str) -> None:
        self.reasons[column.name] = reason
        self.use(column)

    def take(self, test: Callable[[Column], bool]) -> Column | None:
        """Take the first free column that passes a test."""
        for column in self.free:
            if test(column):
                self.use(column)
                return column
        return None

    def take_truth(self, test: Callable[[Column], bool], role: str) -> Column | None:
        """Take the column that the user names as the target, if it passes a test, or the best match for the role's
        names.

        Raises:
            ValueError: several columns match the role, and they order rows differently.
        """
        if "target" in self.named:
            return self.named["target"] if test(self.named["target"]) else None
        fitting = [column for column in self.free if test(column)]
        fitting = [column for column in fitting if column.is_called(role)] or fitting
        fitting = [column for column in fitting if column.is_exactly_called(role)] or fitting
        apart = [column for column in fitting[1:] if role == "labels" or not same_order(column, fitting[0])]
        if apart:
            raise self.question([fitting[0], *apart], f"may be the {role}", "target")
        self.use(*fitting[:1])
        return fitting[0] if fitting else None

    def take_shared(self, role: str, *, exact: bool) -> Column | None:
        """Take the column of groups. If there are several, take the one whose groups contain the groups of the others.

        Args:
            role: group or query, whose typical names the column must have.
            exact: whether the others must have the same groups, like a query's text and its id.

        Raises:
            ValueError: several columns have such names, and their groups differ.
        """
        shared = []
        for column in self.free:
            if column.is_called(role) and column.content in ("name", "text", "number") and not column.is_unique:
                shared.append(column)
        for column in shared:
            if all(is_within(other, column) and (not exact or is_within(column, other)) for other in shared):
                self.use(column)
                return column
        if shared:
            raise self.question(shared, "group rows differently", role)
        return None


class Truth(NamedTuple):
    """The target: its task, the table's options, a line about it, and its column if there is only one.

    `inputs` are the options of an input that the target implies, from `input_columns`.
    """

    task: str
    options: dict[str, Any]
    line: str
    column: Column | None = None
    inputs: Mapping[str, Any] = MappingProxyType({})
    input_columns: Sequence[Column] = ()


def whole_sheet(path: Path, columns: tuple[str, ...], form: Format, encoding: str, empty: tuple[str, ...]) -> Sheet:
    """Return all rows of a file, with some of its columns; a large file takes seconds, so the last ones are kept."""
    changed = path.stat().st_mtime_ns if path.is_file() else None
    return _whole_sheet(path.absolute(), columns, form, encoding, empty, changed)._replace(paths=[path])


@lru_cache(maxsize=4)
def _whole_sheet(
    path: Path, columns: tuple[str, ...], form: Format, encoding: str, empty: tuple[str, ...], changed: int | None
) -> Sheet:
    return read_sheet([path], lambda _: [*columns], kind=form, encoding=encoding, empty=empty)


def _filled(sheet: Sheet, name: str) -> pd.Series:
    cells = sheet.frame[name]
    return cells[~missing_in(cells, numeric=False)]


def plain(name: str) -> str:
    """Return a column's name in snake case, such as passenger_id for PassengerId and for Passenger ID."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s._-]+", "_", name).lower().strip("_")


def is_called_like(name: str, role: str) -> bool:
    """Return whether a column's name contains a typical word of a role."""
    return re.search(rf"(^|[^a-z]){CALLED[role]}", plain(name)) is not None


def listed(names: str | Collection[str]) -> str:
    """Return the first ten names, followed by their number if there are more."""
    names = [names] if isinstance(names, str) else [*names]
    return ", ".join(names[:10]) + (f", ... ({len(names)} columns)" if len(names) > 10 else "")


def split_labels(cells: pd.Series, separator: str) -> list[list[str]]:
    """Return the labels of each cell."""
    rows = []
    for cell in cells:
        labels = parts_in(cell if isinstance(cell, list | np.ndarray) else str(cell), separator)
        rows.append([label for label in labels if label])
    return rows


def in_one_order(rows: list[list[str]]) -> bool:
    """Return whether labels have the same order in almost all rows, as if someone had ticked boxes."""
    surplus, count = Counter[frozenset[str]](), 0
    for row in rows:
        for first, second in pairwise(row):
            surplus[frozenset((first, second))] += 1 if first < second else -1
            count += 1
    return sum(map(abs, surplus.values())) > 0.9 * count or not count


def same_order(column: Column, other: Column, group: Column | None = None) -> bool:
    """Return whether two columns of numbers order rows, or the rows of each group, equally or in reverse."""
    numbers = pd.DataFrame({"column": column.numbers, "other": other.numbers})
    groups = None if group is None else pd.factorize(group.names.reindex(numbers.index))[0]
    return abs(rank_correlation(numbers["column"].to_numpy(), numbers["other"].to_numpy(), groups)) > SAME_ORDER


def is_within(column: Column, other: Column) -> bool:
    """Return whether rows with equal cells in one column also have equal cells in the other."""
    pairs = pd.DataFrame({"column": column.names, "other": other.names}).dropna().drop_duplicates()
    return bool(pairs["column"].is_unique)


def _content_of(column: Column) -> str:
    """Return the content of cells: lists of sentences are captions; numbers such as 01067 are names."""
    cells = column.cells
    sentences = lookup.find("inputs", "text")
    if all(isinstance(cell, list | np.ndarray) for cell in cells):
        firsts = cells.map(lambda cell: cell[0])
        if firsts.map(lambda item: isinstance(item, str)).all():
            return "captions" if sentences.fits([*firsts]) else "labels"
        if cells.map(len).nunique() > 1 and firsts.map(lambda item: isinstance(item, int)).all():
            return "labels"
        if not firsts.map(np.isscalar).all():
            return "object"
    elif cells.map(lambda cell: isinstance(cell, dict | list | np.ndarray)).any():
        return "object"
    for name in lookup.names("inputs"):
        input_type = lookup.find("inputs", name)
        if (input_type.files or input_type.vectors) and input_type.fits([*cells]):
            return name
    is_number = column.numbers.notna().all()
    if not is_number and _are_vectors(column):  # 12 500 000 is one number where spaces separate thousands
        return "features"
    if _are_days(column):
        return "time"
    if is_number and not any(map(CODE.fullmatch, column.texts)):
        return "number"
    has_letters = cells.map(lambda cell: any(map(str.isalpha, str(cell)))).any()
    return "text" if has_letters and sentences.fits([*cells]) else "name"


def _are_vectors(column: Column) -> bool:
    """Return whether cells are text with three or more numbers, the same number in each."""
    try:
        lengths = {len(vector_in(text, column.sheet.writing)) for text in column.texts}
    except ValueError:
        return False
    return len(column.texts) == len(column.cells) and len(lengths) == 1 and min(lengths) >= 3


def _are_days(column: Column) -> bool:
    """Return whether cells are dates or times, including 20260131."""
    if column.cells.dtype.kind in "mM" or isinstance(column.cells.iloc[0], date):
        return True
    return column.all_match(DAY) or column.all_match(WRITTEN_DAY)


# Cells that can be read in two ways, or in none.


def check_cells(column: Column, *, is_writing_known: bool) -> None:
    """Raise ValueError if `rankgrad.datasets.table` cannot read the cells; the message tells what to write instead."""
    printed = column.texts[column.texts.map(lambda text: PRINTED.match(text) is not None)]
    if len(printed) > MOSTLY * len(column.cells):
        raise ValueError(
            f"{column.shown(printed.index[0])}, a list written as text; store lists in Parquet or JSON lines, or write "
            "labels as a|b and each number into its own column"
        )
    if column.content == "image":
        _refuse_addresses(column)
        _refuse_bytes(column)
    elif not is_writing_known and not column.is_called("labels"):
        refuse_two_readings(column)


def _refuse_addresses(column: Column) -> None:
    for row, path in column.texts.items():
        if "://" in path:
            raise ValueError(
                f"{column.shown(row)}, a URL; download the images into the folder of the table, and write their paths"
            )
        if "\\" in path:
            raise ValueError(f"{column.shown(row)}; write / in place of \\ in paths")


def _refuse_bytes(column: Column) -> None:
    """Raise if the bytes of a Parquet file are text rather than pictures."""
    cell = column.cells.iloc[0]
    if isinstance(cell, StoredPicture):
        picture = next(stored_pictures([cell], column.name))
        with suppress(UnicodeDecodeError):
            if not picture:  # it is missing
                return
            raise ValueError(
                f"{column.sheet.place(column.cells.index[0])}: {column.name} is {picture.decode()[:40]!r} in bytes; "
                "store it as text or as a number"
            )


def _common_writing(columns: Sequence[Column]) -> Writing | None:
    """Return the only notation in which all columns of numbers can be read, if a number has both of its separators.

    Other columns prove nothing: 4,5 may be two codes, 1.306 is small or large, and 798 872 212 may be a vector.
    """
    numbers = [column for column in columns if not column.is_called("labels")]
    if not any(column.texts.map(BOTH.fullmatch).any() for column in numbers):
        return None
    texts = set[str]()
    for column in numbers:
        texts.update(_with_digits(column) if _writings(column) else ())
    readings = writings_of(texts) if any(map(BOTH.fullmatch, texts)) else []
    return readings[0] if len(readings) == 1 else None


def _writings(column: Column) -> list[Writing]:
    """Return the notations in which the texts with digits of a column are numbers; none if most have no digit."""
    texts = _with_digits(column).unique()
    return writings_of(texts) if len(texts) else []


def _with_digits(column: Column) -> pd.Series:
    """Return the texts with a digit if most texts of a column have one, else none."""
    has_digit = column.texts.map(lambda text: re.search(r"\d", text) is not None).astype(bool)
    return column.texts[has_digit & (has_digit.mean() > MOSTLY)]


def refuse_two_readings(column: Column) -> None:
    """Raise if numbers are not in a program's notation, or are ambiguous: 1.306 is 1306 in German."""
    texts, readings = _with_digits(column), _writings(column)
    others = column.texts.drop(texts.index)
    if not readings or readings == [PLAIN]:
        return
    row = next(row for row, text in texts.items() if writings_of([text]) != [PLAIN])
    empty = "".join(f" --empty {shlex.quote(text)}" for text in others.unique()[:SHOWN])
    options = []
    for reading in readings:
        thousands = f" --thousands {reading.thousands!r}" if reading.thousands else ""
        options.append(f"--decimal {reading.decimal!r}{thousands}{empty}")
    raise ValueError(f"{column.shown(row)}; set how such numbers are written: {' or '.join(options)}")
