"""What the columns of a table seem to be: the roles of `rankgrad.datasets.table`, for a person to look over.

What may be read in two ways, or not at all, is refused with what to write; nothing takes the place of a column that is
called like what is to be learned.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rankgrad import lookup
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import missing_in
from rankgrad.datasets.tables.examples import missing_cells
from rankgrad.datasets.tables.files import columns_like, names_in, read_sheet
from rankgrad.datasets.tables.formats import format_of
from rankgrad.datasets.tables.roles import NAMED, SHARES, TRUTHS
from rankgrad.inputs._feature_names import LETTER
from rankgrad.inputs.image import StoredPicture
from rankgrad.numbers import PLAIN, Writing, number_in, writings_of

__all__ = ["TASKS", "Guess", "guess"]

HEAD = 1000  # rows that are looked at
SAME_ORDER = 0.99  # Spearman's correlation of a target with a number that gives it away
MOSTLY = 0.5  # of cells
SECONDS = 1e8  # beyond it a number called a time is one since 1970
SPLITS = {"train", "val", "test", "gate"}
TASKS = ("label_ranking", "multilabel", "score_ranking", "query_ranking", "retrieval")
# What columns of a role are often called.
NAMES = {
    "labels": r"(tags?|labels?|categor|class|genres?|topics?)",
    "target": r"(target|score|price|value|rating|grade|y$|ctr|rate|label$|views?|likes?)",
    "relevance": r"(relevance|grade|rel$|label$|click|judg|prefer|better)",
    "captions": r"(captions?|description|sentence|text|title)",
    "text": r"(text|document|doc$|passage|answer|response|body|content|review)",
    "query": r"(qid|query|pair|prompt)(_?id)?$",
    "group": r"(group|user|customer|session|product|owner|patient|subject|author|shop|store)s?"
    r"(_?(id|key|name|number|code))?$",
    "id": r"(id|key|name|sku|index|idx|no|nr|number|code|uuid|isbn|ean|unnamed: 0)\.?$",
    "date": r"(date|day$|time|added|created|month)",
    "split": r"(split|fold|subset|partition)",
}  # fmt: skip
ALIGNED = re.compile(r"[A-Z*.-]{8,}|[acgtun*.-]{8,}")  # proteins and genes
UNIT = re.compile(r"[^\w\s]{0,2}\s?[+-]?\d[\d.,' ]*\s?[^\d\s|;,]{0,4}")  # 4,5 kg and $7
DAY = re.compile(r"\d{4}-\d\d(-\d\d.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?|\d{1,2}:\d\d(:\d\d.*)?")  # and times
CODE = re.compile(r"0\d+")  # of a place or an article
STANDS_IN = re.compile(r"-?9{2,}(\.0)?")  # for a missing value, as -999 does
WEIGHT = re.compile(r"((sample|row|example|case)_?)?weights?", re.IGNORECASE)  # not of a body or a parcel
PRINTED = re.compile(r"\s*(tensor\(|array\()?\s*(\[|\{|\(.*[, ])")  # a list, or an array of NumPy, as text


class Guess(NamedTuple):
    """A task, the options of the table that it learns from, and why, a line each."""

    task: str
    options: dict[str, Any]
    told: list[str]


@dataclass(frozen=True)
class _Column:
    """The cells of a column that are there, in the first rows of a file.

    Attributes:
        kind: picture, vector, labels (a list of names), time, number, text (sentences) or name.
        numbers: of the cells; None if they are none.
        hindrance: the first cell that is no number, of a column of numbers but for some cells or their unit.
    """

    name: str
    cells: pd.Series
    kind: str
    numbers: np.ndarray | None = None
    hindrance: str | None = None

    def is_called(self, role: str) -> bool:
        return _called(self.name, role)

    def are(self, test: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Whether the cells are numbers that pass a test."""
        return self.numbers is not None and bool(test(self.numbers).all())

    @property
    def names(self) -> pd.Series:
        return self.cells.map(str)

    @property
    def is_unique(self) -> bool:
        return self.kind in ("number", "name", "text", "picture") and self.names.is_unique

    @property
    def is_category(self) -> bool:
        """Whether cells are names of few kinds."""
        if self.kind not in ("name", "text") or self.hindrance is not None:
            return False
        kinds = self.names.nunique()
        return 2 <= kinds <= max(2, len(self.cells) // 10) and 2 * kinds <= len(self.cells)

    @property
    def is_aligned(self) -> bool:
        """Whether cells are words of capitals, all of one length, as aligned proteins and genes are."""
        if self.kind != "name" or not all(isinstance(cell, str) and ALIGNED.fullmatch(cell) for cell in self.cells):
            return False
        return self.cells.map(len).nunique() == 1 and not self.is_category

    @property
    def separator(self) -> str | None:
        """What joins the labels of a cell, if several have it and labels come again."""
        if self.kind not in ("name", "text") or self.hindrance is not None:
            return None
        for separator in "|;,":
            parts = [part.strip() for cell in self.names for part in cell.split(separator)]
            often = self.names.str.contains(separator, regex=False).mean() > 0.1
            if often and len(set(parts)) <= max(2, len(parts) // 3):
                return separator
        return None


def _column(name: str, cells: pd.Series, place: Callable[[Any], str], writing: Writing | None) -> _Column:
    """Return what a column is by its cells."""
    first = cells.iloc[0]
    if isinstance(first, StoredPicture):
        return _Column(name, cells, "picture")
    if isinstance(first, list | np.ndarray):
        return _Column(name, cells, "labels" if len(first) and isinstance(first[0], str) else "vector")
    if cells.dtype.kind in "mM" or isinstance(first, date):
        return _Column(name, cells, "time")
    texts = cells[cells.map(lambda cell: isinstance(cell, str))]
    if len(texts) and np.mean([text.lower().endswith(lookup.find("inputs", "image").suffixes) for text in texts]) > 0.8:
        return _Column(name, cells, "picture")
    printed = [row for row, text in texts.items() if PRINTED.match(text)]
    if len(printed) > MOSTLY * len(cells):
        raise ValueError(
            f"{place(printed[0])}: {name} is {texts[printed[0]][:60]!r}, a list that was written as text; store "
            "lists in Parquet or JSON lines, or labels as a|b and numbers in a column each"
        )
    numbers = cells.map(lambda cell: _number(cell, writing or PLAIN))
    if len(texts) and writing is None and not _called(name, "labels"):
        _refuse_two_readings(name, texts, place)
    if len(texts) and all(DAY.fullmatch(text) for text in texts):
        return _Column(name, cells, "time")
    if not numbers.isna().any() and not any(CODE.fullmatch(text) for text in texts):
        is_time = _called(name, "date") and (numbers > SECONDS).all()
        return _Column(name, cells, "time" if is_time else "number", numbers.to_numpy(np.float64))
    others = cells[numbers.isna()].map(str)
    if not len(others):
        return _Column(name, cells, "name")
    mostly = 1 - len(others) / len(cells) > MOSTLY or np.mean([bool(UNIT.fullmatch(cell)) for cell in others]) > MOSTLY
    hindrance = others.iloc[0] if mostly and not _called(name, "labels") else None
    is_text = np.mean([len(cell.split()) for cell in cells.map(str)]) >= 3
    return _Column(name, cells, "text" if is_text else "name", None, hindrance)


def _number(cell: Any, writing: Writing) -> float:
    try:
        return number_in(cell, writing)
    except ValueError:
        return np.nan


def _refuse_two_readings(name: str, texts: pd.Series, place: Callable[[Any], str]) -> None:
    """Refuse numbers that are not as programs write them, or that may be others: 1.306 is 1306 in German."""
    readings = writings_of(texts)
    if not readings or readings == [PLAIN]:
        return
    row, shown = next((row, text) for row, text in texts.items() if writings_of([text]) != [PLAIN])
    options = []
    for reading in readings:
        thousands = f" --thousands {reading.thousands!r}" if reading.thousands else ""
        options.append(f"--decimal {reading.decimal!r}{thousands}")
    raise ValueError(
        f"{place(row)}: {name} has numbers such as {shown!r}; say how they are written: " + " or ".join(options)
    )


class _Columns:
    """The first rows of a file, and which of its columns are taken by a role."""

    def __init__(self, path: Path, encoding: str, writing: Writing | None):
        self.path, self.form = path, format_of(path)
        names = names_in(path, self.form, encoding)
        self.sheet = read_sheet(
            [path], lambda _: names, kind=self.form, encoding=encoding, writing=writing or PLAIN, head=HEAD
        )
        if self.form in ("csv", "tsv") and all(_number(name, PLAIN) == _number(name, PLAIN) for name in names):
            raise ValueError(f"{path}: the first line is {', '.join(names[:5])}, expected the names of the columns")
        self.left_out: dict[str, str] = {}  # columns that nothing is learned from, and why
        self.all: dict[str, _Column] = {}
        for name in names:
            cells = self.sheet.frame[name]
            cells = cells[~missing_in(cells, numeric=False)]
            if name and len(cells):
                self.all[name] = _column(name, cells, self.sheet.place, writing)
        self.free = list(self.all.values())

    def take(self, test: Callable[[_Column], bool], role: str | None = None) -> _Column | None:
        """Take the first free column that passes a test, those that are called like the role before others."""
        fitting = [column for column in self.free if test(column)]
        called = [column for column in fitting if role and column.is_called(role)]
        chosen = next(iter(called or fitting), None)
        if chosen is not None:
            self.free.remove(chosen)
        return chosen

    def leave_out(self, columns: Sequence[_Column], why: str) -> None:
        for column in columns:
            self.left_out[column.name] = why.format(column=column)
            self.free.remove(column)

    def within(self, group: str, column: _Column) -> float:
        """Return in which fraction of groups a column has several values."""
        both = pd.DataFrame({"group": self.all[group].names, "cell": column.names}).dropna()
        return float(np.mean(both.groupby("group")["cell"].nunique().to_numpy() > 1))


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()  # PassengerId


def _called(name: str, role: str) -> bool:
    return re.search(rf"(^|[^a-z]){NAMES[role]}", _plain(name)) is not None


def _is_of_one_value(name: str) -> bool:
    """Whether a column is called as features of names are, which would be taken for one."""
    return "=" in name or LETTER.fullmatch(name) is not None


def guess(
    path: Path,
    *,
    task: str | None = None,
    encoding: str = "utf-8",
    writing: Writing | None = None,
    named: Mapping[str, str] | None = None,
) -> Guess:
    """Look at the first rows of a file, and say what its columns seem to be.

    Args:
        path: of a CSV, TSV, JSON lines, Parquet or SVMlight file.
        task: where it is known.
        encoding: of text.
        writing: of numbers that are text, where a person says it.
        named: the columns that a person names, by their role: `target`, `text`, `group`, `query`, `id`.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, or nothing in it fits a task.
    """
    columns, named = _Columns(path, encoding, writing), dict(named or {})
    for role, name in named.items():
        if name not in columns.all:
            raise ValueError(f"{path}: --{role}: no column {name!r}; it has {', '.join(columns.all)}")
    if columns.form == "svmlight":
        found = _svmlight(task)
    else:
        structure = _structure(columns, named)
        found = _truth(columns, structure, task, named)
        found = found._replace(options=found.options | structure)
    files, told = _split_files(path)
    options: dict[str, Any] = {"file": files} | found.options
    if encoding != "utf-8":
        options["encoding"] = encoding
    if writing not in (None, PLAIN):
        options |= {"decimal": writing.decimal} | ({"thousands": writing.thousands} if writing.thousands else {})
    if "split" not in options and isinstance(files, str):
        key = options.get("group") or options.get("id") or options.get("image")
        if isinstance(key, str) and not isinstance(columns.sheet.frame[key].iloc[0], StoredPicture):
            options["split"] = {"hash_of": key, **SHARES}
    told += _of_the_rest(columns, options)
    if incomplete := _incomplete(columns, Table(**options)):
        options["missing"] = "leave_out"
        rows = len(columns.sheet.frame)
        told.append(f"{incomplete} of the first {rows} rows miss a value: such rows are left out, and counted")
    return found._replace(options=options, told=[*found.told, *told])


def _of_the_rest(columns: _Columns, options: dict[str, Any]) -> list[str]:
    """Return lines on the columns that are not used, those that may be groups first."""
    if columns.form == "svmlight":
        return []
    used = [options.get(role, []) for role in ("features", *NAMED)]
    patterns = [pattern for given in used for pattern in ([given] if isinstance(given, str) else given)]
    names = [column.name for column in columns.free]
    taken = {name for pattern in patterns for name in columns_like(pattern, names)}
    rest = [column for column in columns.free if column.name not in taken]
    groups = [] if "group" in options else [column for column in rest if column.kind in ("name", "number")]
    told = []
    for column in groups:
        if (kinds := column.names.nunique()) < len(column.cells):
            told.append(
                f"not used: {column.name}: {kinds} values in {len(column.cells)} rows; if rows of one belong together, "
                f"`--group {column.name}` keeps them in one split"
            )
        rest.remove(column)
    for column in columns.free:
        if column.numbers is None:
            continue
        for value in (column.numbers.min(), column.numbers.max()):
            if STANDS_IN.fullmatch(f"{value:g}") and (count := int((column.numbers == value).sum())) > 2:
                told.append(f"{column.name}: {value:g} in {count} rows; if it stands for a missing value, empty these")
    told += [f"not used: {name}: {why}" for name, why in columns.left_out.items()]
    return told + ([f"not used: {', '.join(column.name for column in rest[:20])}"] if rest else [])


def _incomplete(columns: _Columns, table: Table) -> int:
    """Return how many of the rows that were looked at miss a value in a column that has a role."""
    frame, missing = columns.sheet.frame, np.zeros(len(columns.sheet.frame), bool)
    for _, _, empty in missing_cells(table, frame, table.roles(list(frame))):
        missing |= empty
    return int(missing.sum())


def _split_files(path: Path) -> tuple[str | dict[str, str], list[str]]:
    """Return a file's name, or those of a training, a validation and a test file that lie side by side."""
    if path.stem != "train":
        return path.name, []
    files = {"train": path.name}
    for split, names in (("val", ("val", "vali", "valid", "validation", "dev")), ("test", ("test",))):
        present = [name for name in names if path.with_stem(name).is_file()]
        if not present:
            return path.name, []
        files[split] = path.with_stem(present[0]).name
    return files, [f"files: {', '.join(f'{split} {name}' for split, name in files.items())}"]


def _svmlight(task: str | None) -> Guess:
    if task in (None, "query_ranking"):
        options = {"features": "all", "relevance": "label", "group": "qid"}
        return _queries(options, "SVMlight: label, qid and all features")
    if task != "score_ranking":
        raise ValueError(f"an SVMlight file has a number a row, no {task}; expected query_ranking or score_ranking")
    return Guess("score_ranking", {"features": "all", "target": "label"}, ["SVMlight: label and all features"])


# Structure.


def _structure(columns: _Columns, named: Mapping[str, str]) -> dict[str, Any]:
    """Take the columns of structure: those that are named, or by what they are called and hold."""
    kept = {name for role, name in named.items() if role in ("target", "text")}

    def take(test: Callable[[_Column], bool], *roles: str) -> str | None:
        for name in [named[role] for role in roles if role in named]:
            columns.free.remove(columns.all[name])
            return name
        chosen = columns.take(lambda column: column.name not in kept and test(column))
        return None if chosen is None else chosen.name

    def shared(role: str) -> Callable[[_Column], bool]:
        return lambda column: (
            column.kind in ("name", "text", "number") and column.is_called(role) and not column.is_unique
        )

    split = take(lambda column: _is_split(columns, column))
    weight = take(lambda column: bool(WEIGHT.fullmatch(column.name)) and column.are(lambda values: values > 0))
    group = take(shared("query"), "query", "group") or take(shared("group"))
    columns.leave_out([column for column in columns.free if column.kind == "time"], "days or times")
    own = take(lambda column: column.is_called("id") and column.is_unique and column.kind != "picture", "id")
    own = own or take(_is_code)
    # A number that names a shop is none to learn from.
    keys = [column for column in columns.free if column.kind == "number" and re.search("(^|_)id$", _plain(column.name))]
    keys = [column for column in keys if column.name not in kept]
    columns.leave_out(keys, "a number that names something; if rows of one belong together, `--group {column.name}`")
    roles = {"split": split, "weight": weight, "group": group, "id": own}
    return {role: name for role, name in roles.items() if name is not None}


def _is_split(columns: _Columns, column: _Column) -> bool:
    values = set(column.names) if column.is_called("split") and column.kind in ("name", "text") else set()
    if {"train", "test"} <= values and not values <= SPLITS:
        raise ValueError(
            f"{columns.path}: {column.name} has {', '.join(sorted(values - SPLITS)[:5])}, expected train, val, test or "
            "gate: call its splits so, or rename the column if it is none"
        )
    return set() < values <= SPLITS


def _is_code(column: _Column) -> bool:
    """Whether cells are words, each once, or whole numbers in their order: an id, whatever it is called."""
    if column.numbers is not None and len(column.cells) > 2 and not column.is_called("target"):
        return bool((np.diff(column.numbers) > 0).all() and column.are(lambda values: values == np.round(values)))
    if column.kind != "name" or column.hindrance is not None or column.is_aligned or not column.is_unique:
        return False
    return len(column.cells) > 2 and not column.names.str.contains(r"\s").any()


# The truth, and the input.


def _truth(columns: _Columns, structure: dict[str, Any], task: str | None, named: Mapping[str, str]) -> Guess:
    """Take the truth, by the task if it is known; then the input, from what is left."""
    entered = columns.take(lambda column: column.kind == "picture") or columns.take(lambda one: one.kind == "vector")
    text = columns.take(lambda column: column.name == named.get("text"))
    attempts = {
        "retrieval": lambda: _captions(columns, entered),
        "label_ranking": lambda: _labels(columns, task),
        "multilabel": lambda: _labels(columns, task),
        "query_ranking": lambda: _relevance(columns, structure),
        "score_ranking": lambda: _target(columns, named.get("target")),
    }
    order = ["label_ranking", "query_ranking", "retrieval", "score_ranking"]
    for name in [task] if task else ["score_ranking"] if "target" in named else order:
        if (found := attempts[name]()) is None:
            continue
        truth = next(str(found.options[role]) for role in TRUTHS if role in found.options)
        _leave_out_names(columns, truth)
        if entered is not None:
            inputs = {"image" if entered.kind == "picture" else "features": entered.name}
        elif text is not None:
            inputs = {"text": text.name}
        else:
            inputs = _rest(columns, structure.get("group"))
        told = "input: " + ", ".join(f"{role} from {column}" for role, column in inputs.items())
        return Guess(found.task, inputs | found.options, [told, *found.told])
    names = ", ".join([*columns.all][:20])
    wanted = f"{task} learns from" if task else "a task could learn from, such as labels, a number or captions"
    raise ValueError(f"{columns.path}: no column of what {wanted}; it has {names}; write the block by hand")


def _leave_out_names(columns: _Columns, truth: str) -> None:
    """Leave out numbers but for some cells, days, and names that are called like the truth, as price_band is."""
    called = re.compile(rf"(^|[^a-z]){re.escape(_plain(truth).rstrip('s'))}s?([^a-z]|$)")
    columns.leave_out(
        [column for column in columns.free if column.hindrance is not None],
        "numbers, but for cells such as {column.hindrance!r}: empty these, or write the unit into the header",
    )
    names = [column for column in columns.free if column.is_category]
    columns.leave_out(
        [column for column in names if called.search(_plain(column.name))],
        f"called like {truth}; it may be one of `categories` if it is known beforehand",
    )
    names = [column for column in names if column in columns.free]
    columns.leave_out([column for column in names if _is_of_one_value(column.name)], "rename it to use it")


def _captions(columns: _Columns, entered: _Column | None) -> Guess | None:
    if entered is None or (column := columns.take(lambda one: one.kind == "text", "captions")) is None:
        return None
    return Guess("retrieval", {"captions": column.name}, [f"truth: captions from {column.name}, a sentence or more"])


def _labels(columns: _Columns, task: str | None) -> Guess | None:
    column = columns.take(
        lambda one: one.kind == "labels" or (one.separator is not None and one.kind != "text"), "labels"
    )
    if column is None and task is not None:
        column = columns.take(lambda one: one.is_category, "labels")
    if column is None:
        return _flags(columns)
    separator = column.separator or "|"
    cells = [cell if isinstance(cell, list | np.ndarray) else str(cell).split(separator) for cell in column.cells]
    rows = [[part.strip() for part in cell if part.strip()] for cell in cells]
    ordered = task == "label_ranking" if task else not _in_one_order(rows)
    options = {"labels": column.name, "ordered": ordered, "label_separator": separator}
    if ordered:
        told = f"truth: labels from {column.name}, the most important first; else: --task multilabel"
    else:
        told = f"truth: labels from {column.name}, in no order; if the most important is first: --task label_ranking"
    return Guess("label_ranking" if ordered else "multilabel", options, [told])


def _in_one_order(rows: Sequence[Sequence[str]]) -> bool:
    """Whether labels stand in the same order in almost all rows, as where somebody ticked boxes."""
    pairs = [pair for row in rows for pair in pairwise(row)]
    surplus = {frozenset(pair): 0 for pair in pairs}
    for first, second in pairs:
        surplus[frozenset((first, second))] += 1 if first < second else -1
    return not pairs or sum(map(abs, surplus.values())) > 0.9 * len(pairs)


def _flags(columns: _Columns) -> Guess | None:
    """Take columns of 0 and 1, or of small ranks, that begin alike."""
    small = [column for column in columns.free if column.are(lambda v: (v >= 0) & (v == np.round(v)) & (v < 100))]
    targets = any(column.is_called("target") and column.kind == "number" for column in columns.free)
    begin = r"(label|tag|class|rank)_" if targets else r"(label|tag|is|has|class|rank)_"
    for start, names in _alike([column.name for column in small], least=2).items():
        if re.match(begin, start):
            chosen = [column for column in small if column.name in names]
            columns.free = [column for column in columns.free if column not in chosen]
            ranks = not all(column.are(lambda values: values <= 1) for column in chosen)
            task, role = ("label_ranking", "label_ranks") if ranks else ("multilabel", "labels")
            return Guess(task, {role: f"{start}*"}, [f"truth: {role} from {start}*"])
    return None


def _relevance(columns: _Columns, structure: dict[str, Any]) -> Guess | None:
    group = structure.get("group")
    if group is None or not _called(group, "query"):
        return None
    column = columns.take(lambda one: one.is_called("relevance"), "relevance")
    if column is None:
        return None
    if not column.are(lambda values: values >= 0):
        wrong = column.cells[~(column.numbers >= 0)] if column.numbers is not None else column.cells
        raise ValueError(
            f"{columns.sheet.place(wrong.index[0])}: {column.name} is called like grades, but is {wrong.iloc[0]!r}; "
            "expected numbers of at least 0: correct or take out such rows, or rename the column"
        )
    return _queries({"relevance": column.name}, f"truth: relevance from {column.name}, of each {group}")


def _queries(options: dict[str, Any], told: str) -> Guess:
    """Leave out queries that say nothing of an order, which logs of searches often have."""
    left_out = "queries with one document, or none that is relevant, are left out (`without_relevant`)"
    return Guess("query_ranking", {**options, "without_relevant": "drop"}, [told, left_out])


def _target(columns: _Columns, named: str | None) -> Guess | None:
    numbers = [column for column in columns.free if column.kind == "number"]
    alike = {name for names in _alike([column.name for column in numbers], least=4).values() for name in names}
    alone = [column for column in numbers if column.name not in alike]  # others are features, also one called site_y
    called = [column for column in alone if column.is_called("target")]
    called.sort(key=lambda column: re.fullmatch(NAMES["target"], column.name.lower()) is None)  # price before price_log
    if named is not None:
        called = [columns.all[named]]
    elif not (numbers and called):
        _refuse_empty(columns)
    _refuse_names(columns, called)
    target = next(iter([*called, *reversed(alone), *reversed(numbers)]), None)
    if target is None:
        return None
    if named is None:
        _refuse_several(columns, called)
    others = [column for column in numbers if column is not target]
    copies = [column for column in others if _order(columns, column, target) > SAME_ORDER]
    plain = [column for column in copies if _plain(column.name) in _plain(target.name)]
    if plain and named is None:  # price, where the last column is price_log
        copies.append(target)
        target = min(plain, key=lambda column: len(column.name))
        copies.remove(target)
    columns.free.remove(target)
    told = [f"truth: target from {target.name}, a number to rank by"]
    if copies:
        names = ", ".join(column.name for column in copies)
        columns.free = [column for column in columns.free if column not in copies]
        told.append(
            f"not used: {names}: orders rows as {target.name} does; it may be a `train_target`, or, if it is known "
            "beforehand, one of `features`"
        )
    return Guess("score_ranking", {"target": target.name}, told)


def _refuse_empty(columns: _Columns) -> None:
    for name in columns.sheet.frame:
        if name and name not in columns.all and _called(str(name), "target"):
            raise ValueError(f"{columns.path}: {name} is called like what is to be learned, but is empty in all rows")


def _refuse_several(columns: _Columns, called: Sequence[_Column]) -> None:
    """Refuse to choose among numbers that are called like a target, if none of them alone has such a name by itself."""
    exact = [column for column in called if re.fullmatch(NAMES["target"], column.name.lower())] or called
    apart = [column for column in exact if _order(columns, column, exact[0]) <= SAME_ORDER]
    if apart:
        names = " and ".join(column.name for column in (exact[0], apart[0]))
        raise ValueError(
            f"{columns.path}: {names} are called like what is to be learned; say which is, as in "
            f"`--target {apart[0].name}`"
        )


def _order(columns: _Columns, column: _Column, target: _Column) -> float:
    """Return in how far two columns order rows alike, whichever way."""
    one, other = (pd.Series(either.numbers, either.cells.index) for either in (column, target))
    ranked = pd.DataFrame({"one": one, "other": other}).dropna().rank()
    if len(ranked) < 10 or (ranked.std() == 0).any():
        return 0.0
    return abs(float(ranked.corr().to_numpy()[0, 1]))


def _refuse_names(columns: _Columns, called: Sequence[_Column]) -> None:
    """Refuse to rank by any number where a column that is called like the truth, or is last, holds something else."""
    free = [column for column in columns.free if column.kind != "number"]
    for column in called:
        if column.kind != "number":
            raise _no_target(columns, column)
    if called:
        return
    last = [*columns.all.values()][-1]
    for column in free:
        if column.is_called("labels") and column.is_category:
            raise ValueError(
                f"{columns.path}: {column.name} holds names: `--task multilabel` learns them, another name lets them be"
            )
        is_last = column is last and column.hindrance is not None
        ends_so = re.search(rf"(^|[^a-z]){NAMES['target']}$", _plain(column.name))  # unit_price, not price_range
        if is_last or (ends_so and column.kind != "text"):
            raise _no_target(columns, column)


def _no_target(columns: _Columns, column: _Column) -> ValueError:
    numbers = column.cells.map(lambda cell: _number(cell, columns.sheet.writing))
    wrong = column.cells[numbers.isna()]
    place = columns.sheet.place(wrong.index[0])
    return ValueError(
        f"{place}: {column.name} is called like what is to be learned, or is the last column, but is "
        f"{column.hindrance or wrong.iloc[0]!r:.60}; make numbers of its cells and empty those that are none, or say "
        "`--target` with another column"
    )


def _rest(columns: _Columns, group: str | None) -> dict[str, Any]:
    """Take the input from what is left: sentences, or all numbers, names of few kinds, and letters in places."""

    def is_text(column: _Column) -> bool:
        return column.kind == "text" and not column.is_category and column.hindrance is None

    def varies(column: _Column) -> bool:
        return is_text(column) and (group is None or columns.within(group, column) > MOSTLY)

    if (text := columns.take(varies, "text") or columns.take(is_text, "text")) is not None:
        return {"text": text.name}
    numbers = [column.name for column in columns.free if column.kind == "number"]
    names = {
        "categories": [column.name for column in columns.free if column.is_category],
        "letters": [column.name for column in columns.free if column.is_aligned and not _is_of_one_value(column.name)],
    }
    if any(names.values()):
        numbers = [name for name in numbers if not _is_of_one_value(name)]
    inputs: dict[str, Any] = {"features": _in_patterns(columns, numbers)} if numbers else {}
    inputs |= {role: chosen for role, chosen in names.items() if chosen}
    if not inputs:
        reasons = "".join(f"; {name}: {why}" for name, why in columns.left_out.items())
        raise ValueError(
            f"{columns.path}: no column of pictures, numbers or text is left to learn from{reasons}; write the block "
            "by hand"
        )
    return inputs


def _in_patterns(columns: _Columns, numbers: list[str]) -> str | list[str]:
    """Return the columns of features, by a pattern those that begin alike."""
    features = numbers
    for start, names in _alike(numbers, least=4).items():
        if not [name for name in columns.sheet.frame if name.startswith(start) and name not in names]:
            features = [f"{start}*" if name == names[0] else name for name in features if name not in names[1:]]
    return features[0] if len(features) == 1 and len(numbers) > 1 else features


def _alike(names: Sequence[str], *, least: int) -> dict[str, list[str]]:
    """Return names that begin alike, up to their first `_`, where there are enough of them."""
    starts: dict[str, list[str]] = {}
    for name in names:
        start, separator, _ = name.partition("_")
        if separator:
            starts.setdefault(f"{start}_", []).append(name)
    return {start: several for start, several in starts.items() if len(several) >= least}
