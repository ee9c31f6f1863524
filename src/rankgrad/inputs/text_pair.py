"""Two texts that are read together, such as a query and a passage, or a prompt and an answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.inputs._base import About, Inputs, as_list
from rankgrad.inputs.text import Text
from rankgrad.plain_text import PAIR
from rankgrad.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextPair"]


class TextPair(Text):
    """Two texts, each with at least one word, that a network reads together: the input of a cross-encoder.

    Networks get one text with `rankgrad.plain_text.PAIR` between the two. To encode the two texts separately, as for
    search among many passages, use `retrieval` instead.
    """

    name, backbones, cell = "text_pair", ("text_pair", "text"), Any
    columns = 2

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        return cells.texts(columns)

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        import pyarrow as pa

        return pa.list_(pa.string(), 2)

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"words": Vocabulary.of(inputs.items).words}

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[str]:
        return [" | ".join(texts) for texts in column.to_pylist()]

    @staticmethod
    def checked(cell: Any, place: str) -> list[str]:
        texts = as_list(cell, place)
        if len(texts) != 2:
            raise ValueError(f"{place} is a list of {len(texts)}, expected two texts")
        return [Text.checked(text, f"{place}, text {number}") for number, text in enumerate(texts, 1)]

    @staticmethod
    def prepared(cells: list[list[str]], about: About, *, where: str) -> list[str]:
        return [PAIR.join(text.replace(PAIR, " ") for text in texts) for texts in cells]

    @staticmethod
    def values(cell: list[str], about: About) -> int:
        return sum(Text.values(text, about) for text in cell)

    @staticmethod
    def example(about: About) -> list[str]:
        return ["word", "another word"]

    @staticmethod
    def described(about: About) -> str:
        columns = about.get("columns") or ()
        return f"a list of two texts, {' and '.join(columns)}" if len(columns) == 2 else "a list of two texts"
