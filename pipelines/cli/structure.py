"""Recognize the columns of a table with the split, weight, group, id, and date of its rows."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from pipelines.cli.columns import Column, Columns, is_within, plain
from rankgrad.datasets.tables.cells import as_days, split_in
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.inputs.image import StoredPicture

__all__ = [
    "EXPLAINED",
    "check_within",
    "explained",
    "find_id_of_items",
    "find_structure",
    "is_row_number",
    "may_be_group",
    "split_by_key",
]

EXPLAINED = 0.3  # groups that explain a larger fraction of the targets' order have different offsets


def find_structure(columns: Columns) -> None:
    """Take the columns of structure: named by the user, or recognized by their names and contents."""
    named = columns.named
    roles = {
        "split": columns.take(_is_split),
        "weight": named.get("weight") or columns.take(_is_weight),
        "group": named.get("query") or named.get("group") or _group(columns),
        "id": named.get("id") or columns.take(_is_id) or columns.take(_is_code),
    }
    columns.structure |= {role: column.name for role, column in roles.items() if column is not None}
    if "date" in named:
        column = columns.whole(named["date"])
        last = as_days(column.sheet, column.cells).max().date().isoformat()
        columns.structure["date"] = {"column": column.name, "first": last, "every": "month"}


def _is_split(column: Column) -> bool:
    """Recognize the names of splits; beside train and test in a column named so, the reader raises for other names."""
    splits = {_split_or_none(name) for name in column.names.unique()} if column.has_names else set()
    if {"train", "test"} <= splits:
        return None not in splits or column.is_called("split")
    return column.is_called("split") and bool(splits) and None not in splits


def _split_or_none(name: str) -> str | None:
    try:
        return split_in(name)
    except ValueError:
        return None


def _is_weight(column: Column) -> bool:
    """Recognize the weight of a row, not of a body or a parcel: numbers above 0 in a column such as sample_weight."""
    return column.is_exactly_called("weight") and column.content == "number" and bool((column.numbers > 0).all())


def _group(columns: Columns) -> Column | None:
    """Take the column of pairs, else of queries, else a column that several rows share, such as a customer."""
    pair = columns.take(_is_pair)
    return pair or columns.take_shared("query", exact=True) or columns.take_shared("group", exact=False)


def _is_pair(column: Column) -> bool:
    """Recognize pairs of answers: no value is in more than two rows of a column that is called so."""
    return plain(column.name) in ("pair", "pair_id") and bool(column.names.value_counts().max() == 2)


def _is_id(column: Column) -> bool:
    """Recognize ids: distinct names or whole numbers in a column named like an id."""
    return column.is_called("id") and column.is_unique and (column.content == "name" or column.is_whole)


def find_id_of_items(columns: Columns, items: Sequence[Column]) -> None:
    """Take a column that is named like an id and identifies each item, whose captions are in several rows."""

    def names_items(column: Column) -> bool:
        is_id = column.is_called("id") and (column.content == "name" or column.is_whole)
        return is_id and any(is_within(column, item) and is_within(item, column) for item in items)

    if "id" not in columns.structure and (column := columns.take(names_items)) is not None:
        columns.structure["id"] = column.name


def _is_code(column: Column) -> bool:
    """Recognize ids with any column name: distinct words, or row numbers."""
    if column.content == "number":
        return is_row_number(column) and not column.is_called("target")
    if column.is_called("chosen") or column.is_called("rejected"):
        return False
    has_words = column.content == "name" and column.hindrance is None and not column.is_aligned
    return has_words and column.is_unique and len(column.cells) > 2 and not column.names.str.contains(r"\s").any()


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
    group = columns.whole(columns.all[columns.structure["group"]])
    count = group.names.nunique()
    if count in (1, len(group.cells)):
        values = "the same value in all rows" if count == 1 else "a different value in each row"
        raise columns.refusal(
            f"--within: {group.name} has {values}, expected several values that repeat; name another column with "
            "`--group`"
        )


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
