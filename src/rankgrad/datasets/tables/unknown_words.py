"""Words and punctuation marks of new texts that a model has no number for, and that therefore count nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankgrad.inputs import type_of
from rankgrad.lookup import listed
from rankgrad.plain_text import is_word, tokens_of

__all__ = ["unknown_words"]

NAMED = 5  # most words of a row to name


def unknown_words(rows: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    """Return, by the index of each row with unknown words, these words by the input or caption that has them.

    A model with a tokenizer of its own knows every word; of a model that learned no marks, only words are returned.

    Args:
        rows: checked rows, see `rankgrad.tasks.Task.checked`.
        recipe: the recipe of the network that answers them.

    >>> recipe = {"input": {"kind": "text"}, "args": {"words": ["<padding>", "<unknown>", "lamp", "red"]}}
    >>> unknown_words([{"text": "a red lamp"}, {"text": "Red!"}], recipe)
    {0: {'text': "text: the model does not know 'a'"}}
    """
    known = frozenset(recipe.get("args", {}).get("words") or ())
    reads_marks = any(not is_word(token) for token in known if not token.startswith("<"))
    found: dict[int, dict[str, str]] = {}
    for index, row in enumerate(rows if known else ()):
        for role in (type_of(recipe["input"]).name, "caption"):
            tokens = [token for text in _texts_in(row.get(role)) for token in tokens_of(text)]
            if words := [token for token in tokens if token not in known and (reads_marks or is_word(token))]:
                names = [repr(word) for word in dict.fromkeys(words)]
                more = f" and {len(names) - NAMED} more words" if len(names) > NAMED else ""
                found.setdefault(index, {})[role] = f"{role}: the model does not know {listed(names[:NAMED])}{more}"
    return found


def _texts_in(cell: Any) -> Iterator[str]:
    if isinstance(cell, str):
        yield cell
    elif isinstance(cell, list | tuple):
        for part in cell:
            yield from _texts_in(part)
