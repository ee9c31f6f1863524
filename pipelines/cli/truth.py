"""Recognize the task of a table, and its target column: labels, grades, captions, or numbers."""

import re
import shlex
from collections.abc import Sequence

from pipelines.cli.columns import (
    CALLED,
    Column,
    Columns,
    Truth,
    in_one_order,
    is_called_like,
    listed,
    plain,
    same_order,
    split_labels,
)
from pipelines.cli.inputs import families, reasons_in
from pipelines.cli.preferences import preferences
from pipelines.cli.search import refuse_ids, search

__all__ = ["DROPPED", "find_truth"]

DROPPED = "queries with one document, or without relevant documents, are dropped (`without_relevant`)"


def find_truth(columns: Columns) -> Truth:
    """Return the target of the task if it is known, else of the first task for which a target is recognized."""
    refuse_ids(columns)
    task = columns.task
    for name in [task] if task else TRUTHS:
        if (truth := TRUTHS[name](columns)) is not None:
            return truth
    if "target" in columns.named:
        raise _unreadable(columns.named["target"], "COLUMN")
    learned = f"{task} can predict" if task else "a task can predict, such as labels, a number, or captions"
    raise columns.refusal(
        f"no column that {learned}; the file has {listed([*columns.all])}{reasons_in(columns)}; name the target with "
        "`--target COLUMN`, or write the block by hand"
    )


def _labels(columns: Columns) -> Truth | None:
    """Recognize labels: lists of names, or several names in a cell; also a single name if the task needs labels."""
    task, is_named = columns.task, "target" in columns.named
    others = columns.of_content("number") if task is None else ()
    has_target = any(column.is_called("target") and not column.is_called("labels") for column in others)

    def has_labels(column: Column) -> bool:
        is_likely = not has_target or column.content == "labels" or column.is_called("labels")
        return column.has_labels and is_likely

    def may_be_labels(column: Column) -> bool:
        return column.is_category or column.separator is not None or (task is not None and column.is_whole)

    column = columns.take_truth(has_labels, "labels")
    if column is None and (task or is_named):
        column = columns.take_truth(may_be_labels, "labels")
    if column is None:
        truth = None if is_named else _flags(columns)
        if truth is None:
            _refuse_labels_beside_target(columns)
        return truth
    separator = column.separator or "|"
    rows = split_labels(column.cells, separator)
    ordered = task == "label_ranking" if task else not in_one_order(rows)
    options = {"labels": column.name, "ordered": ordered, "label_separator": separator}
    order, other = ("the most important first", "multilabel") if ordered else ("in no order", "label_ranking")
    parts = f" separated by {separator!r}" if column.separator else ""
    line = f"truth: labels from {column.name}{parts}, {order}; to change: --task {other}, or --target COLUMN"
    return Truth("label_ranking" if ordered else "multilabel", options, line, column)


def _refuse_labels_beside_target(columns: Columns) -> None:
    """Raise ValueError if pictures have both lists of labels and a number that is named like a target."""
    candidates = [column for column in columns.free if column.has_labels]
    candidates += [column for column in columns.of_content("number") if column.is_called("target")]
    has_pictures = any(column.content in ("image", "frames") for column in columns.free)
    is_open = columns.task is None and "target" not in columns.named
    if is_open and has_pictures and candidates and candidates[0].has_labels:
        raise columns.question(candidates, "may be the target", "target")


def _flags(columns: Columns) -> Truth | None:
    """Recognize flags, or columns of small ranks, that begin with the same word; or flags beside nothing but the input.

    Flags are columns of 0 and 1, or of words such as true and no.
    """
    numbers = columns.of_content("number")
    flags = [column for column in columns.free if column.numbers.isin([0, 1]).all() or column.is_flag]
    ranks = [column for column in numbers if column.is_whole and column.numbers.between(0, 99).all()]
    small = [column for column in columns.free if column in flags or column in ranks]
    has_target = any(column.is_called("target") or (column.is_last and column not in small) for column in numbers)
    begin = r"(label|tag|class|rank)_" if has_target else r"(label|tag|is|has|class|rank)_"
    for start, names in families([column.name for column in small], least=2).items():
        if re.match(begin, start):
            return _in_columns(columns, [column for column in small if column.name in names], f"{start}*")
    has_input = any(column.is_whole_input or column.is_text for column in columns.free)
    if has_input and len(flags) > 1 and all(column in flags for column in numbers):
        return _in_columns(columns, flags, [column.name for column in flags])
    return None


def _in_columns(columns: Columns, labels: Sequence[Column], option: str | list[str]) -> Truth:
    columns.use(*labels)
    is_ranks = any((column.numbers > 1).any() for column in labels)
    task, role = ("label_ranking", "label_ranks") if is_ranks else ("multilabel", "labels")
    order = ", the largest number the most important" if is_ranks else ""
    return Truth(task, {role: option}, f"truth: {role} from {listed(option)}{order}; to change: --target COLUMN")


def _relevance(columns: Columns) -> Truth | None:
    """Recognize preferences, or a column of grades together with a column of queries."""
    if (truth := preferences(columns)) is not None:
        return truth
    group = columns.group
    if group is None or not ("query" in columns.named or group.is_called("query")):
        return None
    column = columns.named.get("target") or columns.take_truth(_is_grade, "relevance")
    column = column or columns.take_truth(lambda column: column.is_called("relevance"), "relevance")
    if column is None:
        return None
    if column.content != "number":
        first = column.numbers.isna().idxmax()
        raise ValueError(
            f"{column.shown(first)}, expected grades: write numbers of at least 0, the largest the best; to predict "
            f"these names instead, pass `--task multilabel --target {column.typed}`"
        )
    _refuse_wrong_order(columns, column)
    options = {"relevance": column.name, "without_relevant": "drop"}
    return Truth(
        "query_ranking", options, f"truth: relevance from {column.name}, within each {group.name}; {DROPPED}", column
    )


def _is_grade(column: Column) -> bool:
    return column.content == "number" and column.is_called("relevance")


def _captions(columns: Columns) -> Truth | None:
    """Recognize captions of images or vectors, or queries that search passages."""
    if not any(column.is_whole_input for column in columns.free):
        return search(columns)
    if "text" in columns.named:
        return None
    column = columns.take_truth(lambda column: column.content in ("text", "captions"), "captions")
    if column is None:
        return None
    options, line = {"captions": column.name}, f"truth: captions from {column.name}, one or more sentences"
    return Truth("retrieval", options, line, column)


def _target(columns: Columns) -> Truth | None:
    """Recognize a number to rank by: named by the user, named like a target, or the last number."""
    column, reason = columns.named.get("target"), ""
    if column is None:
        # Four or more numbers with similar names, such as site_y and site_x, are features.
        numbers = columns.of_content("number")
        members = set().union(*families([column.name for column in numbers], least=4).values())
        ranked = [column for column in numbers if column.name not in members]
        column = columns.take_truth(lambda column: column in ranked and column.is_called("target"), "target")
        outcomes = [other for other in columns.of_content("number") if other.is_called("outcome")]
        if column is not None and outcomes:
            raise columns.question([column, *outcomes], "may be the target", "target")
        _refuse_other_candidates(columns, column)
        reason = f"{'' if column else ', the last number'}; to change: --target COLUMN"
        column = column or _last_of(ranked or numbers)
    if column is None or column.content != "number":
        return None
    if reason and columns.task is None and column.is_called("labels") and not column.is_called("target"):
        raise columns.refusal(
            f"{column.name} has numbers but a name like classes: to predict these classes, pass `--task multilabel "
            f"--target {column.typed}`; to rank by the number, pass `--target {column.typed}`"
        )
    group = columns.group
    if columns.task is None and group is not None and group.is_called("query"):
        raise columns.refusal(
            f"{group.name} is named like a query, but no column is named like grades: to rank the rows of each "
            f"{group.name}, pass `--target {column.typed}`; to rank all rows, pass `--task score_ranking`"
        )
    if reason and columns.task is None and column.is_called("judged"):
        raise columns.refusal(
            f"{column.name} is named like the relevance of documents, but no column is named like their queries: name "
            f"it, as in `--query COLUMN`; to rank all rows by the number, pass `--target {column.typed}`"
        )
    _refuse_wrong_order(columns, column)
    columns.use(column)
    line = f"truth: target from {column.name}, a number to rank by, the largest first{reason}"
    return Truth("score_ranking", {"target": column.name}, line, column)


TRUTHS = {
    "label_ranking": _labels,
    "multilabel": _labels,
    "query_ranking": _relevance,
    "retrieval": _captions,
    "score_ranking": _target,
    # Special forms of targets that the functions above also recognize.
    "preferences": preferences,
    "search": search,
}


def _last_of(numbers: Sequence[Column]) -> Column | None:
    """Return the last number; if two order rows equally, such as fitness and fitness_log, the shorter name."""
    if not numbers:
        return None
    last = numbers[-1]
    shorter = [column for column in numbers if plain(column.name) in plain(last.name) and same_order(column, last)]
    return min(shorter or [last], key=lambda column: len(column.name))


def _refuse_wrong_order(columns: Columns, column: Column) -> None:
    """Raise if the target is the same in all rows, or if its smallest number may be the best."""
    if column.numbers.nunique() == 1 and columns.whole(column).numbers.nunique() == 1:
        raise columns.refusal(
            f"{column.name} is {column.cells.iloc[0]} in all rows, so no order can be learned; name another "
            "column with `--target`"
        )
    if column.is_called("rank"):
        raise columns.refusal(
            f"{column.name}: 1 may be the best rank, but the largest number must be the best; add a column in which "
            "larger is better, and name it with `--target`"
        )


def _refuse_other_candidates(columns: Columns, called: Column | None) -> None:
    """Raise if the column that is named like a target, or the last column, does not contain numbers."""
    for name in columns.sheet.frame if called is None else ():
        if name and name not in columns.all and is_called_like(name, "target"):
            raise columns.refusal(
                f"{name} is named like a target, but is empty in the first {len(columns.sheet.frame):,} rows; name "
                "another column with `--target`"
            )
    candidates = [column for column in columns.all.values() if column.name not in columns.structure.values()]
    for column in candidates:
        if called is None and column.hindrance is not None and column.numbers.notna().mean() > 0.5:
            raise columns.refusal(
                f"{column.name} has {column.advice_on_hindrance}; if it is the target, "
                f"add `--target {column.typed}`, else name another with `--target`{_other_words(columns, column)}"
            )
        if column.content == "number" or column.is_whole_input or (columns.task is not None and column.is_category):
            continue
        is_label = column.is_category and column.is_exactly_called("labels")
        # unit_price, not price_range
        ends_so = column.content == "name" and re.search(rf"(^|[^a-z]){CALLED['target']}$", plain(column.name))
        if is_label or (called is None and (ends_so or column is candidates[-1])):
            raise _unreadable(column, called.name if called else "COLUMN")


def _other_words(columns: Columns, column: Column) -> str:
    """Return the options for words in other columns of numbers that may mean a missing value."""
    others = [other for other in columns.all.values() if other is not column and other.words]
    if not others:
        return ""
    words = dict.fromkeys(word for other in others for word in other.words)
    options = " ".join(f"--empty {shlex.quote(word)}" for word in words)
    names = listed([other.name for other in others])
    return f"; for missing values in {names}, add `{options}`"


def _unreadable(column: Column, other: str) -> ValueError:
    """Return the error for a column that may be the target, but cannot be used without changes."""
    advice = "convert its cells to numbers and empty the others"
    if column.hindrance is not None:
        advice = f"it has {column.advice_on_hindrance}"
    elif column.is_category or column.separator is not None:
        advice = f"pass `--target {column.typed}` to predict these names"
    elif column.content == "number":
        advice = "pass `--task score_ranking` to rank by it"
    elif column.content == "text":
        advice = "pass `--task search --text PASSAGES --target QUERIES` to search texts by texts; for preferences, "
        advice += "pass `--query PROMPTS --text CHOSEN --rejected REJECTED`"
    first = column.numbers.isna().idxmax()  # the first row if all cells are numbers
    return ValueError(f"{column.shown(first)}; if it is the target, {advice}; otherwise pass `--target {other}`")
