"""Guess the roles of a table's columns, see `rankgrad.datasets.table`, for a person to look over.

A column that a person names gets its role, or is refused. Cells with two readings, or none, are refused with what to
type. No other column takes the place of one that is called like a target.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipelines.cli.columns import CALLED, Column, check_cells, in_one_order, plain, same_order, split_labels
from rankgrad import lookup
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import as_periods, missing_in
from rankgrad.datasets.tables.examples import HIGHEST, missing_cells
from rankgrad.datasets.tables.files import Sheet, columns_like, names_in, read_sheet
from rankgrad.datasets.tables.formats import format_of
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.datasets.tables.suspects import stand_ins
from rankgrad.feature_names import is_feature_name
from rankgrad.inputs.image import StoredPicture
from rankgrad.numbers import PLAIN, Writing, number_in

__all__ = ["ROLES", "Guess", "guess"]

HEAD = 1000  # rows that are looked at
MOSTLY = 0.5  # of groups
SPLITS = {"train", "val", "test", "gate"}
ROLES = ("target", "text", "rejected", "group", "query", "id", "date", "weight")  # that a person may name
MENTIONS = 4  # how often a name is in the two columns of preferences on average, from which on it is a player's
CODE = re.compile(r"(?=.*\d)[\w.:/@-]+", re.ASCII)  # a name with a digit and without a space
DECISION, FEW_DECISIONS = re.compile(r"prefer|winner|chosen|better|choice|vote"), 5  # which of two answers is better
SIDES = {"a": "b", "0": "1", "1": "2", "left": "right"}  # how the names of two answers end
EXPLAINED, FEWEST_GROUPS = 0.3, 5  # from which on a column may be a group whose target has an offset of its own


class Guess(NamedTuple):
    """A task, the options of the table that it learns from, and what was decided, a line each."""

    task: str
    options: dict[str, Any]
    lines: list[str]


class Truth(NamedTuple):
    """What is learned: its task, the options of the table, a line about it, and its column if it is a single one.

    `inputs` are the options of an input that follows from it, of `input_columns`.
    """

    task: str
    options: dict[str, Any]
    line: str
    column: Column | None = None
    inputs: Mapping[str, Any] = MappingProxyType({})
    input_columns: Sequence[Column] = ()


class Columns:
    """The first rows of a file by columns, and which columns have no role yet.

    Attributes:
        path, form, encoding, sheet: the file, its format and encoding, and its first rows.
        all: columns by name; those without any cell are left out.
        free: columns without a role.
        named: columns that a person names, by role; they are free for no other one.
        reasons: why columns are not used.
    """

    def __init__(self, path: Path, encoding: str, writing: Writing | None, named: Mapping[str, str]):
        self.path, self.form, self.encoding = path, format_of(path), encoding
        names = names_in(path, self.form, encoding)
        self.sheet = self.read(names, writing=writing or PLAIN, head=HEAD)
        self.all: dict[str, Column] = {}
        cells = {name: self.sheet.frame[name][~missing_in(self.sheet.frame[name], numeric=False)] for name in names}
        filled = [name for name in names if name and len(cells[name])]
        for name in filled:
            self.all[name] = Column(name, cells[name], self.sheet, is_last=name == filled[-1])
        self.named = self._named(named)
        self.free = [column for column in self.all.values() if column not in self.named.values()]
        self.reasons: dict[str, str] = {}

    def _named(self, named: Mapping[str, str]) -> dict[str, Column]:
        for role, name in named.items():
            if name not in self.all:
                raise self.refusal(f"--{role}: no column {name!r}; it has {', '.join(self.all)}")
        for role, name in named.items():
            twice = [other for other in named if other != role and named[other] == name]
            if twice:
                raise self.refusal(f"--{role} and --{twice[0]} are both {name}; name a column once")
        if "group" in named and "query" in named:
            raise self.refusal("--group and --query: rows of a query stay in one split already; name one of them")
        return {role: self.all[name] for role, name in named.items()}

    def read(self, names: list[str], *, writing: Writing, head: int | None = None) -> Sheet:
        """Read columns of the file, by default whole."""
        return read_sheet(
            [self.path], lambda _: names, kind=self.form, encoding=self.encoding, writing=writing, head=head
        )

    def whole(self, column: Column) -> Column:
        """Return a column with all cells of the file that are not empty."""
        sheet = self.read([column.name], writing=self.sheet.writing)
        cells = sheet.frame[column.name]
        return Column(column.name, cells[~missing_in(cells, numeric=False)], sheet)

    def refusal(self, text: str) -> ValueError:
        return ValueError(f"{self.path}: {text}")

    def of_content(self, *contents: str) -> list[Column]:
        return [column for column in self.free if column.content in contents]

    def take(self, test: Callable[[Column], bool], role: str | None = None) -> Column | None:
        """Take the first free column that passes a test, first of all one that is called like the role."""
        fitting = [column for column in self.free if test(column)]
        if role is not None:
            fitting.sort(key=lambda column: not column.is_called(role))
        if not fitting:
            return None
        self.free.remove(fitting[0])
        return fitting[0]

    def take_truth(self, test: Callable[[Column], bool], role: str) -> Column | None:
        """Take the column that a person names as the target, if it passes a test; if none is named, see `take`.

        Raises:
            ValueError: several pass, and are called like the role.
        """
        if "target" in self.named:
            return self.named["target"] if test(self.named["target"]) else None
        fitting = [column for column in self.free if test(column)]
        fitting = [column for column in fitting if column.is_called(role)] or fitting
        fitting = [column for column in fitting if column.is_exactly_called(role)] or fitting
        if len(fitting) > 1:
            raise self.question(fitting, f"may be the {role}", "target")
        return self.take(test, role)

    def take_shared(self, test: Callable[[Column], bool], role: str, *, exact: bool) -> Column | None:
        """Take the column that says which rows belong together: of several, one whose rows hold those of the others.

        Args:
            test: which columns may.
            role: the flag by which a person says it.
            exact: whether the others must have the same rows together, as a query's text and its id have.

        Raises:
            ValueError: several pass, and put other rows together.
        """
        fitting = [column for column in self.free if test(column)]
        for column in fitting:
            if all(_is_within(other, column) and (not exact or _is_within(column, other)) for other in fitting):
                self.free.remove(column)
                return column
        if fitting:
            raise self.question(fitting, "put different rows together", role)
        return None

    def question(self, columns: Sequence[Column], fit: str, flag: str) -> ValueError:
        """Return the refusal to choose among columns, with what a person is to type."""
        names = [column.name for column in columns]
        choices = " or ".join(f"`--{flag} {name}`" for name in names[:3])
        return self.refusal(f"{' and '.join(names[:3])} {fit}: say which one to take, {choices}")

    def leave_out(self, reasons: Sequence[Callable[[Column, Truth | None], str | None]], truth: Truth | None) -> None:
        """Leave out each free column for which there is a reason."""
        for column in list(self.free):
            for reason_of in reasons:
                if reason := reason_of(column, truth):
                    self.reasons[column.name] = reason
                    self.free.remove(column)
                    break


def guess(
    path: Path,
    *,
    task: str | None = None,
    encoding: str = "utf-8",
    writing: Writing | None = None,
    named: Mapping[str, str] | None = None,
    within: bool = False,
) -> Guess:
    """Look at the first rows of a file, and return which roles its columns seem to have.

    Args:
        path: of a CSV, TSV, JSON lines, Parquet or SVMlight file.
        task: where it is known.
        encoding: of text.
        writing: of numbers that are text, where a person says it.
        named: the columns that a person names, by their role, one of `ROLES`.
        within: whether only rows of one group are compared.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, nothing in it fits a task, or a column that a person
            names does not fit its role.
    """
    columns = Columns(path, encoding, writing, named or {})
    if columns.form == "svmlight":
        if within:
            raise columns.refusal("--within: documents of a qid are compared within it already; leave it out")
        return _svmlight(columns, task)
    _check_header(columns)
    for column in columns.all.values():
        check_cells(column, is_writing_known=writing is not None)

    structure = _structure(columns)
    columns.leave_out(NEVER_LEARNED, None)
    if within:
        _check_within(columns, structure, task)
        structure, task = structure | {"within": True}, "score_ranking"
    truth = _truth(columns, structure, task)
    columns.leave_out(LEFT_OUT, truth)
    inputs, input_columns = _input(columns, structure, truth)
    _refuse_useless_input(columns, input_columns)
    _require_unique_ids(columns, truth)
    files = _files(path)
    options: dict[str, Any] = {"file": files, **inputs, **truth.options, **structure, **_reading(encoding, writing)}
    if "split" not in options and isinstance(files, str):
        options |= _split_by_key(columns, options)

    lines = [f"input: {', '.join(f'{role} from {_listed(names)}' for role, names in inputs.items())}", truth.line]
    if truth.task == "score_ranking" and not within:
        lines += _lines_on_offsets(columns, structure, truth)
    lines += _lines_on_files(files) + _lines_on_stand_ins(input_columns) + _lines_on_unused(columns, structure)
    missing, missing_lines = _missing(columns, options, input_columns)
    options, lines = options | missing, lines + missing_lines
    return Guess(truth.task, options, lines)


def _check_header(columns: Columns) -> None:
    """Refuse a file whose first line is a row of numbers."""
    names = list(columns.sheet.frame)
    try:
        [number_in(name) for name in names]
    except ValueError:
        return
    raise columns.refusal(f"the first line is {', '.join(names[:5])}, expected the names of the columns")


def _listed(names: str | Sequence[str]) -> str:
    names = [names] if isinstance(names, str) else names
    return ", ".join(names[:10]) + (f", ... ({len(names)} columns)" if len(names) > 10 else "")


# Files.


def _svmlight(columns: Columns, task: str | None) -> Guess:
    """Return the roles in an SVMlight file: it has a label, perhaps a query, and the features."""
    if columns.named:
        raise columns.refusal(f"--{next(iter(columns.named))}: SVMlight has a label, a qid and features; name none")
    if task not in (None, "query_ranking", "score_ranking"):
        raise columns.refusal(f"SVMlight has a number in each row, no {task}; expected query_ranking or score_ranking")
    files = _files(columns.path)
    options: dict[str, Any] = {"file": files, "features": "all"}
    if task == "score_ranking":
        line = "SVMlight: label and all features"
        return Guess(task, options | {"target": "label"}, [line, *_lines_on_files(files)])
    options |= {"relevance": "label", "group": "qid", "without_relevant": "drop"}
    options |= {} if isinstance(files, dict) else {"split": {"hash_of": "qid", **SHARES}}
    return Guess(
        "query_ranking", options, [f"SVMlight: label, qid and all features; {DROPPED}", *_lines_on_files(files)]
    )


def _files(path: Path) -> str | dict[str, str]:
    """Return a file's name, or the names of the training, validation and test files that lie side by side."""
    files = {"train": path.name}
    for split, names in (("val", ("val", "vali", "valid", "validation", "dev")), ("test", ("test",))):
        present = [name for name in names if path.with_stem(name).is_file()]
        if path.stem != "train" or not present:
            return path.name
        files[split] = path.with_stem(present[0]).name
    return files


def _lines_on_files(files: str | dict[str, str]) -> list[str]:
    return [f"files: {', '.join(map(' '.join, files.items()))}"] if isinstance(files, dict) else []


def _reading(encoding: str, writing: Writing | None) -> dict[str, str]:
    """Return the options by which the file is read, where they are not as usual."""
    options = {} if encoding == "utf-8" else {"encoding": encoding}
    if writing not in (None, PLAIN):
        options["decimal"] = writing.decimal
        if writing.thousands:
            options["thousands"] = writing.thousands
    return options


# Structure: each function recognizes the column of one role.


def is_split(column: Column) -> bool:
    """Recognize the names of splits: train, val, test and gate."""
    values = set(column.names) if column.is_called("split") and column.has_names else set()
    if {"train", "test"} <= values and not values <= SPLITS:
        wrong = column.names[~column.names.isin(SPLITS)]
        raise ValueError(
            f"{column.place(wrong.index[0])} is {wrong.iloc[0]}, expected train, val, test or gate: call its splits "
            "so, or rename the column if it has none"
        )
    return set() < values <= SPLITS


def is_weight(column: Column) -> bool:
    """Recognize the weight of a row, not of a body or a parcel: numbers above 0 in a column such as sample_weight."""
    return column.is_exactly_called("weight") and column.content == "number" and bool((column.numbers > 0).all())


def is_query(column: Column) -> bool:
    """Recognize queries: names or numbers that come again, called like one."""
    return column.is_called("query") and column.content in ("name", "text", "number") and not column.is_unique


def is_group(column: Column) -> bool:
    """Recognize what several rows share, such as a customer: names or numbers that come again, called like one."""
    return column.is_called("group") and column.content in ("name", "text", "number") and not column.is_unique


def is_id(column: Column) -> bool:
    """Recognize ids: names or whole numbers that are called like one, each once."""
    return column.is_called("id") and column.is_unique and (column.content == "name" or column.is_whole)


def is_code(column: Column) -> bool:
    """Recognize ids of any name: words, each once, or row numbers."""
    if column.content == "number":
        return is_row_number(column) and not column.is_called("target")
    if column.is_called("chosen") or column.is_called("rejected"):
        return False
    has_words = column.content == "name" and column.hindrance is None and not column.is_aligned
    return has_words and column.is_unique and len(column.cells) > 2 and not column.names.str.contains(r"\s").any()


def is_row_number(column: Column) -> bool:
    """Recognize row numbers: whole numbers in their order, or all from the smallest to the largest, each once."""
    if not column.is_whole or len(column.cells) < 3 or not column.is_unique:
        return False
    steps = column.numbers.diff().iloc[1:]
    if column.is_last:  # which may be a target by which rows are sorted
        return bool((steps == 1).all())
    extent = column.numbers.max() - column.numbers.min()
    return bool((steps > 0).all() or (steps == -1).all() or (extent == len(column.cells) - 1 > 20))


def _structure(columns: Columns) -> dict[str, Any]:
    """Take the columns of structure: the ones that are named, or by what they are called and hold."""
    named = columns.named
    roles = {
        "split": columns.take(is_split),
        "weight": _weight(columns),
        "group": named.get("query") or named.get("group") or _shared(columns),
        "id": named.get("id") or columns.take(is_id) or columns.take(is_code),
    }
    structure: dict[str, Any] = {role: column.name for role, column in roles.items() if column is not None}
    if "date" in named:
        structure["date"] = {"column": named["date"].name, "first": _last_day(columns, named["date"]), "every": "month"}
    return structure


def _weight(columns: Columns) -> Column | None:
    """Take the column of weights: the one that is named, or by what it is called and holds."""
    column = columns.named.get("weight")
    if column is None:
        return columns.take(is_weight)
    _refuse_unless(column, column.numbers > 0, "weights, numbers above 0")
    return column


def _shared(columns: Columns) -> Column | None:
    """Take the column of queries, else the one of groups."""
    return columns.take_shared(is_query, "query", exact=True) or columns.take_shared(is_group, "group", exact=False)


def _is_within(column: Column, other: Column) -> bool:
    """Return whether rows that share a cell of a column share that of another one too."""
    pairs = pd.DataFrame({"column": column.names, "other": other.names}).dropna().drop_duplicates()
    return bool(pairs["column"].is_unique)


def _check_within(columns: Columns, structure: dict[str, Any], task: str | None) -> None:
    """Refuse to compare rows within groups where there are no groups, or for another task."""
    if task not in (None, "score_ranking"):
        raise columns.refusal(f"--within is for a number to rank by; leave it out, or `--task {task}`")
    if "group" not in structure:
        raise columns.refusal("--within: no column is called like a group; name it, as in `--group COLUMN --within`")
    group = columns.all[structure["group"]]
    if group.is_unique or group.names.nunique() == 1:
        group = columns.whole(group)
    if group.names.nunique() in (1, len(group.cells)):
        values = "one value in all rows" if group.names.nunique() == 1 else "a value of its own in each row"
        raise columns.refusal(
            f"--within: {group.name} has {values}, expected several values that come again; name another column as "
            "`--group`"
        )


def _last_day(columns: Columns, column: Column) -> str:
    """Return the last day in a column, as in 2026-11-30."""
    column = columns.whole(column)
    as_periods(column.sheet, column.cells, "1900-01-01", "day")  # it refuses what is no day
    return max(cell.isoformat() if hasattr(cell, "isoformat") else cell for cell in column.cells)[:10]


def _split_by_key(columns: Columns, options: dict[str, Any]) -> dict[str, Any]:
    """Return the option that splits by a hash of the group, else the id, else the path of a picture."""
    key = options.get("group") or options.get("id") or options.get("image")
    if key is None or isinstance(columns.all[key].cells.iloc[0], StoredPicture):
        return {}
    return {"split": {"hash_of": key, **SHARES}}


def _require_unique_ids(columns: Columns, truth: Truth) -> None:
    """Refuse a named column of ids that come again, except where captions are gathered by them."""
    column = columns.named.get("id")
    if column is not None and truth.task != "retrieval" and (twice := column.names.duplicated()).any():
        row = twice.idxmax()
        raise ValueError(
            f"{column.place(row)} is {column.names[row]!r:.60} here and in an earlier row, expected each id once; name "
            f"another column, or `--group {column.name}` if rows of one belong together"
        )


# What nothing is learned from: each function returns the reason, or None.


def day(column: Column, truth: Truth | None) -> str | None:
    """Days and times."""
    return "days or times" if column.content == "time" else None


def row_number(column: Column, truth: Truth | None) -> str | None:
    """Row numbers, in addition to the id."""
    return "it counts rows" if is_row_number(column) and not column.is_called("target") else None


def key(column: Column, truth: Truth | None) -> str | None:
    """Numbers that name something, such as a shop or a place."""
    if column.is_whole and (column.is_called("key") or (column.is_called("id") and column.is_unique)):
        return f"a number that names something; if rows of one belong together, `--group {column.name}`"
    return None


def json_object(column: Column, truth: Truth | None) -> str | None:
    """Objects of JSON."""
    return "it holds objects; write each of their values into a column" if column.content == "object" else None


def hindered_number(column: Column, truth: Truth | None) -> str | None:
    """Numbers but for some cells, or with their unit."""
    if column.hindrance is None:
        return None
    return f"numbers, but for cells such as {column.hindrance!r:.60}: empty these, or write the unit into the header"


def copy_of_truth(column: Column, truth: Truth | None) -> str | None:
    """Numbers that order rows as the truth does."""
    if truth is None or truth.column is None or {column.content, truth.column.content} != {"number"}:
        return None
    if not same_order(column, truth.column):
        return None
    return (
        f"orders rows as {truth.column.name} does; it may be a `train_target`, or, if it is known beforehand, one of "
        "`features`"
    )


def called_like_truth(column: Column, truth: Truth | None) -> str | None:
    """Names in a column that is called like the truth, as price_band is."""
    if truth is None or truth.column is None or not column.is_category:
        return None
    called = re.compile(rf"(^|[^a-z]){re.escape(plain(truth.column.name).rstrip('s'))}s?([^a-z]|$)")
    if not called.search(plain(column.name)):
        return None
    return f"called like {truth.column.name}; it may be one of `categories` if it is known beforehand"


def called_like_a_letter(column: Column, truth: Truth | None) -> str | None:
    """Names in a column that is called like a feature of one value."""
    return "rename it to use it" if column.is_category and is_feature_name(column.name) else None


NEVER_LEARNED = (day, row_number, key, json_object)
LEFT_OUT = (hindered_number, copy_of_truth, called_like_truth, called_like_a_letter)


# The truth: each function recognizes what one task learns, and takes its column.

DROPPED = "queries with one document, or without a relevant one, are left out (`without_relevant`)"


def labels(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth | None:
    """Recognize labels: lists of names, or several in a cell; where they are asked for, also one."""

    def has_labels(column: Column) -> bool:
        return column.content == "labels" or (column.content == "name" and column.separator is not None)

    column = columns.take_truth(has_labels, "labels")
    if column is None and (task is not None or "target" in columns.named):
        column = columns.take_truth(lambda column: column.is_category or (bool(task) and column.is_whole), "labels")
    if column is None:
        return None if "target" in columns.named else _flags(columns)
    separator = column.separator or "|"
    rows = split_labels(column.cells, separator)
    ordered = task == "label_ranking" if task else not in_one_order(rows)
    options = {"labels": column.name, "ordered": ordered, "label_separator": separator}
    order, other = ("the most important first", "multilabel") if ordered else ("in no order", "label_ranking")
    line = f"truth: labels from {column.name}, {order}; else: --task {other}, or --target COLUMN"
    return Truth("label_ranking" if ordered else "multilabel", options, line, column)


def _flags(columns: Columns) -> Truth | None:
    """Take columns of 0 and 1, or of small ranks, that begin with the same word, or are the only numbers."""
    small = [column for column in columns.free if column.is_whole and column.numbers.between(0, 99).all()]
    has_target = any(column.is_called("target") for column in columns.of_content("number"))
    begin = r"(label|tag|class|rank)_" if has_target else r"(label|tag|is|has|class|rank)_"
    for start, names in _families([column.name for column in small], least=2).items():
        if re.match(begin, start):
            family = [column for column in small if column.name in names]
            columns.free = [column for column in columns.free if column not in family]
            is_ranks = any((column.numbers > 1).any() for column in family)
            task, role = ("label_ranking", "label_ranks") if is_ranks else ("multilabel", "labels")
            return Truth(task, {role: f"{start}*"}, f"truth: {role} from {start}*; else: --target COLUMN")
    flags = columns.of_content("number")
    has_input = any(map(is_whole_input, columns.free)) or any(map(is_text, columns.free))
    if has_input and len(flags) > 1 and all(column.numbers.isin([0, 1]).all() for column in flags):
        columns.free = [column for column in columns.free if column not in flags]
        names = [column.name for column in flags]
        return Truth("multilabel", {"labels": names}, f"truth: labels from {_listed(names)}; else: --target COLUMN")
    return None


def preferences(columns: Columns, structure: dict[str, Any], task: str | None = None) -> Truth | None:
    """Recognize preferences: what was chosen and what was rejected in a row, perhaps of answers to a prompt.

    A person may name the rejected answers, the chosen ones as the text, the prompts as the query, and the margin, a
    number, as the target.
    """
    _refuse_chats(columns)
    chosen, rejected = _chosen_and_rejected(columns)
    if rejected is None and "target" not in columns.named:
        _refuse_which_is_better(columns)
    target = columns.named.get("target")
    if chosen is None or rejected is None or (target is not None and target.content != "number"):
        return None
    columns.free = [column for column in columns.free if column not in (chosen, rejected)]
    margin = _margin(columns)
    options = {"rejected": rejected.name} | ({"margin": margin.name} if margin else {})
    line = f"truth: {chosen.name} is preferred to {rejected.name}" + (f" by {margin.name}" if margin else "")

    prompt = _prompt(columns, structure, chosen)
    inputs: dict[str, Any] = {chosen.content if is_whole_input(chosen) else "text": chosen.name}
    if prompt is not None and "text" in inputs:
        columns.free = [column for column in columns.free if column is not prompt]
        inputs = {"text_pair": [prompt.name, chosen.name]}
        if "group" not in columns.named:
            structure["group"] = prompt.name
    elif chosen.is_category or _are_players(chosen, rejected):
        inputs = {"categories": [chosen.name]}
        line += "; both are names, of players without features: if another file has the items, join their texts first"

    # Nothing else is read: a number may be the margin.
    for column in columns.of_content("number") if margin is None else []:
        columns.reasons[column.name] = f"if it is the size of the preference, `--target {column.name}` learns it"
    columns.free = [column for column in columns.free if column.name not in columns.reasons]
    return Truth("query_ranking", options, line, None, inputs, [chosen])


def _margin(columns: Columns) -> Column | None:
    """Take the column of the sizes of preferences: the target that a person names, or what is called so."""
    margin = columns.named.get("target") or columns.take(
        lambda column: column.is_called("margin") and column.content == "number"
    )
    if margin is not None:
        advice = "where it is negative, swap the two answers and write its size"
        _refuse_unless(margin, margin.numbers >= 0, f"the size of the preference, a number of at least 0: {advice}")
        _refuse_unless(margin, margin.numbers <= HIGHEST, f"at most {HIGHEST}")
    return margin


def _chosen_and_rejected(columns: Columns) -> tuple[Column | None, Column | None]:
    """Return the columns of what was chosen and rejected: those that a person names, or that are called so."""
    numbers = [column.name for column in columns.of_content("number") if column.name.lower() in ("winner", "loser")]
    if len(numbers) == 2:
        lines = [f'table["{name}"] = "p" + table["{name}"].astype(str)' for name in numbers]
        raise columns.refusal(_in_pandas("winner and loser are numbers; if they name players, write names", lines))
    named = columns.named.get("text")
    if "rejected" not in columns.named and named is not None and not named.is_called("chosen"):
        return None, None
    inputs_in_cells = [column for column in columns.free if column.has_names or is_whole_input(column)]
    chosen = named or next((column for column in inputs_in_cells if column.is_called("chosen")), None)
    rejected = next((column for column in inputs_in_cells if column.is_called("rejected")), None)
    rejected = columns.named.get("rejected", rejected)
    if chosen is None and "rejected" in columns.named:
        raise columns.refusal("--rejected: no column is called like what was chosen; name it too, by `--text`")
    return chosen, rejected


def _refuse_chats(columns: Columns) -> None:
    """Refuse chosen and rejected chats, lists of roles and contents."""
    chats = [column.name for column in columns.all.values() if column.content == "object"]
    answers = [
        name for name in chats if columns.all[name].is_called("chosen") or columns.all[name].is_called("rejected")
    ]
    if not answers:
        return
    prompts = [name for name in chats if name not in answers and columns.all[name].is_called("query")]
    chat, turns = (prompts[0], "chat") if prompts else (answers[0], "chat[:-1]")
    lines = []
    if prompts or not any(column.is_called("query") for column in columns.all.values()):
        written = f'" ".join(turn["content"] for turn in {turns})'
        lines.append(f'table["prompt"] = [{written} for chat in table["{chat}"]]')
    for name in answers:
        lines.append(f'table["{name}"] = [chat[-1]["content"] for chat in table["{name}"]]')
    raise columns.refusal(
        _in_pandas(f"{_listed(answers)} hold chats or objects, and texts are read: write texts", lines)
    )


def _refuse_which_is_better(columns: Columns) -> None:
    """Refuse two answers, such as answer_a and answer_b, beside a column that says which of them is better."""
    texts = {column.name.lower(): column for column in columns.free if is_text(column)}
    decisions = [column for column in columns.all.values() if DECISION.search(plain(column.name))]
    decisions = [column for column in decisions if column.names.nunique() <= FEW_DECISIONS]
    for name, first in texts.items() if decisions else ():
        for side, other_side in SIDES.items():
            second = texts.get(name.removesuffix(side) + other_side)
            if not name.endswith(side) or second is None:
                continue
            values = sorted(decisions[0].names.unique())
            value = next((value for value in values if value.lower().endswith(side)), None)
            other = next((value for value in values if value.lower().endswith(other_side)), None)
            if value is None or other is None:
                value, other = "FIRST", "SECOND"
                hint = f"; FIRST and SECOND stand for two of its values, {_listed(values)}"
            else:
                hint = ""
            cells = f'table["{decisions[0].name}"].astype(str)'
            lines = [
                f"table = table[{cells}.isin([{value!r}, {other!r}])]",
                f"is_first = {cells} == {value!r}",
                f'table["chosen"] = table["{first.name}"].where(is_first, table["{second.name}"])',
                f'table["rejected"] = table["{second.name}"].where(is_first, table["{first.name}"])',
            ]
            problem = f"{first.name} and {second.name} are two answers, and {decisions[0].name} says which is better"
            raise columns.refusal(_in_pandas(f"{problem}; write what was chosen{hint}", lines))


def _in_pandas(problem: str, lines: Sequence[str]) -> str:
    """Return a refusal with the lines of pandas that mend the table."""
    return f"{problem}, in pandas:" + "".join(f"\n  {line}" for line in lines)


def _are_players(chosen: Column, rejected: Column) -> bool:
    """Return whether what was chosen are names that come again, such as players.

    Raises:
        ValueError: they are ids, such as a0123, that seldom come again.
    """
    if chosen.content != "name" or chosen.is_aligned:
        return False
    names = pd.concat([chosen.names, rejected.names])
    if MENTIONS * names.nunique() <= len(names):
        return True
    if not names.map(lambda name: CODE.fullmatch(name) is not None).all():
        return False
    lines = []
    for role, column in (("chosen", chosen), ("rejected", rejected)):
        columns = f'{{"id": "{column.name}", "text": "{role}_text"}}'
        lines.append(f'table = table.merge(items.rename(columns={columns}), on="{column.name}")')
    problem = (
        f"{chosen.place(chosen.names.index[0])} is {chosen.names.iloc[0]!r:.60}, no text, and such names come again "
        "too seldom to be learned as players; join the texts of the file that has these items"
    )
    advice = "\nthen `rankgrad init FILE --text chosen_text --rejected rejected_text`"
    raise ValueError(_in_pandas(problem, lines) + advice)


def _prompt(columns: Columns, structure: dict[str, Any], chosen: Column) -> Column | None:
    """Return the text that answers belong to: called so, or else a text that comes again or stands before them.

    Raises:
        ValueError: there are several, or another text that may be it.
    """
    prompt = _query_text(columns, structure)
    if prompt is not None or chosen.content != "text":
        return prompt
    names = [*columns.all]
    texts = [column for column in columns.free if column.content == "text"]
    likely = []
    for column in texts:
        if not column.is_unique or names.index(column.name) < names.index(chosen.name):
            likely.append(column)
    if len(likely) == 1 or not texts or (not likely and "text" in columns.named):
        return likely[0] if likely else None
    texts = likely or texts
    raise columns.refusal(
        f"{_listed([column.name for column in texts])} may be the prompt: `--query {texts[0].name}` reads it with each "
        f"answer, and answers to one prompt stay in one split"
        + ("" if likely else f"; `--text {chosen.name}` reads none")
    )


def _query_text(columns: Columns, structure: dict[str, Any]) -> Column | None:
    """Return the text of queries or prompts: the column that is called so, if most of its cells have several words."""
    group = columns.all.get(structure.get("group", ""))
    for column in [*([group] if group else []), *columns.free]:
        if _has_sentences(column) and (column.is_called("query") or column is columns.named.get("query")):
            return column
    return None


def _has_sentences(column: Column) -> bool:
    """Return whether most cells are texts of several words."""
    return column.content in ("text", "name") and column.names.str.contains(r"\s").mean() > MOSTLY


def relevance(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth | None:
    """Recognize preferences, or grades of a query's documents: numbers of at least 0, beside a column of queries."""
    if (truth := preferences(columns, structure)) is not None:
        return truth
    group = structure.get("group")
    if group is None or not ("query" in columns.named or columns.all[group].is_called("query")):
        return None
    column = columns.named.get("target") or columns.take(lambda column: column.is_called("relevance"), "relevance")
    if column is None:
        return None
    _refuse_several(columns, [column, *columns.free], "relevance")
    advice = "correct or take out such rows, or say `--target` with another column"
    _refuse_unless(column, column.numbers >= 0, f"grades, numbers of at least 0: {advice}")
    _refuse_wrong_order(columns, column)
    options = {"relevance": column.name, "without_relevant": "drop"}
    return Truth("query_ranking", options, f"truth: relevance from {column.name}, of each {group}; {DROPPED}", column)


def _refuse_unless(column: Column, is_right: pd.Series, expected: str) -> None:
    """Raise ValueError if cells of a column are not right; the message names the first of them."""
    wrong = column.cells[~is_right]
    if len(wrong):
        raise ValueError(f"{column.place(wrong.index[0])} is {wrong.iloc[0]!r:.60}, expected {expected}")


def captions(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth | None:
    """Recognize captions: sentences beside pictures or vectors; or queries beside the passages that they ask for."""
    if not any(map(is_whole_input, columns.free)):
        return search(columns, structure, task)
    if "text" in columns.named:
        return None
    column = columns.take_truth(lambda column: column.content in ("text", "captions"), "captions")
    if column is None:
        return None
    return Truth(
        "retrieval", {"captions": column.name}, f"truth: captions from {column.name}, a sentence or more", column
    )


def search(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth | None:
    """Recognize queries and the passages that they ask for, where no column says how well."""
    query = columns.named.get("target") or columns.named.get("query") or _query_text(columns, structure)
    if query is None or not _has_sentences(query):
        return None
    passages = [column for column in columns.free if is_text(column) and column is not query]
    called = [column for column in passages if column.is_called("text")]
    passages = called if task is None or called else passages
    passages = [columns.named["text"]] if "text" in columns.named else passages
    if len(passages) != 1 or (task is None and "target" in columns.named and "text" not in columns.named):
        return None
    judged = [column for column in columns.of_content("number") if column.is_called("target")]
    if judged and task is None and "target" not in columns.named:  # a rating of each answer is what is learned
        return None
    columns.free = [column for column in columns.free if column not in (query, passages[0])]
    if "group" not in columns.named:
        structure.pop("group", None)  # a passage may be asked for by several queries: it is what splits are drawn of
    line = f"truth: captions from {query.name}, by which {passages[0].name} is searched"
    return Truth("retrieval", {"captions": query.name}, line, None, {"text": passages[0].name}, passages)


def target(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth | None:
    """Recognize a number to rank by: the one that is named, called like a target, or the last column."""
    column, reason = columns.named.get("target"), ""
    if column is None:
        numbers = [column for column in columns.of_content("number") if column not in _members(columns)]
        called = [column for column in numbers if column.is_called("target")]
        _refuse_other_candidates(columns, structure, called, task)
        _refuse_several(columns, called, "target")
        called.sort(key=lambda column: not column.is_exactly_called("target"))
        column = called[0] if called else _last_number(columns, numbers)
        reason = f"{'' if called else ', the last column'}; else: --target COLUMN"
    if column is None or column.content != "number":
        return None
    if reason and task is None and column.is_called("labels") and not column.is_called("target"):
        raise columns.refusal(
            f"{column.name} has numbers and is called like classes: `--task multilabel --target {column.name}` learns "
            f"these classes, `--target {column.name}` ranks by the number"
        )
    if task is None and "group" in structure and columns.all[structure["group"]].is_called("query"):
        raise columns.refusal(
            f"{structure['group']} is called like a query, but no column like grades: `--target {column.name}` ranks "
            "the rows of each by it, `--task score_ranking` all rows"
        )
    _refuse_wrong_order(columns, column)
    columns.free = [other for other in columns.free if other is not column]
    line = f"truth: target from {column.name}, a number to rank by, the largest first{reason}"
    return Truth("score_ranking", {"target": column.name}, line, column)


TRUTHS = {
    "label_ranking": labels,
    "multilabel": labels,
    "query_ranking": relevance,
    "retrieval": captions,
    "score_ranking": target,
    # Forms of a truth that the tasks above recognize too.
    "preferences": preferences,
    "search": search,
}


def _truth(columns: Columns, structure: dict[str, Any], task: str | None) -> Truth:
    """Take the truth of the task if it is known, else of the first task that one is recognized for."""
    if task is None and "query" in columns.named:
        task = "query_ranking"
    for name in [task] if task else TRUTHS:
        if (truth := TRUTHS[name](columns, structure, task)) is not None:
            return truth
    if "target" in columns.named:
        raise _no_target(columns.named["target"], "COLUMN")
    learned = f"{task} learns from" if task else "a task could learn from, such as labels, a number or captions"
    raise columns.refusal(
        f"no column that {learned}; it has {_listed([*columns.all])}{_reasons(columns)}; say `--target` with a "
        "column, or write the block by hand"
    )


def _reasons(columns: Columns) -> str:
    return "".join(f"; {name}: {reason}" for name, reason in columns.reasons.items())


def _last_number(columns: Columns, numbers: Sequence[Column]) -> Column | None:
    """Return the last number; of two that order rows the same way, such as fitness and fitness_log, the shorter one."""
    numbers = numbers or columns.of_content("number")
    if not numbers:
        return None
    last = numbers[-1]
    shorter = [column for column in numbers if plain(column.name) in plain(last.name) and same_order(column, last)]
    return min(shorter or [last], key=lambda column: len(column.name))


def _members(columns: Columns) -> list[Column]:
    """Return the numbers that are called as four or more are, such as site_y beside site_x: they are features."""
    families = _families([column.name for column in columns.of_content("number")], least=4)
    names = set().union(*families.values())
    return [column for column in columns.free if column.name in names]


def _refuse_wrong_order(columns: Columns, column: Column) -> None:
    """Refuse a truth that is the same in all rows, or whose smallest number may be the best."""
    if column.numbers.nunique() == 1 and columns.whole(column).numbers.nunique() == 1:
        raise columns.refusal(
            f"{column.name} is {column.cells.iloc[0]} in all rows, so no order can be learned; say `--target` with "
            "another column"
        )
    if column.is_called("rank"):
        raise columns.refusal(
            f"{column.name}: the largest number is first, and 1 may be the best rank; write a column in which larger "
            "is better, and say `--target` with it"
        )


def _refuse_several(columns: Columns, candidates: Sequence[Column], role: str) -> None:
    """Refuse to choose among numbers that are called like a role, unless one of them has exactly this name."""
    if "target" in columns.named:
        return
    called = [column for column in candidates if column.is_called(role) and column.content == "number"]
    exact = [column for column in called if column.is_exactly_called(role)] or called
    apart = [column for column in exact if not same_order(column, exact[0]) and column is not exact[0]]
    if apart:
        raise columns.refusal(
            f"{exact[0].name} and {apart[0].name} are both called like a target; say which is learned, as in "
            f"`--target {apart[0].name}`"
        )


def _refuse_other_candidates(
    columns: Columns, structure: dict[str, Any], called: Sequence[Column], task: str | None
) -> None:
    """Refuse to rank by any number where a column that is called like the truth, or is the last, holds no numbers."""
    for name, cells in columns.sheet.frame.items():
        is_empty = name and name not in columns.all
        if is_empty and not called and Column(str(name), cells, columns.sheet).is_called("target"):
            raise columns.refusal(
                f"{name} is called like a target, but is empty in all rows; say `--target` with another column"
            )
    candidates = [column for column in columns.all.values() if column.name not in structure.values()]
    for column in candidates:
        if column.content == "number" or is_whole_input(column) or (task is not None and column.is_category):
            continue
        is_label = column.is_category and column.is_exactly_called("labels")
        # unit_price, not price_range
        ends_so = column.content == "name" and re.search(rf"(^|[^a-z]){CALLED['target']}$", plain(column.name))
        if is_label or (not called and (ends_so or column is candidates[-1])):
            number = called[0].name if called else "COLUMN"
            raise _no_target(column, number)


def _no_target(column: Column, other: str) -> ValueError:
    """Return the refusal of a column that may be meant, but cannot be learned as it is."""
    wrong = column.cells if column.content == "number" else column.cells[column.numbers.isna()]
    advice = "turn its cells into numbers and empty the others"
    if column.is_category:
        advice = f"`--target {column.name}` learns these names"
    elif column.content == "number":
        advice = "`--task score_ranking` ranks by it"
    elif column.content == "text":
        advice = "a text is searched by texts: `--task search --text PASSAGES --target QUERIES`"
    return ValueError(
        f"{column.place(wrong.index[0])} is {str(wrong.iloc[0])!r:.60}; if it is what is to be learned, {advice}; else "
        f"say `--target {other}`"
    )


# The input.


def is_whole_input(column: Column) -> bool:
    """Recognize an input in each cell: files of an input type, or vectors."""
    return column.content != "text" and column.content in lookup.names("inputs")


def is_text(column: Column) -> bool:
    """Recognize a text to read: sentences that do not come again and again."""
    return column.content == "text" and not column.is_category and column.hindrance is None


def _input(columns: Columns, structure: dict[str, Any], truth: Truth) -> tuple[dict[str, Any], list[Column]]:
    """Take the input: the named text, pictures or vectors, a column called like text, numbers and names, or a text.

    Returns:
        The options of the table, and the columns.
    """
    if truth.inputs:
        return {**truth.inputs}, [*truth.input_columns]
    if "text" in columns.named:
        text = _named_text(columns, structure, truth)
        return _with_query(columns, structure, truth, text), [text]
    if (column := columns.take(is_whole_input)) is not None:
        return {column.content: column.name}, [column]
    texts = [column for column in columns.free if is_text(column)]
    if truth.task == "query_ranking":
        texts = [column for column in texts if _differs_within(columns, structure["group"], column)] or texts
    texts.sort(key=lambda column: not column.is_called("text"))
    names, numbers = _names_and_numbers(columns)
    if texts and (not numbers + names or texts[0].is_called("text") or texts[0].is_called("captions")):
        _refuse_several_texts(columns, texts)
        columns.free.remove(texts[0])
        return _with_query(columns, structure, truth, texts[0]), texts[:1]
    columns.free = [column for column in columns.free if column not in numbers + names]
    for column in texts:
        columns.reasons[column.name] = f"a text; `--text {column.name}` reads it in place of numbers and names"
        columns.free.remove(column)
    options = {
        "features": _in_patterns(columns, [column.name for column in numbers]),
        "categories": [column.name for column in names if column.is_category],
        "letters": [column.name for column in names if column.is_aligned],
    }
    return {role: used for role, used in options.items() if used}, numbers + names


def _with_query(columns: Columns, structure: dict[str, Any], truth: Truth, text: Column) -> dict[str, Any]:
    """Return the input of a text: read together with its query, where queries have words."""
    query = _query_text(columns, structure) if truth.task == "query_ranking" else None
    if query is None or _differs_within(columns, structure["group"], query):
        return {"text": text.name}
    columns.free = [column for column in columns.free if column is not query]
    return {"text_pair": [query.name, text.name]}


def _names_and_numbers(columns: Columns) -> tuple[list[Column], list[Column]]:
    """Return the columns of names that become features, and those of numbers."""
    names = [column for column in columns.free if column.is_category or column.is_aligned]
    names = [column for column in names if not is_feature_name(column.name)]
    numbers = columns.of_content("number")
    if names:  # beside them no number may be called like a feature that is made of a name
        numbers = [column for column in numbers if not is_feature_name(column.name)]
    return names, numbers


def _refuse_several_texts(columns: Columns, texts: Sequence[Column]) -> None:
    """Refuse to choose among texts of which none, or several, are called like the one to read."""
    called = [column for column in texts if column.is_called("text")]
    if len(texts) > 1 and len(called) != 1:
        names = " and ".join(column.name for column in (called or texts)[:2])
        raise columns.refusal(f"{names} are texts, and one is read: say which, as in `--text {texts[0].name}`")


def _refuse_useless_input(columns: Columns, inputs: Sequence[Column]) -> None:
    """Refuse a table without an input, or with one that is the same in all of the first rows."""
    if not inputs:
        raise columns.refusal(
            f"no column of pictures, numbers or text is left to learn from{_reasons(columns)}; say `--text` with a "
            "column to read, or write the block by hand"
        )
    if all(column.names.nunique() == 1 for column in inputs):
        names = _listed([column.name for column in inputs])
        raise columns.refusal(f"{names}: the same in all rows, so nothing can be learned from it; name another input")


def _named_text(columns: Columns, structure: dict[str, Any], truth: Truth) -> Column:
    column = columns.named["text"]
    if column.content not in ("text", "name"):
        raise columns.refusal(f"--text: {column.name} holds {column.content}s, expected text")
    if truth.task == "query_ranking" and not _differs_within(columns, structure["group"], column):
        raise columns.refusal(
            f"--text: {column.name} is the same for all documents of a {structure['group']}, so nothing can order "
            "them; name the column of the documents"
        )
    return column


def _differs_within(columns: Columns, group: str, column: Column) -> bool:
    """Return whether a column has several values in most groups."""
    cells = pd.DataFrame({"group": columns.all[group].names, "cell": column.names}).dropna()
    return float(np.mean(cells.groupby("group")["cell"].nunique() > 1)) > MOSTLY


def _in_patterns(columns: Columns, numbers: list[str]) -> str | list[str]:
    """Return the columns of features, with one pattern for columns that begin with the same word."""
    features = numbers
    for start, names in _families(numbers, least=4).items():
        if columns_like(f"{start}*", list(columns.sheet.frame)) == names:
            features = [f"{start}*" if name == names[0] else name for name in features if name not in names[1:]]
    return features[0] if len(features) == 1 and len(numbers) > 1 else features


def _families(names: Sequence[str], *, least: int) -> dict[str, list[str]]:
    """Return names that are the same up to their first `_`, where there are enough of them."""
    starts: dict[str, list[str]] = {}
    for name in names:
        start, separator, _ = name.partition("_")
        if separator:
            starts.setdefault(f"{start}_", []).append(name)
    return {start: family for start, family in starts.items() if len(family) >= least}


# What a person should know.


def _lines_on_unused(columns: Columns, structure: dict[str, Any]) -> list[str]:
    """Return lines on columns that are not used, first on possible groups."""
    lines, unused = [], []
    for column in columns.free:
        kinds = column.names.nunique()
        comes_again = (column.content == "name" or column.is_whole) and 2 < kinds <= len(column.cells) // 2
        if "group" not in structure and comes_again:
            lines.append(
                f"not used: {column.name}: {kinds} values in {len(column.cells)} rows; if rows of one belong together, "
                f"`--group {column.name}` keeps them in one split"
            )
        else:
            unused.append(column.name)
    lines += [f"not used: {name}: {reason}" for name, reason in columns.reasons.items()]
    return lines + ([f"not used: {_listed(unused)}"] if unused else [])


def _lines_on_offsets(columns: Columns, structure: dict[str, Any], truth: Truth) -> list[str]:
    """Return a line for the group, or else for each column of names, that the order of targets depends on."""
    assert truth.column is not None
    candidates = []
    for column in columns.all.values():
        count = column.names.nunique()
        if column.content == "name" and FEWEST_GROUPS <= count <= len(column.cells) // 2:
            candidates.append(column)
    if "group" in structure:
        candidates = [columns.all[structure["group"]]]
    lines = []
    for column in candidates:
        fraction = _explained(column.names, truth.column.numbers)
        if fraction > EXPLAINED:
            lines.append(
                f"{column.name} explains {100 * fraction:.0f} % of the order of {truth.column.name}; if only rows of "
                f"one {column.name} are compared, `--group {column.name} --within` learns and judges within each"
            )
    return lines


def _explained(names: pd.Series, numbers: pd.Series) -> float:
    """Return which fraction of the variance of ranks lies between groups, adjusted for how many groups there are.

    >>> round(_explained(pd.Series(list("aabb")), pd.Series([1.0, 2.0, 11.0, 12.0])), 2)
    0.7
    """
    rows = pd.DataFrame({"name": names, "rank": numbers.rank()}).dropna()
    apart = rows["rank"] - rows.groupby("name")["rank"].transform("mean")
    freedom, total = len(rows) - rows["name"].nunique(), rows["rank"].var()
    return 1 - float((apart**2).sum() / freedom / total) if freedom > 0 and total > 0 else 0.0


def _lines_on_stand_ins(inputs: Sequence[Column]) -> list[str]:
    """Return a line for each smallest or largest number that may stand for a missing value, and for each weight."""
    lines = []
    for column in inputs:
        if column.content != "number":
            continue
        for text, count in stand_ins(column.numbers.to_numpy()).items():
            lines.append(
                f"{column.name}: {text} in {count} rows; if it stands for a missing value, leave those cells empty"
            )
        if plain(column.name) in ("weight", "weights"):
            lines.append(f"{column.name}: a feature; if it says how much a row counts, pass `--weight {column.name}`")
    return lines


def _missing(columns: Columns, options: dict[str, Any], inputs: Sequence[Column]) -> tuple[dict[str, Any], list[str]]:
    """Return the option for rows that miss a value, and lines on how many of the first rows do."""
    table, frame = Table(**options), columns.sheet.frame
    is_filled = "features" in options and inputs[0].content == "number"
    no_feature, no_other = np.zeros(len(frame), bool), np.zeros(len(frame), bool)
    for role, _, is_empty in missing_cells(table, frame, table.roles(list(frame))):
        (no_feature if is_filled and role == "features" else no_other)[is_empty] = True
    lines = []
    if no_feature.any():
        lines.append(
            f"{no_feature.sum()} of the first {len(frame)} rows miss a feature: it gets the median of training "
            "rows, and another feature says that it was empty; else: `missing: leave_out`"
        )
    if no_other.any():
        lines.append(f"{no_other.sum()} of the first {len(frame)} rows miss a value: they are left out, and counted")
    if is_filled:  # also for rows to come
        return {"missing": "impute"}, lines
    return {"missing": "leave_out"} if lines else {}, lines
