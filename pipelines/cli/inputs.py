"""Choose the input columns of a table, and explain why others are not used."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipelines.cli.columns import MOSTLY, Column, Columns, Truth, if_empty, listed, plain, same_order
from pipelines.cli.structure import is_index, is_like_split, is_row_number
from rankgrad.datasets.tables.files import columns_like
from rankgrad.feature_names import is_feature_name

__all__ = ["families", "find_input", "leave_out_clues", "leave_out_days_and_keys", "query_text", "reasons_in"]


def find_input(columns: Columns, truth: Truth) -> tuple[dict[str, Any], list[Column]]:
    """Choose the input: the named text, images or vectors, a column named like text, numbers and names, or a text.

    Returns:
        The table's options, and the columns.
    """
    options, used = _options_of_input(columns, truth)
    if not used:
        raise columns.refusal(
            f"no column of images, numbers, or text is left as input{reasons_in(columns)}; name a column of text with "
            "`--text`, or write the block by hand"
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
    """Choose a text if it answers a query's text, or if all inputs are texts; else numbers, names, and words."""
    numbers, names = _numbers_and_names(columns)
    texts = [column for column in columns.free if column.is_text]
    if is_query_ranking:
        texts = [column for column in texts if _differs_within_groups(columns, column)] or texts
    called = [column for column in texts if column.is_called("text")]
    is_text_alone = not (numbers or names)
    if is_query_ranking and query_text(columns) is not None:
        # A date, or a name such as the judge's, says less about an answer than its text.
        is_text_alone = bool(called) or all(column.content == "time" for column in numbers)
    if texts and is_text_alone:
        text = _only_text(columns, called or texts)
        columns.use(text)
        return _with_query(columns, text, is_query_ranking=is_query_ranking), [text]
    if is_query_ranking:
        names, texts = (_without_queries(columns, of_kind) for of_kind in (names, texts))
    columns.use(*numbers, *names, *texts)
    return _roles_of(columns, numbers, names, texts), [*numbers, *names, *texts]


def _without_queries(columns: Columns, names: Sequence[Column]) -> list[Column]:
    """Return names or texts without those that say which query a row has, and so order nothing."""
    groups, kept = columns.all[columns.structure["group"]].names, []
    for column in names:
        of_groups = pd.DataFrame({"group": groups, "name": column.names}).dropna().drop_duplicates()
        is_constant = not _differs_within_groups(columns, column)
        if is_constant and of_groups["name"].nunique() > MOSTLY * of_groups["group"].nunique():
            columns.leave_out(
                column,
                "the same for all documents of a query, and new queries have others: add a column that says how well a "
                "document matches it, such as the share of its words in the title; a model that reads both needs "
                "`--text COLUMN` of the documents",
            )
        else:
            kept.append(column)
    return kept


def _roles_of(
    columns: Columns, numbers: Sequence[Column], names: Sequence[Column], texts: Sequence[Column]
) -> dict[str, Any]:
    """Return the options of a table whose inputs are numbers, dates, names, and texts."""
    options = {
        "features": _in_patterns(columns, [column.name for column in numbers]),
        "dates": {column.name: column.date_orders[0] for column in numbers if column.content == "time"},
        "categories": [column.name for column in names if column.is_category],
        "letters": [column.name for column in names if column.is_aligned],
        "words": [column.name for column in texts],
    }
    return {role: used for role, used in options.items() if used}


def _numbers_and_names(columns: Columns) -> tuple[list[Column], list[Column]]:
    """Return numbers and dates, and names that become features, like which no number may be called then."""
    known = [column for column in columns.free if not column.is_called("judge")]  # nobody has judged new rows
    names = [column for column in known if column.is_category or column.is_aligned]
    names = [column for column in names if not is_feature_name(column.name)]
    numbers = [column for column in known if column.content in ("number", "time")]
    if names:
        numbers = [column for column in numbers if not is_feature_name(column.name)]
    return numbers, names


def _only_text(columns: Columns, texts: Sequence[Column]) -> Column:
    """Return the only text; raise ValueError if there are several."""
    if len(texts) > 1:
        others = "; for preferences, pass `--text CHOSEN --rejected REJECTED`; to use the words of several, replace "
        others += "`text` in `args` with `words`"
        raise columns.question(texts, "are all texts, but only one can be the input", "text", others)
    return texts[0]


def _check_named_text(columns: Columns, text: Column, *, is_query_ranking: bool) -> None:
    if text.content not in ("text", "name"):
        raise columns.refusal(f"--text: {text.name} holds {text.content}s, expected text")
    if is_query_ranking and not _differs_within_groups(columns, text):
        raise columns.refusal(
            f"--text: {text.name} is the same for all documents of a {columns.structure['group']}, so it cannot order "
            "them; name the column of the documents"
        )


def _with_query(columns: Columns, text: Column, *, is_query_ranking: bool) -> dict[str, Any]:
    """Return the input for a text: together with its query if queries are texts."""
    query = query_text(columns) if is_query_ranking else None
    if query is None or _differs_within_groups(columns, query):
        return {"text": text.name}
    columns.use(query)
    return {"text_pair": [query.name, text.name]}


def query_text(columns: Columns) -> Column | None:
    """Return the text of queries or prompts: the column with such a name, if most of its cells have several words."""
    for column in filter(None, [columns.group, *columns.free]):
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
    """Return names that are equal up to the first `_`, if there are enough of them."""
    starts: dict[str, list[str]] = {}
    for name in names:
        start, separator, _ = name.partition("_")
        if separator:
            starts.setdefault(f"{start}_", []).append(name)
    return {start: family for start, family in starts.items() if len(family) >= least}


# Columns that are not inputs.


def leave_out_days_and_keys(columns: Columns) -> None:
    """Leave out columns that are never inputs: some dates, row numbers and numeric ids, and objects."""
    for column in columns.free:
        if column.content == "time":
            if (reason := _reason_against_date(column)) is not None:
                columns.leave_out(column, reason)
        elif is_index(columns, column) or (is_row_number(column) and not column.is_called("target")):
            columns.leave_out(column, "row numbers")
        elif column.is_whole and (column.is_called("key") or (column.is_called("id") and column.is_unique)):
            reason = f"a numeric id; to keep rows with the same id in one split, pass `--group {column.typed}`"
            columns.leave_out(column, reason)
        elif is_like_split(column):
            columns.leave_out(column, "named like a split; to use it, name its values train, val, test, or gate")
        elif column.no_date is not None:
            columns.leave_out(column, _advice_on_no_date(column.no_date))
        elif column.content == "object":
            columns.leave_out(column, "contains objects; write each of their values into its own column")


def _reason_against_date(column: Column) -> str | None:
    """Return why a column of dates is not a feature, and what to write; None if it can be one."""
    if not column.date_orders:
        if column.no_date is not None:
            return _advice_on_no_date(column.no_date)
        return (
            "dates or times; to learn from them, write them as 2026-11-30, 30.11.2026, or 11/30/2026; "
            f"`--date {column.typed}` then uses later months as deliveries"
        )
    options = " or ".join(f"`dates: {{{column.name}: {order}}}`" for order in column.date_orders)
    advice = f"add it to `features`, with {options}"
    if len(column.date_orders) > 1:
        return f"day or month may come first, as in {column.names.iloc[0]}; {advice}"
    if column.is_called("afterwards"):
        return f"may be known only afterwards; if it is known at prediction time, {advice}"
    return None


def _advice_on_no_date(cell: str) -> str:
    return f"dates except for cells such as {cell[:60]}: correct it, or {if_empty(cell[:60])}"


def leave_out_clues(columns: Columns, truth: Column | None) -> None:
    """Leave out numbers mixed with other cells, and columns that reveal the target."""
    group = columns.group
    is_query = group is not None and ("query" in columns.named or group.is_called("query"))
    if not is_query and "within" not in columns.structure:
        group = None  # rows of different groups are compared, too
    for column in columns.free:
        if column.hindrance is not None:
            columns.leave_out(column, column.advice_on_hindrance)
        elif truth is not None and (reason := _reason_against_copy(column, truth, group)) is not None:
            columns.leave_out(column, reason)
        elif truth is not None and column.is_category and _is_called_as(column, truth):
            columns.leave_out(
                column, f"named like {truth.name}; add it to `categories` if it is known at prediction time"
            )
        elif column.is_called("prediction"):
            columns.leave_out(column, "named like a prediction; add it to `features` if it is known at prediction time")
        elif column.is_category and is_feature_name(column.name):
            columns.leave_out(column, "rename it to use it")


def _reason_against_copy(column: Column, truth: Column, group: Column | None) -> str | None:
    """Return why a number that orders rows like the target is not a feature; None if it orders them in another way."""
    if not column.content == truth.content == "number":
        return None
    advice = f"like {truth.name}; use it as `train_target`, or, if it is known at prediction time, in `features`"
    if same_order(column, truth):
        return f"orders rows {advice}"
    if group is not None and same_order(column, truth, group):
        return f"orders the rows of each {group.name} {advice}"
    return None


def _is_called_as(column: Column, truth: Column) -> bool:
    """Return whether a column's name contains the target's name, as price_band contains price."""
    word = re.escape(plain(truth.name).rstrip("s"))
    return re.search(rf"(^|[^a-z]){word}s?([^a-z]|$)", plain(column.name)) is not None


def reasons_in(columns: Columns) -> str:
    return "".join(f"; {name}: {reason}" for name, reason in columns.reasons.items())
