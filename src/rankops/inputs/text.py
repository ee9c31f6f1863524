"""Texts, which a network's backbone tokenizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.inputs._base import Inputs
from rankops.inputs._vocabulary import Vocabulary
from rankops.inputs.image import check_lists
from rankops.io.parquet import list_lengths, read_table

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
            lengths = list_lengths(column)
            counts = torch.from_numpy(lengths.astype(np.int64))
            column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], type=column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise ValueError(f"{path}: column text: {column.type}, expected text; make it again")
        texts = column.to_pylist()
        for place, text in enumerate(texts):
            if not text or not Vocabulary.split(text):
                row = place if counts is None else int(torch.searchsorted(counts.cumsum(0), place, right=True))
                raise ValueError(f"{path}: row {row}: a text is {text!r}, expected at least one word")
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
