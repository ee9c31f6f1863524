"""Which columns of a table are its input, and why the others are not."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipelines.cli.columns import MOSTLY, Column, Columns, Truth, listed, plain, same_order
from pipelines.cli.structure import is_row_number
from rankgrad.datasets.tables.files import columns_like
from rankgrad.feature_names import is_feature_name

__all__ = ["families", "find_input", "leave_out_clues", "leave_out_days_and_keys", "query_text", "reasons_in"]


def find_input(columns: Columns, truth: Truth) -> tuple[dict[str, Any], list[Column]]:
    """Take the input: the named text, pictures or vectors, a column called like text, numbers and names, or a text.

    Returns:
        The options of the table, and the columns.
    """
    options, used = _options_of_input(columns, truth)
    if not used:
        raise columns.refusal(
            f"no column of pictures, numbers or text is left to learn from{reasons_in(columns)}; say `--text` with a "
            "column to read, or write the block by hand"
        )
    if all(column.names.nunique() == 1 for column in used):
        names = listed([column.name for column in used])
        raise columns.refusal(f"{names}: the same in all rows, so nothing can be learned from it; name another input")
    return options, used


def _options_of_input(columns: Columns, truth: Truth) -> tuple[dict[str, Any], list[Column]]:
    if truth.inputs:
        return {**truth.inputs}, [*truth.input_columns]
    is_query_ranking = truth.task == "query_ranking"
    if (text := columns.named.get("text")) is not None:
        _check_named_text(columns, text, is_query_ranking=is_query_ranking)
        return _with_query(columns, text, is_query_ranking=is_query_ranking), [text]
    if (column := columns.take(lambda column: column.is_whole_input)) is not None:
        return {column.content: column.name}, [column]
    return _text_or_features(columns, is_query_ranking=is_query_ranking)


def _text_or_features(columns: Columns, *, is_query_ranking: bool) -> tuple[dict[str, Any], list[Column]]:
    """Take a column called like text, else numbers and names, else a text."""
    # Numbers, and names that become features; beside names no number may be called like a feature made of a name.
    names = [column for column in columns.free if column.is_category or column.is_aligned]
    names = [column for column in names if not is_feature_name(column.name)]
    numbers = columns.of_content("number")
    if names:
        numbers = [column for column in numbers if not is_feature_name(column.name)]

    texts = [column for column in columns.free if column.is_text]
    if is_query_ranking:
        texts = [column for column in texts if _differs_within_groups(columns, column)] or texts
    called = [column for column in texts if column.is_called("text")]
    first = (called or texts)[0] if texts else None
    if first is not None and (not numbers + names or called or first.is_called("captions")):
        if len(texts) > 1 and len(called) != 1:
            raise columns.question(called or texts, "are texts, and one is read", "text")
        columns.use(first)
        return _with_query(columns, first, is_query_ranking=is_query_ranking), [first]
    columns.use(*numbers, *names)
    for column in texts:
        columns.leave_out(column, f"a text; `--text {column.name}` reads it in place of numbers and names")
    options = {
        "features": _in_patterns(columns, [column.name for column in numbers]),
        "categories": [column.name for column in names if column.is_category],
        "letters": [column.name for column in names if column.is_aligned],
    }
    return {role: used for role, used in options.items() if used}, numbers + names


def _check_named_text(columns: Columns, text: Column, *, is_query_ranking: bool) -> None:
    if text.content not in ("text", "name"):
        raise columns.refusal(f"--text: {text.name} holds {text.content}s, expected text")
    if is_query_ranking and not _differs_within_groups(columns, text):
        raise columns.refusal(
            f"--text: {text.name} is the same for all documents of a {columns.structure['group']}, so nothing can "
            "order them; name the column of the documents"
        )


def _with_query(columns: Columns, text: Column, *, is_query_ranking: bool) -> dict[str, Any]:
    """Return the input of a text: read together with its query, where queries have words."""
    query = query_text(columns) if is_query_ranking else None
    if query is None or _differs_within_groups(columns, query):
        return {"text": text.name}
    columns.use(query)
    return {"text_pair": [query.name, text.name]}


def query_text(columns: Columns) -> Column | None:
    """Return the text of queries or prompts: the column that is called so, if most of its cells have several words."""
    group = columns.all.get(columns.structure.get("group", ""))
    for column in [*([group] if group else []), *columns.free]:
        if column.has_sentences and (column.is_called("query") or column is columns.named.get("query")):
            return column
    return None


def _differs_within_groups(columns: Columns, column: Column) -> bool:
    """Return whether a column has several values in most groups."""
    group = columns.all[columns.structure["group"]]
    cells = pd.DataFrame({"group": group.names, "cell": column.names}).dropna()
    return float(np.mean(cells.groupby("group")["cell"].nunique() > 1)) > MOSTLY


def _in_patterns(columns: Columns, numbers: list[str]) -> str | list[str]:
    """Return the columns of features, with one pattern for columns that begin with the same word."""
    features = numbers
    for start, names in families(numbers, least=4).items():
        if columns_like(f"{start}*", list(columns.sheet.frame)) == names:
            features = [f"{start}*" if name == names[0] else name for name in features if name not in names[1:]]
    return features[0] if len(features) == 1 and len(numbers) > 1 else features


def families(names: Sequence[str], *, least: int) -> dict[str, list[str]]:
    """Return names that are the same up to their first `_`, where there are enough of them."""
    starts: dict[str, list[str]] = {}
    for name in names:
        start, separator, _ = name.partition("_")
        if separator:
            starts.setdefault(f"{start}_", []).append(name)
    return {start: family for start, family in starts.items() if len(family) >= least}


# What is no input.


def leave_out_days_and_keys(columns: Columns) -> None:
    """Leave out what is never learned: days, numbers that count or name rows, and objects."""
    for column in columns.free:
        if column.content == "time":
            columns.leave_out(column, "days or times")
        elif is_row_number(column) and not column.is_called("target"):
            columns.leave_out(column, "it counts rows")
        elif column.is_whole and (column.is_called("key") or (column.is_called("id") and column.is_unique)):
            reason = f"a number that names something; if rows of one belong together, `--group {column.name}`"
            columns.leave_out(column, reason)
        elif column.content == "object":
            columns.leave_out(column, "it holds objects; write each of their values into a column")


def leave_out_clues(columns: Columns, truth: Column | None) -> None:
    """Leave out numbers with other cells among them, and what would give the truth away."""
    for column in columns.free:
        if column.hindrance is not None:
            cell = shlex.quote(column.hindrance[:60])
            columns.leave_out(
                column,
                f"numbers, but for cells such as {cell}: if it stands for a missing value, `--empty {cell}`; if it has "
                "a unit, write the unit into the header",
            )
        elif truth is not None and column.content == truth.content == "number" and same_order(column, truth):
            columns.leave_out(
                column,
                f"orders rows as {truth.name} does; it may be a `train_target`, or, if it is known beforehand, one of "
                "`features`",
            )
        elif truth is not None and column.is_category and _is_called_as(column, truth):
            columns.leave_out(
                column, f"called like {truth.name}; it may be one of `categories` if it is known beforehand"
            )
        elif column.is_category and is_feature_name(column.name):
            columns.leave_out(column, "rename it to use it")


def _is_called_as(column: Column, truth: Column) -> bool:
    """Return whether a column has the truth's name in its own, as price_band has price."""
    word = re.escape(plain(truth.name).rstrip("s"))
    return re.search(rf"(^|[^a-z]){word}s?([^a-z]|$)", plain(column.name)) is not None


def reasons_in(columns: Columns) -> str:
    return "".join(f"; {name}: {reason}" for name, reason in columns.reasons.items())
