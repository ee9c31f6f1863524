"""Read SVMlight files, such as `2 qid:7 1:0.5 2:0.1`, row by row."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankgrad.io.written import log_once

__all__ = ["lengthen", "svmlight_columns", "svmlight_rows"]

COLUMNS = ["label", "qid", "all"]  # the names of the columns
DOCID = re.compile(r"\bdocid\s*[=:]\s*(\S+)")  # the document's id in the comment of a row, as in LETOR
INDEX = 2**20 - 1  # indices are below the largest number of features of a model
EXACT = 2**53  # float64 holds every whole number up to here
# Most numbers in all vectors of a file together: SPARSE for each of its bytes, at least SMALL and at most DENSE.
DENSE, SMALL = 2**30, 2**24
SPARSE = 64
QUERY = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def _lines(file: Iterable[str]) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield each row's line number, its cells, and the id of its document if its comment has one."""
    for number, line in enumerate(file, 1):
        content, _, comment = line.partition("#")
        if cells := content.split():
            docid = DOCID.search(comment)
            yield number, cells, docid[1] if docid else None


def svmlight_columns(path: Path) -> list[str]:
    """Return the columns of a file, with `docid` if the comment of every row has one; log it if only some have one."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        has_id = [docid is not None for _, _, docid in _lines(file)]
    if all(has_id):
        return [*COLUMNS, "docid"]
    if any(has_id):
        row = 1 + has_id.index(False)
        log_once(f"{path}: row {row}: no #docid, expected one in every row, so there is no column docid")
    return COLUMNS


def svmlight_rows(path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    """Read labels, queries, and vectors; the number with index k is element k, and a vector ends with its last index.

    Numbers that float64 cannot hold exactly are kept as written: labels as text, others as decimals.

    Raises:
        ValueError: a row is not valid SVMlight, or the vectors would become too large; the message names the row.
    """
    most = min(DENSE, max(SMALL, SPARSE * path.stat().st_size))  # a small file must not take gigabytes
    in_queries, widest = "qid" in columns, 0
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, (line, cells, docid) in enumerate(_lines(file), 1):
            if number == 1:
                in_queries = in_queries or any(cell.startswith("qid:") for cell in cells[1:2])
            try:
                row = _row(cells, in_queries=in_queries)
            except ValueError as error:
                raise ValueError(
                    f"{path}: row {number} (line {line}) has {error}: {' '.join(cells)[:80]!r}; expected a row such as "
                    "`2 qid:7 1:0.5 2:0.1`; rename the file if it is a CSV, to .csv or .tsv"
                ) from error
            widest = max(widest, len(row["all"]))
            if number * widest > most:
                raise ValueError(
                    f"{path}: row {number} (line {line}) has the index {len(row['all']) - 1}; every row stores a "
                    f"number for each index, expected at most {most:,} numbers in {number:,} rows: number the features "
                    "from 1"
                )
            row["docid"] = docid
            yield [row[name] for name in columns]


def _row(cells: list[str], *, in_queries: bool) -> dict[str, Any]:
    """Return the label, query, and vector of a row; raise ValueError if it is invalid."""
    label, *pairs = cells
    if ":" in label:
        raise ValueError("no label; write a number in front of each row, such as 0 if it is unknown")
    written_query = pairs.pop(0).removeprefix("qid:") if pairs and pairs[0].startswith("qid:") else None
    query, vector = _query(written_query, in_queries=in_queries), _vector(pairs)
    return {"label": _label(label), "qid": query, "all": vector}


def _label(label: str) -> float | str:
    """Return a label that is a whole number as a float, others as written."""
    try:
        grade = float(label)
    except ValueError:
        raise ValueError(f"the label {label!r:.40}, expected a number") from None
    is_whole = abs(grade) < EXACT and grade % 1 == 0
    return grade if is_whole else label


def _query(query: str | None, *, in_queries: bool) -> int | None:
    if query is None:
        if in_queries:
            raise ValueError("no qid")
        return None
    if not (in_queries and QUERY.fullmatch(query)):
        raise ValueError(f"the qid {query!r:.40}, expected a whole number of at most 19 digits, in all rows or in none")
    return int(query)


def _vector(pairs: list[str]) -> np.ndarray:
    """Return the vector of `index:number` pairs, whose indices must increase."""
    indices, numbers = [-1], []
    for pair in pairs:
        index, _, value = pair.partition(":")
        try:
            indices.append(int(index))
            numbers.append(float(value))
        except ValueError:
            raise ValueError(f"{pair!r:.40}, expected `index:number`") from None
        if abs(numbers[-1]) >= EXACT:
            numbers[-1] = Decimal(value, Context(traps=[]))
        if not 0 <= indices[-1] < INDEX:
            raise ValueError(f"the index {indices[-1]}, expected 0 to {INDEX - 1:,}")
        if indices[-1] <= indices[-2]:
            raise ValueError("an index twice" if indices[-1] == indices[-2] else "indices that are not sorted")
    is_plain = all(isinstance(number, float) for number in numbers)
    vector = np.zeros(indices[-1] + 1, np.float64 if is_plain else object)
    vector[indices[1:]] = numbers
    return vector


def lengthen(frames: list[pd.DataFrame]) -> int:
    """Pad all vectors with zeros to the same length, and return their lowest index.

    Most files start with index 1; the vectors then get no element for index 0.
    """
    vectors = [vector for frame in frames for vector in frame["all"]]
    widest = max(map(len, vectors))
    lowest = 0 if any(len(vector) and vector[0] for vector in vectors) else 1
    for frame in frames:
        frame["all"] = [np.append(vector, [0.0] * (widest - len(vector)))[lowest:] for vector in frame["all"]]
    return lowest
