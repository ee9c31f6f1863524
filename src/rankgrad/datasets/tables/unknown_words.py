"""Words and punctuation marks of new texts that a model does not know."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankgrad.feature_names import words_by_column
from rankgrad.inputs import type_of
from rankgrad.lookup import listed
from rankgrad.plain_text import is_word, text_in, tokens_of

__all__ = ["UnknownWords"]

NAMED = 5  # most words of a row to name


class UnknownWords:
    """Find the words that a model does not know.

    Of texts and captions, these are the words and marks that were not in training, except whole numbers beside known
    words; a model with a tokenizer of its own knows every word, and one that learned no marks is asked only about
    words. Of a column of `words`, of which a model knows only frequent ones, these are texts without any known word.

    Args:
        recipe: the model's recipe.

    >>> words = ["<padding>", "<unknown>", "lamp", "red"]
    >>> unknown = UnknownWords({"input": {"kind": "text"}, "args": {"words": words}})
    >>> unknown.of([{"text": "a red lamp"}, {"text": "Red!"}])
    {0: {'text': "text: the model does not know 'a'"}}
    >>> unknown.of([{"text": "lamp 12"}, {"text": "12"}])
    {1: {'text': "text: the model does not know '12'"}}
    >>> unknown = UnknownWords({"input": {"kind": "features", "names": ["km", "title[word=lamp]"]}})
    >>> unknown.of([{"features": {"km": 7, "title": "a lamp"}}, {"features": {"km": 7, "title": "A bed"}}])
    {1: {'title': "title: the model knows no word of 'A bed'"}}
    """

    def __init__(self, recipe: Mapping[str, Any]):
        about = recipe["input"]
        self.role, words = type_of(about).name, (recipe.get("args", {}).get("words") or ())[2:]
        self.known = frozenset(words)
        self.reads_marks = not all(map(is_word, words))
        self.columns = words_by_column(tuple(about.get("names") or ()))

    def of(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, str]]:
        """Return, by the index of each row with unknown words, what is unknown by input, caption, or column.

        Args:
            rows: checked rows, see `rankgrad.tasks.Task.checked`.
        """
        found: dict[int, dict[str, str]] = {}
        for index, row in enumerate(rows):
            if lines := {**self._in_texts(row), **self._in_columns(row)}:
                found[index] = lines
        return found

    def _in_texts(self, row: Mapping[str, Any]) -> dict[str, str]:
        lines = {}
        for role in (self.role, "caption") if self.known else ():
            unknown = []
            for text in _parts(row.get(role), str):
                tokens = tokens_of(text)
                is_strange = self.known.isdisjoint(tokens)
                unknown += [token for token in tokens if self._is_unknown(token, even_numbers=is_strange)]
            if unknown:
                names = [repr(token) for token in dict.fromkeys(unknown)]
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                lines[role] = f"{role}: the model does not know {listed(names[:NAMED])}{more}"
        return lines

    def _is_unknown(self, token: str, *, even_numbers: bool) -> bool:
        # Texts are full of new numbers, such as those of orders; but a number in place of a text is a wrong column.
        if token in self.known or (token.isdecimal() and not even_numbers):
            return False
        return self.reads_marks or is_word(token)

    def _in_columns(self, row: Mapping[str, Any]) -> dict[str, str]:
        lines = {}
        for column, known in self.columns.items():
            for cells in _parts(row.get(self.role), Mapping):
                tokens = tokens_of(text := text_in(cells.get(column)))
                if tokens and known.isdisjoint(tokens):
                    lines[column] = f"{column}: the model knows no word of {text[:60]!r}"
        return lines


def _parts(cell: Any, kind: type) -> Iterator[Any]:
    """Yield the texts or mappings in a cell, which may be a list of them, or of pairs."""
    if isinstance(cell, kind):
        yield cell
    elif isinstance(cell, list | tuple):
        for part in cell:
            yield from _parts(part, kind)
