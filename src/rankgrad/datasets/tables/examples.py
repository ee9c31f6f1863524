"""From rows of a person's own table to examples: what each role says, rows that belong together, pictures decoded."""

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rankgrad.datasets.public.reading import Reading
from rankgrad.datasets.tables.cells import (
    as_flags,
    as_labels,
    as_names,
    as_numbers,
    as_paths,
    as_periods,
    as_ranks,
    as_texts,
    as_vectors,
    first_place,
    has_word,
    is_single,
    missing_in,
    require_same,
    series,
    split_into,
)
from rankgrad.datasets.tables.files import Sheet, stored_pictures
from rankgrad.datasets.tables.roles import ALL_SPLITS, LEARNED, NAMED, NUMERIC, TableOptions
from rankgrad.feature_names import LETTER, numbers_of
from rankgrad.inputs.image import StoredPicture
from rankgrad.io.images import as_jpeg, as_png, open_photo
from rankgrad.io.written import as_json
from rankgrad.lookup import did_you_mean
from rankgrad.numbers import number_in
from rankgrad.plain_text import text_in

__all__ = [
    "Examples",
    "by_query",
    "columns_of",
    "encoded",
    "examples_of",
    "gathered",
    "in_pieces",
    "missing_cells",
    "named_features",
    "of_classes",
]

DECODED = 512  # pictures that are decoded, written and forgotten together
PIECE = 2**14  # rows of anything else
KINDS = 1000  # names of a category
SMALLEST = float(np.finfo(np.float32).tiny)  # weight that a loss in float32 does not take for 0


class Examples(NamedTuple):
    """The examples of files.

    Attributes:
        sheet: what was read.
        frame: a row an example, by the number of its (first) row in the sheet: `name`, `split`, `delivery`, `group`,
            `weight`, `key` (of the split), `input`, `truth` and where it is given `train_target`. Labels in cells are
            lists of names. Features are vectors, or values by their columns where some are names.
        left_out: names of rows with missing values that are left out, and their delivery where it is known, else 0.
        classes: names of the columns of labels or ranks.
        features: names of the columns of features, or None.
        letters: names of the columns of letters.
    """

    sheet: Sheet
    frame: pd.DataFrame
    left_out: dict[str, int]
    classes: list[str]
    features: list[str] | None
    letters: list[str]


def examples_of(table: TableOptions, sheet: Sheet, roles: dict[str, list[str]]) -> Examples:
    """Return a row of examples for each row of the files whose cells are all there.

    Raises:
        ValueError: a cell is not as its role says; the message names its row.
    """
    cells = sheet.frame
    names = _default_names(sheet)
    complete = _complete(table, sheet, roles)
    left_out = dict.fromkeys(names[~complete], 0)
    cells, names = cells[complete], names[complete]
    if not len(cells):
        raise ValueError(f"{sheet.paths[0]}: no row has all of its values; see `missing`")
    one = {role: cells[columns[0]] for role, columns in roles.items()}
    frame = pd.DataFrame({"name": names, "split": "train", "delivery": 0, "weight": 1.0}, index=cells.index)
    entered = cells[roles.get(table.input, [])]
    frame["input"] = (
        _values(sheet, entered, roles)
        if table.has_names
        else table.input_type.from_table([*entered], _Cells(table, sheet, cells))
    )
    if table.input_type.suffixes and not isinstance(frame["input"].iloc[0], StoredPicture):
        frame["name"] = frame["input"]
    if "id" in one:
        frame["name"] = as_names(sheet, one["id"])
    frame["group"] = as_names(sheet, one["group"]) if "group" in one else frame["name"]
    frame["key"] = _keys(table, sheet, one, frame)
    if "weight" in one:
        frame["weight"] = _weights(sheet, one["weight"])
    if table.date:
        frame["delivery"] = as_periods(sheet, one["date"], table.date["first"], table.date["every"])
    if "split" in one:
        frame["split"] = _splits(sheet, one["split"])
    frame["truth"] = _truths(table, sheet, cells[roles[table.truth_role]])
    if "ignore" in roles:
        frame["difficult"] = series(as_flags(sheet, cells[roles["ignore"]]), cells.index).map(lambda row: row != 0)
    if "train_target" in one:
        frame["train_target"] = _numbers_where_given(sheet, one["train_target"])
    return Examples(
        sheet, frame, left_out, _classes(table, roles), _feature_names(table, roles), roles.get("letters", [])
    )


def _default_names(sheet: Sheet) -> np.ndarray:
    """Return the number of each row, with its file where there are several."""
    if len(sheet.paths) == 1:
        return sheet.row.astype(str).astype(object)
    folder = os.path.commonpath([path.parent for path in sheet.paths])
    files = [path.relative_to(folder).as_posix() for path in sheet.paths]
    return np.array([f"{files[file]}:{row}" for file, row in zip(sheet.file, sheet.row, strict=True)], object)


def missing_cells(
    table: TableOptions, frame: pd.DataFrame, roles: dict[str, list[str]]
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield of each column that must have a value its role, its name, and which of its cells (n,) are empty."""
    for role, columns in roles.items():
        if role == "labels" and table.has_label_cells and not table.ordered:
            continue  # a row without a label is one of none of the classes
        if table.train_target and role in ("target", "train_target"):
            continue  # the split says which one a row must have
        if role == "categories":
            continue  # an empty cell is none of the names
        numeric = role in NUMERIC or (role == "labels" and not table.has_label_cells)
        yield from ((role, column, missing_in(frame[column], numeric=numeric)) for column in columns)


def _complete(table: TableOptions, sheet: Sheet, roles: dict[str, list[str]]) -> np.ndarray:
    """Return which rows (n,) miss no value; raise ValueError for the first one if none may be left out."""
    complete = np.ones(len(sheet.frame), bool)
    for role, column, missing in missing_cells(table, sheet.frame, roles):
        if missing.any() and table.missing == "refuse":
            _, place = first_place(sheet, sheet.frame.index, missing)
            raise ValueError(
                f"{place}: {column} is empty ({missing.sum()} of {len(missing)} rows), but it is the column of "
                f"{role}; fill it, or set missing: leave_out"
            )
        complete &= ~missing
    if not complete.all():
        logging.warning(
            "%s: %d of %d rows left out, values are missing", sheet.paths[0], (~complete).sum(), len(complete)
        )
    return complete


class _Cells(NamedTuple):
    """The rows of a sheet that miss nothing: their columns are read here as `InputType.from_table` asks for them."""

    table: TableOptions
    sheet: Sheet
    cells: pd.DataFrame

    def file(self, column: str) -> pd.Series:
        return as_paths(self.sheet, self.cells[column])

    def text(self, column: str) -> pd.Series:
        return as_texts(self.sheet, self.cells[column])

    def files(self, columns: list[str]) -> pd.Series:
        """Return the paths of several columns, or of the parts of one."""
        cells = self.cells[columns]
        if len(columns) == 1:
            cells = _frames_of(self.sheet, cells.iloc[:, 0], self.table.frame_separator)
        frames = [as_paths(self.sheet, cells[name]) for name in cells]
        return series(map(list, zip(*frames, strict=True)), cells.index)

    def numbers(self, columns: list[str]) -> pd.Series:
        """Return the vectors of one column, or of several columns of numbers."""
        cells = self.cells[columns]
        first = cells.iloc[:, 0]
        if len(columns) == 1 and _is_vector(self.sheet, first.iloc[0]):
            return series(as_vectors(self.sheet, first), cells.index)
        numbers = np.column_stack([as_numbers(self.sheet, cells[name]) for name in columns])
        single = all(is_single(cells[name]) for name in columns)
        return series(numbers.astype(np.float32) if single else numbers, cells.index)


def _values(sheet: Sheet, numbers: pd.DataFrame, roles: dict[str, list[str]]) -> pd.Series:
    """Return the values of each row by their columns: numbers, names of categories, and texts of letters."""
    if len(numbers.columns) == 1 and _is_vector(sheet, first := numbers.iloc[0, 0]):
        place, name = sheet.place(int(numbers.index[0])), numbers.columns[0]
        raise ValueError(f"{place}: {name} is {str(first)[:60]!r}, expected columns of numbers beside names")
    cells = sheet.frame.loc[numbers.index]
    found: dict[str, Any] = {name: as_numbers(sheet, numbers[name]) for name in numbers}
    for role in LEARNED:
        for name in roles.get(role, []):
            if "=" in name or LETTER.fullmatch(name):
                raise ValueError(f"{role}: column {name!r} is called like a feature of one value: rename it")
            if role in NAMED:
                found[name] = (as_texts if role == "letters" else as_names)(sheet, cells[name])
    for name in roles.get("letters", []):
        lengths = found[name].map(len)
        if (wrong := lengths != lengths.iloc[0]).any():
            position, place = first_place(sheet, numbers.index, wrong)
            raise ValueError(
                f"{place}: {name} has {lengths.iloc[position]} letters, expected {lengths.iloc[0]} as in the "
                "first row; align the texts, or take the column as `text`"
            )
    return series(pd.DataFrame(found, index=numbers.index).to_dict("records"), numbers.index)


def named_features(table: TableOptions, examples: Examples, train: pd.DataFrame) -> list[str]:
    """Return the names of features, see `rankgrad.feature_names`, of the values that training rows have.

    Raises:
        ValueError: a category has more than `KINDS` names, or no feature differs between rows.
    """
    cells = train["input"].explode() if table.relevance else train["input"]
    values, names = pd.DataFrame(cells.tolist()), []
    for column in values:
        if pd.api.types.is_numeric_dtype(values[column]):
            names.append(column)
            continue
        parts = {column: values[column]}
        if column in examples.letters:
            count = len(values[column][0])
            parts = {f"{column}[{place + 1}/{count}]": values[column].str[place] for place in range(count)}
        for called, texts in parts.items():
            known = sorted(filter(None, texts.unique()))
            if len(known) > KINDS:
                raise ValueError(
                    f"{examples.sheet.paths[0]}: {column} has {len(known)} names in {len(values)} training rows, "
                    f"expected at most {KINDS}, which come again: leave it out of `categories`"
                )
            names += [f"{called}={one}" for one in known] if texts.nunique() > 1 else []
    if not names:
        raise ValueError(f"{examples.sheet.paths[0]}: no feature differs between training rows; name other columns")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{examples.sheet.paths[0]}: two features are called {min(twice)!r}; rename a column")
    return names


def columns_of(table: TableOptions, examples: Examples, train: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the numbers of training rows that a network learns from, by column: features, and the target."""
    found = {table.train_target or table.target or "": train["truth"].to_numpy()} if table.target else {}
    if not table.input_type.vectors:
        return found
    cells = train["input"].explode() if table.relevance else train["input"]
    if table.has_names:
        values = pd.DataFrame(cells.tolist())
        return found | {name: values[name].to_numpy() for name in values if values[name].dtype.kind == "f"}
    vectors = np.stack(cells.tolist())
    names = examples.features or [f"{_said(table)}[{place}]" for place in range(vectors.shape[1])]
    return found | dict(zip(names, vectors.T, strict=True))


def _said(table: TableOptions) -> str:
    return table.features if isinstance(table.features, str) else "features"


def encoded(table: TableOptions, sheet: Sheet, chosen: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return examples with vectors in place of values by their columns.

    Raises:
        ValueError: a text has another number of letters than those of training; the message names its row.
    """
    vectors, unknown, count = [], defaultdict[str, list[str]](list), 0

    def keep(column: str, value: str) -> None:
        unknown[column].append(value)

    for number, cell in chosen["input"].items():
        rows = cell if table.relevance else [cell]
        try:
            found = [numbers_of(one, names, unknown=keep) for one in rows]
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {error}") from error
        vectors.append(found if table.relevance else found[0])
        count += len(rows)
    for column, values in unknown.items():
        logging.warning(
            "%s: %d values in %d rows are none that training rows have, such as %r",
            column, len(values), count, values[0],
        )  # fmt: skip
    return chosen.assign(input=series(vectors, chosen.index))


def _frames_of(sheet: Sheet, cells: pd.Series, separator: str) -> pd.DataFrame:
    """Return the frames of each cell in columns of their own."""
    parts = split_into(sheet, cells, separator)
    lengths = parts.map(len)
    if (wrong := lengths != lengths.iloc[0]).any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(
            f"{place}: {cells.name} has {lengths.iloc[position]} frames, expected {lengths.iloc[0]} as in the first row"
        )
    return pd.DataFrame(parts.tolist(), cells.index)


def _is_vector(sheet: Sheet, cell: Any) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, list | np.ndarray)
    try:
        number_in(cell, sheet.writing)
    except ValueError:
        return True
    return False


def _keys(table: TableOptions, sheet: Sheet, one: dict[str, pd.Series], frame: pd.DataFrame) -> pd.Series:
    """Return what decides on the split of each row: a column that is named, its group, its id, or else its input."""
    if "key" in one:
        if isinstance(one["key"].iloc[0], StoredPicture):
            raise ValueError(f"split.hash_of: {one['key'].name} holds pictures, expected a column of text or numbers")
        return frame["input"] if one["key"].name == table.image else as_names(sheet, one["key"])
    if "group" in one:
        return frame["group"]
    first = frame["input"].iloc[0]
    if "id" in one or (table.input_type.suffixes and not isinstance(first, StoredPicture)):
        return frame["name"]
    if isinstance(first, StoredPicture):
        contents = stored_pictures(frame["input"].tolist(), table.image or "")
        return pd.Series([sha256(picture or b"").hexdigest() for picture in contents], frame.index)
    # No number of a row: if one is taken out, those behind it stay where they are.
    return frame["input"].map(lambda cell: as_json(cell.tolist() if isinstance(cell, np.ndarray) else cell))


def _weights(sheet: Sheet, cells: pd.Series) -> np.ndarray:
    weights = as_numbers(sheet, cells, what="a number above 0")
    if (wrong := weights < SMALLEST).any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: {cells.name} is {weights[position]:g}, expected a number above 0")
    return weights


def _splits(sheet: Sheet, cells: pd.Series) -> pd.Series:
    splits = as_names(sheet, cells)
    wrong = ~splits.isin(ALL_SPLITS)
    if wrong.any():
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: {cells.name} is {splits.iloc[position]!r}, expected train, val, test or gate")
    return splits


def _truths(table: TableOptions, sheet: Sheet, cells: pd.DataFrame) -> pd.Series:
    first = cells.iloc[:, 0]
    match table.truth_role:
        case "labels" if table.has_label_cells:
            return as_labels(sheet, first, table.label_separator)
        case "labels":
            return series(as_flags(sheet, cells), cells.index)
        case "label_ranks":
            return series(as_ranks(sheet, cells), cells.index)
        case "target" if table.train_target:
            return _numbers_where_given(sheet, first)
        case "target":
            return pd.Series(as_numbers(sheet, first), cells.index)
        case "relevance":
            return pd.Series(as_numbers(sheet, first, least=0, what="a grade of at least 0"), cells.index)
    captions = [split_into(sheet, cells[name], "\0") for name in cells]  # a cell may be a list of them
    rows = [[" ".join(text_in(one).split()) for part in parts for one in part] for parts in zip(*captions, strict=True)]
    wrong = [not all(map(has_word, row)) for row in rows]
    if any(wrong):
        position, place = first_place(sheet, cells.index, wrong)
        raise ValueError(f"{place}: a caption is without a word: {rows[position]}; correct or remove the row")
    return series(rows, cells.index)


def _numbers_where_given(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Return numbers, NaN where a cell is empty."""
    given = cells[~missing_in(cells, numeric=True)]
    return pd.Series(as_numbers(sheet, given), given.index, dtype=float).reindex(cells.index)


def with_truth(table: TableOptions, examples: Examples, frame: pd.DataFrame, *, learned: bool) -> pd.DataFrame:
    """Return examples with the truth that they have as training rows, or as others, and without those that miss it.

    Raises:
        ValueError: it is missing, and may not be.
    """
    if table.train_target is None:
        return frame
    frame = frame.assign(truth=frame["train_target"] if learned else frame["truth"])
    missing = frame["truth"].isna().to_numpy()
    if missing.any() and table.missing == "refuse":
        _, place = first_place(examples.sheet, frame.index, missing)
        column, rows = (table.train_target, "training") if learned else (table.target, "held-out")
        raise ValueError(
            f"{place}: {column} is empty ({missing.sum()} of {len(missing)} {rows} rows), from which such rows have "
            "their truth; fill it, or set missing: leave_out"
        )
    examples.left_out.update(zip(frame["name"][missing], frame["delivery"][missing], strict=True))
    return frame[~missing]


def _classes(table: TableOptions, roles: dict[str, list[str]]) -> list[str]:
    """Names of classes, from those of their columns: without what they all begin with, where a pattern says so."""
    given = table.labels or table.label_ranks
    start = given.removesuffix("*") if isinstance(given, str) and given.endswith("*") else ""
    columns = roles.get("labels") or roles.get("label_ranks") or []
    return [column.removeprefix(start) or column for column in columns]


def _feature_names(table: TableOptions, roles: dict[str, list[str]]) -> list[str] | None:
    columns = roles.get("features", [])
    one = len(columns) == 1 and not isinstance(table.features, list)
    return None if one or not columns else columns


def of_classes(table: TableOptions, sheet: Sheet, chosen: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """Return examples with numbers of the classes in place of their names; without those that have no order.

    Raises:
        ValueError: a label is no class, and may not be left out; the message names its row.
    """
    place_of = {name: place for place, name in enumerate(classes)}
    unknown = [(number, one) for number, labels in chosen["truth"].items() for one in labels if one not in place_of]
    if unknown and table.unknown_labels == "refuse":
        number, label = unknown[0]
        raise ValueError(
            f"{sheet.place(number)}: label {label!r} is none of the {len(place_of)} classes of the training rows"
            f"{did_you_mean(label, place_of)}; correct it, name all in `classes:`, or set unknown_labels: leave_out"
        )
    if unknown:
        logging.warning("%s: %d labels that are no class left out", sheet.paths[0], len(unknown))
    rows = np.zeros((len(chosen), len(classes)), np.int64)
    for row, labels in zip(rows, chosen["truth"], strict=True):
        known = [place_of[label] for label in labels if label in place_of]
        row[known] = range(len(known), 0, -1) if table.ordered else 1
    chosen = chosen.assign(truth=series(rows, chosen.index))
    return chosen[rows.any(1)] if table.ordered else chosen


# Rows that belong together.


def gathered(table: TableOptions, examples: Examples) -> Examples:
    """Return examples, one for each name: rows of one image are gathered where they have captions.

    Raises:
        ValueError: a name is there twice, or rows that belong together differ; the message names two rows.
    """
    sheet, frame = examples.sheet, examples.frame
    if table.captions is not None:
        require_same(sheet, frame, "name", ["split", "group", "weight", "delivery"], "item")
        captions = frame.groupby("name", sort=False)["truth"].agg(lambda rows: [one for row in rows for one in row])
        firsts = frame.drop_duplicates("name")
        frame = firsts.assign(truth=series(captions[firsts["name"]].tolist(), firsts.index))
    if (twice := frame["name"].duplicated()).any():
        position, place = first_place(sheet, frame.index, twice)
        name = frame["name"].iloc[position]
        other = sheet.row[frame.index[frame["name"] == name][0]]
        raise ValueError(
            f"{place}: {table.id or table.input} {name} is in row {other} too, in {frame['split'].iloc[position]} "
            "here; expected each once: remove one of the rows, or name another column in `id:`"
        )
    if table.image and isinstance(frame["input"].iloc[0], str) and (twice := frame["input"].duplicated()).any():
        position, place = first_place(sheet, frame.index, twice)
        other = sheet.row[frame.index[frame["input"] == frame["input"].iloc[position]][0]]
        raise ValueError(
            f"{place}: the file {frame['input'].iloc[position]} is in row {other} too; expected each once: remove one "
            "of the rows"
        )
    if table.group is not None:
        require_same(sheet, frame[frame["delivery"] == 0], "group", ["split"], "group")
    return examples._replace(frame=frame)


def by_query(table: TableOptions, examples: Examples) -> Examples:
    """Return an example a query: lists of inputs and of grades of its documents.

    Raises:
        ValueError: a query's rows differ in what is said of the whole query, or there is one row alone.
    """
    sheet, frame = examples.sheet, examples.frame
    require_same(sheet, frame, "group", ["split", "weight", "delivery"], "query")
    groups = frame.groupby("group", sort=False)
    lists = {column: groups[column].agg(list) for column in ("input", "truth")}
    queries = frame.drop_duplicates("group")
    frame = queries.assign(
        name=queries["group"],
        **{column: series(several[queries["group"]].tolist(), queries.index) for column, several in lists.items()},
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
            "ordered; remove the row, or set without_relevant: drop"
        )
    return examples._replace(frame=frame)


# Pictures.


def in_pieces(
    table: TableOptions, raw: Path, sheet: Sheet, chosen: pd.DataFrame, reading: Reading
) -> Iterator[pd.DataFrame]:
    """Yield examples in pieces, `input` decoded where it is of pictures: as `rankgrad.io.parquet.IMAGE` has them.

    Raises:
        FileNotFoundError: a file is missing; the message names its row.
        ValueError: a picture is broken and may not be left out.
    """
    if not table.input_type.pictures:
        yield from (chosen.iloc[start : start + PIECE] for start in range(0, len(chosen), PIECE))
        return
    assert reading.size is not None  # as the params are checked
    several = isinstance(chosen["input"].iloc[0], list)
    cells = chosen["input"].explode() if several else chosen["input"]
    _require_files(raw, sheet, cells)
    stored = stored_pictures([cell for cell in cells if isinstance(cell, StoredPicture)], table.image or "")
    rows, broken = max(1, DECODED * len(chosen) // len(cells)), []
    with ThreadPoolExecutor(reading.threads) as pool:
        for start in range(0, len(chosen), rows):
            part = chosen.iloc[start : start + rows]
            own = part["input"].explode() if several else part["input"]
            files = [_file_of(cell, stored) for cell in own]
            results = pd.Series(
                [*pool.map(partial(_decoded, raw, reading.size, table.gray), files)], own.index, dtype=object
            )
            wrong = results.map(lambda one: isinstance(one, ValueError))
            if wrong.any() and not table.skip_broken:
                position, place = first_place(sheet, own.index, wrong)
                cell = own.iloc[position]
                picture = table.input if isinstance(cell, StoredPicture) else cell
                raise ValueError(
                    f"{place}: {picture}: {results.iloc[position]}; get it again, or set skip_broken: true"
                )
            left_out = part.index.isin(own.index[wrong])
            broken += part["name"][left_out].tolist()
            yield part.assign(input=results.groupby(level=0).agg(list) if several else results)[~left_out]
    if broken:
        logging.warning("%d of %d rows left out, pictures are broken: %s", len(broken), len(chosen), ", ".join(broken))
        reading.skipped.extend(broken)


def _file_of(cell: Any, stored: Iterator[bytes | None]) -> tuple[str, bytes | None]:
    """Return the path of a picture, and its contents where a Parquet file stores them."""
    if isinstance(cell, StoredPicture):
        return f"{cell.path.name}:{cell.row + 1}", next(stored) or b""
    return cell, None


def _decoded(raw: Path, size: int, gray: bool, file: tuple[str, bytes | None]) -> dict[str, Any] | ValueError:
    path, contents = file
    try:
        contents = (raw / path).read_bytes() if contents is None else contents
        stored = as_png(open_photo(contents, size, "L")) if gray else as_jpeg(open_photo(contents, size))
        return {"bytes": stored, "path": path}
    except ValueError as error:
        return error


def _require_files(raw: Path, sheet: Sheet, cells: pd.Series) -> None:
    missing = [(row, cell) for row, cell in cells.items() if isinstance(cell, str) and not os.path.isfile(raw / cell)]
    if missing:
        row, path = missing[0]
        raise FileNotFoundError(
            f"{sheet.place(row)}: {raw / path}: no such file ({len(missing)} of {len(cells)} are missing); put it "
            "there, or correct the cell"
        )
