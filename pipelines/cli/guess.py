"""Guess the roles of a table's columns, see `rankgrad.datasets.table`, for the user to review.

`guess` determines, in this order and each in its own file: structure (split, weight, group, id, dates), truth (task and
target), and inputs. Then the table's own reader reads the first rows with these options.

A column that the user names gets its role, or raises an error. Cells that can be read in two ways, or in none, raise an
error that shows what to type. A column that is named like a target is never replaced by another column.
"""

import re
from collections.abc import Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.cli.columns import (
    MOSTLY,
    Column,
    Columns,
    check_cells,
    if_empty,
    listed,
    plain,
    refuse_two_readings,
)
from pipelines.cli.inputs import find_input, leave_out_clues, leave_out_days_and_keys
from pipelines.cli.starting_runs import is_skewed_up
from pipelines.cli.structure import (
    EXPLAINED,
    FEW,
    check_within,
    explained,
    find_structure,
    may_be_group,
    split_by_key,
)
from pipelines.cli.truth import DROPPED, find_truth
from rankgrad.datasets.files.dataset import SPLITS
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import SPLIT_NAMES
from rankgrad.datasets.tables.examples import missing_cells
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.datasets.tables.suspects import REPEATED
from rankgrad.numbers import PLAIN, Writing, days_in, writings_of

__all__ = ["Guess", "guess"]

MANY = 20  # rows of which none is by chance as large as all others together
EMPTY = re.compile(r"#?n/?a|null|none|nan|nil|[-?.]+|unknown|missing|k\.a\.|<na>")
PERIOD = r"( (\d[\d./-]*|q\d|h\d|\d\. ?\w+|[a-zäöü]{3,9}\.?( \d{2,4})?))?"  # of a total: 2025, Q1, 1. Quartal, May 2025
TOTAL = re.compile(
    rf"((sub|grand)[ -]?)?totals?( for all| g.n.ral)?{PERIOD}|(zwischen|gesamt|end)?summe{PERIOD}|"
    rf"gesamt(ergebnis|betrag)?{PERIOD}|insgesamt|.bertrag|sum|sub-?somme|somme|totale|suma|итого|всего|合計|总计|"
    "average|mean|mittelwert|durchschnitt|moyenne",
    re.IGNORECASE,
)
NO_DATES = ("0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31")  # written for a missing one
YEAR, SEQUENCE = re.compile(r"(19|20)\d\d(\.0)?"), 3  # a name of a column; fewest names in order, such as wavelengths
FEWEST_GROUPS = 5  # smallest number of groups to report different offsets


class Guess(NamedTuple):
    """A task, the options of the table for it, and one line per decision."""

    task: str
    options: dict[str, Any]
    lines: list[str]


def guess(
    path: Path,
    *,
    task: str | None = None,
    encoding: str = "utf-8",
    empty: Sequence[str] = (),
    writing: Writing | None = None,
    named: Mapping[str, str] | None = None,
    within: bool = False,
    grouped: bool = True,
) -> Guess:
    """Inspect the first rows of a file, and guess the roles of its columns.

    Args:
        path: path of a CSV, TSV, JSON lines, Parquet, or SVMlight file.
        task: the task, or None if unknown.
        encoding: encoding of the file.
        empty: texts that mean a missing value.
        writing: how numbers are written in text, if the user sets it.
        named: the columns that the user names, by role: target, text, rejected, group, query, id, date, weight.
        within: whether only rows of the same group are compared.
        grouped: whether a column may be taken for groups.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, it fits no task, or a named column does not fit its
            role.
    """
    columns = Columns(path, encoding, empty, writing, named or {}, task)
    if columns.form == "svmlight":
        return _svmlight(columns, within=within)
    _check_header(columns)
    _check_later_header(columns)
    for column in columns.all.values():
        check_cells(column, is_writing_known=columns.is_writing_known)

    _refuse_lists_of_documents(columns)
    find_structure(columns, grouped=grouped)
    leave_out_days_and_keys(columns)
    if within:
        check_within(columns)
        columns.structure["within"], columns.task = True, "score_ranking"
    truth = find_truth(columns)
    numbers = None  # of the whole file
    if truth.column is not None and truth.column.content == "number":
        numbers = columns.whole(truth.column)
    if numbers is not None and not columns.is_writing_known:
        refuse_two_readings(numbers)  # 1.306 may begin below the first rows
    leave_out_clues(columns, truth.column)
    inputs, input_columns = find_input(columns, truth)

    files = _files(path)
    options: dict[str, Any] = {"file": files, **inputs, **truth.options, **columns.structure}
    options |= _reading(columns)
    if "split" not in options and isinstance(files, str):
        options |= split_by_key(columns, options)
    missing, missing_lines = _missing(columns, options, input_columns)
    options |= missing
    Table(**options).check_head(path.parent)

    lines = [_line_on_input(inputs, input_columns), truth.line]
    if columns.writing != PLAIN and writing is None:
        lines.append(f"numbers: written like {_example_of(columns.writing)}; to change: --decimal, --thousands")
    if truth.task == "score_ranking" and truth.column is not None and not within:
        lines += _lines_on_offsets(columns, truth.column)
    if numbers is not None:
        lines += _lines_on_total(numbers) + (_lines_on_negative(numbers) if truth.task == "score_ranking" else [])
    lines += _lines_on_words_for_totals(columns)
    labels = truth.column if truth.task in ("label_ranking", "multilabel") else None
    for column in filter(None, [columns.group, labels]):
        lines += _lines_on_empty_words(column)
    lines += (
        _lines_on_files(path, files)
        + _lines_on_features(columns, input_columns)
        + _lines_on_unused(columns, options.get("text_pair", [None])[0])
        + missing_lines
    )
    return Guess(truth.task, options, lines)


def _refuse_lists_of_documents(columns: Columns) -> None:
    """Raise if each row has several documents, in lists whose lengths vary in the same way."""
    if not any(column.is_called("query") for column in columns.all.values()):
        return
    names_of: dict[tuple[tuple[Any, int], ...], list[str]] = {}  # of columns, by the rows and lengths of their lists
    for column in columns.all.values():
        if column.cells.map(lambda cell: isinstance(cell, list | np.ndarray)).all():
            names_of.setdefault((*column.cells.map(len).items(),), []).append(column.name)
    for lengths, names in names_of.items():
        if len(names) > 1 and len({length for _, length in lengths}) > 1:
            raise columns.refusal(
                f"{listed(names)} are lists of equal lengths, expected a row for each document: in pandas, "
                f"`table = table.explode({names})`"
            )


def _check_header(columns: Columns) -> None:
    """Refuse a file whose first line is a row rather than names, and one in which a row repeats the names."""
    names, words, repeats = [*columns.all], [], []
    for name, column in columns.all.items():
        repeats.append({*column.texts.index[column.texts.str.lower() == name.lower()]})
        if not writings_of([name]):  # not a number, such as a year or a wavelength
            words.append(bool(repeats[-1]))
    for row in sorted(set[Any]().union(*repeats).intersection(*repeats)):
        raise columns.refusal(f"row {columns.sheet.row[row]} repeats the names of the columns; remove it")
    if sum(words) > MOSTLY * len(words) or not words or _are_named_like_cells(columns):
        raise columns.refusal(
            f"the first line is {', '.join(names[:5])}, as in a row, expected the names of the columns; add them"
        )


def _check_later_header(columns: Columns) -> None:
    """Refuse a row of texts below the first rows that repeats the names; among numbers, its words are refused."""
    names = [column.name for column in columns.all.values() if column.has_names]
    if columns.sheet.head is None or len(names) < len(columns.all):
        return
    sheet = columns.whole_sheet(names)
    are_names = [sheet.frame[name].astype(str).str.lower() == name.lower() for name in names]
    for row in sheet.frame.index[np.all(are_names, axis=0)]:
        raise columns.refusal(f"row {sheet.row[row]} repeats the names of the columns; remove it")


def _are_named_like_cells(columns: Columns) -> bool:
    """Return whether all columns of numbers are named by numbers that are no years, and no long sequence."""
    names = [column.name for column in columns.all.values() if column.content == "number"]
    if not names or not all(PLAIN in writings_of([name]) for name in names) or all(map(YEAR.fullmatch, names)):
        return False
    numbers = [*map(float, names)]
    if numbers == [*range(len(names))] or numbers == [*range(1, 1 + len(names))]:  # as pandas names columns
        return False
    steps = np.diff(numbers)
    return len(names) < SEQUENCE or not ((steps > 0).all() or (steps < 0).all())


# Files.


def _svmlight(columns: Columns, *, within: bool) -> Guess:
    """Return the roles in an SVMlight file, which has a label, features, and optionally a query."""
    if columns.named:
        raise columns.refusal(
            f"--{next(iter(columns.named))}: SVMlight always has a label, a qid, and features; remove the option"
        )
    if within:
        raise columns.refusal("--within: documents are already compared only within their qid; remove --within")
    task, files = columns.task or ("query_ranking" if _has_queries(columns) else "score_ranking"), _files(columns.path)
    options: dict[str, Any] = {"file": files, "features": "all"}
    if task == "score_ranking":
        options["target"] = "label"
        line = "SVMlight: label and all features; a feature that a row does not list is 0"
    elif task == "query_ranking":
        options |= {"relevance": "label", "group": "qid", "without_relevant": "drop"}
        options |= {} if isinstance(files, dict) else {"split": {"hash_of": "qid", **SHARES}}
        line = f"SVMlight: label, qid and all features; a feature that a row does not list is 0; {DROPPED}"
    else:
        raise columns.refusal(
            f"SVMlight has one number per row, which does not fit {task}; expected query_ranking or score_ranking"
        )
    Table(**options).check_head(columns.path.parent)
    return Guess(task, options, [line, *_lines_on_files(columns.path, files)])


def _has_queries(columns: Columns) -> bool:
    try:
        columns.read(["qid"], head=1)
    except ValueError:
        return False
    return True


def _files(path: Path) -> str | dict[str, str]:
    """Return a file's name, or the names of training, validation, and test files in the same folder."""
    files = {"train": path.name}
    for name, split in _files_of_splits(path).items():
        files.setdefault(split, name)
    return files if path.stem.lower() == "train" and len(files) == len(SPLITS) else path.name


def _files_of_splits(path: Path) -> dict[str, str]:
    """Return the split of each file that is named like one for validation or test, in the folder of training rows.

    Names in `SPLIT_NAMES` come in its order, the usual one first.
    """
    if path.stem.lower() not in SPLIT_NAMES["train"]:
        return {}
    files = {file.stem.lower(): file.name for file in sorted(path.parent.glob(f"*{path.suffix}")) if file.is_file()}
    return {files[name]: split for split in ("val", "test") for name in SPLIT_NAMES[split] if name in files}


def _lines_on_files(path: Path, files: str | dict[str, str]) -> list[str]:
    """Return a line on the files of the splits, or on those of other splits that are not used."""
    if isinstance(files, dict):
        return [f"files: {', '.join(map(' '.join, files.items()))}"]
    advice = f"only {path.name} is split; to use them as splits, name three files train, val, and test"
    return [f"not used: {listed(others)}: {advice}"] if (others := _files_of_splits(path)) else []


def _reading(columns: Columns) -> dict[str, Any]:
    """Return the options for reading the file that differ from the defaults."""
    options: dict[str, Any] = {} if columns.encoding == "utf-8" else {"encoding": columns.encoding}
    if columns.empty:
        options["empty"] = [*columns.empty]
    if columns.writing != PLAIN:
        options["decimal"] = columns.writing.decimal
        if columns.writing.thousands:
            options["thousands"] = columns.writing.thousands
    return options


def _example_of(writing: Writing) -> str:
    """Return a number in a notation.

    >>> _example_of(Writing(",", ".")), _example_of(Writing(","))
    ('1.306,5', '1306,5')
    """
    return f"1{writing.thousands}306{writing.decimal}5"


# Lines for the user.


def _line_on_input(inputs: dict[str, Any], columns: Sequence[Column]) -> str:
    """Return the line on the columns of the input, by role."""
    line = f"input: {', '.join(f'{role} from {listed(names)}' for role, names in inputs.items())}"
    if "words" not in inputs:
        return line
    text = next(column for column in columns if column.name in inputs["words"])
    return f"{line} (frequent words); to learn from this text alone, with all its words: --text {text.typed}"


def _missing(columns: Columns, options: dict[str, Any], inputs: Sequence[Column]) -> tuple[dict[str, Any], list[str]]:
    """Return the option for rows with missing values, and lines on their number among the first rows."""
    table, frame = Table(**options), columns.sheet.frame
    is_filled = "features" in options and inputs[0].content in ("number", "time")
    no_feature, no_other = np.zeros(len(frame), bool), np.zeros(len(frame), bool)
    for role, _, is_empty in missing_cells(table, frame, table.roles(list(frame))):
        (no_feature if is_filled and role == "features" else no_other)[is_empty] = True
    lines = []
    if no_feature.any():
        lines.append(
            f"{no_feature.sum()} of the first {len(frame)} rows miss a feature: it is set to the median of the "
            "training rows, and an extra feature flags it; to drop such rows: `missing: leave_out`"
        )
    if no_other.any():
        lines.append(f"{no_other.sum()} of the first {len(frame)} rows miss a value: they are dropped and counted")
    if is_filled:  # even if no value is missing yet: new rows may have empty cells
        return {"missing": "impute"}, lines
    return {"missing": "leave_out"} if lines else {}, lines


def _lines_on_offsets(columns: Columns, truth: Column) -> list[str]:
    """Return a line for the group, or else for each column of names, if it explains much of the order of targets."""
    candidates = []
    for column in columns.all.values():
        if column.content == "name" and FEWEST_GROUPS <= column.names.nunique() <= len(column.cells) // 2:
            candidates.append(column)
    if columns.group is not None:
        candidates = [columns.group]
    lines = []
    for column in candidates:
        fraction = explained(column.names, truth.numbers)
        if fraction > EXPLAINED:
            lines.append(
                f"{column.name} explains {100 * fraction:.0f} % of the order of {truth.name}; if only rows of one "
                f"{column.name} are compared, which leaves no estimates of {truth.name}, pass `--group {column.typed} "
                "--within`"
            )
    return lines


def _lines_on_total(truth: Column) -> list[str]:
    """Return a line on the last row if its target or grade is the sum or the mean of all others.

    A sum may include cells that are empty in the file, so of many rows it may differ by a tenth.
    """
    others, last = truth.numbers.iloc[:-1], truth.numbers.iloc[-1]
    if not last:
        return []
    if isclose(last, others.sum(), rel_tol=1e-6):
        total = "the sum"
    elif isclose(last, others.mean(), rel_tol=1e-6):
        total = "the mean"
    elif len(others) >= MANY and others.min() >= 0 and isclose(last, others.sum(), rel_tol=0.1):
        total = "about the sum"
    else:
        return []
    row: Any = truth.cells.index[-1]
    cell = f"row {truth.sheet.row[row]}: {truth.name} is {truth.cells[row]}"
    return [f"{cell}, {total} of all others; remove this row if it is a total"]


def _lines_on_negative(truth: Column) -> list[str]:
    """Return a line if negative targets keep the logarithm of skewed targets from being compared."""
    lowest: Any = truth.numbers.idxmin()
    if truth.numbers[lowest] >= 0 or not is_skewed_up(truth.numbers):
        return []
    return [
        f"{truth.name} is skewed, but no run learns its logarithm, since it is {truth.cells[lowest]} in row "
        f"{truth.sheet.row[lowest]}; if negative numbers are errors, empty these cells"
    ]


def _lines_on_words_for_totals(columns: Columns) -> list[str]:
    """Return a line for each column of names in which cells of the whole file are words such as Total and Subtotal."""
    names = [column.name for column in columns.all.values() if column.has_names and not column.is_text]
    sheet, lines = columns.whole_sheet(names) if names else columns.sheet, []
    for name in names:
        cells = sheet.frame[name].dropna()
        totals = [cell for cell in cells.unique() if isinstance(cell, str) and TOTAL.fullmatch(cell.rstrip(": "))]
        rows: Any = cells.index[cells.isin(totals)]
        if 0 < len(rows) <= max(1, FEW * len(cells)):  # else such as grades from poor to average
            words, first = ", ".join(cells[rows].unique()[:3]), sheet.row[rows[0]]
            found = f"{name} is {words} in {len(rows)} rows, first in row {first}"
            lines.append(f"{found}; remove these rows if they are totals: they are learned like all others")
    return lines


def _lines_on_empty_words(column: Column) -> list[str]:
    """Return a line for each name of a group or label that may stand for a missing one, such as NA."""
    lines = []
    for word, count in column.names.value_counts().items():
        if EMPTY.fullmatch(str(word).lower()):
            lines.append(f"{column.name}: {word} in {count} rows; {if_empty(str(word))}")
    return lines


def _lines_on_features(columns: Columns, inputs: Sequence[Column]) -> list[str]:
    """Return lines on dates, on those that may be placeholders for missing ones, and on possible weights."""
    lines = []
    for column in inputs:
        if column.content == "time":
            lines += _lines_on_no_dates(column)
            if "date" not in columns.named:
                lines.append(
                    f"{column.name}: used as a feature; if later files have only later dates, which are outside the "
                    f"training range, pass `--date {column.typed}`, by which later rows become deliveries"
                )
        elif column.content == "number" and plain(column.name) in ("weight", "weights"):
            lines.append(
                f"{column.name}: used as a feature; if it is the weight of a row, pass `--weight {column.typed}`"
            )
    return lines


def _lines_on_no_dates(column: Column) -> list[str]:
    """Return a line for each date of a column that may stand for a missing one, such as 9999-12-31."""
    days = [days_in(cell, column.date_orders[0]) // 1 for cell in column.cells]
    lines = []
    for date in NO_DATES:
        day = days_in(date, "YMD")
        count = days.count(day)
        if count >= REPEATED:
            cell = column.cells.iloc[days.index(day)]
            advice = if_empty(cell) if isinstance(cell, str) else "if it means a missing value, empty these cells"
            lines.append(f"{column.name}: {date} in {count} rows; {advice}")
    return lines


def _lines_on_unused(columns: Columns, prompt: str | None) -> list[str]:
    """Return lines on unused columns, first on possible groups.

    Args:
        columns: those of the table.
        prompt: the column of prompts or queries that are read with each answer or passage, if there is one.
    """
    lines, unused = [], []
    for column in columns.free:
        if "group" not in columns.structure and may_be_group(column):
            lines.append(
                f"not used: {column.name}: {column.names.nunique()} values in {len(column.cells)} rows; to keep rows "
                f"with the same value in one split, pass `--group {column.typed}`"
            )
        else:
            unused.append(column.name)
    lines += [f"not used: {name}: {reason}" for name, reason in columns.reasons.items()]
    if unused:
        lines.append(f"not used: {listed(unused)}")
    categories = [column for column in columns.free if column.is_category]
    if categories:
        names = ", ".join(column.name for column in categories)
        lines.append(f"for metrics by their values, write `slices: [{names}]` into `args`")
    known = [column.name for column in categories if not column.is_called("judge")]
    if known and prompt is not None:
        name = known[0] if len(known) == 1 else "COLUMN"
        code = f'table["{prompt}"] = table["{name}"] + ": " + table["{prompt}"]'
        lines.append(
            f"to read one that is known of new rows, too (so no judge), join it to {prompt} in pandas: `{code}`"
        )
    return lines
