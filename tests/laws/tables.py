"""Small tables of one's own that Hypothesis draws, the files that hold them, and what each row must become.

What is expected is said here in plain Python, from the values that were drawn: no line of it is the project's.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table

SPLIT_NAMES = {"train": ("train", "Training", "tr"), "val": ("val", "VALID", "dev"), "test": ("test", "Testing", "tst"),
               "gate": ("gate", " Gate")}  # fmt: skip
SPLITS = (*SPLIT_NAMES,)
INPUTS = ("numbers", "dates", "filled", "vectors", "categories", "letters", "mixed", "text")
TRUTHS = ("target", "labels", "ordered", "flags", "label_ranks", "relevance")
# All can be written in cp1252 too; none begins or ends with white space.
TITLES = ("a", "red", ":)", "größe")  # words of titles
BRANDS = ("red", "blue", "größe", "a,b", 'say "so"', "a;b", "07", "x=y")
WORDS = ("hat", "Größe", 'a "big" one', "a,b", "x;y", "two\twords", "two\nlines", "7")
LABELS = ("cat", "dog", "größe", "a,b")
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
DATES = {"DMY": "%d.%m.%Y %H:%M:%S.%f", "MDY": "%m/%d/%Y %H:%M:%S.%f"}
# Whatever float64 holds, from grades to nanoseconds.
NUMBERS = st.integers(-9, 9) | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6, width=32) | st.floats(-1e15, 1e15)


@dataclass
class Drawn:
    """A table, and what becomes of its rows.

    Attributes:
        columns: cells by column, None for an empty one.
        options: of `Table`, but for the file and its format.
        splits, names, groups: of each row.
        truths: of each row.
        inputs: columns of features, each with how a cell becomes numbers, by those of training rows.
        weights: of each row, or None.
    """

    columns: dict[str, list[Any]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    splits: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    truths: list[Any] = field(default_factory=list)
    inputs: list[tuple[Callable[[Any, list[Any]], list[float]], list[Any]]] = field(default_factory=list)
    weights: list[float] | None = None

    def expected(self, split: str) -> list[dict[str, Any]]:
        """Return what the rows of a split become, in their order."""
        rows = [row for row, split_of_row in enumerate(self.splits) if split_of_row == split]
        if "relevance" not in self.options:
            return [self._expected(row) for row in rows]
        queries: dict[str, list[int]] = {}
        for row in rows:
            queries.setdefault(self.groups[row], []).append(row)
        result = []
        for query, documents in queries.items():
            truth = [self.truths[row] for row in documents]
            result.append({"name": query, "input": [*map(self.vector, documents)], "truth": truth})
        return result

    def _expected(self, row: int) -> dict[str, Any]:
        result = {"name": self.names[row], "truth": self.truths[row], "input": self.vector(row)}
        result |= {"group": self.groups[row]} if "group" in self.options else {}
        return result | ({"weight": self.weights[row]} if self.weights else {})

    def vector(self, row: int) -> Any:
        """Return the input of a row: a text, or the numbers of all its columns."""
        if "text" in self.options:
            return self.columns[self.options["text"]][row]
        vector = []
        for numbers_of, cells in self.inputs:
            learned = [cell for cell, split in zip(cells, self.splits, strict=True) if split == "train"]
            vector += numbers_of(cells[row], learned)
        return vector


def _number(number: float, learned: list[float]) -> list[float]:
    return [number]


def _vector(numbers: list[float], learned: list[list[float]]) -> list[float]:
    return numbers


def _names(name: str | None, learned: list[str | None]) -> list[float]:
    """Return 0 or 1 for each name that training rows have, if they have several."""
    names = sorted({*learned}, key=lambda other: other or "")
    return [float(name == other) for other in names if other is not None] if len(names) > 1 else []


def _letters(code: str, learned: list[str]) -> list[float]:
    numbers = []
    for place, letter in enumerate(code):
        numbers += _names(letter, [other[place] for other in learned])
    return numbers


def _title(title: str, learned: list[str]) -> list[float]:
    """Return 0 or 1 for each word of several training rows that not all of them have."""
    counts = Counter(word for other in learned for word in {*other.split()})
    return [float(word in title.split()) for word in sorted(counts) if 3 <= counts[word] < len(learned)]


def _filled(number: float | None, learned: list[float | None]) -> list[float]:
    """Return a number or the median, and whether it was empty, where training rows have empty ones."""
    present = [other for other in learned if other is not None]
    if not present:
        return []
    flag = [float(number is None)] if None in learned else []
    return [float(median(present)) if number is None else number, *flag]


@st.composite
def tables(draw, truths=TRUTHS) -> Drawn:
    """Draw a table with a split a row, an input, a truth, and perhaps ids, groups and weights."""
    table, truth, count = Drawn(), draw(st.sampled_from(truths)), draw(st.integers(9, 14))

    def each(strategy: st.SearchStrategy) -> list[Any]:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    # Training rows first, which have every label and several names, and as many as there are classes.
    splits = ["train"] * 4 + draw(st.permutations(["val", "test", "gate", *each(st.sampled_from(SPLITS))[7:]]))
    groups = [f"{split} {draw(st.integers(0, 2))}" for split in splits]
    if truth == "relevance":  # each query has several documents
        splits, groups, count = 2 * splits, 2 * groups, 2 * count
    table.splits, table.groups = splits, groups
    table.columns["part"] = [draw(st.sampled_from(SPLIT_NAMES[split])) for split in splits]
    table.options["split"] = "part"
    table.names = [str(row + 1) for row in range(count)]
    if draw(st.booleans()):
        table.columns["who"] = draw(st.permutations([10 * row for row in range(count)])) if draw(st.booleans()) else [
            f"{draw(st.sampled_from(WORDS))} {row}" for row in range(count)]  # fmt: skip
        table.options["id"] = "who"
        table.names = [" ".join(str(one).split()) for one in table.columns["who"]]  # any white space is a space
    _draw_truth(draw, each, table, truth)
    _draw_input(draw, each, table, draw(st.sampled_from(INPUTS)))
    if truth == "relevance" or draw(st.booleans()):
        table.columns["shop"], table.options["group"] = table.groups, "shop"
    if truth != "relevance" and draw(st.booleans()):
        table.weights = table.columns["counts"] = each(st.floats(0.125, 1e9))
        table.options["weight"] = "counts"
    order = draw(st.permutations([*table.columns]))
    table.columns = {name: table.columns[name] for name in order}
    if "is_*" in table.options.values():  # classes in the order of the columns
        flags = [table.columns[name] for name in order if name.startswith("is_")]
        table.truths = [list(row) for row in zip(*flags, strict=True)]
    return table


def _draw_truth(draw: Callable, each: Callable, table: Drawn, kind: str) -> None:
    if kind == "target":
        table.truths = table.columns["y"] = each(NUMBERS)
        table.options["target"] = "y"
        if draw(st.booleans()):
            _give_training_a_target_of_its_own(table, each(NUMBERS))
    elif kind in ("labels", "ordered"):
        label_lists = each(st.lists(st.sampled_from(LABELS), min_size=int(kind == "ordered"), unique=True))
        label_lists[0] = [*LABELS]
        classes = sorted(LABELS)
        if draw(st.booleans()):
            table.options["classes"] = classes = draw(st.permutations(LABELS))
        table.options |= {"labels": "tags", "ordered": kind == "ordered"}
        table.columns["tags"] = ["|".join(labels) or None for labels in label_lists]
        for labels in label_lists:
            ranks = [len(labels) - labels.index(name) if name in labels else 0 for name in classes]
            table.truths.append(ranks if kind == "ordered" else [min(rank, 1) for rank in ranks])
    elif kind == "relevance":
        table.truths = table.columns["grade"] = each(st.integers(0, 3))
        table.options["relevance"] = "grade"
    else:
        ranks = st.sampled_from([[1, 0, 2], [0, 1, 0], [2, 1, 1], [1, 2, 3], [3, 1, 2], [0, 0, 1]])
        table.truths = each(ranks if kind == "label_ranks" else st.lists(st.integers(0, 1), min_size=3, max_size=3))
        as_drawn = bool if kind == "flags" and draw(st.booleans()) else int
        for name, flags in zip(("is_a", "is_b", "is_c"), zip(*table.truths, strict=True), strict=True):
            table.columns[name] = [as_drawn(flag) for flag in flags]
        role = "label_ranks" if kind == "label_ranks" else "labels"
        table.options[role] = draw(st.sampled_from(["is_*", ["is_a", "is_b", "is_c"]]))


def _give_training_a_target_of_its_own(table: Drawn, clicks: list[Any]) -> None:
    """Let training rows learn from a column of clicks: each row has the one number that its split needs."""
    numbers = table.truths
    table.options["train_target"] = "clicks"
    table.columns["y"], table.columns["clicks"], table.truths = [], [], []
    for split, number, click in zip(table.splits, numbers, clicks, strict=True):
        is_training = split == "train"
        table.columns["y"].append(None if is_training else number)
        table.columns["clicks"].append(click if is_training else None)
        table.truths.append(click if is_training else number)


def _draw_input(draw: Callable, each: Callable, table: Drawn, kind: str) -> None:
    if kind == "text":
        words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)
        table.columns["words"] = each(words.map(" ".join))
        table.options["text"] = "words"
    if kind == "vectors":
        table.columns["vector"] = each(st.lists(NUMBERS, min_size=2, max_size=2))
        table.options["features"] = "vector"
        table.inputs = [(_vector, table.columns["vector"])]
    if kind == "filled":
        ages = table.columns["age"] = each(NUMBERS | st.none())
        sizes = table.columns["size"] = [7.5, *each(NUMBERS | st.none())[1:]]
        for row, size in enumerate(sizes):
            if size is None and ages[row] is None:
                ages[row] = 1.0  # a row without any input would be left out
        table.options |= {"features": ["size", "age"], "missing": "impute"}
        table.inputs = [(_filled, sizes), (_filled, ages)]
    if kind == "dates":
        _draw_dates(draw, each, table)
    if kind in ("numbers", "mixed"):
        table.options["features"] = draw(st.permutations(["km", "price"]))
        for name in table.options["features"]:
            table.columns[name] = each(NUMBERS)
            table.inputs.append((_number, table.columns[name]))
    if kind in ("categories", "mixed"):
        table.columns["brand"] = ["red", "blue", *each(st.sampled_from(BRANDS) | st.none())[2:]]
        table.options["categories"] = "brand"
        table.inputs.append((_names, table.columns["brand"]))
    if kind in ("letters", "mixed"):
        table.columns["code"] = ["ACG", "CCG", *each(st.text("ACG", min_size=3, max_size=3))[2:]]
        table.options["letters"] = ["code"]
        table.inputs.append((_letters, table.columns["code"]))
    if kind == "mixed":
        titles = st.lists(st.sampled_from(TITLES), max_size=4).map(" ".join)
        table.columns["title"] = ["a", "a", "a", "", *each(titles)[4:]]
        table.options["words"] = ["title"]
        table.inputs.append((_title, table.columns["title"]))


def _draw_dates(draw: Callable, each: Callable, table: Drawn) -> None:
    """Give each row a number and a date, which may be empty: text, or, by year first, in the format's own type."""
    is_filled, order = draw(st.booleans()), draw(st.sampled_from(["YMD", *DATES]))
    moments = each(MOMENTS | st.none() if is_filled else MOMENTS)
    moments[0] = datetime(2026, 1, 31)  # a column without any date is no feature
    days = [moment and (moment - datetime(1970, 1, 1)) / timedelta(days=1) for moment in moments]
    table.columns["day"] = moments
    if order in DATES:
        table.columns["day"] = [moment and moment.strftime(DATES[order]) for moment in moments]
    table.columns["km"] = each(NUMBERS)
    table.options |= {"features": ["day", "km"], "dates": {"day": order}}
    if is_filled:
        table.options["missing"] = "impute"
    numbers_of = _filled if is_filled else _number
    table.inputs = [(numbers_of, days), (numbers_of, table.columns["km"])]


@dataclass
class Form:
    """How a table is written: its format, and what a person may choose of it."""

    suffix: str
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    newline: str = "\n"
    as_text: bool = False  # numbers, in formats that have some
    thousands: str = ""
    comments: int = 0  # lines above the header

    @property
    def options(self) -> dict[str, Any]:
        result = {"file": f"t.{self.suffix}", "decimal": self.decimal, "thousands": self.thousands}
        return result | ({} if self.encoding in ("utf-8", "utf-8-sig") else {"encoding": self.encoding})


@st.composite
def forms(draw) -> Form:
    """Draw a form."""
    kinds = [("csv", ","), ("csv", ";"), ("csv", "|"), ("tsv", "\t"), ("jsonl", ""), ("parquet", "")]
    (suffix, separator), decimal = draw(st.sampled_from(kinds)), draw(st.sampled_from([".", ","]))
    thousands = draw(st.sampled_from(["", {".": ",", ",": "."}[decimal], " ", "'"]))
    return Form(
        suffix, separator, draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"])), decimal,
        draw(st.sampled_from(["\n", "\r\n"])), draw(st.booleans()), thousands, draw(st.integers(0, 2)),
    )  # fmt: skip


def write(columns: dict[str, list[Any]], form: Form, folder: Path) -> Path:
    """Write a table into a folder, and return the file."""
    path, names = folder / f"t.{form.suffix}", [*columns]
    rows = [*zip(*columns.values(), strict=True)]
    if form.suffix in ("csv", "tsv"):
        with path.open("w", encoding=form.encoding, newline="") as file:
            file.write(f"# made by hand{form.newline}" * form.comments)
            if form.separator == ";" and not form.comments:  # as Excel does
                file.write(f"sep=;{form.newline}")
            out = csv.writer(file, delimiter=form.separator, lineterminator=form.newline)
            out.writerow(names)
            for row in rows:
                out.writerow([_text(cell, form) for cell in row])
    elif form.suffix == "jsonl":
        text = ""
        for row in rows:
            cells = [_text(cell, form) if form.as_text and isinstance(cell, float) else cell for cell in row]
            text += json.dumps(dict(zip(names, cells, strict=True)), ensure_ascii=form.as_text, default=str)
            text += form.newline
        path.write_bytes(text.encode(form.encoding))
    else:
        pq.write_table(pa.table({name: _array(cells, form) for name, cells in columns.items()}), path, row_group_size=5)
    return path


def _text(cell: Any, form: Form, *, in_list: bool = False) -> str:
    if isinstance(cell, list):
        return " ".join(_text(number, form, in_list=True) for number in cell)
    if not isinstance(cell, float):
        return "" if cell is None else str(cell)
    integer, point, decimals = repr(cell).partition(".")
    if point and form.thousands and not in_list:
        integer = f"{int(integer):,}".replace(",", form.thousands) if integer not in ("0", "-0") else integer
    return integer + point.replace(".", form.decimal) + decimals


def _array(cells: list[Any], form: Form) -> pa.Array:
    if any(isinstance(cell, float) for cell in cells):
        write = (lambda cell: _text(cell, form)) if form.as_text else float
        return pa.array([None if cell is None else write(cell) for cell in cells])
    if any(isinstance(cell, list) for cell in cells):
        return pa.array([[*map(float, cell)] for cell in cells])
    return pa.array(cells)


def made(
    options: dict[str, Any], raw: Path, *, seed: int = 1, snapshot: int = 1, size: int | None = None
) -> tuple[dict[str, pa.Table], dict[str, Any], list[str]]:
    """Return what stages make of a table: a table a split, what was fitted, and the names of broken pictures."""
    table, splits = Table(**options), {}
    source = table.opened(raw, Reading(seed, size=size, snapshot=snapshot))
    for split in table.splits:
        splits[split] = pa.concat_tables(source.rows(split))
        assert splits[split].schema.names == table.schema.names
        assert splits[split]["id"].to_pylist() == [*range(len(splits[split]))]
    manifest = json.loads(json.dumps(source.manifest(), allow_nan=False))
    return splits, manifest["fitted"], [name for split in manifest["skipped"].values() for name in split["names"]]


def read(options: dict[str, Any], raw: Path, **how: Any) -> dict[str, pa.Table]:
    """Return what stages make of a table, a split each."""
    return made(options, raw, **how)[0]


def rows_of(table: pa.Table, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows of a split by what they are, as `Drawn.expected` says them."""
    about = Table(**options)
    named = {about.input: "input", about.truth: "truth", "name": "name", "group": "group", "weight": "weight"}
    kept = [name for name in table.column_names if name in named]
    return table.select(kept).rename_columns([named[name] for name in kept]).to_pylist()
