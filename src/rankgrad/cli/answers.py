"""The answers of a model to the rows of files, in pieces, and files of answers; memory does not grow with them."""

import csv
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from rankgrad.datasets.tables.rows import OWN, Roles, Row, pieces, read, table_of
from rankgrad.io.atomic import replaced_file, write_error
from rankgrad.io.recipes import recipe_of
from rankgrad.io.written import as_json, as_text, without_formula

__all__ = ["FOUND", "WRITABLE", "Answer", "Gallery", "answers", "found_among", "write"]

WRITTEN = 8192  # answers that are written at a time: each writing makes a row group of Parquet
FOUND = 10  # rows that are found for each one
SEPARATOR = "|"  # of the values of a list in a cell of a CSV
OF_CLASSES = ("scores", "label_ranks")  # lists with a value for each class
IDS = ("id", "query", "found")  # columns that come back as they were
WRITABLE = ("csv", "tsv", "jsonl", "parquet")

Answer = dict[str, Any]  # `id`, and what the task says of it, or `error`


def answers(
    folder: Path, sources: Sequence[Path], roles: Roles = OWN, *, skip_broken: bool = False
) -> Iterator[list[Answer]]:
    """Yield the answers of a model to the rows of files, in pieces; memory does not grow with the files.

    Args:
        folder: of the model, see `rankgrad.io.recipes.folder_of`.
        sources, roles: see `rankgrad.datasets.tables.rows.read`.
        skip_broken: answer a row that cannot be read or answered with `error` alone.

    Raises:
        FileNotFoundError: no such file or model.
        ValueError: a file is not of its format, or a row cannot be answered; the message names it. Or no model of a
            task.
    """
    recipe = recipe_of(folder)
    if "task" not in recipe:
        raise ValueError(f"{folder}: a model of no task, expected one that a run trained")
    waiting = pieces(read(sources, recipe, roles), recipe)
    first = next(waiting, None)
    if first is None:
        raise ValueError(f"{sources[0]}: no rows, expected at least one")
    import torch

    from rankgrad import lookup
    from rankgrad.io.checkpoints import load_model
    from rankgrad.training.device import find_device

    network = load_model(folder, device=find_device("auto"))
    task = lookup.find("tasks", recipe["task"])()
    for piece in chain([first], waiting):
        with torch.inference_mode():
            yield _answered(lambda rows: task.respond(network, rows), piece, skip_broken)


def _answered(respond: Callable[[list[Any]], list[Answer]], piece: list[Row], skip_broken: bool) -> list[Answer]:
    """Return the answers to all rows together, or, if that fails, to one at a time, to find those that fail."""
    try:
        responses = respond([row.asked() for row in piece])
        return [*chain.from_iterable(map(_with_ids, piece, responses))]
    except (ValueError, OSError, FloatingPointError):
        pass
    result: list[Answer] = []
    for row in piece:
        try:
            result += _with_ids(row, respond([row.asked()])[0])
        except (ValueError, OSError, FloatingPointError) as error:
            message = str(error).removeprefix("row 0").lstrip(":, ")
            if not skip_broken:
                raise ValueError(f"{row.place}: {message}") from error
            result += [{"id": row_id, **row.group, "error": message} for row_id in row.documents or [row.id]]
    return result


def _with_ids(row: Row, answer: Answer) -> list[Answer]:
    """Return the answer with the row's id; of a query whose documents are rows, an answer for each, with its place."""
    if row.documents is None:
        return [{"id": row.id, **row.group} | answer]
    order = sorted(range(len(row.documents)), key=lambda number: -answer["scores"][number])
    place_of = {number: place for place, number in enumerate(order, 1)}
    of_query = {name: value for name, value in answer.items() if name != "scores"}
    result = []
    for number, (document, score) in enumerate(zip(row.documents, answer["scores"], strict=True)):
        result.append({"id": document, "query": row.id, "score": score, "place": place_of[number]} | of_query)
    return result


class Gallery:
    """What retrieval searches: the embeddings of rows, and their ids.

    Args:
        folder: of a model of retrieval.
        source: a table, or a folder of pictures.
        roles: of the table's columns, see `rankgrad.datasets.tables.rows.read`.
        captions: search the captions of the table, and not its items.

    Raises:
        FileNotFoundError: no such file or model.
        ValueError: the model is none of retrieval; no row can be read; see `answers`.
    """

    def __init__(self, folder: Path, source: Path, roles: Roles = OWN, *, captions: bool = False):
        import numpy as np

        if (task := recipe_of(folder).get("task")) != "retrieval":
            raise ValueError(f"{folder}: a model of {task}, expected one of retrieval to find rows among others")
        pieces = answers(folder, [source], roles._replace(input=(), captions=captions), skip_broken=True)
        rows, broken = [], []
        for row in chain.from_iterable(pieces):
            (broken if "error" in row else rows).append(row)
        if not rows:
            reason = f": {broken[0]['error']}" if broken else ", expected at least one to search"
            raise ValueError(f"{source}: no rows{reason}")
        if broken:
            logging.getLogger(__name__).warning(
                "%s: %d rows are not searched, the first of them %s: %s",
                source, len(broken), broken[0]["id"], broken[0]["error"],
            )  # fmt: skip
        self.ids = [row["id"] for row in rows]
        self.embeddings = np.array([row["embedding"] for row in rows])

    def best(self, embedding: list[float], count: int = FOUND) -> list[Answer]:
        """Return the ids that fit an embedding best, the best first: `place`, `found` and `score` of each.

        An id of several rows, such as a picture with a row for each caption, is found once, by the best of them.

        Args:
            embedding: of the query.
            count: how many ids to return; all if there are fewer.
        """
        import numpy as np

        scores = self.embeddings @ embedding
        found: dict[Any, Answer] = {}
        for number in np.argsort(-scores, kind="stable"):
            row_id = self.ids[number]
            if row_id not in found:
                found[row_id] = {"place": len(found) + 1, "found": row_id, "score": float(scores[number])}
            if len(found) == count:
                break
        return [*found.values()]


def found_among(queries: Iterable[list[Answer]], gallery: Gallery) -> Iterator[list[Answer]]:
    """Yield a row for each of the ten ids of a gallery that fit one of `queries` best, the best first."""
    for piece in queries:
        found: list[Answer] = []
        for answer in piece:
            if "error" in answer:
                found.append(answer)
            else:
                found += [{"id": answer["id"]} | row for row in gallery.best(answer["embedding"])]
        yield found


# Files of answers.


def write(
    path: Path, pieces: Iterable[list[Answer]], *, classes: Sequence[str] | None = None, errors: bool = False
) -> tuple[int, list[Any]]:
    """Write answers as CSV, TSV, JSON lines or Parquet, by the suffix, whole or not at all.

    Text that a spreadsheet would run as a formula gets a ' before it in CSV and TSV, which is logged: such files are
    opened by a click. JSON lines and Parquet have it as it is.

    Args:
        path: of the file.
        pieces: from `answers`.
        classes: names of the model's classes, if they have any; in CSV and TSV each has its own columns.
        errors: whether there is a column `error`.

    Returns:
        How many rows there are, and the ids of the rows with an error.

    Raises:
        OSError: the file cannot be written.
    """
    count, broken = 0, []

    def counted() -> Iterator[list[Answer]]:
        nonlocal count
        for piece in pieces:
            count += len(piece)
            broken.extend(answer["id"] for answer in piece if "error" in answer)
            yield piece

    kind = table_of(path)
    with replaced_file(path) as partial:
        if kind == "parquet":
            _write_parquet(partial, path, counted(), classes=classes, errors=errors)
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                if kind == "jsonl":
                    for answer in chain.from_iterable(counted()):
                        file.write(as_json(answer, ascii=False) + "\n")
                else:
                    writer = csv.writer(file, delimiter="," if kind == "csv" else "\t")
                    by_class = ([_by_class(answer, classes) for answer in piece] for piece in counted())
                    if quoted := _write_delimited(writer, by_class, errors=errors):
                        logging.getLogger(__name__).warning(
                            "%s: %d cells begin like a formula of a spreadsheet and have a ' before them; to join by "
                            "them write .jsonl or .parquet, which have them as they are", path, quoted
                        )  # fmt: skip
    return count, broken


def _begun(pieces: Iterator[list[Answer]], *, rows: int, errors: bool) -> tuple[list[Answer], list[str]]:
    """Return the first answers, at least `rows` and one without an error if there is any, and the columns of all."""
    first: list[Answer] = []
    for piece in pieces:
        first += piece
        if len(first) >= rows and not all("error" in answer for answer in first):
            break
    columns = dict.fromkeys(name for answer in first for name in answer if name != "error")
    return first, [*columns, *(["error"] if errors else [])]


def _by_class(answer: Answer, classes: Sequence[str] | None) -> Answer:
    """Return an answer with a column for each class, such as `scores.cat`, in place of lists in the classes' order."""
    result = {}
    for name, value in answer.items():
        if classes and name in OF_CLASSES:
            result |= {f"{name}.{label}": item for label, item in zip(classes, value, strict=True)}
        else:
            result[name] = value
    return result


def _write_delimited(writer: Any, pieces: Iterator[list[Answer]], *, errors: bool) -> int:
    """Write rows, and return how many cells got a ' before them."""
    first, columns = _begun(pieces, rows=1, errors=errors)
    writer.writerow(map(without_formula, columns))
    quoted = 0
    for answer in chain(first, chain.from_iterable(pieces)):
        cells = [as_text(answer[name]) if _is_id(name, answer) else _cell(answer.get(name)) for name in columns]
        safe = []
        for name, cell in zip(columns, cells, strict=True):
            is_safe = isinstance(cell, int) or _is_numbers(answer.get(name))
            safe.append(cell if is_safe else without_formula(cell))
        quoted += sum(text is not cell for text, cell in zip(safe, cells, strict=True))
        writer.writerow(safe)
    return quoted


def _is_id(name: str, answer: Answer) -> bool:
    return name in IDS and answer.get(name) is not None


def _is_numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers, which joined are no formula."""
    return isinstance(value, list) and all(isinstance(item, int | float) for item in value)


def _cell(value: Any) -> int | str:
    """Return a cell of what a model says."""
    if isinstance(value, list):
        return SEPARATOR.join(str(_cell(item)) for item in value)
    if isinstance(value, int):
        return value
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else as_text(value)  # by which all of float32 stay apart


def _write_parquet(
    partial: Path, path: Path, pieces: Iterator[list[Answer]], *, classes: Sequence[str] | None, errors: bool
) -> None:
    """Write answers as Parquet to `partial`; messages name `path`, which it becomes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Takes the first answers out of `pieces`: their values decide the types of the columns.
    first, columns = _begun(pieces, rows=WRITTEN, errors=errors)
    untyped_list = pa.list_(pa.null())  # Arrow's type if every list is empty: no row has a label
    label_list = pa.list_(pa.string() if classes else pa.int64())
    fields = []
    for name in columns:
        # The first answers may have no error to tell the type from.
        kind = pa.string() if name == "error" else _kind([answer.get(name) for answer in first])
        fields.append((name, label_list if kind == untyped_list else kind))
    schema = pa.schema(fields)

    # Iterating over `pieces` reads the inputs: its errors are none of writing.
    writer = None
    try:
        with _write_errors(path):
            writer = pq.ParquetWriter(partial, schema, compression="zstd")
        for batch in _batches(chain([first], pieces)):
            table = _fitted(batch, schema, path)
            with _write_errors(path):
                writer.write_table(table)
    finally:
        if writer is not None:
            with _write_errors(path):
                writer.close()


def _batches(pieces: Iterable[list[Answer]]) -> Iterator[list[Answer]]:
    """Yield answers, at least `WRITTEN` at a time but for the last ones."""
    waiting: list[Answer] = []
    for piece in pieces:
        waiting = waiting + piece
        if len(waiting) >= WRITTEN:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


@contextmanager
def _write_errors(path: Path) -> Generator[None]:
    """Name the file that cannot be written."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise write_error(path, error) from error


def _kind(values: list[Any]) -> Any:
    """Return the Arrow type of values; text where they are of several kinds, as ids of JSON lines may be."""
    import pyarrow as pa

    first = next((value for value in values if value is not None), None)
    try:
        kind = pa.array(values).type
        if hasattr(first, "nanosecond"):  # of pandas; Arrow would take it for a time of Python, which has none
            return pa.timestamp("ns", kind.tz)
        if hasattr(first, "nanoseconds"):
            return pa.duration("ns")
        return pa.decimal128(38, kind.scale) if pa.types.is_decimal128(kind) else kind  # later ones may be longer
    except OverflowError:  # whole numbers from 2^63 on
        unsigned = all(value is None or (type(value) is int and 0 <= value < 2**64) for value in values)
        return pa.uint64() if unsigned else pa.string()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def _fitted(answers: list[Answer], schema: Any, path: Path) -> Any:
    """Return answers as a table of the columns that the first of them have.

    Raises:
        ValueError: an id is of another kind than the first ones.
    """
    import pyarrow as pa

    columns = []
    for field in schema:
        values = [answer.get(field.name) for answer in answers]
        if pa.types.is_string(field.type):
            values = [None if value is None else as_text(value) for value in values]
        try:
            column = pa.array(values, field.type)
            # Arrow makes 2 of 2.5 where whole numbers came first.
            if field.name in IDS or pa.types.is_integer(field.type):
                for value, kept in zip(values, column.to_pylist(), strict=True):
                    if value != kept and value == value:
                        raise pa.ArrowInvalid(f"{value} would become {kept}")
            columns.append(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(
                f"{path}: the column {field.name} began as {field.type}, and then there is another kind ({error}); "
                "write .jsonl or .csv, or give the ids one kind"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)
