"""Preferences in a table: what was chosen and what was rejected in a row, perhaps of answers to a prompt."""

import re
from typing import Any

import pandas as pd

from pipelines.cli.columns import Column, Columns, Truth, listed, plain
from pipelines.cli.inputs import query_text

__all__ = ["preferences"]

MENTIONS = 4  # least number of rows per name, on average, if names are players
CODE = re.compile(r"(?=.*\d)[\w.:/@-]+", re.ASCII)  # a name with a digit and without a space
DECISION, FEW_DECISIONS = re.compile(r"prefer|winner|chosen|better|choice|vote"), 5  # which of two answers is better
SIDES = {"a": "b", "0": "1", "1": "2", "left": "right"}  # how the names of two answers end

# What mends a table, in pandas.
PLAYERS = """winner and loser are numbers; if they name players, write names, in pandas:
  table["{winner}"] = "p" + table["{winner}"].astype(str)
  table["{loser}"] = "p" + table["{loser}"].astype(str)"""
BETTER = """{first} and {second} are two answers, and {decision} says which is better; write what was chosen, in pandas:
  FIRST, SECOND = ...  # the values of {decision} for which {first} and {second} are better, of {values}
  table = table[table["{decision}"].isin([FIRST, SECOND])]
  is_first = table["{decision}"] == FIRST
  table["chosen"] = table["{first}"].where(is_first, table["{second}"])
  table["rejected"] = table["{second}"].where(is_first, table["{first}"])"""
ITEMS = """{cell}, no text, and such names come again too seldom to be learned as players; join the texts of the items:
  for role in ("{chosen}", "{rejected}"):
      names = {{"id": role, "text": role + "_text"}}
      table = table.merge(items.rename(columns=names), on=role)
then `rankgrad init FILE --text {chosen}_text --rejected {rejected}_text`"""
CHATS = """{names} hold chats or objects, and texts are read: write texts, in pandas:"""
PROMPT = """
  table["prompt"] = [" ".join(turn["content"] for turn in {turns}) for chat in table["{chat}"]]"""
ANSWER = """
  table["{answer}"] = [chat[-1]["content"] for chat in table["{answer}"]]"""


def preferences(columns: Columns) -> Truth | None:
    """Recognize preferences.

    A person may name the rejected answers, the chosen ones as the text, the prompts as the query, and the margin, a
    number, as the target.
    """
    _refuse_chats(columns)
    chosen, rejected = _chosen_and_rejected(columns)
    target = columns.named.get("target")
    if rejected is None and target is None:
        _refuse_which_is_better(columns)
    if chosen is None or rejected is None or (target is not None and target.content != "number"):
        return None
    columns.use(chosen, rejected)
    options, line = {"rejected": rejected.name}, f"truth: {chosen.name} is preferred to {rejected.name}"
    margin = target or columns.take(lambda column: column.is_called("margin") and column.content == "number")
    if margin is not None:
        options["margin"] = margin.name
        line += f" by {margin.name}"

    inputs: dict[str, Any] = {chosen.content if chosen.is_whole_input else "text": chosen.name}
    prompt = _prompt(columns, chosen)
    if prompt is not None and "text" in inputs:
        columns.use(prompt)
        inputs = {"text_pair": [prompt.name, chosen.name]}
        if "group" not in columns.named:
            columns.structure["group"] = prompt.name
    elif chosen.is_category or _are_players(chosen, rejected):
        inputs = {"categories": [chosen.name]}
        line += "; both are names, of players without features: if another file has the items, join their texts first"

    # Nothing else is read: a number may be the margin.
    for column in columns.of_content("number") if margin is None else []:
        columns.leave_out(column, f"if it is the size of the preference, `--target {column.name}` learns it")
    return Truth("query_ranking", options, line, None, inputs, [chosen])


def _chosen_and_rejected(columns: Columns) -> tuple[Column | None, Column | None]:
    """Return the columns of chosen and of rejected answers: the ones that a person names, or that are called so."""
    numbers = {column.name.lower(): column.name for column in columns.of_content("number")}
    if {"winner", "loser"} <= numbers.keys():
        raise columns.refusal(PLAYERS.format(**numbers))
    named = columns.named
    if "rejected" not in named and "text" in named and not named["text"].is_called("chosen"):
        return None, None
    inputs = [column for column in columns.free if column.has_names or column.is_whole_input]
    roles: dict[str, Column | None] = {}
    for role, flag in (("chosen", "text"), ("rejected", "rejected")):
        called = [column for column in inputs if column.is_called(role)]
        roles[role] = named.get(flag) or next(iter(called), None)
    if roles["chosen"] is None and "rejected" in named:
        raise columns.refusal("--rejected: no column is called like what was chosen; name it too, by `--text`")
    return roles["chosen"], roles["rejected"]


def _prompt(columns: Columns, chosen: Column) -> Column | None:
    """Return the text that answers belong to: called so, or else a text that comes again or stands before them.

    Raises:
        ValueError: there are several, or another text that may be it.
    """
    prompt = query_text(columns)
    if prompt is not None or chosen.content != "text":
        return prompt
    names = [*columns.all]
    before = names[: names.index(chosen.name)]
    texts = columns.of_content("text")
    likely = [column for column in texts if not column.is_unique or column.name in before]
    if len(likely) == 1 or not texts or (not likely and "text" in columns.named):
        return likely[0] if likely else None
    texts = likely or texts
    raise columns.refusal(
        f"{listed([column.name for column in texts])} may be the prompt: `--query {texts[0].name}` reads it with each "
        f"answer, and answers to one prompt stay in one split"
        + ("" if likely else f"; `--text {chosen.name}` reads none")
    )


def _are_players(chosen: Column, rejected: Column) -> bool:
    """Return whether the chosen answers are names that come again, such as players.

    Raises:
        ValueError: they are ids, such as a0123, that seldom come again.
    """
    if chosen.content != "name" or chosen.is_aligned:
        return False
    names = pd.concat([chosen.names, rejected.names])
    if MENTIONS * names.nunique() <= len(names):
        return True
    if not all(map(CODE.fullmatch, names)):
        return False
    cell = chosen.shown(chosen.cells.index[0])
    raise ValueError(ITEMS.format(cell=cell, chosen=chosen.name, rejected=rejected.name))


def _refuse_chats(columns: Columns) -> None:
    """Refuse chosen and rejected chats, lists of roles and contents."""
    chats = [column for column in columns.all.values() if column.content == "object"]
    answers = [column for column in chats if column.is_called("chosen") or column.is_called("rejected")]
    if not answers:
        return
    text = CHATS.format(names=listed([column.name for column in answers]))
    questions = [column for column in columns.all.values() if column.is_called("query")]
    prompts = [column for column in questions if column in chats]
    if prompts:
        text += PROMPT.format(chat=prompts[0].name, turns="chat")
    elif not questions:
        text += PROMPT.format(chat=answers[0].name, turns="chat[:-1]")
    for column in answers:
        text += ANSWER.format(answer=column.name)
    raise columns.refusal(text)


def _refuse_which_is_better(columns: Columns) -> None:
    """Refuse two answers, such as answer_a and answer_b, if another column says which of them is better."""
    texts = {column.name.lower(): column for column in columns.free if column.is_text}
    decisions = [column for column in columns.all.values() if DECISION.search(plain(column.name))]
    decisions = [column for column in decisions if column.names.nunique() <= FEW_DECISIONS]
    for name, first in texts.items() if decisions else ():
        for side, other_side in SIDES.items():
            second = texts.get(name.removesuffix(side) + other_side)
            if name.endswith(side) and second is not None:
                values = listed(sorted(decisions[0].names.unique()))
                names = {"first": first.name, "second": second.name, "decision": decisions[0].name}
                raise columns.refusal(BETTER.format(values=values, **names))
