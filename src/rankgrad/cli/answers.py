"""Compute a model's answers for the rows of files, and write them, in chunks, so that memory does not grow."""

import csv
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from rankgrad.datasets.tables.rows import OWN, Named, Roles, Row, pieces, read, table_of
from rankgrad.io.atomic import replaced_file, write_error
from rankgrad.io.recipes import recipe_of
from rankgrad.io.written import as_json, as_text, without_formula

__all__ = ["FOUND", "WRITABLE", "Answer", "Gallery", "answers", "found_among", "write"]

WRITTEN = 8192  # number of answers per write, which is a row group in Parquet
FOUND = 10  # number of results per search
SEPARATOR = "|"  # between the values of a list in a CSV cell
OF_CLASSES = ("scores", "label_ranks")  # lists with a value for each class
IDS = ("id", "query", "found", "answer")  # columns that are returned unchanged
WRITABLE = ("csv", "tsv", "jsonl", "parquet")

Answer = dict[str, Any]  # `id`, and the task's answer or `error`


def answers(
    folder: Path, sources: Sequence[Path], roles: Roles = OWN, *, skip_broken: bool = False
) -> Named[list[Answer]]:
    """Return a model's answers for the rows of files, in chunks; memory does not grow with the files.

    Args:
        folder: folder of the model, see `rankgrad.io.recipes.folder_of`.
        sources, roles: see `rankgrad.datasets.tables.rows.read`.
        skip_broken: answer rows that cannot be read or answered only with `error`.

    Raises:
        FileNotFoundError: a file or the model does not exist.
        ValueError: a file does not have its format, or a row cannot be answered; the message names it. Or the model
            does not belong to a task.
    """
    recipe = recipe_of(folder)
    if "task" not in recipe:
        raise ValueError(f"{folder}: the model has no task, expected a model that a run trained")
    rows = read(sources, recipe, roles)
    return Named(_pieces(folder, sources[0], rows, recipe, skip_broken), rows.names)


def _pieces(
    folder: Path, source: Path, rows: Iterable[Row], recipe: Mapping[str, Any], skip_broken: bool
) -> Iterator[list[Answer]]:
    waiting = pieces(rows, recipe)
    first = next(waiting, None)
    if first is None:
        raise ValueError(f"{source}: no rows, expected at least one")
    import torch

    from rankgrad import lookup
    from rankgrad.datasets.tables.unlike_training import Unlike, UnlikeTraining
    from rankgrad.io.checkpoints import load_model
    from rankgrad.training.device import find_device

    network, task = load_model(folder, device=find_device("auto")), lookup.find("tasks", recipe["task"])()
    unlike_training, unlike = UnlikeTraining(folder, network.recipe), Unlike()

    def respond(rows: list[Row]) -> list[Answer]:
        checked = task.checked(network.recipe, [row.asked() for row in rows])
        responses = task.answered(network, checked)
        for response in responses:
            if "error" in response:  # a server may answer the other rows
                raise ValueError(response["error"])
        unlike_training.add(unlike, checked, [row.place for row in rows])
        return responses

    for piece in chain([first], waiting):
        with torch.inference_mode():
            yield _answered(respond, piece, skip_broken)
    for line in unlike.lines:
        logging.getLogger(__name__).warning("%s", line)


def _answered(respond: Callable[[list[Row]], list[Answer]], piece: list[Row], skip_broken: bool) -> list[Answer]:
    """Return the answers for all rows in one call, or, if that fails, row by row, to find the rows that fail."""
    try:
        responses = respond(piece)
        return [*chain.from_iterable(map(_with_ids, piece, responses))]
    except (ValueError, OSError, FloatingPointError):
        pass
    result: list[Answer] = []
    for row in piece:
        try:
            result += _with_ids(row, respond([row])[0])
        except (ValueError, OSError, FloatingPointError) as error:
            message = str(error).removeprefix("row 0").lstrip(":, ")
            if not skip_broken:
                raise ValueError(
                    f"{row.place}: {message}; correct the row, or skip such rows: `--skip-broken`, or the parameter "
                    "`skip_broken` of the flow `predict`"
                ) from error
            result += [told | {"error": message} for told in _told_apart(row)]
    return result


def _with_ids(row: Row, answer: Answer) -> list[Answer]:
    """Return the answer with the row's id; for a query with documents in rows, one answer per row, with its place."""
    told = _told_apart(row)
    if row.documents is None:
        return [told[0] | answer]
    order = sorted(range(len(told)), key=lambda number: -answer["scores"][number])
    place_of = {number: place for place, number in enumerate(order, 1)}
    of_query = {name: value for name, value in answer.items() if name not in ("scores", "preferred")}
    if (first := of_query.pop("first_is_preferred", None)) is not None:
        answer = answer | {"preferred": [first, 1 - first]}
    result = []
    for number, (columns, score) in enumerate(zip(told, answer["scores"], strict=True)):
        own = {"score": score, "place": place_of[number]}
        own |= {"preferred": answer["preferred"][number]} if "preferred" in answer else {}
        result.append(columns | own | of_query)
    return result


def _told_apart(row: Row) -> list[Answer]:
    """Return the columns that tell the answers to a row apart: one for each document, if it has any."""
    if not row.documents:
        return [{"id": row.id, **row.group}]
    if isinstance(row.documents, range):
        return [{"id": row.id, **row.group, "answer": number} for number in row.documents]
    return [{"id": document, "query": row.id} for document in row.documents]


class Gallery:
    """The gallery that retrieval searches: the embeddings of rows, and their ids.

    Args:
        folder: folder of a retrieval model.
        source: a table, or a folder of images.
        roles: roles of the table's columns, see `rankgrad.datasets.tables.rows.read`; with `captions`, its captions
            are searched instead of its items.

    Raises:
        FileNotFoundError: a file or the model does not exist.
        ValueError: the model is not for retrieval, or no row can be read; see `answers`.
    """

    def __init__(self, folder: Path, source: Path, roles: Roles = OWN):
        import numpy as np

        if (task := recipe_of(folder).get("task")) != "retrieval":
            raise ValueError(f"{folder}: a model for {task}, expected a model for retrieval, because --among is set")
        pieces = answers(folder, [source], roles._replace(captions=bool(roles.captions)), skip_broken=True)
        rows, broken = [], []
        for row in chain.from_iterable(pieces):
            (broken if "error" in row else rows).append(row)
        if not rows:
            reason = f": {broken[0]['error']}" if broken else ", expected at least one to search"
            raise ValueError(f"{source}: no rows{reason}")
        if broken:
            logging.getLogger(__name__).warning(
                "%s: %d rows cannot be searched; the first is %s: %s",
                source, len(broken), broken[0]["id"], broken[0]["error"],
            )  # fmt: skip
        self.ids = [row["id"] for row in rows]
        for row_id in self.ids:
            if isinstance(row_id, list | dict):
                raise ValueError(f"{source}: an id is {str(row_id)[:60]}, expected a text or a number in each row")
        self.embeddings = np.array([row["embedding"] for row in rows])

    def best(self, embedding: list[float], count: int) -> list[Answer]:
        """Return the ids that match an embedding best, in order: `place`, `found` and `score` of each.

        An id with several rows, such as an image with one row per caption, is returned once, for its best row.

        Args:
            embedding: embedding of the query.
            count: number of ids to return; all if there are fewer.
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


def found_among(queries: Iterable[list[Answer]], gallery: Gallery, count: int) -> Iterator[list[Answer]]:
    """Yield a row for each of the `count` ids of a gallery that match each query best, the best first."""
    for piece in queries:
        found: list[Answer] = []
        for answer in piece:
            if "error" in answer:
                found.append(answer)
            else:
                found += [{"id": answer["id"]} | row for row in gallery.best(answer["embedding"], count)]
        yield found


# Output files.


def write(
    path: Path,
    pieces: Iterable[list[Answer]],
    *,
    classes: Sequence[str] | None = None,
    errors: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, list[Any]]:
    """Write answers as CSV, TSV, JSON lines, or Parquet, by the suffix; completely or not at all.

    In CSV and TSV, which a click may open in a spreadsheet, text that would run as a formula gets a leading ', and
    their number is logged. JSON lines and Parquet keep the text unchanged.

    Args:
        path: path of the file.
        pieces: from `answers`.
        classes: names of the model's classes, if they have any; in CSV and TSV each has its own columns.
        errors: whether to add a column `error`.
        names: the user's names of columns, such as of `id`; an answer's own columns keep their names.

    Returns:
        The number of rows, and the ids of rows with an error.

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

    kind, answered = table_of(path), counted()
    if kind in ("csv", "tsv"):
        answered = _by_class(answered, classes)
    with replaced_file(path) as partial:
        # The first answers have all columns, and in Parquet, determine their types.
        first = _begun(answered, rows=WRITTEN if kind == "parquet" else 1)
        columns = dict.fromkeys(name for answer in first for name in answer if name != "error")
        titles = _titles([*columns, *(["error"] if errors else [])], names)
        if kind == "parquet":
            _write_parquet(partial, path, first, answered, titles, classes=classes)
            return count, broken
        rows = chain(first, chain.from_iterable(answered))
        with partial.open("w", encoding="utf-8", newline="") as file:
            if kind == "jsonl":
                _write_lines(file, rows, titles)
            elif quoted := _write_delimited(csv.writer(file, delimiter="," if kind == "csv" else "\t"), rows, titles):
                logging.getLogger(__name__).warning(
                    "%s: %d cells begin like a spreadsheet formula and got a leading '; to use them as keys, "
                    "write .jsonl or .parquet, which keep the text unchanged", path, quoted
                )  # fmt: skip
    return count, broken


def _begun(pieces: Iterator[list[Answer]], *, rows: int) -> list[Answer]:
    """Return the first answers: at least `rows`, including one without an error if possible."""
    first: list[Answer] = []
    for piece in pieces:
        first += piece
        if len(first) >= rows and not all("error" in answer for answer in first):
            break
    return first


def _titles(columns: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the title of each column: the user's name of it, if no other column has that name."""
    titles = {}
    for column in columns:
        title = names.get(column, column)
        titles[column] = column if title in columns else title
    return titles


def _write_lines(file: TextIO, answers: Iterable[Answer], titles: Mapping[str, str]) -> None:
    """Write answers as JSON lines."""
    for answer in answers:
        titled = {titles.get(name, name): value for name, value in answer.items()}
        file.write(as_json(titled, ascii=False) + "\n")


def _by_class(pieces: Iterable[list[Answer]], classes: Sequence[str] | None) -> Iterator[list[Answer]]:
    """Yield answers with one column per class, such as `scores.cat`, instead of lists in the order of classes."""
    for piece in pieces:
        answers_by_class = []
        for answer in piece:
            columns = {}
            for name, value in answer.items():
                if classes and name in OF_CLASSES:
                    columns |= {f"{name}.{label}": item for label, item in zip(classes, value, strict=True)}
                else:
                    columns[name] = value
            answers_by_class.append(columns)
        yield answers_by_class


def _write_delimited(writer: Any, answers: Iterable[Answer], titles: Mapping[str, str]) -> int:
    """Write rows, and return the number of cells that got a leading '."""
    writer.writerow(map(without_formula, titles.values()))
    quoted = 0
    for answer in answers:
        cells = []
        for name in titles:
            value = answer.get(name)
            cell = as_text(value) if name in IDS and value is not None else _cell(value)
            is_safe = isinstance(cell, int) or _is_numbers(value)
            cells.append(cell if is_safe else without_formula(cell))
            quoted += cells[-1] is not cell
        writer.writerow(cells)
    return quoted


def _is_numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers, which is never a formula when joined."""
    return isinstance(value, list) and all(isinstance(item, int | float) for item in value)


def _cell(value: Any) -> int | str:
    """Return a value of an answer as a cell."""
    if isinstance(value, list):
        return SEPARATOR.join(str(_cell(item)) for item in value)
    if isinstance(value, int):
        return value
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else as_text(value)  # distinguishes all float32 numbers


def _write_parquet(
    partial: Path,
    path: Path,
    first: list[Answer],
    pieces: Iterator[list[Answer]],
    titles: Mapping[str, str],
    *,
    classes: Sequence[str] | None,
) -> None:
    """Write answers as Parquet to `partial`, which will become `path`; errors name `path`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    untyped_list = pa.list_(pa.null())  # Arrow's type if every list is empty: no row has a label
    label_list = pa.list_(pa.string() if classes else pa.int64())
    fields = []
    for name in titles:
        # The first answers may have no error from which to infer the type.
        kind = pa.string() if name == "error" else _kind([answer.get(name) for answer in first])
        fields.append((name, label_list if kind == untyped_list else kind))
    schema = pa.schema(fields)
    titled = pa.schema([field.with_name(titles[field.name]) for field in schema])

    # Iterating over `pieces` reads the inputs, so its errors are not write errors.
    writer = None
    try:
        with _write_errors(path):
            writer = pq.ParquetWriter(partial, titled, compression="zstd")
        for batch in _batches(chain([first], pieces)):
            table = _fitted(batch, schema, path)
            with _write_errors(path):
                writer.write_table(table.rename_columns(titled.names))
    finally:
        if writer is not None:
            with _write_errors(path):
                writer.close()


def _batches(pieces: Iterable[list[Answer]]) -> Iterator[list[Answer]]:
    """Yield batches of at least `WRITTEN` answers, except for the last one."""
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
    """Add the name of the output file to write errors."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise write_error(path, error) from error


def _kind(values: list[Any]) -> Any:
    """Return the Arrow type of values; text if types are mixed, as in ids of JSON lines."""
    import pyarrow as pa

    try:
        kind = pa.array(values).type
        return pa.float64() if pa.types.is_null(kind) else kind  # a probability that no answer has so far
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # the last: a whole number of 2^63 or more
        return pa.string()


def _fitted(answers: list[Answer], schema: Any, path: Path) -> Any:
    """Return answers as a table with the columns of the first answers.

    Raises:
        ValueError: an id has a different type than the first ids.
    """
    import pyarrow as pa

    columns = []
    for field in schema:
        values = [answer.get(field.name) for answer in answers]
        if pa.types.is_string(field.type):
            values = [None if value is None else as_text(value) for value in values]
        try:
            column = pa.array(values, field.type)
            # Arrow converts 2.5 to 2 if earlier values were whole numbers.
            if field.name in IDS or pa.types.is_integer(field.type):
                for value, kept in zip(values, column.to_pylist(), strict=True):
                    if value != kept and value == value:
                        raise pa.ArrowInvalid(f"{value} would become {kept}")
            columns.append(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(
                f"{path}: the column {field.name} has {field.type} first, then another type ({error}); write .jsonl or "
                ".csv, or give all ids the same type"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)
