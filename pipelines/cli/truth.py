"""The task of a table, and the column of its truth: labels, grades, captions or numbers."""

import re
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
from pipelines.cli.inputs import families, query_text, reasons_in
from pipelines.cli.preferences import preferences

__all__ = ["DROPPED", "find_truth"]

DROPPED = "queries with one document, or without a relevant one, are left out (`without_relevant`)"


def find_truth(columns: Columns) -> Truth:
    """Take the truth of the task if it is known, else of the first task that one is recognized for."""
    task = columns.task
    for name in [task] if task else TRUTHS:
        if (truth := TRUTHS[name](columns)) is not None:
            return truth
    if "target" in columns.named:
        raise _unreadable(columns.named["target"], "COLUMN")
    learned = f"{task} learns from" if task else "a task could learn from, such as labels, a number or captions"
    raise columns.refusal(
        f"no column that {learned}; it has {listed([*columns.all])}{reasons_in(columns)}; say `--target` with a "
        "column, or write the block by hand"
    )


def _labels(columns: Columns) -> Truth | None:
    """Recognize labels: lists of names, or several in a cell; where they are asked for, also one."""
    task, is_named = columns.task, "target" in columns.named
    column = columns.take_truth(lambda column: column.content == "labels" or column.separator is not None, "labels")
    if column is None and (task or is_named):
        column = columns.take_truth(lambda column: column.is_category or (bool(task) and column.is_whole), "labels")
    if column is None:
        return None if is_named else _flags(columns)
    separator = column.separator or "|"
    rows = split_labels(column.cells, separator)
    ordered = task == "label_ranking" if task else not in_one_order(rows)
    options = {"labels": column.name, "ordered": ordered, "label_separator": separator}
    order, other = ("the most important first", "multilabel") if ordered else ("in no order", "label_ranking")
    line = f"truth: labels from {column.name}, {order}; else: --task {other}, or --target COLUMN"
    return Truth("label_ranking" if ordered else "multilabel", options, line, column)


def _flags(columns: Columns) -> Truth | None:
    """Take columns of 0 and 1, or of small ranks, that begin with the same word, or are the only numbers."""
    numbers = columns.of_content("number")
    small = [column for column in numbers if column.is_whole and column.numbers.between(0, 99).all()]
    has_target = any(column.is_called("target") for column in numbers)
    begin = r"(label|tag|class|rank)_" if has_target else r"(label|tag|is|has|class|rank)_"
    for start, names in families([column.name for column in small], least=2).items():
        if re.match(begin, start):
            return _in_columns(columns, [column for column in small if column.name in names], f"{start}*")
    has_input = any(column.is_whole_input or column.is_text for column in columns.free)
    if has_input and len(numbers) > 1 and all(column.numbers.isin([0, 1]).all() for column in numbers):
        return _in_columns(columns, numbers, [column.name for column in numbers])
    return None


def _in_columns(columns: Columns, labels: Sequence[Column], option: str | list[str]) -> Truth:
    columns.use(*labels)
    is_ranks = any((column.numbers > 1).any() for column in labels)
    task, role = ("label_ranking", "label_ranks") if is_ranks else ("multilabel", "labels")
    return Truth(task, {role: option}, f"truth: {role} from {listed(option)}; else: --target COLUMN")


def _relevance(columns: Columns) -> Truth | None:
    """Recognize preferences, or a column of grades and one of queries."""
    if (truth := preferences(columns)) is not None:
        return truth
    group = columns.structure.get("group")
    if group is None or not ("query" in columns.named or columns.all[group].is_called("query")):
        return None
    column = columns.named.get("target") or columns.take_truth(
        lambda column: column.is_called("relevance"), "relevance"
    )
    if column is None:
        return None
    if column.content != "number":
        raise _unreadable(column, "COLUMN")
    _refuse_wrong_order(columns, column)
    options = {"relevance": column.name, "without_relevant": "drop"}
    return Truth("query_ranking", options, f"truth: relevance from {column.name}, of each {group}; {DROPPED}", column)


def _captions(columns: Columns) -> Truth | None:
    """Recognize captions of pictures or vectors, or queries that search passages."""
    if not any(column.is_whole_input for column in columns.free):
        return _search(columns)
    if "text" in columns.named:
        return None
    column = columns.take_truth(lambda column: column.content in ("text", "captions"), "captions")
    if column is None:
        return None
    options, line = {"captions": column.name}, f"truth: captions from {column.name}, a sentence or more"
    return Truth("retrieval", options, line, column)


def _search(columns: Columns) -> Truth | None:
    """Recognize queries and the passages that they ask for, where no column says how well."""
    task, named = columns.task, columns.named
    query = named.get("target") or named.get("query") or query_text(columns)
    if query is None or not query.has_sentences:
        return None
    passages = [column for column in columns.free if column.is_text and column is not query]
    called = [column for column in passages if column.is_called("text")]
    if task is None or called:
        passages = called
    if "text" in named:
        passages = [named["text"]]
    if len(passages) != 1 or (task is None and "target" in named and "text" not in named):
        return None
    is_rated = any(column.is_called("target") for column in columns.of_content("number"))
    if is_rated and task is None and "target" not in named:  # a rating of each answer is what is learned
        return None
    columns.use(query, passages[0])
    if "group" not in named:
        columns.structure.pop("group", None)  # several queries may ask for a passage: splits are drawn of passages
    line = f"truth: captions from {query.name}, by which {passages[0].name} is searched"
    return Truth("retrieval", {"captions": query.name}, line, None, {"text": passages[0].name}, passages)


def _target(columns: Columns) -> Truth | None:
    """Recognize a number to rank by: the one that is named, called like a target, or the last column."""
    column, reason = columns.named.get("target"), ""
    if column is None:
        # Numbers that are called as four or more are, such as site_y beside site_x, are features.
        numbers = columns.of_content("number")
        members = set().union(*families([column.name for column in numbers], least=4).values())
        ranked = [column for column in numbers if column.name not in members]
        column = columns.take_truth(lambda column: column in ranked and column.is_called("target"), "target")
        _refuse_other_candidates(columns, column)
        reason = f"{'' if column else ', the last column'}; else: --target COLUMN"
        column = column or _last_of(ranked or numbers)
    if column is None or column.content != "number":
        return None
    if reason and columns.task is None and column.is_called("labels") and not column.is_called("target"):
        raise columns.refusal(
            f"{column.name} has numbers and is called like classes: `--task multilabel --target {column.name}` learns "
            f"these classes, `--target {column.name}` ranks by the number"
        )
    group = columns.structure.get("group")
    if columns.task is None and group is not None and columns.all[group].is_called("query"):
        raise columns.refusal(
            f"{group} is called like a query, but no column like grades: `--target {column.name}` ranks the rows of "
            "each by it, `--task score_ranking` all rows"
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
    # Forms of a truth that the tasks above recognize too.
    "preferences": preferences,
    "search": _search,
}


def _last_of(numbers: Sequence[Column]) -> Column | None:
    """Return the last number; of two that order rows the same way, such as fitness and fitness_log, the shorter one."""
    if not numbers:
        return None
    last = numbers[-1]
    shorter = [column for column in numbers if plain(column.name) in plain(last.name) and same_order(column, last)]
    return min(shorter or [last], key=lambda column: len(column.name))


def _refuse_wrong_order(columns: Columns, column: Column) -> None:
    """Refuse a truth that is the same in all rows, or whose smallest number may be the best."""
    if column.numbers.nunique() == 1 and columns.whole(column).numbers.nunique() == 1:
        raise columns.refusal(
            f"{column.name} is {column.cells.iloc[0]} in all rows, so no order can be learned; say `--target` with "
            "another column"
        )
    if column.is_called("rank"):
        raise columns.refusal(
            f"{column.name}: the largest number is first, and 1 may be the best rank; write a column where larger "
            "is better, and say `--target` with it"
        )


def _refuse_other_candidates(columns: Columns, called: Column | None) -> None:
    """Refuse to rank by any number where a column that is called like the truth, or is the last, holds no numbers."""
    for name in columns.sheet.frame if called is None else ():
        if name and name not in columns.all and is_called_like(name, "target"):
            raise columns.refusal(
                f"{name} is called like a target, but is empty in all rows; say `--target` with another column"
            )
    candidates = [column for column in columns.all.values() if column.name not in columns.structure.values()]
    for column in candidates:
        if column.content == "number" or column.is_whole_input or (columns.task is not None and column.is_category):
            continue
        is_label = column.is_category and column.is_exactly_called("labels")
        # unit_price, not price_range
        ends_so = column.content == "name" and re.search(rf"(^|[^a-z]){CALLED['target']}$", plain(column.name))
        if is_label or (called is None and (ends_so or column is candidates[-1])):
            raise _unreadable(column, called.name if called else "COLUMN")


def _unreadable(column: Column, other: str) -> ValueError:
    """Return the refusal of a column that may be meant, but cannot be learned as it is."""
    advice = "turn its cells into numbers and empty the others"
    if column.is_category:
        advice = f"`--target {column.name}` learns these names"
    elif column.content == "number":
        advice = "`--task score_ranking` ranks by it"
    elif column.content == "text":
        advice = "a text is searched by texts: `--task search --text PASSAGES --target QUERIES`"
    first = column.numbers.isna().idxmax()  # the first row if all cells are numbers
    return ValueError(f"{column.shown(first)}; if it is what is to be learned, {advice}; else say `--target {other}`")
