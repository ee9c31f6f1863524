"""The collection of passages that the queries of a table search: those of all its splits, and those of another file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.tables.cells import converted, has_word, missing_in
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.inputs.text import Text
from rankgrad.io.parquet import read_table
from rankgrad.io.written import log_once
from rankgrad.lookup import listed
from rankgrad.plain_text import spelled_alike, text_in

__all__ = ["collection_of", "passages_of"]

HEAD = 1000  # rows by which the column of passages is recognized


def passages_of(table: TableOptions, paths: list[Path], *, head: int | None) -> list[str]:
    """Return the passages in the files of a collection, without empty ones.

    Args:
        table: the options.
        paths: the files.
        head: how many rows of each file to read; None for all.

    Raises:
        FileNotFoundError, ValueError: a file cannot be read, or it is not clear which of its columns has the passages.
    """
    read = partial(read_sheet, kind=None, encoding=table.encoding, empty=table.empty or ())
    first = read(paths[:1], lambda names: names, head=HEAD)
    column = str(table.text) if table.text in first.frame else _text_column(table, paths[0], first.frame)
    sheet = read(paths, lambda names: [column], head=head)
    cells = sheet.frame[column]
    texts = converted(sheet, cells[~missing_in(cells, numeric=False)], text_in)
    passages = texts[texts.map(has_word)]
    if len(passages) < len(cells):
        log_once(f"{sheet.title}: {len(cells) - len(passages)} of {len(cells)} rows left out, {column} has no word")
    return passages.tolist()


def _text_column(table: TableOptions, path: Path, frame: pd.DataFrame) -> str:
    """Return the only column of texts."""
    texts = []
    for name in frame:
        cells = [cell for cell in frame[name] if isinstance(cell, str)]
        if cells and Text.fits(cells):
            texts.append(str(name))
    if len(texts) != 1:
        raise ValueError(
            f"{path}: no column {table.text!r}, and {listed(texts) or 'no column'} with texts; expected one column of "
            f"passages: name it {table.text}, as in the table of queries"
        )
    return texts[0]


def collection_of(splits: Sequence[Path], passages: list[str]) -> pa.Table:
    """Return each passage once, with the queries that it answers in any split.

    Args:
        splits: the stored splits.
        passages: further passages, which may be in a split too.
    """
    texts: dict[str, str] = {}
    queries: dict[str, dict[str, None]] = {}
    for path in splits:
        stored = read_table(path, ["text", "captions"])
        for text, captions in zip(stored["text"].to_pylist(), stored["captions"].to_pylist(), strict=True):
            key = spelled_alike(text)
            texts.setdefault(key, text)
            queries.setdefault(key, {}).update(dict.fromkeys(captions))
    for text in passages:
        texts.setdefault(spelled_alike(text), text)
    captions = [[*queries.get(key, ())] for key in texts]
    schema = pa.schema({"text": pa.string(), "captions": pa.list_(pa.string())})
    return pa.table({"text": [*texts.values()], "captions": captions}, schema=schema)
