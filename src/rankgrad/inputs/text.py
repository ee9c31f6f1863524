"""Texts, which a network's backbone tokenizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from rankgrad.inputs._base import Inputs
from rankgrad.inputs._vocabulary import Vocabulary
from rankgrad.inputs.image import check_lists, flat, row_of
from rankgrad.io.parquet import read_table

__all__ = ["Text", "of_strings"]


def of_strings(texts: Sequence[str]) -> Inputs:
    """Return texts as inputs."""
    return Inputs({"kind": "text"}, list(texts))


class Text:
    """A text of at least one word."""

    name, backbone, cell = "text", "text", "text"

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        check_lists(path, "text", lists=lists)
        column, counts = read_table(path, ["text"])["text"], None
        if lists:
            column, counts = flat(column)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise ValueError(f"{path}: column text: {column.type}, expected text; make it again")
        texts = column.to_pylist()
        for place, text in enumerate(texts):
            if not text or not Vocabulary.split(text):
                raise ValueError(f"{path}: row {row_of(place, counts)}: a text is {text!r}, expected at least one word")
        return of_strings(texts), counts

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"words": Vocabulary.of(inputs.items).words}

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> list[str]:
        for cell in cells:
            if not isinstance(cell, str) or not Vocabulary.split(cell):
                raise ValueError(f"{where}: a text is {cell!r}, expected at least one word")
        return cells

    @staticmethod
    def gathered(rows: list[list[str]], about: dict[str, Any]) -> Inputs:
        return Inputs(about, [text for texts in rows for text in texts])

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        return len(cell)
