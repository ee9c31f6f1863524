"""Recognize preferences in a table: a chosen and a rejected answer per row, optionally with a prompt."""

import re
from typing import Any

import pandas as pd

from pipelines.cli.columns import MOSTLY, Column, Columns, Truth, listed, plain
from pipelines.cli.inputs import query_text

__all__ = ["preferences"]

WORDS_OF_NAME = 5  # most words of a player's name
MENTIONS = 4  # least number of rows per name, on average, if names are players
CODE = re.compile(r"(?=.*\d)[\w.:/@-]+", re.ASCII)  # a name with a digit and without a space
DECISION = re.compile(r"prefer|winner|chosen|better|choice|vote")  # in names of columns that tell the better answer
FEW_DECISIONS = 5  # largest number of values of such a column
TIE = re.compile(r"ties?|tied|draw|equal|both.*", re.IGNORECASE)
SIDES = {"a": "b", "0": "1", "1": "2", "left": "right"}  # endings of the names of two answers

# Code to fix a table in pandas.
PLAYERS = """winner and loser are numbers; if they identify players, turn them into names with pandas:
  table["{winner}"] = "p" + table["{winner}"].astype(str)
  table["{loser}"] = "p" + table["{loser}"].astype(str)"""
BETTER = """{first} and {second} are two answers, and {decision} tells which is better; add these columns in pandas:
  FIRST, SECOND = ...  # the values of {decision} for which {first} and {second} are better, of {values}
  table = table[table["{decision}"].isin([FIRST, SECOND])]
  is_first = table["{decision}"] == FIRST
  table["chosen"] = table["{first}"].where(is_first, table["{second}"])
  table["rejected"] = table["{second}"].where(is_first, table["{first}"])"""
ITEMS = """{cell}, which is not a text, and such names repeat too rarely to be players; join the texts of the items:
  for role in ("{chosen}", "{rejected}"):
      names = {{"id": role, "text": role + "_text"}}
      table = table.merge(items.rename(columns=names), on=role)
then `rankgrad init FILE --text {chosen}_text --rejected {rejected}_text`"""
CHATS = """{names} contain chats or objects, expected texts: convert them with pandas:"""
PROMPT = """
  table["prompt"] = [" ".join(turn["content"] for turn in {turns}) for chat in table["{chat}"]]"""
ANSWER = """
  table["{answer}"] = [chat[-1]["content"] for chat in table["{answer}"]]"""


def preferences(columns: Columns) -> Truth | None:
    """Recognize preferences.

    The user can name the rejected answers, the chosen answers (as the text), the prompts (as the query), and the
    margin, a number (as the target).
    """
    _refuse_chats(columns)
    chosen, rejected = _chosen_and_rejected(columns)
    target = columns.named.get("target")
    if rejected is None and target is None:
        _refuse_which_is_better(columns)
    if chosen is None or rejected is None:
        return None
    if target is not None and target.content != "number":
        if chosen.has_sentences and rejected.has_sentences:
            raise columns.refusal(
                f"--target: {target.name} holds {target.content}s, expected strengths of preferences: numbers, 0 for a "
                "tie"
            )
        return None
    columns.use(chosen, rejected)
    options, line = {"rejected": rejected.name}, f"truth: {chosen.name} is preferred to {rejected.name}"
    margin = target or columns.take(lambda column: column.is_called("margin") and column.content == "number")
    if margin is not None:
        options["margin"] = margin.name
        line += f" by {margin.name}"
        if empty := len(chosen.cells.index.difference(margin.cells.index)):
            line += f"; of the first {len(chosen.cells)} rows, {empty} without {margin.name} are left out"
            line += ": without `--target`, all rows count, with equal strength" if target is not None else ""
    else:
        _refuse_ties(columns)

    inputs, more = _inputs(columns, chosen, rejected)

    # No other column is used, but a number may be the margin.
    for column in columns.of_content("number") if margin is None else []:
        columns.leave_out(column, f"if it is the strength of the preference, pass `--target {column.typed}`")
    return Truth("query_ranking", options, line + more, None, inputs, [chosen])


def _inputs(columns: Columns, chosen: Column, rejected: Column) -> tuple[dict[str, Any], str]:
    """Return the table's options for the input, and what to say of it."""
    prompt = _prompt(columns, chosen)
    if prompt is not None and not chosen.is_whole_input:
        columns.use(prompt)
        if "group" not in columns.named:
            columns.structure["group"] = prompt.name
        return {"text_pair": [prompt.name, chosen.name]}, ""
    if "text" in columns.named and chosen.has_sentences:
        more = "; its texts repeat: if they are names of players, write `categories` instead of `text`"
        return {"text": chosen.name}, more if chosen.is_category or _are_players(chosen, rejected) else ""
    if (chosen.is_category and not _are_long(chosen)) or _are_players(chosen, rejected):
        return {"categories": [chosen.name]}, _advice_on_players(columns, chosen, rejected)
    if chosen.is_whole_input:
        return {chosen.content: chosen.name}, ""
    is_name = chosen.content == "name"
    more = "; answers that repeat are read as texts, because most have more words than names" if is_name else ""
    return {"text": chosen.name}, more


def _chosen_and_rejected(columns: Columns) -> tuple[Column | None, Column | None]:
    """Return the columns of chosen and rejected answers, named by the user or recognized by their names."""
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
        raise columns.refusal("--rejected: no column has a name like `chosen`; name the chosen answers with `--text`")
    return roles["chosen"], roles["rejected"]


def _prompt(columns: Columns, chosen: Column) -> Column | None:
    """Return the column of prompts: recognized by its name, or a text that repeats or comes before the answers.

    Raises:
        ValueError: there are several candidates.
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
        f"{listed([column.name for column in texts])} may be the prompt: pass `--query {texts[0].typed}` to read it "
        f"with each answer and to keep answers to one prompt in one split"
        + ("" if likely else f"; or pass `--text {chosen.typed}` to read no prompt")
    )


def _refuse_ties(columns: Columns) -> None:
    """Raise if a column that would not be used says that some rows are ties."""
    for column in columns.free:
        rows = column.names.index[column.names.map(lambda cell: TIE.fullmatch(cell) is not None).astype(bool)]
        if len(rows) and column.names.nunique() <= FEW_DECISIONS:
            raise columns.refusal(
                f"{column.name} is {column.cells[rows[0]]} in {len(rows)} rows; add a column of margins, 0 for a tie "
                "and 1 for any other row, and pass `--target MARGIN`, or remove these rows"
            )


def _are_players(chosen: Column, rejected: Column) -> bool:
    """Return whether the chosen answers are names that repeat, such as players.

    Raises:
        ValueError: they are ids, such as a0123, that rarely repeat.
    """
    if chosen.content != "name" or chosen.is_aligned or _are_long(chosen):
        return False
    names = pd.concat([chosen.names, rejected.names])
    if MENTIONS * names.nunique() <= len(names):
        return True
    if not all(map(CODE.fullmatch, names)):
        return False
    cell = chosen.shown(chosen.cells.index[0])
    raise ValueError(ITEMS.format(cell=cell, chosen=chosen.name, rejected=rejected.name))


def _advice_on_players(columns: Columns, chosen: Column, rejected: Column) -> str:
    """Say how to read the texts of players: by flags, if two columns have a single text for each winner and loser."""
    texts = [column for column in columns.free if column.has_sentences]
    own = next((text for text in texts if _are_of(text, chosen)), None)
    others = next((text for text in texts if text is not own and _are_of(text, rejected)), None)
    if own is not None and others is not None:
        return f"; to read their texts instead: `--text {own.typed} --rejected {others.typed}`"
    return "; both are names of players without features: if another file has their texts, join those first"


def _are_of(texts: Column, players: Column) -> bool:
    """Return whether each player has a single text, and most players one of their own."""
    of_players = texts.texts.groupby(players.names)
    return bool((of_players.nunique() <= 1).all()) and 2 * texts.texts.nunique() > players.names.nunique()


def _are_long(column: Column) -> bool:
    """Return whether most cells have more words than names have, so that they are texts that repeat."""
    return float((column.names.str.count(r"\s+") >= WORDS_OF_NAME).mean()) > MOSTLY


def _refuse_chats(columns: Columns) -> None:
    """Raise if chosen and rejected answers are chats, lists of role and content."""
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


def _are_answers(columns: Columns, first: Column, second: Column) -> bool:
    """Return whether two texts, at most beside a prompt, are all that can be learned from."""
    rest = [column for column in columns.free if column not in (first, second)]
    inputs = [column for column in rest if column.is_text or column.is_whole_input or column.content == "number"]
    return (
        "text" not in columns.named
        and columns.task in (None, "query_ranking")
        and first.has_sentences
        and len(inputs) <= 1
        and all(column.is_text for column in inputs)
    )


def _refuse_which_is_better(columns: Columns) -> None:
    """Raise if there are two answers, such as answer_a and answer_b, of which another column may tell the better."""
    texts = {column.name.lower(): column for column in columns.free if column.is_text}
    decisions = [column for column in columns.all.values() if DECISION.search(plain(column.name))]
    decisions = [column for column in decisions if column.names.nunique() <= FEW_DECISIONS]
    for name, first in texts.items():
        for side, other_side in SIDES.items():
            second = texts.get(name.removesuffix(side) + other_side)
            if not name.endswith(side) or second is None:
                continue
            if decisions:
                values = listed(sorted(decisions[0].names.unique()))
                names = {"first": first.name, "second": second.name, "decision": decisions[0].name}
                raise columns.refusal(BETTER.format(values=values, **names))
            if _are_answers(columns, first, second):
                raise columns.refusal(
                    f"{first.name} and {second.name} are two texts; if the first is the better one in each row, pass "
                    f"`--text {first.typed} --rejected {second.typed}`; if both are input, name what to learn with "
                    "`--target COLUMN`"
                )
