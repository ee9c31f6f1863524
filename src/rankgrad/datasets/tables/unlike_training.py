"""Report inputs unlike those of training: numbers outside its range, and words that the model does not know."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankgrad.datasets.tables.ranges import outside_ranges, ranges_in
from rankgrad.datasets.tables.unknown_words import UnknownWords

__all__ = ["Unlike", "UnlikeTraining"]


class Unlike:
    """How many rows have inputs unlike those of training, by input and reason, and the first of them."""

    def __init__(self) -> None:
        self._counts, self._firsts = Counter[tuple[str, str]](), dict[tuple[str, str], str]()

    def add(self, name: str, reason: str, first: str) -> None:
        self._counts[name, reason] += 1
        self._firsts.setdefault((name, reason), first)

    @property
    def lines(self) -> list[str]:
        """A line for each input and reason."""
        lines = []
        for (name, reason), count in self._counts.items():
            lines.append(f"{name}: {count} rows {reason}, first: {self._firsts[name, reason]}")
        return lines


class UnlikeTraining:
    """Find inputs unlike those of a model's training.

    Args:
        folder: the model's folder; only that of a version knows the ranges of numbers.
        recipe: the model's recipe.
    """

    def __init__(self, folder: Path, recipe: Mapping[str, Any]):
        self._ranges, self._unknown_words, self._recipe = ranges_in(folder), UnknownWords(recipe), recipe

    def add(self, unlike: Unlike, rows: Sequence[Mapping[str, Any]], places: Sequence[str]) -> None:
        """Add what is unlike training in checked rows, see `rankgrad.tasks.Task.checked`, with their places."""
        for index, numbers in outside_ranges(self._ranges, rows, self._recipe).items():
            for name, number in numbers.items():
                unlike.add(name, "are outside the training range", f"{places[index]}, {number}")
        for index, words in self._unknown_words.of(rows).items():
            for name, what in words.items():
                unlike.add(name, "have words that the model does not know", f"{places[index]}, {what}")
