"""Fit a table to its training rows: classes, named features, widths; and encode examples by them."""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.files.folds import described_folds, fold_of
from rankgrad.datasets.tables.cells import separator_of, series
from rankgrad.datasets.tables.examples import Examples, repeated_pairs, shortened
from rankgrad.datasets.tables.files import Sheet
from rankgrad.datasets.tables.names import near_names, typos_in
from rankgrad.datasets.tables.roles import LEARNED, TableOptions
from rankgrad.datasets.tables.suspects import described, warn
from rankgrad.feature_names import columns_of, empty_name, filled_names, fills_of, numbers_of, words_names
from rankgrad.lookup import did_you_mean, listed, nearest

__all__ = ["check_margins", "encoded", "fitted_to", "numbers_learned", "with_later_names"]

KINDS = 1000  # most names of a category
NAMED = 20  # most classes that a line lists
RARE = 2  # a class with at most this many training rows may be a mistake
CLASSES = 10_000  # most classes, since each row stores a number for each
# Report a column if float32 joins more than this fraction of its different values. Of 20,000 uniform ones it joins ten.
JOINED = 0.01


def fitted_to(
    table: TableOptions, raw: Path, examples: Examples, splits: dict[str, pd.DataFrame], reading: Reading
) -> dict[str, Any]:
    """Return what is fitted to the first delivery, as plain values for JSON.

    It is applied to all deliveries, so that a shift in a later one remains visible.

    Args:
        table: the options.
        raw: folder of the delivery, for messages.
        examples: the delivery's examples.
        splits: its rows by split, with the truth used there.
        reading: the seed and the number of folds.
    """
    frame, train = pd.concat(splits.values()), splits["train"]
    if reading.folds is not None:  # each of these rows is in the training rows of most folds
        train = pd.concat([rows for split, rows in splits.items() if split != "gate"])
    if not len(train):
        raise ValueError(f"{raw}: none of its {len(frame)} rows is for training; add rows, or change `split`")
    if table.within:
        _check_groups(table, raw, frame)
    check_margins(table, raw, train)
    fitted: dict[str, Any] = {"rows": len(train), "left_out": len(examples.left_out)}
    fitted |= _fitted_truth(table, raw, examples, frame, train) | _fitted_input(table, examples, train)
    learned = set[str]()
    for role in (table.input, *LEARNED):
        learned.update(examples.roles.get(role, ()))
    if table.has_names:  # a column without a feature, such as one without frequent words, is not asked for
        learned &= {*columns_of(fitted["features"])}
    fitted["other_columns"] = [name for name in examples.sheet.names if name not in learned]
    lines = _understood(table, examples, splits, fitted)
    if reading.folds is not None:
        lines["rows"] = _rows_in_folds(table, train, splits.get("gate"), reading.folds, reading.seed)
    rows = train if table.train_target else frame  # numbers that no row learns from spoil a test
    lines |= _understood_numbers(table, raw, rows, numbers_learned(table, examples, rows))
    logging.info("%s", "; ".join(f"{key} {value}" for key, value in lines.items()))
    return fitted | {"understood": lines}


def _fitted_truth(
    table: TableOptions, raw: Path, examples: Examples, frame: pd.DataFrame, train: pd.DataFrame
) -> dict[str, Any]:
    """Return the classes and their counts, the mean and deviation of targets, or whether all grades are whole."""
    if table.has_label_cells:
        return _classes_of(table, raw, examples.sheet, train)
    if table.truth in ("labels", "label_ranks"):
        present = np.stack(train["truth"].tolist()) != 0
        return {"classes": _names_of_columns(table, examples.roles), "counts": present.sum(0).tolist()}
    if table.truth == "target":
        return {"mean": float(train["truth"].mean()), "deviation": float(train["truth"].std(ddof=0))}
    if table.lists:
        return {"whole": all(float(grade).is_integer() for grade in frame["truth"].explode())}
    return {}


def _fitted_input(table: TableOptions, examples: Examples, train: pd.DataFrame) -> dict[str, Any]:
    """Return the number of features, their names, and whether they are float32; nothing for other inputs."""
    if table.has_names:
        names = _named_features(table, examples, train)
        return {"width": len(names), "features": names, "single": table.features is None}
    if not table.input_type.vectors:
        return {}
    vector = _first_vector(table, train)
    columns = _feature_names(table, examples.roles)
    if table.filled:
        columns = _named_features(table, examples, train)
    fitted = {"width": len(columns or vector), "features": columns, "single": vector.dtype == np.float32}
    return fitted if examples.sheet.lowest is None else fitted | {"lowest": examples.sheet.lowest}


def _check_groups(table: TableOptions, raw: Path, frame: pd.DataFrame) -> None:
    """Raise ValueError if no group has rows to compare."""
    targets = frame.groupby("group")["truth"].nunique()
    advice = f"name another column in `group`, or leave `within` out to compare all {len(frame)} rows"
    if len(targets) == 1:
        raise ValueError(f"{raw}: {table.group} is {targets.index[0]!r} in all rows, expected several groups; {advice}")
    if (targets < 2).all():
        raise ValueError(
            f"{raw}: none of the {len(targets)} groups of {table.group} has two rows that differ in {table.target}, "
            f"so there is nothing to compare; {advice}"
        )


def check_margins(table: TableOptions, raw: Path, frame: pd.DataFrame) -> None:
    """Raise ValueError if all preferences are ties."""
    if table.margin is not None and not any(map(any, frame["truth"])):
        raise ValueError(
            f"{raw}: {table.margin} is 0 in all {len(frame)} training rows, expected a number above 0 where one answer "
            "is better; if each row has a winner, leave `margin` out"
        )


def encoded(table: TableOptions, examples: Examples, chosen: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
    """Return examples with names replaced by vectors, and labels by numbers for each class.

    Raises:
        ValueError: a vector differs in length or type from the training's, or a label is unknown; the message names
            its row.
    """
    sheet = examples.sheet
    if table.has_names:
        chosen = _with_vectors(table, sheet, chosen, fitted["features"])
    elif "width" in fitted:
        chosen = _with_filled(table, examples, chosen, fitted) if table.filled else chosen
        _require_vectors(table, sheet, chosen, fitted)
    return _with_numbers(table, sheet, chosen, fitted["classes"]) if table.has_label_cells else chosen


# Classes.


def _classes_of(table: TableOptions, raw: Path, sheet: Sheet, train: pd.DataFrame) -> dict[str, Any]:
    counts = Counter(train["truth"].explode().dropna())
    if table.classes is None and (near := near_names(counts) or typos_in(counts)):
        rarer, other = sorted(near[0], key=counts.__getitem__)
        number = next(number for number, labels in train["truth"].items() if rarer in labels)
        raise ValueError(
            f"{sheet.place(number)}: {table.labels} has {rarer!r} ({counts[rarer]} training rows), but other rows have "
            f"{other!r} ({counts[other]}); if they are the same label, correct one, else list all labels in `classes`"
        )
    classes = table.classes or sorted(counts)
    is_list = isinstance(sheet.frame.loc[train.index[0], table.labels], list | np.ndarray)
    separator = separator_of(counts) if table.classes is None and not is_list else None
    if separator is not None:
        combined = next(name for name in classes if separator in name)
        number = next(number for number, labels in train["truth"].items() if combined in labels)
        raise ValueError(
            f"{sheet.place(number)}: {table.labels} has the label {combined!r}, which combines labels with "
            f"{separator!r}, but label_separator is {table.label_separator!r}; set `label_separator: {separator!r}`, "
            f"write {table.label_separator!r} in this cell, "
            "or, if these are names of classes, list all in `classes`"
        )
    if not 2 <= len(classes) <= min(len(train), CLASSES):
        problem = (
            f"the {len(train)} training rows have {len(classes)} classes, expected two or more"
            if len(classes) < 2
            else f"{len(classes)} classes in {len(train)} training rows, expected at most as many and {CLASSES:,}"
        )
        raise ValueError(
            f"{raw}: {problem}; see whether {table.labels} is the column of labels and {table.label_separator!r} the "
            "right label_separator"
        )
    return {"classes": list(classes), "counts": [counts[name] for name in classes]}


def _names_of_columns(table: TableOptions, roles: dict[str, list[str]]) -> list[str]:
    """Return the names of classes from their columns; if a pattern chose these, without the start they share."""
    option = getattr(table, table.truth_role)
    start = option.removesuffix("*") if isinstance(option, str) else ""
    return [column.removeprefix(start) or column for column in roles[table.truth_role]]


def _with_numbers(table: TableOptions, sheet: Sheet, chosen: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """Return examples with a number for each class; drop rows of ordered labels in which none is known."""
    index_of = {name: index for index, name in enumerate(classes)}
    labels = chosen["truth"].explode().dropna()
    unknown = labels[~labels.isin(classes)]
    if len(unknown) and table.unknown_labels == "refuse":
        label = unknown.iloc[0]
        raise ValueError(
            f"{sheet.place(unknown.index[0])}: label {label!r} is not one of the {len(classes)} classes in the first "
            f"delivery's training rows{did_you_mean(label, classes)}; correct it, list all classes in `classes:`, or "
            "set unknown_labels: leave_out"
        )
    if len(unknown):
        logging.warning("%s: %d labels left out, because they are not classes", sheet.paths[0], len(unknown))
    rows = np.zeros((len(chosen), len(classes)), np.int64)
    for row, names in zip(rows, chosen["truth"], strict=True):
        indices = [index_of[name] for name in names if name in index_of]
        row[indices] = range(len(indices), 0, -1) if table.ordered else 1
    chosen = chosen.assign(truth=series(rows, chosen.index))
    return chosen[rows.any(1)] if table.ordered else chosen


# Features.


def _feature_names(table: TableOptions, roles: dict[str, list[str]]) -> list[str] | None:
    """Return the names of feature columns; None for a vector."""
    columns = roles["features"]
    return columns if len(columns) > 1 or isinstance(table.features, list) or table.dates else None


def _values(table: TableOptions, examples: Examples, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the values of rows, or of the documents of queries, by column."""
    inputs = _inputs(table, rows).tolist()
    if table.has_names:
        return pd.DataFrame(inputs)
    return pd.DataFrame(np.stack(inputs), columns=examples.roles["features"])


def _named_features(table: TableOptions, examples: Examples, train: pd.DataFrame) -> list[str]:
    """Return the names of the features of the training rows' values, see `rankgrad.feature_names`.

    Raises:
        ValueError: a category has more than `KINDS` names, no feature differs between rows, or a column has the name of
            a feature that flags empty cells.
    """
    file = examples.sheet.paths[0]
    values, names = _values(table, examples, train), []
    for column in values:
        if pd.api.types.is_numeric_dtype(values[column]):
            names += filled_names(column, values[column]) if table.filled else [column]
        elif column in examples.roles.get("words", []):
            names += words_names(column, values[column])
        elif column not in examples.roles.get("letters", []):
            names += _names_in(values[column], column, file)
        else:
            count = len(values[column][0])
            for position in range(count):
                names += _names_in(values[column].str[position], f"{column}[{position + 1}/{count}]", file)
    if not table.has_names:
        if not names:
            raise ValueError(f"{file}: {listed(values)}: empty in all training rows; fill some cells")
        for column in values:
            if column in names:
                raise ValueError(
                    f"features: column {column!r} is called like a feature that flags empty cells; rename it"
                )
    if not names:
        reason = ", or no word is in several of them" if "words" in examples.roles else ""
        raise ValueError(f"{file}: all training rows have the same features{reason}; name other columns")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{file}: two features are called {min(twice)!r}; rename one of their columns")
    return names


def with_later_names(
    table: TableOptions, first: Examples, later: pd.DataFrame, features: list[str]
) -> dict[str, int | list[str]]:
    """Return the features, then those of names that only rows of later deliveries have, and their number."""
    names = list(features)
    values = _values(table, first, later)
    for column in first.roles.get("categories", []) if len(later) else []:
        names += [f"{column}={name}" for name in sorted(filter(None, values[column].unique()))]
    names = [*dict.fromkeys(names)]
    return {"features": names, "width": len(names)}


def _with_filled(
    table: TableOptions, examples: Examples, chosen: pd.DataFrame, fitted: Mapping[str, Any]
) -> pd.DataFrame:
    """Return examples whose empty numbers are filled, with features that flag these."""
    values, features = _values(table, examples, chosen), []
    for column, fill in fills_of(tuple(fitted["features"])).items():
        numbers = values[column].to_numpy()
        is_empty = np.isnan(numbers)
        features.append(np.where(is_empty, numbers.dtype.type(fill), numbers))
        if empty_name(column) in fitted["features"]:
            features.append(is_empty.astype(numbers.dtype))
    return _with_inputs(table, chosen, series(np.column_stack(features), _inputs(table, chosen).index))


def _inputs(table: TableOptions, rows: pd.DataFrame) -> pd.Series:
    """Return the inputs of all rows, or of all documents of queries, indexed by the number of their row."""
    return rows["input"].explode() if table.lists else rows["input"]


def _with_inputs(table: TableOptions, rows: pd.DataFrame, inputs: pd.Series) -> pd.DataFrame:
    """Return rows with other inputs, given in the form that `_inputs` returns."""
    return rows.assign(input=inputs.groupby(level=0).agg(list) if table.lists else inputs)


def _names_in(texts: pd.Series, called: str, file: Path) -> list[str]:
    """Return the name of a feature for each name in a column; none if all rows have the same."""
    names = sorted(filter(None, texts.unique()))
    if len(names) > KINDS:
        raise ValueError(
            f"{file}: {called} has {len(names)} different names in {len(texts)} training rows, expected at most "
            f"{KINDS}; leave it out of `categories`"
        )
    return [f"{called}={name}" for name in names] if texts.nunique() > 1 else []


def _with_vectors(table: TableOptions, sheet: Sheet, chosen: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return examples with values by column replaced by vectors."""
    values, unknown = _inputs(table, chosen), defaultdict[str, list[str]](list)
    vectors = []
    for number, row in values.items():
        try:
            vectors.append(numbers_of(row, names, unknown=lambda column, value: unknown[column].append(value)))
        except ValueError as error:
            raise ValueError(f"{sheet.place(number)}: {error}") from error
    for column, names_of_column in unknown.items():
        logging.warning(
            "%s: values that no training row of the first delivery has: %d in %d rows, such as %r",
            column, len(names_of_column), len(values), names_of_column[0],
        )  # fmt: skip
    return _with_inputs(table, chosen, series(vectors, values.index))


def _first_vector(table: TableOptions, rows: pd.DataFrame) -> np.ndarray:
    cell = rows["input"].iloc[0]
    return cell[0] if table.lists else cell


def _require_vectors(table: TableOptions, sheet: Sheet, chosen: pd.DataFrame, fitted: Mapping[str, Any]) -> None:
    """Raise ValueError if vectors differ from the first delivery's in width or precision."""
    widths = chosen["input"].map(lambda cell: len(cell[0] if table.lists else cell))
    for row, width in widths[widths != fitted["width"]].items():
        raise ValueError(
            f"{sheet.place(row)}: {width} features, expected {fitted['width']} as in the first delivery; use the same "
            "columns"
        )
    vector = _first_vector(table, chosen)
    if fitted.get("single") and vector.dtype != np.float32:
        raise ValueError(
            f"{sheet.place(chosen.index[0])}: features are {vector.dtype}, expected float32 as in the first delivery; "
            "store them as float32"
        )


# How the table was interpreted, for reports.


def _understood(
    table: TableOptions, examples: Examples, splits: dict[str, pd.DataFrame], fitted: dict[str, Any]
) -> dict[str, Any]:
    """Return how a delivery was interpreted, one value or line per item."""
    frame, path = pd.concat(splits.values()), examples.sheet.paths[0]
    counts = ", ".join(f"{len(rows)} {split}" for split, rows in splits.items())
    truth = getattr(table, table.truth_role)
    lines: dict[str, Any] = {
        "rows": f"{len(frame)}: {counts}",
        "input": f"{table.input} from {listed(table.input_columns)}",
        "truth": f"{table.truth} from {listed([truth] if isinstance(truth, str) else truth)}",
    }
    if table.train_target:
        lines["truth"] += f", in training rows from {table.train_target}"
    if classes := fitted.get("classes"):
        lines |= _understood_classes(path, dict(zip(classes, fitted["counts"], strict=True)))
    if table.group:
        lines |= _understood_groups(table, path, frame)
    if repeated := repeated_pairs(frame["input"]) if table.rejected else _repeated_rows(table, path, frame):
        lines["repeated"] = repeated
    categories = {}
    if "categories" in examples.roles:
        values = _values(table, examples, frame)
        categories = {column: values[column] for column in examples.roles["categories"]}
    if near := _near_names(table, categories, frame):
        lines["near"] = ", ".join(f"{name!r} beside {other!r}" for name, other in near[:NAMED])
        logging.warning("%s: names that may be one: %s", path, lines["near"])
    lines["missing"] = f"{len(examples.left_out) or 'no'} rows left out"
    empty = {column: int((names == "").sum()) for column, names in categories.items()}
    if counted := _listed_counts(empty):
        lines["empty"] = f"names are 0 in all of their features: {counted}"
    return lines


def _understood_classes(path: Path, counts: dict[str, int]) -> dict[str, str]:
    """Return a line on the training rows of each class, and one on rare classes, which may be misspelled."""
    counted = [f"{name} {count}" for name, count in counts.items()]
    more = ", ..." if len(counted) > NAMED else ""
    lines = {"classes": f"{len(counts)} in the training rows: {', '.join(counted[:NAMED])}{more}"}
    rare = [name for name, count in counts.items() if count <= RARE]
    if rare:
        frequent = sorted(counts.keys() - {*rare})
        shown = []
        for name in rare[:NAMED]:
            near = nearest(name, frequent)
            shown.append(f"{name} (or {near}?)" if near else name)
        lines["rare"] = f"{len(rare)} classes of at most {RARE} training rows: {', '.join(shown)}"
        logging.warning("%s: %s; see whether these are mistakes", path, lines["rare"])
    return lines


def _understood_groups(table: TableOptions, path: Path, frame: pd.DataFrame) -> dict[str, str]:
    """Return a line on the number and sizes of groups, and one on texts of queries with several ids, or vice versa."""
    sizes = frame["truth"].map(len) if table.relevance else frame["group"].value_counts()
    lines = {"groups": f"{len(sizes)} of {table.group}, with {sizes.min()} to {sizes.max()} rows"}
    if table.within:
        without_order = int(np.sum(frame.groupby("group")["truth"].nunique() < 2))
        lines["groups"] += ", each compared within"
        lines["groups"] += f"; {without_order} have one row or equal targets" if without_order else ""
    is_by_query = table.relevance and table.split_group == table.group
    if is_by_query and table.text_pair:
        texts = frame["input"].map(lambda documents: [*dict.fromkeys(document[0] for document in documents)])
        firsts = texts.str[0]
        counts = []
        if repeated := firsts[firsts.duplicated()].drop_duplicates().tolist():
            counts.append(f"{len(repeated)} texts have several {table.group}, such as {repeated[0][:60]!r}")
        if several := texts[texts.map(len) > 1].tolist():
            first, second = (text[:60] for text in several[0][:2])
            counts.append(f"{len(several)} {table.group} have several texts, such as {first!r} and {second!r}")
        if counts:
            lines["queries"] = "; ".join(counts)
            advice = f"if each text is a query, write `group: {table.text_pair[0]}`"
            logging.warning("%s: %s; %s", path, lines["queries"], advice)
    return lines


def _near_names(table: TableOptions, categories: Mapping[str, pd.Series], frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return pairs of groups or categories whose names may be one."""
    near: list[tuple[str, str]] = []
    names = {"": frame["group"]} if table.group else {}
    names |= {f"{column}=": cells for column, cells in categories.items()}
    for start, column in names.items():
        pairs = [*near_names(filter(None, column.unique())), *typos_in(column.value_counts().to_dict())]
        near += [(f"{start}{name}", f"{start}{other}") for name, other in pairs]
    return near


def _rows_in_folds(table: TableOptions, rows: pd.DataFrame, gate: pd.DataFrame | None, folds: int, seed: int) -> str:
    """Describe the folds, which replace the splits, and the gate."""
    counts = dict.fromkeys(range(1, folds + 1), 0)
    for key in rows["group"] if "group" in table.schema.names else rows["key"].map(shortened):
        counts[fold_of(key, folds=folds, seed=seed)] += 1
    folds_in_words = described_folds(counts.values(), table.split_group)
    return folds_in_words if gate is None else f"{folds_in_words}; {len(gate)} other rows are the gate"


def _repeated_rows(table: TableOptions, path: Path, frame: pd.DataFrame) -> str:
    """Return how many rows repeat another one, or documents another one of their query, as text; "" if none does."""
    if table.input_type.files or table.captions:
        return ""
    contents, what = pd.DataFrame({"input": _inputs(table, frame).map(_hash)}), "rows repeat another one"
    if table.lists:
        contents["query"], what = contents.index, "documents repeat another one of their query"
    else:
        contents["truth"] = frame["truth"].map(_hash)
        contents["group"] = frame["group"] if table.group else ""
    count = int(contents.duplicated().sum())
    if not count:
        return ""
    line = f"{count} {what}"
    if table.lists:
        grades = contents.assign(grade=frame["truth"].explode().to_numpy())
        if differing := int(grades.drop_duplicates().duplicated(["input", "query"]).sum()):
            line += f", {differing} of them with another grade"
    logging.warning("%s: %s", path, line)
    return line


def _hash(cell: Any) -> int:
    """Return a hash of the contents of an input or a truth."""
    return hash(cell.tobytes() if isinstance(cell, np.ndarray) else str(cell))


def _understood_numbers(
    table: TableOptions, raw: Path, rows: pd.DataFrame, numbers: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Return lines on empty cells, on suspicious columns, and on numbers that become equal in float32."""
    lines = {}
    empty = {name: int(np.isnan(values).sum()) for name, values in numbers.items()}
    if table.filled and (counted := _listed_counts(empty)):
        lines["filled"] = f"empty cells get the median of training rows: {counted}"
    groups = None
    if table.lists:
        groups = np.repeat(np.arange(len(rows)), rows["truth"].map(len))
    elif table.within:
        groups = pd.factorize(rows["group"])[0]
    target, truth, columns = table.train_target or table.target or table.relevance, None, {**numbers}
    if target is not None:
        columns[target] = truth = rows["truth"].explode().to_numpy(np.float64)
    suspects = described(columns, truth, groups, target)
    warn(raw, suspects)
    lines |= suspects
    if table.within:
        numbers = {**numbers, str(target): _standardized_within(groups, rows["truth"])}
    if joined := _joined_in_float32(numbers, groups):
        lines["joined"] = "; ".join(joined)
        for line in joined:
            logging.warning("%s: %s: a network cannot tell these apart; see whether an outlier is right", raw, line)
    return lines


def numbers_learned(table: TableOptions, examples: Examples, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the numbers that a network learns from, by column: features and target of these rows."""
    numbers = {table.train_target or table.target or "": rows["truth"].to_numpy()} if table.target else {}
    if not table.input_type.vectors:
        return numbers
    if table.has_names or table.filled:
        for name, values in _values(table, examples, rows).items():
            if values.dtype.kind == "f" and values.notna().any():
                numbers[str(name)] = values.to_numpy()
        return numbers
    vectors = np.stack(_inputs(table, rows).tolist())
    called = table.features if isinstance(table.features, str) else table.input
    names = _feature_names(table, examples.roles) or [f"{called}[{index}]" for index in range(vectors.shape[1])]
    if examples.sheet.lowest is not None:
        names = [f"feature {index + examples.sheet.lowest}" for index in range(vectors.shape[1])]
    return numbers | dict(zip(names, vectors.T, strict=True))


def _listed_counts(counts: Mapping[str, int]) -> str:
    """Return the first counts that are not 0, as text.

    >>> _listed_counts({"age": 1, "km": 0})
    'age in 1 rows'
    """
    counted = [f"{name} in {count} rows" for name, count in counts.items() if count]
    return ", ".join(counted[:NAMED]) + (", ..." if len(counted) > NAMED else "")


def _standardized_within(groups: np.ndarray | None, truth: pd.Series) -> np.ndarray:
    """Return targets (n,) with mean 0 and deviation 1 in each group, as a loss normalizes them."""
    targets = truth.astype(np.float64)
    by_group = targets.groupby(groups)
    deviation = by_group.transform("std", ddof=0).replace(0.0, 1.0)
    return ((targets - by_group.transform("mean")) / deviation).to_numpy()


def _joined_in_float32(columns: Mapping[str, np.ndarray], groups: np.ndarray | None = None) -> list[str]:
    """Return a line for each column whose different numbers become equal when standardized in float32.

    Args:
        columns: numbers of rows (n,) by column.
        groups: the number of each row's group (n,), if only rows of the same group are compared, or None.

    >>> views = np.append(np.arange(99.0), 1e15)
    >>> _joined_in_float32({"km": np.arange(100.0), "views": views})
    ['views has 100 different values, of which standardized ones in float32 keep 2']
    >>> _joined_in_float32({"views": views}, np.arange(100))
    []
    """
    lines = []
    for name, values in columns.items():
        is_there = ~np.isnan(values.astype(np.float64))
        values = values[is_there].astype(np.float64)
        group = np.zeros(len(values)) if groups is None else groups[is_there]
        order = np.lexsort((values, group))  # standardizing keeps the order
        standardized = ((values - values.mean()) / (values.std() or 1.0)).astype(np.float32)
        is_next_group = np.diff(group[order]) > 0
        different, kept = (
            1 + np.count_nonzero(is_next_group | (np.diff(numbers[order]) > 0)) for numbers in (values, standardized)
        )
        if kept < (1 - JOINED) * different:
            lines.append(f"{name} has {different} different values, of which standardized ones in float32 keep {kept}")
    return lines
