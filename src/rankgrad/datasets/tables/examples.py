"""Convert rows of a user's own table to examples: read each role, and merge rows that belong together."""

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rankgrad.datasets.tables.cells import (
    as_flags,
    as_numbers,
    as_periods,
    as_ranks,
    as_vectors,
    converted,
    first_vector,
    has_word,
    is_single,
    labels_in,
    missing_in,
    path_in,
    require_alike,
    require_same,
    series,
    split_in,
    words_in,
)
from rankgrad.datasets.tables.files import Sheet, stored_pictures
from rankgrad.datasets.tables.roles import NAMED, NUMERIC, SLICE, TableOptions
from rankgrad.feature_names import is_feature_name
from rankgrad.inputs.image import StoredPicture
from rankgrad.io.written import as_json, log_once
from rankgrad.lookup import listed
from rankgrad.numbers import ORDERS
from rankgrad.plain_text import key_in, name_in, parts_in, spelled_alike, text_in

__all__ = [
    "Examples",
    "by_query",
    "examples_of",
    "gathered",
    "group_in",
    "missing_cells",
    "repeated_pairs",
    "shortened",
    "with_truth",
]

IN_ORDER = ("features", "labels", "label_ranks", "ignore")  # roles whose columns differ in meaning
LONGEST_KEY = 64  # letters, as many as a digest has
HIGHEST = 60  # highest grade; its gain in NDCG is 2^60
LISTED = 10  # most rows that a message lists
SMALLEST = float(np.finfo(np.float32).tiny)  # smallest weight that is not 0 in float32


class Examples(NamedTuple):
    """The examples of some files.

    Attributes:
        sheet: what was read from the files.
        roles: columns by their roles.
        frame: one row per example, indexed by the number of its (first) row in the sheet: `name`, `split`, `delivery`,
            `group`, `weight`, `key` (which decides on the split), `input`, `truth`, and, if the table has them,
            `train_target`, `difficult`, `negatives` (of each caption), and `gallery`. Labels in cells are lists of
            names. Features are vectors or, if some are names, values by column.
        left_out: names of rows left out for missing values, with their delivery if it is known, else 0.
        dropped: rows of `frame` that are queries with nothing to order.
        are_numbered: whether names are only numbers of rows in their file.
    """

    sheet: Sheet
    roles: dict[str, list[str]]
    frame: pd.DataFrame
    left_out: dict[str, int]
    dropped: pd.DataFrame
    are_numbered: bool = False


def examples_of(table: TableOptions, sheet: Sheet, first_roles: Mapping[str, list[str]] | None) -> Examples:
    """Return an example for each row of the files that has no missing value.

    Args:
        table, sheet: the options, and what was read from the files.
        first_roles: of a later delivery, the roles of the first one, whose order of columns counts.

    Raises:
        ValueError: a cell does not fit its role; the message names its row. Or the columns of a role are not those of
            the first delivery.
    """
    roles = table.roles([*sheet.frame])
    if first_roles is not None:
        roles |= _in_order_of(first_roles, roles, sheet.paths[0])
    names, complete = _default_names(sheet), _complete(table, sheet, roles)
    counts = _count(table, sheet, roles, complete)
    cells = sheet.frame[complete & counts]
    if not len(cells):
        raise ValueError(
            f"{sheet.paths[0]}: every row has a missing value, or the weight 0; fill them, or see the option `missing`"
        )
    frame = pd.DataFrame(
        {"name": names[complete & counts], "split": "train", "delivery": 0, "weight": 1.0}, index=cells.index
    )
    reader = _Reader(table, sheet, cells, roles)
    frame["input"] = table.input_type.from_table(roles.get(table.input, []), reader)
    if table.rejected is not None:
        frame["input"] = _with_rejected(table, sheet, frame["input"], reader)
    if table.input_type.suffixes and not table.lists and not isinstance(frame["input"].iloc[0], StoredPicture):
        frame["name"] = frame["input"]
    if table.captions is not None and table.text is not None:
        frame["name"] = frame["input"].map(key_in)  # rows with the same passage are one item
    first = {role: cells[columns[0]] for role, columns in roles.items()}
    if "id" in first:
        frame["name"] = converted(sheet, first["id"], name_in)
    frame["group"] = converted(sheet, first["group"], partial(group_in, table)) if "group" in first else frame["name"]
    if table.within:
        frame["within"] = table.group
    frame["key"] = _keys(table, sheet, first, frame)
    if "weight" in first:
        frame["weight"] = as_numbers(sheet, first["weight"], least=SMALLEST, what="a number above 0")
    if "gallery" in first:
        frame["gallery"] = converted(sheet, first["gallery"], name_in).map(_number_of)  # the same in each delivery
    if table.date:
        starts, every, order = table.date["first"], table.date["every"], table.date.get("order", ORDERS[0])
        frame["delivery"] = as_periods(sheet, first["date"], starts, every, order)
    if "split" in first:
        frame["split"] = converted(sheet, first["split"], split_in)
    frame["truth"] = _truths(table, sheet, cells[roles["margin" if table.margin else table.truth_role]])
    if "negatives" in roles:
        frame["negatives"] = _negatives(sheet, cells[roles["negatives"]], frame)
    if "ignore" in roles:
        frame["difficult"] = series(as_flags(sheet, cells[roles["ignore"]]) != 0, cells.index)
    for column in roles.get("slices", ()):
        given = cells[column][~missing_in(cells[column], numeric=False)]
        value_of = converted(sheet, given, name_in).to_dict()  # by row
        frame[SLICE + column] = series(map(value_of.get, cells.index), cells.index)
    if "train_target" in first:
        frame["train_target"] = _numbers_where_given(sheet, first["train_target"])
    are_numbered = "id" not in first and bool((frame["name"] == names[complete & counts]).all())
    return Examples(sheet, roles, frame, dict.fromkeys(names[~complete], 0), frame[:0], are_numbered)


def _in_order_of(
    first: Mapping[str, list[str]], roles: Mapping[str, list[str]], path: os.PathLike
) -> dict[str, list[str]]:
    """Return the columns of a later delivery in the order of the first one, for roles where the order counts."""
    in_order = {}
    for role in IN_ORDER:
        columns, expected = roles.get(role, []), first.get(role, [])
        missing, new = sorted({*expected} - {*columns}), sorted({*columns} - {*expected})
        if missing or (new and role != "features"):
            found = f"no column {missing[0]!r}, which" if missing else f"column {new[0]!r} of {role}, but not"
            raise ValueError(f"{path}: {found} the first delivery has; add or remove it")
        if new:
            logging.warning("%s: %s: not in the first delivery, so not learned from", path, listed(new))
        if expected:
            in_order[role] = expected
    return in_order


def _default_names(sheet: Sheet) -> np.ndarray:
    """Return the number of each row, preceded by its file if there are several."""
    if len(sheet.paths) == 1:
        return sheet.row.astype(str).astype(object)
    folder = os.path.commonpath([path.parent for path in sheet.paths])
    files = [path.relative_to(folder).as_posix() for path in sheet.paths]
    return np.array([f"{files[file]}:{row}" for file, row in zip(sheet.file, sheet.row, strict=True)], object)


def group_in(table: TableOptions, cell: Any) -> str:
    """Return the group in a cell, see `key_in`; a query in another case, or with other spaces, is the same one."""
    query = table.text_pair[0] if table.text_pair else table.captions
    is_query = (table.passages_repeat or table.text_pair) and table.group == query
    return key_in(spelled_alike(cell) if is_query and isinstance(cell, str) else cell)


def missing_cells(
    table: TableOptions, frame: pd.DataFrame, roles: dict[str, list[str]]
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield the role and the name of each column whose cells must have a value, and which cells (n,) are empty."""
    may_be_empty = {"categories", "words", "negatives"}  # an empty name or text becomes all zeros
    may_be_empty.add("slices")  # a row may be in none
    if table.has_label_cells and not table.ordered:
        may_be_empty.add("labels")  # a row without labels belongs to no class
    if table.filled:
        may_be_empty.add(table.input)
    if table.train_target:
        may_be_empty |= {"target", "train_target"}  # the split decides which of them a row needs
    numeric = {*NUMERIC} if table.has_label_cells else {*NUMERIC, "labels"}
    for role, columns in roles.items():
        for column in columns if role not in may_be_empty else ():
            yield role, column, missing_in(frame[column], numeric=role in numeric)


def _complete(table: TableOptions, sheet: Sheet, roles: dict[str, list[str]]) -> np.ndarray:
    """Return which rows (n,) have no missing value; raise ValueError if one has and may not be left out."""
    complete = np.ones(len(sheet.frame), bool)
    for role, column, missing in missing_cells(table, sheet.frame, roles):
        if missing.any() and table.missing == "refuse":
            advice = "missing: impute, or leave_out" if role == "features" else "missing: leave_out"
            raise ValueError(
                f"{sheet.place(missing.argmax())}: {column} is empty, as in {missing.sum()} of {len(missing)} rows, "
                f"but it is the column of {role}; fill it, or set {advice}"
            )
        complete &= ~missing
    if table.filled:
        is_blank = _without_input(table, sheet, roles)
        if is_blank.any():
            log_once(
                f"{sheet.title}: {sheet.place(sheet.frame.index[is_blank][0])} has no input; {is_blank.sum()} rows "
                "without input, such as totals, are left out"
            )
        complete &= ~is_blank
    if not complete.all():
        log_once(f"{sheet.title}: {(~complete).sum()} of {len(complete)} rows left out, values are missing")
    return complete


def _count(table: TableOptions, sheet: Sheet, roles: dict[str, list[str]], complete: np.ndarray) -> np.ndarray:
    """Return which rows (n,) have no weight of 0; in a query, which loses no documents by weights, none may be 0.

    Args:
        complete: which rows have no missing value (n,).
    """
    counts = np.ones(len(complete), bool)
    if "weight" in roles and (table.rejected is not None or not table.lists):
        counts[complete] = as_numbers(sheet, sheet.frame.loc[complete, roles["weight"][0]]) != 0
    if not counts.all():
        log_once(f"{sheet.title}: {(~counts).sum()} of {len(counts)} rows left out, their weight is 0")
    return counts


def _without_input(table: TableOptions, sheet: Sheet, roles: dict[str, list[str]]) -> np.ndarray:
    """Return which rows (n,) have no value in any column of the input."""
    is_blank = np.ones(len(sheet.frame), bool)
    for role in (table.input, *table.input_type.roles):
        for column in roles.get(role, ()):
            is_blank &= missing_in(sheet.frame[column], numeric=role == "features")
    return is_blank


# The input.


class _Reader(NamedTuple):
    """Reads the columns that `InputType.from_table` asks for; the rows have no missing value."""

    table: TableOptions
    sheet: Sheet
    cells: pd.DataFrame
    roles: dict[str, list[str]]

    def file(self, column: str) -> pd.Series:
        return converted(self.sheet, self.cells[column], path_in)

    def text(self, column: str) -> pd.Series:
        return converted(self.sheet, self.cells[column], words_in)

    def texts(self, columns: list[str]) -> pd.Series:
        """Return for each row the list of its texts in several columns."""
        texts = [self.text(column) for column in columns]
        return series(map(list, zip(*texts, strict=True)), self.cells.index)

    def files(self, columns: list[str]) -> pd.Series:
        """Return the paths in several columns, or in one column with several paths per cell."""
        cells = self.cells[columns]
        if len(columns) == 1:
            frames = converted(self.sheet, cells.iloc[:, 0], partial(parts_in, separator=self.table.frame_separator))
            require_alike(self.sheet, frames, "frames")
            cells = pd.DataFrame(frames.tolist(), cells.index).set_axis([columns[0]] * len(frames.iloc[0]), axis=1)
        paths = [converted(self.sheet, frame, path_in) for _, frame in cells.items()]
        return series(map(list, zip(*paths, strict=True)), cells.index)

    def numbers(self, columns: list[str]) -> pd.Series:
        """Return vectors from one column, or from several columns of numbers.

        With names or texts, return the values of each row by column. Empty numbers that will be filled are NaN.
        """
        row = first_vector(self.sheet, self.cells[columns[0]]) if len(columns) == 1 else None
        if row is not None:
            return self._vectors(columns[0], row)
        if self.table.has_names:
            return self._values(columns)
        matrix = np.column_stack([self._column(column) for column in columns])
        if all(is_single(self.cells[column]) for column in columns):
            matrix = matrix.astype(np.float32)
        return series(matrix, self.cells.index)

    def _vectors(self, column: str, row: int) -> pd.Series:
        """Return the vectors in a column, the first of which is in `row`."""
        if self.table.has_names or self.table.filled:
            option = "categories, letters, or words" if self.table.has_names else "missing: impute"
            raise ValueError(
                f"{self.sheet.place(row)}: {column} is {str(self.cells.loc[row, column])[:60]!r}, expected a number: "
                f"vectors cannot be combined with {option}"
            )
        return series(as_vectors(self.sheet, self.cells[column]), self.cells.index)

    def _column(self, column: str) -> pd.Series:
        """Return the numbers of a column; empty ones that will be filled are NaN."""
        if self.table.filled:
            return _numbers_where_given(self.sheet, self.cells[column])
        return as_numbers(self.sheet, self.cells[column])

    def _values(self, columns: list[str]) -> pd.Series:
        """Return the values of each row by column: numbers, names of categories, and texts."""
        for role in (self.table.input, *NAMED):
            for name in self.roles.get(role, []):
                if is_feature_name(name):
                    raise ValueError(f"{role}: column {name!r} is called like a feature made from a name; rename it")
        values: dict[str, Any] = {name: self._column(name) for name in columns}
        for role in NAMED:
            for name in self.roles.get(role, []):
                values[name] = converted(self.sheet, self.cells[name], name_in if role == "categories" else text_in)
                if role == "letters":
                    advice = "; align the texts, or take the column as `text`"
                    require_alike(self.sheet, values[name], "letters", advice)
        return series(pd.DataFrame(values, index=self.cells.index).to_dict("records"), self.cells.index)


def _with_rejected(table: TableOptions, sheet: Sheet, preferred: pd.Series, reader: _Reader) -> pd.Series:
    """Return two inputs for each row: the preferred one, and the one that the rejected column makes of it."""
    column = table.input_columns[-1]
    cells = reader.cells.assign(**{column: reader.cells[table.rejected]})
    rejected = table.input_type.from_table(reader.roles.get(table.input, []), reader._replace(cells=cells))
    pairs = series(map(list, zip(preferred, rejected, strict=True)), preferred.index)
    equal = []
    for row, (first, second) in pairs.items():
        if isinstance(first, np.ndarray) and len(first) != len(second):
            raise ValueError(
                f"{sheet.place(row)}: {table.rejected} has {len(second)} numbers, expected {len(first)} as in {column}"
            )
        if as_json(first) == as_json(second):
            equal.append(row)
    if equal:
        cell, others = str(reader.cells.loc[equal[0], column])[:60], sheet.row[np.array(equal[1:], int)]
        named = ", ".join(map(str, others[:LISTED]))
        more = f", as in {len(others)} more rows ({named}{', ...' * (len(others) > LISTED)})" if len(others) else ""
        raise ValueError(
            f"{sheet.place(equal[0])}: {column} and {table.rejected} are equal: {cell!r}{more}; remove such rows, "
            "since they state no preference"
        )
    if repeated := repeated_pairs(pairs):
        log_once(f"{sheet.title}: {repeated}")
    return pairs


def repeated_pairs(pairs: pd.Series) -> str:
    """Return how many preferences repeat another one and how many contradict one, as text; "" if none does.

    >>> repeated_pairs(pd.Series([["a", "b"], ["a", "b"], ["b", "a"], ["a", "c"]]))
    '1 preferences are repeated; 1 pairs occur in both orders, which is a contradiction'
    """
    counts = Counter[tuple[str, str]]()
    for preferred, rejected in pairs:
        if isinstance(preferred, StoredPicture | dict):  # not read yet; or players, who may meet several times
            return ""
        counts[as_json(preferred), as_json(rejected)] += 1
    again = counts.total() - len(counts)
    contradicted = sum(first < second and (second, first) in counts for first, second in counts)
    lines = [f"{again} preferences are repeated"] if again else []
    if contradicted:
        lines.append(f"{contradicted} pairs occur in both orders, which is a contradiction")
    return "; ".join(lines)


def _keys(table: TableOptions, sheet: Sheet, first: dict[str, pd.Series], frame: pd.DataFrame) -> pd.Series:
    """Return what decides on each row's split: the column in `hash_of`, its group, its id, or else its input."""
    if "key" in first:
        if isinstance(first["key"].iloc[0], StoredPicture):
            raise ValueError(f"split.hash_of: {first['key'].name} holds pictures, expected a column of text or numbers")
        if first["key"].name == table.image:
            return frame["input"]
        if first["key"].name != table.group:
            return converted(sheet, first["key"], key_in)
    if "group" in first:
        return frame["group"]
    entered = frame["input"].iloc[0]
    if table.rejected and isinstance(entered[0], StoredPicture) and "id" not in first:
        raise ValueError(f"rejected: {table.input} holds pictures, not their paths; name an `id` or a `group` too")
    if isinstance(entered, StoredPicture) and "id" not in first:
        contents = stored_pictures(frame["input"].tolist(), table.image or "")
        return pd.Series([sha256(picture or b"").hexdigest() for picture in contents], frame.index)
    if "id" in first or (table.input_type.suffixes and not table.lists):
        return frame["name"]
    if table.rejected:  # a pair and its reverse are the same comparison
        return frame["input"].map(lambda pair: as_json(sorted(map(as_json, pair))))
    # Not the row's number: if a row is removed, the rows below it must keep their splits.
    return frame["input"].map(lambda cell: as_json(" ".join(cell.split()) if isinstance(cell, str) else cell))


def _number_of(name: str) -> int:
    """Return a number (int64) for a name, by its hash."""
    return int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:8], "big") >> 1


def shortened(key: str) -> str:
    """Return a key itself, or a digest of one that is long, such as a text: it is stored, and decides on the fold."""
    return key if len(key) <= LONGEST_KEY else sha256(key.encode(errors="surrogatepass")).hexdigest()


# The truth.


def _truths(table: TableOptions, sheet: Sheet, cells: pd.DataFrame) -> pd.Series:
    first = cells.iloc[:, 0]
    match table.truth_role:
        case "labels" if table.has_label_cells:
            return converted(sheet, first, partial(labels_in, separator=table.label_separator), verb="")
        case "labels":
            return series(as_flags(sheet, cells), cells.index)
        case "label_ranks":
            return series(as_ranks(sheet, cells), cells.index)
        case "target" if table.train_target:
            return _numbers_where_given(sheet, first)
        case "target":
            return as_numbers(sheet, first)
        case "relevance":
            return _grades(sheet, first, what="a grade")
        case "rejected":
            margins = pd.Series(1.0, cells.index)
            if table.margin is not None:
                margins = _grades(sheet, first, what="a margin")
            return margins.map(lambda margin: [margin, 0.0])
    return _captions(sheet, cells)


def _grades(sheet: Sheet, cells: pd.Series, *, what: str) -> pd.Series:
    """Return grades; raise ValueError if one is negative, or so large that its gain is."""
    grades = as_numbers(sheet, cells, least=0, what=f"{what} of at least 0")
    for row, grade in grades[grades > HIGHEST].items():
        raise ValueError(
            f"{sheet.place(row)}: {cells.name} is {grade:g}, expected {what} of at most {HIGHEST}, since its gain in "
            f"NDCG is 2^{grade:g}: divide the column by a number, or take its logarithm"
        )
    return grades


def _texts(sheet: Sheet, cells: pd.DataFrame) -> pd.Series:
    """Return the texts of each row from one or several columns; a cell may be a list of texts, or empty."""
    texts = series([[] for _ in cells.index], cells.index)
    for name in cells:
        filled = cells[name][~missing_in(cells[name], numeric=False)]
        parts = converted(sheet, filled, partial(parts_in, separator="\0")).reindex(cells.index)
        texts += parts.map(lambda cell: [*map(text_in, cell)] if isinstance(cell, list) else [])
    return texts


def _captions(sheet: Sheet, cells: pd.DataFrame) -> pd.Series:
    captions = _texts(sheet, cells).map(lambda texts: [" ".join(text.split()) for text in texts])
    for row, sentences in captions.items():
        if not all(map(has_word, sentences)):
            raise ValueError(f"{sheet.place(row)}: a caption has no word: {sentences}; correct or remove the row")
    return captions


def _negatives(sheet: Sheet, cells: pd.DataFrame, frame: pd.DataFrame) -> pd.Series:
    """Return for each row, by caption, the texts that do not answer it, without those that answer it in another row."""
    answers = defaultdict(set)
    for text, captions in zip(frame["input"], frame["truth"], strict=True):
        for caption in captions:
            answers[spelled_alike(caption)].add(spelled_alike(text))
    by_caption, answering = [], 0
    for captions, texts in zip(frame["truth"], _texts(sheet, cells), strict=True):
        of_captions = {}
        for caption in captions:
            right = answers[spelled_alike(caption)]
            of_captions[caption] = [text for text in texts if has_word(text) and spelled_alike(text) not in right]
            answering += sum(spelled_alike(text) in right for text in texts)
        by_caption.append(of_captions)
    if answering:
        log_once(f"{sheet.title}: {answering} negatives left out, because they answer their query in some row")
    return series(by_caption, cells.index)


def _numbers_where_given(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Return numbers, NaN where a cell is empty."""
    return as_numbers(sheet, cells[~missing_in(cells, numeric=True)]).reindex(cells.index)


def with_truth(table: TableOptions, examples: Examples, frame: pd.DataFrame, *, learned: bool) -> pd.DataFrame:
    """Return rows with their truth; leave out rows where it is empty, and list these in `examples.left_out`.

    Args:
        table: the options; the truth is `train_target`, if there is one, for training rows, and `target` for others.
        examples: the examples that the rows belong to.
        frame: the rows.
        learned: whether they are for training.

    Raises:
        ValueError: a truth is empty, and `table.missing` is `refuse`.
    """
    if table.train_target is None:
        return frame  # all rows have the same truth, and `examples_of` has left out those without one
    if learned:
        frame = frame.assign(truth=frame["train_target"])
    missing = frame[frame["truth"].isna()]
    if len(missing) and table.missing == "refuse":
        column, rows = (table.train_target, "training") if learned else (table.target, "held-out")
        raise ValueError(
            f"{examples.sheet.place(missing.index[0])}: {column} is empty in {len(missing)} of {len(frame)} {rows} "
            "rows, which need it; fill it, or set missing: leave_out"
        )
    examples.left_out.update(zip(missing["name"], missing["delivery"], strict=True))
    return frame.drop(missing.index)


# Rows that belong together.


def gathered(table: TableOptions, examples: Examples) -> Examples:
    """Return one example for each name; with captions, merge rows of the same item.

    If rows are grouped by their query, a passage is an item for each group, since other groups may be in other splits.

    Raises:
        ValueError: a name occurs twice, or rows that belong together differ; the message names two rows.
    """
    sheet, frame, item = examples.sheet, examples.frame, "name"
    if table.passages_repeat:
        frame, item = frame.assign(item=frame["group"] + "\0" + frame["name"]), "item"
    if table.captions is not None:
        columns = ["split", "group", "weight", "delivery", *(["gallery"] if table.gallery else [])]
        require_same(sheet, frame, item, columns, "item")
        of_items, firsts = frame.groupby(item, sort=False), frame.drop_duplicates(item)
        captions = of_items["truth"].sum()
        if table.negatives is not None:
            merged = of_items["negatives"].agg(_merged)[firsts[item]]
            captions = merged.map(list)
            firsts = firsts.assign(negatives=series(merged.map(lambda texts: [*texts.values()]), firsts.index))
        frame = firsts.assign(truth=series(captions[firsts[item]], firsts.index))
    called, advice = table.id or table.input, _advice_for_repeated(table)
    _require_different(sheet, frame["name"], frame[item], called, f", since predictions are returned by it: {advice}")
    if table.image and isinstance(frame["input"].iloc[0], str):
        _require_different(sheet, frame["input"], frame["input"], "the file", ": remove one of the rows")
    if table.group is not None:
        require_same(sheet, frame[frame["delivery"] == 0], "group", ["split"], "group")
    return examples._replace(frame=frame)


def _merged(rows: Iterable[dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return the negatives of an item's captions, which may be in several rows.

    >>> _merged([{"a": ["x"]}, {"a": ["y", "x"], "b": []}])
    {'a': ['x', 'y'], 'b': []}
    """
    merged: dict[str, list[str]] = {}
    for by_caption in rows:
        for caption, texts in by_caption.items():
            merged[caption] = [*dict.fromkeys([*merged.get(caption, ()), *texts])]
    return merged


def _advice_for_repeated(table: TableOptions) -> str:
    if table.id is None:
        return "remove one of the rows, or name a column of unique names in `id:`"
    advice = "remove one of the rows, name another column in `id:`, or leave `id` out to use row numbers"
    return advice + (f"; if such rows belong together, use `group: {table.id}`" if table.group is None else "")


def _require_different(sheet: Sheet, names: pd.Series, items: pd.Series, called: str, advice: str) -> None:
    """Raise ValueError if an item occurs twice; the message has its name, and names both rows."""
    for row, name in names[items.duplicated()].items():
        first = sheet.row[names.index[names == name][0]]
        raise ValueError(f"{sheet.place(row)}: {called} {name} is also in row {first}; expected each once{advice}")


def by_query(table: TableOptions, examples: Examples) -> Examples:
    """Return one example per query, with lists of its documents' inputs and grades.

    Raises:
        ValueError: a query's rows differ in split, weight, or delivery, or a query has only one row.
    """
    sheet, frame = examples.sheet, examples.frame
    require_same(sheet, frame, "group", ["split", "weight", "delivery"], "query")
    groups, firsts = frame.groupby("group", sort=False), frame.drop_duplicates("group")
    frame, examples = firsts.assign(name=firsts["group"]), examples._replace(are_numbered=False)
    if table.split_group != table.group:
        frame["group"] = frame["key"]
    for column in ("input", "truth"):
        frame[column] = series(groups[column].agg(list)[firsts["group"]], firsts.index)
    if sheet.head is not None:
        return examples._replace(frame=frame)  # queries may have more documents below the rows that were read
    alone = frame["truth"].map(len) < 2
    if table.without_relevant == "drop":
        useless = alone | ~frame["truth"].map(lambda grades: max(grades) > 0)
        if useless.any():
            log_once(f"{sheet.title}: {useless.sum()} of {len(frame)} queries have nothing to order: dropped")
        examples = examples._replace(dropped=frame[useless])
        frame = frame[~useless]
        if not len(frame):
            raise ValueError(
                f"{sheet.title}: no query has two or more documents and a grade above 0; see whether `group` and "
                "`relevance` name the right columns"
            )
    for row, group in frame["group"][alone].items() if table.without_relevant == "keep" else ():
        raise ValueError(
            f"{sheet.place(row)}: query {group} has one document, expected two or more to order; remove the row, or "
            "set without_relevant: drop"
        )
    return examples._replace(frame=frame)
