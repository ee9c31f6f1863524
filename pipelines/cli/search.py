"""Recognize queries and the passages that answer them, and refuse ids in place of their texts."""

import re
from typing import Any

from pipelines.cli.columns import Column, Columns, Truth, listed, plain
from pipelines.cli.inputs import query_text
from pipelines.cli.preferences import CODE
from rankgrad.plain_text import spelled_alike

__all__ = ["refuse_ids", "search"]

GRADE = re.compile(r"(relevance|grade|rel$|label|judg(e?ment|ed))")
NUMBERED = r"(_?(id|no|key|nr|number))?"
ITEM = "(page|article|answer|chunk|section|product|item)_?(id|no|key|nr|number)"
PASSAGE = re.compile(rf"(passage|document|doc|corpus){NUMBERED}|{ITEM}|[pd]id")
QUERY = re.compile(rf"(query|question|search){NUMBERED}|qid")
POSITIVE = re.compile(r"pos(itive)?(_(passage|document|doc|text))?")
NEGATIVE = re.compile(r"(hard_?)?neg(ative)?s?(_(passage|document|doc|text))?s?(_?\d+)?")

# Code to fix a table in pandas.
IDS = """{columns}: ids such as {cell}, expected texts; join the texts with pandas:
{joins}
  table.to_csv("pairs.csv", index=False)
  passages[["passage"]].to_csv("passages.csv", index=False)
then `rankgrad init pairs.csv --collection passages.csv`"""
JOIN = """  table = table.rename(columns={{"{column}": "{text}_id"}})
  {frame} = {frame}.rename(columns={{"ID": "{text}_id", "TEXT": "{text}"}})  # ID and TEXT: columns of its file
  table = table.merge({frame}[["{text}_id", "{text}"]], on="{text}_id")"""


def search(columns: Columns) -> Truth | None:
    """Recognize queries and their passages, without a column of grades."""
    named = columns.named
    query = named.get("target") or named.get("query") or query_text(columns)
    if query is None or not (query.has_sentences or query.content == "captions"):
        return None
    negatives = [named["negatives"]] if "negatives" in named else _negatives(columns)
    passage = _passage_of(columns, query, negatives)
    if passage is None:
        return None
    for column in columns.of_content("number"):
        if GRADE.match(plain(column.name)) and columns.whole(column).numbers.nunique() > 1:
            raise columns.refusal(
                f"{column.name} is named like grades, but each row of a search must have a passage that answers its "
                f"query: leave out other rows and the column {column.name}, or rank by it with `--task query_ranking`"
            )
    columns.use(query, passage, *negatives)
    if "group" not in named:
        columns.structure.pop("group", None)
        if query.content != "captions" and not columns.whole(query).names.map(spelled_alike).is_unique:
            columns.structure["group"] = query.name  # else queries of the test would be known from training
    line = f"truth: captions from {query.name}, which search {passage.name}"
    options: dict[str, Any] = {"captions": query.name}
    if negatives:
        options["negatives"] = names = [column.name for column in negatives]
        line += f", but not {listed(names)}"
    return Truth("retrieval", options, line, None, {"text": passage.name}, [passage])


def _passage_of(columns: Columns, query: Column, negatives: list[Column]) -> Column | None:
    """Return the column of passages; None if there are several, or if each answer has a rating, which is the target."""
    task, named = columns.task, columns.named
    passages = [column for column in columns.free if column.is_text and column not in (query, *negatives)]
    called = [column for column in passages if column.is_called("text") or POSITIVE.fullmatch(plain(column.name))]
    if task is None or called:
        passages = called
    if "text" in named:
        passages = [named["text"]]
        if _has_ids(passages[0]):
            raise _of_ids(columns, passages)
    if len(passages) != 1 or (task is None and "target" in named and "text" not in named):
        return None
    is_rated = any(column.is_called("target") for column in columns.of_content("number"))
    return None if is_rated and task is None and "target" not in named else passages[0]


def _negatives(columns: Columns) -> list[Column]:
    """Return the columns of passages that do not answer the query, recognized by their names."""
    texts = [column for column in columns.free if column.is_text or column.content == "captions"]
    return [column for column in texts if NEGATIVE.fullmatch(plain(column.name))]


def refuse_ids(columns: Columns) -> None:
    """Raise if a table has the ids of passages, which are in another file, and nothing else to learn from."""
    passages, others = [], []
    for column in columns.all.values():
        is_query = QUERY.fullmatch(plain(column.name)) is not None
        is_target = columns.named.get("target") is column
        if not is_target and PASSAGE.fullmatch(plain(column.name)) and _has_ids(column):
            passages.append(column)
        elif not (is_query and (column.is_text or column.has_sentences or _has_ids(column))):
            others.append(column)
    has_queries = len(passages) + len(others) < len(columns.all)
    learned = []
    for column in others:
        is_id_of_row = column.is_unique and column.content != "number"
        if not is_id_of_row:
            learned.append(column)
    are_grades = len(learned) <= 1 and all(column.content == "number" for column in learned)
    if has_queries and len(passages) == 1 and are_grades:
        raise _of_ids(columns, passages)


def _has_ids(column: Column) -> bool:
    """Return whether cells are whole numbers or words with a digit, such as d175."""
    return column.is_whole or (column.content == "name" and column.all_match(CODE))


def _of_ids(columns: Columns, passages: list[Column]) -> ValueError:
    """Return the error for ids of passages, and perhaps of queries, with the code that joins their texts."""
    queries = [column for column in columns.all.values() if QUERY.fullmatch(plain(column.name)) and _has_ids(column)]
    joins = []
    for frame, text, ids in (("queries", "query", queries), ("passages", "passage", passages)):
        joins += [JOIN.format(frame=frame, text=text, column=column.name) for column in ids]
    names, cell = listed([column.name for column in [*queries, *passages]]), passages[0].cells.iloc[0]
    return columns.refusal(IDS.format(columns=names, cell=cell, joins="\n".join(joins)))
