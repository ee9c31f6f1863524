"""Recognize the columns of a table with the split, weight, group, id, and date of its rows."""

import re
from functools import partial
from typing import Any

import pandas as pd

from pipelines.cli.columns import Column, Columns, is_within, plain
from rankgrad.datasets.tables.cells import as_days, split_in
from rankgrad.datasets.tables.ranges import in_words
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.inputs.image import StoredPicture
from rankgrad.numbers import ORDERS

__all__ = [
    "EXPLAINED",
    "FEW",
    "check_within",
    "explained",
    "find_structure",
    "is_index",
    "is_like_split",
    "is_row_number",
    "may_be_group",
    "split_by_key",
]

SPLIT = r"train|learn|test|val|dev|hold.?out"  # a part of a split's name
FEW = 0.1  # fraction of cells that may be misspelled splits, or totals
EXPLAINED = 0.3  # groups that explain a larger fraction of the targets' order have different offsets


def find_structure(columns: Columns, *, grouped: bool = True) -> None:
    """Take the columns of structure: named by the user, or recognized by their names and contents."""
    named = columns.named
    if "group" in named and columns.whole(named["group"]).is_unique:
        name = named["group"].name
        raise columns.refusal(
            f"--group: {name} differs in all rows, so no rows stay together; name a column that repeats, or pass "
            "`--group none`"
        )
    roles = {
        "split": columns.take(partial(_is_split, columns)),
        "weight": named.get("weight") or columns.take(_is_weight),
        "group": named.get("query") or named.get("group") or _group(columns, grouped=grouped),
        "id": named.get("id") or columns.take(_is_id) or columns.take(partial(_is_code, columns)),
    }
    if "id" not in named and (row_id := roles["id"]) is not None and (reason := _repeats(columns, row_id)):
        columns.leave_out(row_id, f"{reason}, so it is no id")
        roles["id"] = None
    columns.structure |= {role: column.name for role, column in roles.items() if column is not None}
    if "date" in named:
        column = columns.whole(named["date"])
        order = _order_of(columns, column)
        last = in_words(as_days(column.sheet, column.cells, order).max(), is_date=True)
        columns.structure["date"] = {"column": column.name, "first": last, "every": "month"}
        columns.structure["date"] |= {} if order == ORDERS[0] else {"order": order}


def _repeats(columns: Columns, column: Column) -> str:
    """Return where a value of a column is twice below the first rows; empty if it is nowhere."""
    if columns.sheet.head is None:  # the first rows are all
        return ""
    whole = columns.whole(column)
    names, sheet = whole.names, whole.sheet
    if names.is_unique:
        return ""
    again = names.index[names.duplicated()][0]
    first = names.index[names == names[again]][0]
    return f"{names[again]} is in row {sheet.row[first]} and again in row {sheet.row[again]}"


def _order_of(columns: Columns, column: Column) -> str:
    """Return the order of year, month, and day in a column of dates; raise if day or month may come first."""
    orders = column.date_orders or [column.usual_date_order]  # of which a cell then is named that is no date
    if len(orders) > 1:
        raise columns.refusal(
            f"--date: {column.shown(column.cells.index[0])}; day or month may come first in all its cells: write them "
            "as 2026-11-30"
        )
    return orders[0]


def _is_split(columns: Columns, column: Column) -> bool:
    """Recognize the names of splits; beside train and test, the reader raises for a few other names."""
    splits = _splits_in(column)
    if splits == {"train"} and columns.sheet.head is not None:  # other splits may begin below the first rows
        splits = _splits_in(columns.whole(column))
    if None in splits:
        are_few = column.names.map(lambda name: _split_or_none(name) is None).mean() < FEW
        return {"train", "test"} <= splits and (are_few or column.is_called("split"))
    return {"train"} < splits or (column.is_called("split") and bool(splits))


def _splits_in(column: Column) -> set[str | None]:
    """Return the splits that the cells of a column name, and None if a cell names no split."""
    return {_split_or_none(name) for name in column.names.unique()} if column.has_names else set()


def _split_or_none(name: str) -> str | None:
    """Return the split that a name means, or None."""
    try:
        return split_in(name)
    except ValueError:
        return None


def is_like_split(column: Column) -> bool:
    """Recognize splits that are written in another way: by the name of a column, or by cells such as train and eval."""
    if column.is_exactly_called("split"):
        return True
    if column.is_exactly_called("side of a split"):
        return column.names.nunique() == 2
    names = [name.lower() for name in column.names.unique()] if column.has_names else []
    begin_so = any(name.startswith(("train", "learn")) for name in names)
    return begin_so and len(names) > 1 and all(re.search(SPLIT, name) for name in names)


def _is_weight(column: Column) -> bool:
    """Recognize the weight of a row, not of a body or a parcel: numbers in a column such as sample_weight."""
    return column.is_exactly_called("weight") and column.content == "number"


def _group(columns: Columns, *, grouped: bool) -> Column | None:
    """Take the column of pairs, else of queries, else, if `grouped`, one that several rows share, such as a user."""
    queries = columns.take(_is_pair) or columns.take_shared("query", exact=True)
    return queries or (columns.take_shared("group", exact=False) if grouped else None)


def _is_pair(column: Column) -> bool:
    """Recognize pairs of answers: no value is in more than two rows of a column that is called so."""
    return plain(column.name) in ("pair", "pair_id") and bool(column.names.value_counts().max() == 2)


def _is_id(column: Column) -> bool:
    """Recognize ids: distinct names or whole numbers in a column named like an id."""
    is_id = column.content == "name" or (column.is_whole and not _is_called_index(column))
    return column.is_called("id") and column.is_unique and is_id


def _is_code(columns: Columns, column: Column) -> bool:
    """Recognize ids with any column name: distinct words, or row numbers."""
    if column.content == "number":
        return is_row_number(column) and not is_index(columns, column) and not column.is_called("target")
    if column.is_called("chosen") or column.is_called("rejected"):
        return False
    has_words = column.content == "name" and column.hindrance is None and not column.is_aligned
    return has_words and column.is_unique and len(column.cells) > 2 and not column.names.str.contains(r"\s").any()


def is_index(columns: Columns, column: Column) -> bool:
    """Recognize numbers of rows that a program counted: they change when it writes the rows again."""
    if not column.is_whole:
        return False
    if _is_called_index(column):
        return True
    if column.is_first and column.is_unique and columns.sheet.head is not None:  # perhaps the rows were shuffled
        column = columns.whole(column)
    is_counted = is_row_number(column) and column.numbers.min() in (0, 1) and column.numbers.max() <= len(column.cells)
    return is_counted and not column.is_called("target")


def _is_called_index(column: Column) -> bool:
    """Return whether a program gave this name to the numbers of rows: pandas `Unnamed: 0`, R `...1` or `X1`."""
    if column.is_exactly_called("index") or re.fullmatch(r"\.\.\.\d+", column.name):
        return True
    if not column.is_first:
        return False
    is_one_of_many = column.name.replace("1", "2") in column.sheet.names  # X1, X2, ... are features
    is_only_one = plain(column.name) in ("x1", "v1") and column.is_unique and not is_one_of_many
    return is_only_one or plain(column.name) in ("index", "idx", "rn")


def is_row_number(column: Column) -> bool:
    """Recognize row numbers: distinct whole numbers in order, or all numbers from the smallest to the largest."""
    if not column.is_whole or len(column.cells) < 3 or not column.is_unique:
        return False
    steps = column.numbers.diff().iloc[1:]
    if column.is_last:  # it may be a target by which rows are sorted
        return bool((steps == 1).all())
    extent = column.numbers.max() - column.numbers.min()
    return bool((steps > 0).all() or (steps == -1).all() or (extent == len(column.cells) - 1 > 20))


def may_be_group(column: Column) -> bool:
    """Return whether a column has three or more names or whole numbers, each in about two rows or more."""
    return (column.content == "name" or column.is_whole) and 2 < column.names.nunique() <= len(column.cells) // 2


def check_within(columns: Columns) -> None:
    """Raise if rows are to be compared within groups, but there are no groups, or the task does not allow it."""
    if columns.task not in (None, "score_ranking"):
        raise columns.refusal(f"--within needs a number to rank by; remove --within, or `--task {columns.task}`")
    if "group" not in columns.structure:
        unnamed = [column for column in columns.all.values() if column not in columns.named.values()]
        candidates = [column for column in unnamed if may_be_group(column) and not column.is_called("target")]
        if candidates:
            candidates.sort(key=lambda column: column.content == "number")
            raise columns.question(candidates, "may be the groups of --within", "within --group")
        raise columns.refusal("--within: no column of names or whole numbers repeats; name one, as in `--group COLUMN`")


def explained(names: pd.Series, numbers: pd.Series) -> float:
    """Return the fraction of the variance of ranks that is between groups, adjusted for the number of groups.

    >>> round(explained(pd.Series(list("aabb")), pd.Series([1.0, 2.0, 11.0, 12.0])), 2)
    0.7
    """
    rows = pd.DataFrame({"name": names, "rank": numbers.rank()}).dropna()
    apart = rows["rank"] - rows.groupby("name")["rank"].transform("mean")
    freedom, total = len(rows) - rows["name"].nunique(), rows["rank"].var()
    return 1 - float((apart**2).sum() / freedom / total) if freedom > 0 and total > 0 else 0.0


def split_by_key(columns: Columns, options: dict[str, Any]) -> dict[str, Any]:
    """Return the option that splits by a hash of the prompt or group, else the id, else the path of an image."""
    key = _shared_prompt(columns, options) or options.get("group") or options.get("id") or options.get("image")
    if key is None or isinstance(columns.all[key].cells.iloc[0], StoredPicture):
        return {}
    return {"split": {"hash_of": key, **SHARES}}


def _shared_prompt(columns: Columns, options: dict[str, Any]) -> str | None:
    """Return the column of prompts if several queries have the same one, such as the pairs of answers to a prompt."""
    if "relevance" not in options:
        return None
    query = columns.all[options["group"]]
    for column in columns.all.values():
        is_coarser = 1 < column.names.nunique() < query.names.nunique()
        if is_coarser and column.is_called("query") and is_within(columns.whole(query), columns.whole(column)):
            return column.name
    return None
