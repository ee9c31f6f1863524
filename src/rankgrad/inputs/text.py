"""Texts; a network's backbone tokenizes them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.inputs._base import AT_ONCE, About, Inputs, InputType, in_json
from rankgrad.plain_text import PAIR, tokens_of, words_of
from rankgrad.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Text", "of_strings"]

WORDS = 2**20  # most words in a network's batch outside training
WORD = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{2}|\S+")  # in scripts without spaces, two letters
CHARACTERS = 20_000  # most characters of a text in a request


def of_strings(texts: Sequence[str]) -> Inputs:
    """Return texts as inputs."""
    return Inputs({"kind": "text"}, list(texts))


class Text(InputType):
    """A text with at least one word."""

    name, backbones, cell = "text", ("text",), str

    @staticmethod
    def fits(cells: list[Any]) -> bool:
        """Return whether cells are texts with three or more words on average."""
        return sum(len(WORD.findall(str(cell))) for cell in cells) >= 3 * len(cells)

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        return cells.text(columns[0])

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        import pyarrow as pa

        return pa.string()

    @classmethod
    def read(cls, path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        from rankgrad.io.parquet import read_column

        column, counts = read_column(path, cls.name, lists=lists)
        about = {"kind": cls.name}
        return Inputs(about, cls.prepared(column.to_pylist(), about, where="")), counts

    @classmethod
    def facts(cls, path: Path, *, lists: bool, threads: int) -> "pd.DataFrame":
        import pandas as pd

        from rankgrad.io.parquet import read_table

        cells = read_table(path, [cls.name])[cls.name].to_pylist()
        return pd.DataFrame({"characters": [*map(_shortest, cells)]})

    @staticmethod
    def expected(*, size: int | None) -> dict[str, Any]:
        return {"characters": 1}

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[str]:
        return column.to_pylist()

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        words = Vocabulary.of(inputs.items).words
        return {"words": [word for word in words if word != PAIR]}

    @staticmethod
    def check(about: About) -> None:
        """Check nothing: `about` of texts has no sizes or names."""

    @staticmethod
    def at_once(inputs: Inputs) -> int:
        if not torch.is_tensor(inputs.items) or inputs.items.is_floating_point():
            return AT_ONCE
        return max(1, min(AT_ONCE, WORDS // max(1, inputs.items.shape[1])))  # all are padded to the longest

    @staticmethod
    def ready(inputs: Inputs, network: Any) -> Inputs:
        """Return texts, tokenized by a network's backbone."""
        if torch.is_tensor(inputs.items):
            return inputs
        return replace(inputs, items=network.backbone.tokenize(inputs.items))

    @staticmethod
    def trimmed(items: Tensor) -> Tensor:
        """Return tokens cut to the longest text; features of texts are unchanged."""
        return items if items.is_floating_point() else items[:, : int((items != 0).sum(1).max())]

    @staticmethod
    def checked(cell: Any, place: str) -> Any:
        if not isinstance(cell, str):
            raise ValueError(f"{place} is {in_json(cell)}, expected text")
        if not tokens_of(cell[:CHARACTERS]):
            raise ValueError(f"{place} is {cell[:60]!r}, expected at least one word")
        return cell

    @staticmethod
    def prepared(cells: list[Any], about: About, *, where: str) -> list[str]:
        return cells

    @staticmethod
    def gathered(rows: list[list[str]], about: About) -> Inputs:
        return Inputs(about, [text for texts in rows for text in texts])

    @staticmethod
    def values(cell: Any, about: About) -> int:
        if len(cell) > CHARACTERS:
            raise ValueError(f"a text has {len(cell):,} characters, expected at most {CHARACTERS:,}")
        return len(cell)

    @staticmethod
    def example(about: About) -> Any:
        return "word"

    @staticmethod
    def described(about: About) -> str:
        return "a text"

    @staticmethod
    def quantities(items: list[str], about: About) -> dict[str, float]:
        words = [len(words_of(text)) for text in items]
        return {"characters": float(np.mean([len(text) for text in items])), "words": float(np.mean(words))}

    @staticmethod
    def texts(items: list[str]) -> list[str]:
        return items


def _shortest(cell: Any) -> int:
    """Return the length of the shortest text in a cell, which may be a list of texts or of pairs; 0 for an empty one.

    >>> _shortest([["red", "a lamp"], ["red", "one"]]), _shortest(None)
    (3, 0)
    """
    return len(cell) if isinstance(cell, str) else min(map(_shortest, cell or [""]))
