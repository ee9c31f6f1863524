"""Guess the roles of a table's columns, see `rankgrad.datasets.table`, for a person to look over.

`guess` answers three questions in this order, each in a file of its name: structure (split, weight, group, id, days),
truth (task and target), inputs. Then the table's own reader reads the first rows with these options.

A column that a person names gets its role, or is refused. Cells with two readings, or none, are refused, and the error
shows what to type. No other column replaces one that is called like a target.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipelines.cli.columns import Column, Columns, check_cells, listed, plain
from pipelines.cli.inputs import find_input, leave_out_clues, leave_out_days_and_keys
from pipelines.cli.structure import check_within, find_id_of_items, find_structure, split_by_key
from pipelines.cli.truth import DROPPED, find_truth
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.examples import missing_cells
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.datasets.tables.suspects import stand_ins
from rankgrad.numbers import PLAIN, Writing, number_in

__all__ = ["Guess", "guess"]

EXPLAINED, FEWEST_GROUPS = 0.3, 5  # least explained variance, and least groups, of groups with different offsets


class Guess(NamedTuple):
    """A task, the options of the table that it learns from, and what was decided, a line each."""

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
) -> Guess:
    """Look at the first rows of a file, and return which roles its columns seem to have.

    Args:
        path: of a CSV, TSV, JSON lines, Parquet or SVMlight file.
        task: where it is known.
        encoding: of text.
        empty: texts that stand for a missing value.
        writing: of numbers that are text, where a person says it.
        named: the columns that a person names, by their role: target, text, rejected, group, query, id, date, weight.
        within: whether only rows of one group are compared.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, nothing in it fits a task, or a column that a person
            names does not fit its role.
    """
    columns = Columns(path, encoding, empty, writing, named or {}, task)
    if columns.form == "svmlight":
        return _svmlight(columns, within=within)
    _check_header(columns)
    for column in columns.all.values():
        check_cells(column, is_writing_known=writing is not None)

    find_structure(columns)
    leave_out_days_and_keys(columns)
    if within:
        check_within(columns)
        columns.structure["within"], columns.task = True, "score_ranking"
    truth = find_truth(columns)
    leave_out_clues(columns, truth.column)
    inputs, input_columns = find_input(columns, truth)
    if truth.task == "retrieval":
        find_id_of_items(columns, input_columns)

    files = _files(path)
    options: dict[str, Any] = {"file": files, **inputs, **truth.options, **columns.structure}
    options |= _reading(encoding, empty, writing)
    if "split" not in options and isinstance(files, str):
        options |= split_by_key(columns, options)
    missing, missing_lines = _missing(columns, options, input_columns)
    options |= missing
    Table(**options).check_head(path.parent)

    lines = [f"input: {', '.join(f'{role} from {listed(names)}' for role, names in inputs.items())}", truth.line]
    if truth.task == "score_ranking" and truth.column is not None and not within:
        lines += _lines_on_offsets(columns, truth.column)
    lines += _lines_on_files(files) + _lines_on_features(input_columns) + _lines_on_unused(columns) + missing_lines
    return Guess(truth.task, options, lines)


def _check_header(columns: Columns) -> None:
    """Refuse a file whose first line is a row of numbers."""
    names = list(columns.sheet.frame)
    try:
        [number_in(name) for name in names]
    except ValueError:
        return
    raise columns.refusal(f"the first line is {', '.join(names[:5])}, expected the names of the columns")


# Files.


def _svmlight(columns: Columns, *, within: bool) -> Guess:
    """Return the roles in an SVMlight file: it has a label, perhaps a query, and the features."""
    if columns.named:
        raise columns.refusal(f"--{next(iter(columns.named))}: SVMlight has a label, a qid and features; name none")
    if within:
        raise columns.refusal("--within: documents of a qid are compared within it already; leave it out")
    task, files = columns.task or "query_ranking", _files(columns.path)
    options: dict[str, Any] = {"file": files, "features": "all"}
    if task == "score_ranking":
        options["target"], line = "label", "SVMlight: label and all features"
    elif task == "query_ranking":
        options |= {"relevance": "label", "group": "qid", "without_relevant": "drop"}
        options |= {} if isinstance(files, dict) else {"split": {"hash_of": "qid", **SHARES}}
        line = f"SVMlight: label, qid and all features; {DROPPED}"
    else:
        raise columns.refusal(f"SVMlight has a number in each row, no {task}; expected query_ranking or score_ranking")
    return Guess(task, options, [line, *_lines_on_files(files)])


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


def _reading(encoding: str, empty: Sequence[str], writing: Writing | None) -> dict[str, Any]:
    """Return the options by which the file is read, where they are not as usual."""
    options: dict[str, Any] = {} if encoding == "utf-8" else {"encoding": encoding}
    if empty:
        options["empty"] = [*empty]
    if writing not in (None, PLAIN):
        options["decimal"] = writing.decimal
        if writing.thousands:
            options["thousands"] = writing.thousands
    return options


# What a person should know.


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


def _lines_on_offsets(columns: Columns, truth: Column) -> list[str]:
    """Return a line for the group, or else for each column of names, that the order of targets depends on."""
    candidates = []
    for column in columns.all.values():
        if column.content == "name" and FEWEST_GROUPS <= column.names.nunique() <= len(column.cells) // 2:
            candidates.append(column)
    if "group" in columns.structure:
        candidates = [columns.all[columns.structure["group"]]]
    lines = []
    for column in candidates:
        fraction = _explained(column.names, truth.numbers)
        if fraction > EXPLAINED:
            lines.append(
                f"{column.name} explains {100 * fraction:.0f} % of the order of {truth.name}; if only rows of one "
                f"{column.name} are compared, `--group {column.name} --within` learns and judges within each"
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


def _lines_on_features(inputs: Sequence[Column]) -> list[str]:
    """Return a line for each smallest or largest number that may stand for a missing value, and for each weight."""
    lines = []
    for column in inputs:
        if column.content != "number":
            continue
        for text, count in stand_ins(column.numbers.to_numpy()).items():
            cell = column.cells[column.numbers == float(text)].iloc[0]
            advice = f"`--empty {cell}` reads it as empty" if isinstance(cell, str) else "leave those cells empty"
            lines.append(f"{column.name}: {text} in {count} rows; if it stands for a missing value, {advice}")
        if plain(column.name) in ("weight", "weights"):
            lines.append(f"{column.name}: a feature; if it says how much a row counts, pass `--weight {column.name}`")
    return lines


def _lines_on_unused(columns: Columns) -> list[str]:
    """Return lines on columns that are not used, first on possible groups."""
    lines, unused = [], []
    for column in columns.free:
        count = column.names.nunique()
        comes_again = (column.content == "name" or column.is_whole) and 2 < count <= len(column.cells) // 2
        if "group" not in columns.structure and comes_again:
            lines.append(
                f"not used: {column.name}: {count} values in {len(column.cells)} rows; if rows of one belong together, "
                f"`--group {column.name}` keeps them in one split"
            )
        else:
            unused.append(column.name)
    lines += [f"not used: {name}: {reason}" for name, reason in columns.reasons.items()]
    return lines + ([f"not used: {listed(unused)}"] if unused else [])
