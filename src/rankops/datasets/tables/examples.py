"""From rows of a person's own table to examples: what each role says, rows that belong together, pictures decoded."""

import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from rankops.datasets.public.reading import SPLITS, Reading
from rankops.datasets.tables.cells import (
    as_flags,
    as_labels,
    as_names,
    as_numbers,
    as_paths,
    as_periods,
    as_ranks,
    as_vectors,
    first_place,
    missing_in,
    require_same,
    split_into,
)
from rankops.datasets.tables.files import Sheet, Stored, stored_pictures
from rankops.io.images import as_jpeg, open_photo

if TYPE_CHECKING:
    from rankops.datasets.table import Table

__all__ = ["INPUTS", "STRUCTURE", "TRUTHS", "Examples", "by_query", "examples_of", "gathered", "read_pictures"]

INPUTS = ("image", "frames", "features", "text")
TRUTHS = ("labels", "label_ranks", "target", "relevance", "captions")
STRUCTURE = ("group", "weight", "id", "date", "split", "key")
NUMERIC = ("features", "label_ranks", "target", "relevance", "weight")
PICTURES = 512  # decoded, written and forgotten together


class Examples(NamedTuple):
    """The examples of files.

    Attributes:
        sheet: what was read.
        frame: a row an example, by the number of its (first) row in the sheet: `name`, `split`, `delivery`, `group`,
            `weight`, `key` (of the split), `input` and `truth`. Labels in cells are lists of names.
        left_out: names of rows with missing values that are left out, and their delivery where it is known, else 0.
        classes: names of the columns of labels or ranks.
        features: names of the columns of features, or None.
    """

    sheet: Sheet
    frame: pd.DataFrame
    left_out: dict[str, int]
    classes: list[str]
    features: list[str] | None


def examples_of(table: "Table", sheet: Sheet, roles: dict[str, list[str]]) -> Examples:
    """Return a row of examples for each row of the files whose cells are all there.

    Raises:
        ValueError: a cell is not as its role says; the message names its row.
    """
    cells = sheet.frame
    names = _default_names(sheet)
    complete = _complete(table, sheet, roles, names)
    left_out = dict.fromkeys(names[~complete], 0)
    cells, names = cells[complete], names[complete]
    if not len(cells):
        raise ValueError(f"{sheet.paths[0]}: no row has all of its values; see `missing`")
    frame = pd.DataFrame({"name": names, "split": "train", "delivery": 0, "weight": 1.0}, index=cells.index)
    frame["input"] = _inputs(table, sheet, cells, roles)
    if table.input == "image" and not isinstance(frame["input"].iloc[0], Stored):
        frame["name"] = frame["input"]
    if "id" in roles:
        frame["name"] = as_names(sheet, cells[roles["id"][0]])
    frame["group"] = as_names(sheet, cells[roles["group"][0]]) if "group" in roles else frame["name"]
    frame["key"] = _keys(table, sheet, cells, roles, frame)
    if "weight" in roles:
        weights = as_numbers(sheet, cells[roles["weight"][0]], what="a number above 0")
        if (weights <= 0).any():
            position, place = first_place(sheet, cells.index, weights <= 0)
            raise ValueError(f"{place}: {roles['weight'][0]} is {weights[position]:g}, expected a number above 0")
        frame["weight"] = weights
    if table.date:
        frame["delivery"] = as_periods(sheet, cells[roles["date"][0]], table.date["first"], table.date["every"])
    if "split" in roles:
        frame["split"] = _splits(sheet, cells[roles["split"][0]])
    frame["truth"] = _truths(table, sheet, cells, roles)
    return Examples(
        sheet, frame, left_out, _short(table.labels or table.label_ranks, roles), _feature_names(table, roles)
    )


def _default_names(sheet: Sheet) -> np.ndarray:
    """The number of each row, with its file where there are several."""
    several = len(sheet.paths) > 1
    files = [path.name for path in sheet.paths]
    return np.array(
        [f"{files[file]}:{row}" if several else str(row) for file, row in zip(sheet.file, sheet.row, strict=True)],
        object,
    )


def _complete(table: "Table", sheet: Sheet, roles: dict[str, list[str]], names: np.ndarray) -> np.ndarray:
    """Return which rows (n,) miss no value; raise ValueError for the first one if none may be left out."""
    complete = np.ones(len(sheet.frame), bool)
    for role, columns in roles.items():
        if role == "labels" and table._has_label_cells and not table.ordered:
            continue  # a row without a label is one of none of the classes
        for column in columns:
            numeric = role in NUMERIC or (role == "labels" and not table._has_label_cells)
            missing = missing_in(sheet.frame[column], numeric=numeric)
            if missing.any() and table.missing == "refuse":
                _, place = first_place(sheet, sheet.frame.index, missing)
                raise ValueError(
                    f"{place}: {column} is empty ({missing.sum()} of {len(missing)} rows), but it is the column of "
                    f"{role}; "
                    "fill it, or set missing: leave_out"
                )
            complete &= ~missing
    if not complete.all():
        logging.warning(
            "%s: %d of %d rows left out, values are missing", sheet.paths[0], (~complete).sum(), len(complete)
        )
    return complete


def _series(values: Iterable[Any], index: pd.Index) -> pd.Series:
    result = pd.Series(index=index, dtype=object)
    result[:] = list(values)  # a Series of lists of arrays would be taken for a table
    return result


def _inputs(table: "Table", sheet: Sheet, cells: pd.DataFrame, roles: dict[str, list[str]]) -> pd.Series:
    columns = roles[table.input]
    if table.input == "image":
        return as_paths(sheet, cells[columns[0]])
    if table.input == "text":
        return as_names(sheet, cells[columns[0]])
    if table.input == "features":
        vector = len(columns) == 1 and _is_vector(cells[columns[0]].iloc[0])
        if vector:
            return _series(as_vectors(sheet, cells[columns[0]]), cells.index)
        numbers = np.column_stack([as_numbers(sheet, cells[name]) for name in columns]).astype(np.float32)
        return _series(numbers, cells.index)
    if len(columns) == 1:
        parts = split_into(cells[columns[0]], table.frame_separator)
        lengths = parts.map(len)
        if (wrong := lengths != lengths.iloc[0]).any():
            position, place = first_place(sheet, cells.index, wrong)
            raise ValueError(
                f"{place}: {columns[0]} has {lengths.iloc[position]} frames, expected {lengths.iloc[0]} as in the "
                "first row"
            )
        columns = list(range(lengths.iloc[0]))
        cells = pd.DataFrame(parts.tolist(), cells.index, columns=columns)
    frames = [as_paths(sheet, cells[name]) for name in columns]
    return _series([list(row) for row in zip(*frames, strict=True)], cells.index)


def _is_vector(cell: Any) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, list | np.ndarray)
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _keys(
    table: "Table", sheet: Sheet, cells: pd.DataFrame, roles: dict[str, list[str]], frame: pd.DataFrame
) -> pd.Series:
    """What decides on the split of a row: a column that is named, or else its group, or else its name."""
    if "key" not in roles or roles["key"] in (roles.get("group"), roles.get("id")):
        return frame["name" if roles.get("key", [""]) == roles.get("id") else "group"]
    if roles["key"] == roles.get("image"):
        if isinstance(frame["input"].iloc[0], Stored):
            raise ValueError(f"split.hash_of: {roles['key'][0]} holds pictures, expected a column of text or numbers")
        return frame["input"]
    return as_names(sheet, cells[roles["key"][0]])


def _splits(sheet: Sheet, cells: pd.Series) -> pd.Series:
    splits = as_names(sheet, cells)
    wrong = ~splits.isin([*SPLITS, "gate"])
    if wrong.any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: {cells.name} is {splits.iloc[position]!r}, expected train, val, test or gate")
    return splits


def _truths(table: "Table", sheet: Sheet, cells: pd.DataFrame, roles: dict[str, list[str]]) -> pd.Series:
    if table._has_label_cells:
        return as_labels(sheet, cells[roles["labels"][0]], table.label_separator)
    if table.labels is not None:
        return _series(as_flags(sheet, cells[roles["labels"]]), cells.index)
    if table.label_ranks is not None:
        return _series(as_ranks(sheet, cells[roles["label_ranks"]]), cells.index)
    if table.target is not None:
        return pd.Series(as_numbers(sheet, cells[roles["target"][0]]), cells.index)
    if table.relevance is not None:
        grades = as_numbers(sheet, cells[roles["relevance"][0]], least=0, what="a grade of at least 0")
        return pd.Series(grades, cells.index)
    captions = [split_into(cells[name], "\0") for name in roles["captions"]]  # a cell may be a list of them
    rows = [[" ".join(one.split()) for part in parts for one in part] for parts in zip(*captions, strict=True)]
    wrong = [not all(any(map(str.isalnum, caption)) for caption in row) for row in rows]
    if any(wrong):
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: a caption is without a word: {rows[position]}; correct or remove the row")
    return _series(rows, cells.index)


def _short(given: str | list[str] | None, roles: dict[str, list[str]]) -> list[str]:
    """Names of classes, from those of their columns: without what they all begin with, where a pattern says so."""
    columns = roles.get("labels") or roles.get("label_ranks") or []
    start = given.removesuffix("*") if isinstance(given, str) and given.endswith("*") else ""
    return [column.removeprefix(start) or column for column in columns]


def _feature_names(table: "Table", roles: dict[str, list[str]]) -> list[str] | None:
    columns = roles.get("features", [])
    one = len(columns) == 1 and not isinstance(table.features, list)
    return None if one or not columns else columns


# Rows that belong together.


def gathered(table: "Table", examples: Examples) -> Examples:
    """Return examples, one for each name: rows of one image are gathered where they have captions.

    Raises:
        ValueError: a name is there twice, or rows that belong together differ; the message names two rows.
    """
    sheet, frame = examples.sheet, examples.frame
    if table.captions is not None:
        require_same(sheet, frame, ["name"], ["split", "group", "weight", "delivery"], "item")
        captions = frame.groupby("name", sort=False)["truth"].agg(lambda rows: [one for row in rows for one in row])
        firsts = frame.drop_duplicates("name")
        frame = firsts.assign(truth=_series(captions[firsts["name"]].tolist(), firsts.index))
    if (twice := frame["name"].duplicated()).any():
        position, place = first_place(sheet, frame.index, twice)
        name = frame["name"].iloc[position]
        other = sheet.row[frame.index[frame["name"] == name][0]]
        raise ValueError(
            f"{place}: {table.id or table.input} {name} is in row {other} too, in {frame['split'].iloc[position]} "
            "here; "
            "expected each once: remove one of the rows, or name another column in `id:`"
        )
    if table.image and isinstance(frame["input"].iloc[0], str) and (twice := frame["input"].duplicated()).any():
        position, place = first_place(sheet, frame.index, twice)
        other = sheet.row[frame.index[frame["input"] == frame["input"].iloc[position]][0]]
        raise ValueError(
            f"{place}: the file {frame['input'].iloc[position]} is in row {other} too; expected each once: remove one "
            "of "
            "the rows"
        )
    if table.group is not None:
        first = frame[frame["delivery"] == 0]
        require_same(sheet, first, ["group"], ["split"], "group")
    return examples._replace(frame=frame)


def by_query(table: "Table", examples: Examples) -> Examples:
    """Return an example a query: lists of inputs and of grades of its documents.

    Raises:
        ValueError: a query's rows differ in what is said of the whole query, or there is one row alone.
    """
    sheet, frame = examples.sheet, examples.frame
    require_same(sheet, frame, ["group"], ["split", "weight", "delivery"], "query")
    groups = frame.groupby("group", sort=False)
    lists = {column: groups[column].agg(list) for column in ("input", "truth")}
    queries = frame.drop_duplicates("group")
    frame = queries.assign(
        name=queries["group"],
        **{column: _series(several[queries["group"]].tolist(), queries.index) for column, several in lists.items()},
    )
    alone = frame["truth"].map(len) < 2
    if table.without_relevant == "drop":
        useless = alone | ~frame["truth"].map(lambda grades: max(grades) > 0)
        if useless.any():
            logging.warning(
                "%s: %d of %d queries have nothing to order: dropped", sheet.paths[0], useless.sum(), len(frame)
            )
        frame = frame[~useless]
        if not len(frame):
            raise ValueError(f"{sheet.paths[0]}: no query has a relevant document beside another one")
    elif alone.any():
        position, place = first_place(sheet, frame.index, alone)
        raise ValueError(
            f"{place}: query {frame['group'].iloc[position]} has one document, expected two or more, which can be "
            "ordered; "
            "remove the row, or set without_relevant: drop"
        )
    return examples._replace(frame=frame)


# Pictures.


def read_pictures(
    table: "Table", raw: Path, sheet: Sheet, chosen: pd.DataFrame, reading: Reading
) -> Iterator[pd.DataFrame]:
    """Yield examples in pieces, `input` decoded where it is of pictures: as `rankops.io.parquet.IMAGE` has them.

    Raises:
        FileNotFoundError: a file is missing; the message names its row.
        ValueError: a picture is broken and may not be left out.
    """
    if table.input not in ("image", "frames"):
        for start in range(0, len(chosen), 2**14):
            yield chosen.iloc[start : start + 2**14]
        return
    assert reading.size is not None  # as the params are checked
    cells = [cell if isinstance(cell, list) else [cell] for cell in chosen["input"]]
    _require_files(raw, sheet, chosen, cells)
    several = isinstance(chosen["input"].iloc[0], list)
    rows, broken, size = max(1, PICTURES * len(cells) // sum(map(len, cells))), [], reading.size
    stored = stored_pictures([one for row in cells for one in row if isinstance(one, Stored)], table.image or "")

    def decoded(one: tuple[str, Any]) -> dict[str, Any] | ValueError:
        path, contents = one
        try:
            contents = (raw / path).read_bytes() if contents is None else contents
            return {"bytes": as_jpeg(open_photo(contents, size)), "path": path}
        except ValueError as error:
            return error

    with ThreadPoolExecutor(reading.threads) as pool:
        for start in range(0, len(cells), rows):
            part, pieces = chosen.iloc[start : start + rows], cells[start : start + rows]
            files = [
                (f"{one.path.name}:{one.row + 1}", next(stored) or b"") if isinstance(one, Stored) else (one, None)
                for row in pieces
                for one in row
            ]
            results = iter(list(pool.map(decoded, files)))
            inputs = [[next(results) for _ in row] for row in pieces]
            wrong = np.array([any(isinstance(one, ValueError) for one in row) for row in inputs])
            if wrong.any() and not table.skip_broken:
                position, place = first_place(sheet, part.index, wrong)
                number = next(k for k, one in enumerate(inputs[position]) if isinstance(one, ValueError))
                raise ValueError(
                    f"{place}: {pieces[position][number]}: {inputs[position][number]}; get it again, or set "
                    "skip_broken: true"
                )
            broken += part["name"][wrong].tolist()
            yield part.assign(input=_series([row if several else row[0] for row in inputs], part.index))[~wrong]
    if broken:
        logging.warning("%d of %d rows left out, pictures are broken: %s", len(broken), len(cells), ", ".join(broken))
        reading.skipped.extend(broken)


def _require_files(raw: Path, sheet: Sheet, chosen: pd.DataFrame, cells: list[list[Any]]) -> None:
    missing = [
        (number, path)
        for number, row in zip(chosen.index, cells, strict=True)
        for path in row
        if isinstance(path, str) and not os.path.isfile(raw / path)
    ]
    if missing:
        number, path = missing[0]
        raise FileNotFoundError(
            f"{sheet.place(number)}: {raw / path}: no such file ({len(missing)} of {sum(map(len, cells))} are "
            "missing); put "
            "it there, or correct the cell"
        )
