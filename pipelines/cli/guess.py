"""What the columns of a table seem to be: the roles of `rankgrad.datasets.table`, for a person to look over."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rankgrad.cli.rows import PICTURES
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import missing_in
from rankgrad.datasets.tables.examples import missing_cells
from rankgrad.datasets.tables.files import Stored, columns_like, names_in, read_sheet
from rankgrad.datasets.tables.formats import format_of
from rankgrad.datasets.tables.roles import NAMED, SHARES, TRUTHS
from rankgrad.inputs._feature_names import LETTER, has_point, with_point

__all__ = ["TASKS", "Guess", "guess"]

HEAD = 1000  # rows that are looked at
SAME_ORDER = 0.9  # Spearman's correlation of a target with its copy on another scale
MOSTLY = 0.5  # of cells
SECONDS = 1e8  # beyond it a number called a time is one since 1970
SPLITS = {"train", "val", "test", "gate"}
TASKS = ("label_ranking", "multilabel", "score_ranking", "query_ranking", "retrieval")
# What columns of a role are often called.
NAMES = {
    "labels": r"(tags?|labels?|categor|class|genres?|topics?)",
    "target": r"(target|score|price|value|rating|y$|ctr|rate|label$|views?|likes?)",
    "relevance": r"(relevance|grade|rel$|label$|clicks?|judg)",
    "captions": r"(captions?|description|sentence|text|title)",
    "query": r"(qid|query)(_?id)?$",
    "group": r"(group|user|customer|session|product|owner|patient|author|shop)s?(_?(id|key|name|number|code))?$",
    "id": r"(id$|key$|name$|sku|index$|idx$|unnamed: 0$)",
    "date": r"(date|day$|time|added|created|month)",
    "split": r"(split|fold|subset|partition)",
}
SCALE = r"[^a-z0-9]*(log(1p|2|10)?|ln|ranks?|ranked|sqrt|z|z_?score|scaled|norm|normalized|standardized|neg)[^a-z0-9]*"
ALIGNED = re.compile(r"[A-Z*.-]{8,}|[acgtun*.-]{8,}")  # proteins and genes
AMOUNT = re.compile(
    r"[^\d,;|]{0,4}\d[\d. ]*,\d+ ?[^\d,;|\s][^\d,;|]{0,3}|[^\d,;|\s+-][^\d,;|]{0,3}\d[\d. ]*,\d+"
)  # 4,5 kg
DAY = re.compile(r"\d{4}-\d\d(-\d\d.*)?")
WEIGHT = re.compile(r"((sample|row|example|case)_?)?weights?", re.IGNORECASE)  # not of a body or a parcel


class Guess(NamedTuple):
    """A task, the options of the table that it learns from, and why, a line each."""

    task: str
    options: dict[str, Any]
    told: list[str]


class _Columns:
    """The first rows of a file, and which of its columns are taken by a role."""

    def __init__(self, path: Path, encoding: str):
        self.kind = format_of(path)
        names = names_in(path, self.kind, encoding)
        self.sheet = read_sheet([path], lambda _: names, kind=self.kind, encoding=encoding, head=HEAD)
        self.decimal = "."
        self.left_out: dict[str, str] = {}  # columns that nothing is learned from without being named, and why
        if self.kind in ("csv", "tsv"):
            self._read_commas()
        self.cells = {name: cells[~missing_in(cells, numeric=False)] for name, cells in self.sheet.frame.items()}
        self.free = [name for name in names if name and len(self.cells[name]) and name not in self.left_out]

    def _read_commas(self) -> None:
        """Read numbers with decimal commas, where most cells of a column are numbers, and it is not called as labels.

        Raises:
            ValueError: the commas may as well part thousands.
        """
        frame = self.sheet.frame
        texts = {name: frame[name].dropna() for name in map(str, frame)}
        numbers = {name: pd.to_numeric(cells.map(with_point), errors="coerce") for name, cells in texts.items()}
        mostly = [name for name, values in numbers.items() if values.notna().mean() > MOSTLY]
        commas = {name: [one for one in texts[name] if with_point(one) is not one] for name in mostly}
        found = [name for name in mostly if commas[name] and not _called(name, "labels")]
        if not found:
            return
        if not any(re.search(r"^\D?0,|,(?!\d{3}$)", one) for name in found for one in commas[name]):
            raise ValueError(
                f"{self.sheet.paths[0]}: {found[0]} has {commas[found[0]][0]!r}, of which nothing says whether the "
                "comma parts thousands or decimals: write it without"
            )
        self.decimal = ","
        pointed = [name for name in mostly if texts[name].map(has_point).any()]
        self.left_out = dict.fromkeys(
            pointed, "numbers with points, where others have decimal commas: write one of both"
        )
        self.sheet = self.sheet._replace(frame=frame.copy(), decimal=",")
        for name in found:
            self.sheet.frame[name] = frame[name].map(with_point)

    def take(self, test: Callable[[str], bool], role: str | None = None) -> str | None:
        """Return the first free column that passes a test, those that are called like the role before others."""
        fitting = [name for name in self.free if test(name)]
        called = [name for name in fitting if role and _called(name, role)]
        found = next(iter(called or fitting), None)
        if found is not None:
            self.free.remove(found)
        return found

    def is_picture(self, name: str) -> bool:
        cells = self.cells[name]
        if isinstance(cells.iloc[0], Stored):
            return True
        return bool(np.mean([isinstance(one, str) and one.lower().endswith(PICTURES) for one in cells]) > 0.8)

    def numbers(self, name: str) -> np.ndarray | None:
        """Return a column's cells as numbers, or None if they are not."""
        values = pd.to_numeric(self.cells[name], errors="coerce")
        return None if values.isna().any() else values.to_numpy(np.float64)

    def are(self, name: str, test: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Whether a column's cells are numbers that pass a test."""
        values = self.numbers(name)
        return values is not None and bool(test(values).all())

    def is_copy(self, name: str, target: str) -> bool:
        """Whether a column is called after the target on another scale, as price_log is, and orders rows as it does."""
        before, called, after = _plain(name).partition(_plain(target))
        if not called or not re.fullmatch(SCALE, f"{before}{after}") or (before and after):
            return False
        if not (self.is_number(name) and self.is_number(target)):
            return False
        both = self.sheet.frame[[name, target]].apply(pd.to_numeric, errors="coerce")
        return bool(both.corr("spearman").abs().iloc[0, 1] > SAME_ORDER)

    def splits(self, name: str) -> set[str]:
        """Return the values of a column that is called as one of splits."""
        return set(self.cells[name].map(str)) if _called(name, "split") and not self.is_vector(name) else set()

    def is_number(self, name: str) -> bool:
        return not self.is_vector(name) and not self.is_time(name) and self.numbers(name) is not None

    def is_time(self, name: str) -> bool:
        """Whether cells are days or times: by their type, or by what the column is called and holds."""
        cells = self.cells[name]
        if cells.dtype.kind in "mM" or isinstance(cells.iloc[0], date):
            return True
        if not _called(name, "date") or self.is_vector(name):
            return False
        values = pd.to_numeric(cells, errors="coerce")
        return bool(values.isna().any() or (values > SECONDS).all())

    def is_vector(self, name: str) -> bool:
        return isinstance(self.cells[name].iloc[0], np.ndarray | list)

    def is_text(self, name: str) -> bool:
        """Whether cells are sentences."""
        cells = self.cells[name]
        return all(isinstance(one, str) for one in cells) and float(np.mean([len(one.split()) for one in cells])) >= 3

    def separator(self, name: str) -> str | None:
        """Return what joins the labels of a cell, if several have it and labels come again."""
        cells = self.cells[name]
        if not all(isinstance(one, str) for one in cells) or self.is_picture(name):
            return None
        for separator in "|;" if np.mean([AMOUNT.fullmatch(one) is not None for one in cells]) > MOSTLY else "|;,":
            parts = [part.strip() for one in cells for part in one.split(separator)]
            if np.mean([separator in one for one in cells]) > 0.1 and len(set(parts)) <= max(2, len(parts) // 3):
                return separator
        return None

    def is_category(self, name: str) -> bool:
        """Whether cells are names of few kinds."""
        if self.is_vector(name) or self.is_picture(name):
            return False
        cells = self.cells[name]
        if not all(isinstance(one, str | bool | int | float) for one in cells) or self.is_number(name):
            return False
        kinds = cells.map(str).nunique()
        return 2 <= kinds <= max(2, len(cells) // 10) and 2 * kinds <= len(cells)

    def leave_out(self, truth: str) -> None:
        """Leave out names that are numbers but for some cells, days, or called like the truth, as price_band is."""
        called = re.compile(rf"(^|[^a-z]){re.escape(_plain(truth).rstrip('s'))}s?([^a-z]|$)")
        for name in [one for one in self.free if self.is_category(one)]:
            cells = self.cells[name]
            numbers = pd.to_numeric(cells, errors="coerce")
            if numbers.notna().mean() > MOSTLY:
                other = cells[numbers.isna()].iloc[0]
                self.left_out[name] = f"numbers, but for cells such as {other!r}: empty these"
            elif all(isinstance(one, str) and DAY.fullmatch(one) for one in cells):
                self.left_out[name] = "days"
            elif called.search(_plain(name)):
                self.left_out[name] = f"called like {truth}; it may be one of `categories` if it is known beforehand"
            elif _is_of_one_value(name):
                self.left_out[name] = "rename it to use it"
        self.free = [name for name in self.free if name not in self.left_out]

    def is_aligned(self, name: str) -> bool:
        """Whether cells are words of capitals, all of one length, as aligned proteins and genes are."""
        cells = self.cells[name]
        if not all(isinstance(one, str) and ALIGNED.fullmatch(one) for one in cells):
            return False
        return cells.map(len).nunique() == 1 and not self.is_category(name)

    def is_unique(self, name: str) -> bool:
        return not self.is_vector(name) and self.cells[name].map(str).is_unique


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()  # PassengerId


def _is_of_one_value(name: str) -> bool:
    """Whether a column is called as features of names are, which would be taken for one."""
    return "=" in name or LETTER.fullmatch(name) is not None


def _called(name: str, role: str) -> bool:
    return re.search(rf"(^|[^a-z]){NAMES[role]}", _plain(name)) is not None


def guess(path: Path, *, task: str | None = None, encoding: str = "utf-8") -> Guess:
    """Look at the first rows of a file, and say what its columns seem to be.

    Args:
        path: of a CSV, TSV, JSON lines, Parquet, SVMlight or NPZ file.
        task: where it is known.
        encoding: of text.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read, or nothing in it fits a task.
    """
    columns = _Columns(path, encoding)
    if columns.kind == "svmlight":
        found = _svmlight(columns, task)
    else:
        structure = _structure(columns)
        entered = _input(columns)
        found = _truth(columns, entered, structure, task)
        found = found._replace(options=found.options | structure)
    files, told = _split_files(path)
    unused = [name for name in columns.free if name not in _used(found.options, columns.free)]
    told += [f"not used: {name}: {why}" for name, why in columns.left_out.items()]
    told += [f"not used: {', '.join(unused[:20])}"] if unused and columns.kind != "svmlight" else []
    found = found._replace(told=[*found.told, *told])
    options: dict[str, Any] = {"file": files} | found.options
    if encoding != "utf-8":
        options["encoding"] = encoding
    if columns.decimal != ".":
        options["decimal"] = columns.decimal
        found.told.append("numbers have decimal commas")
    if "split" not in options and isinstance(files, str):
        key = options.get("group") or options.get("id") or options.get("image")
        if isinstance(key, str) and not isinstance(columns.cells[key].iloc[0], Stored):
            options["split"] = {"hash_of": key, **SHARES}
    if incomplete := _incomplete(columns, Table(**options)):
        options["missing"] = "leave_out"
        rows = len(columns.sheet.frame)
        found.told.append(f"{incomplete} of the first {rows} rows miss a value: such rows are left out, and counted")
    return found._replace(options=options)


def _incomplete(columns: _Columns, table: Table) -> int:
    """Return how many of the rows that were looked at miss a value in a column that has a role."""
    frame, missing = columns.sheet.frame, np.zeros(len(columns.sheet.frame), bool)
    for _, _, empty in missing_cells(table, frame, table.roles(list(frame))):
        missing |= empty
    return int(missing.sum())


def _used(options: dict[str, Any], names: list[str]) -> list[str]:
    given = [options.get(role, []) for role in ("features", *NAMED)]
    patterns = [one for some in given for one in ([some] if isinstance(some, str) else some)]
    return [name for one in patterns for name in columns_like(one, names)]


def _split_files(path: Path) -> tuple[str | dict[str, str], list[str]]:
    """Return a file's name, or those of a training, a validation and a test file that lie side by side."""
    if path.stem != "train":
        return path.name, []
    beside = {"train": path.name}
    for split, names in (("val", ("val", "vali", "valid", "validation", "dev")), ("test", ("test",))):
        found = [name for name in names if path.with_stem(name).is_file()]
        if not found:
            return path.name, []
        beside[split] = path.with_stem(found[0]).name
    return beside, [f"files: {', '.join(f'{split} {name}' for split, name in beside.items())}"]


def _svmlight(columns: _Columns, task: str | None) -> Guess:
    if task in (None, "query_ranking"):
        options = {"features": "all", "relevance": "label", "group": "qid"}
        return _queries(options, "SVMlight: label, qid and all features")
    if task != "score_ranking":
        raise ValueError(f"an SVMlight file has a number a row, no {task}; expected query_ranking or score_ranking")
    return Guess("score_ranking", {"features": "all", "target": "label"}, ["SVMlight: label and all features"])


def _structure(columns: _Columns) -> dict[str, Any]:
    """Take the columns of structure, by what they are called and hold."""
    for name in columns.free:
        values = columns.splits(name)
        if {"train", "test"} <= values and not values <= SPLITS:
            raise ValueError(
                f"{columns.sheet.paths[0]}: {name} has {', '.join(sorted(values - SPLITS)[:5])}, expected train, val, "
                "test or gate: call its splits so, or rename the column if it is none"
            )

    def shared(role: str) -> Callable[[str], bool]:
        return lambda name: _called(name, role) and not columns.is_unique(name)

    found = {
        "split": columns.take(lambda name: set() < columns.splits(name) <= SPLITS),
        "weight": columns.take(lambda name: bool(WEIGHT.fullmatch(name)) and columns.are(name, lambda v: v > 0)),
        "group": columns.take(shared("query")) or columns.take(shared("group")),
    }
    columns.left_out |= {name: "days or times" for name in columns.free if columns.is_time(name)}  # by choice alone
    columns.free = [name for name in columns.free if name not in columns.left_out]
    found["id"] = columns.take(
        lambda name: _called(name, "id") and columns.is_unique(name) and not columns.is_picture(name)
    )
    return {role: name for role, name in found.items() if name is not None}


def _input(columns: _Columns) -> tuple[str, Any] | None:
    """Take the input, where it is plain before the truth is known: pictures, or vectors."""
    if (name := columns.take(columns.is_picture)) is not None:
        return "image", name
    if (name := columns.take(columns.is_vector)) is not None:
        return "features", name
    return None


def _truth(columns: _Columns, entered: tuple[str, Any] | None, structure: dict[str, Any], task: str | None) -> Guess:
    """Take the truth, by the task if it is known; then the input, from what is left."""
    attempts = {
        "retrieval": lambda: _captions(columns, entered),
        "label_ranking": lambda: _labels(columns, task),
        "query_ranking": lambda: _relevance(columns, structure),
        "score_ranking": lambda: _target(columns),
    }
    attempts["multilabel"] = attempts["label_ranking"]
    for name in [task] if task else ["label_ranking", "query_ranking", "retrieval", "score_ranking"]:
        if (found := attempts[name]()) is None:
            continue
        options, told = found.options, found.told
        columns.leave_out(next(str(options[role]) for role in TRUTHS if role in options))
        inputs = dict([entered]) if entered else _rest(columns)
        told.insert(0, "input: " + ", ".join(f"{role} from {column}" for role, column in inputs.items()))
        return Guess(found.task, inputs | options, told)
    names = ", ".join(columns.sheet.frame.columns[:20])
    wanted = f"{task} learns from" if task else "a task could learn from, such as labels, a number or captions"
    raise ValueError(f"{columns.sheet.paths[0]}: no column of what {wanted}; it has {names}; write the block by hand")


def _captions(columns: _Columns, entered: tuple[str, Any] | None) -> Guess | None:
    if entered is None or (name := columns.take(columns.is_text, "captions")) is None:
        return None
    return Guess("retrieval", {"captions": name}, [f"truth: captions from {name}, a sentence or more"])


def _labels(columns: _Columns, task: str | None) -> Guess | None:
    name = columns.take(lambda one: columns.separator(one) is not None and not columns.is_text(one), "labels")
    if name is None and task is not None:
        name = columns.take(columns.is_category, "labels")
    if name is None:
        return _flags(columns)
    separator = columns.separator(name) or "|"
    rows = [[part.strip() for part in str(cell).split(separator) if part.strip()] for cell in columns.cells[name]]
    ordered = task == "label_ranking" if task else not _in_one_order(rows)
    options = {"labels": name, "ordered": ordered, "label_separator": separator}
    if ordered:
        told = f"truth: labels from {name}, the most important first; if their order says nothing: --task multilabel"
    else:
        told = f"truth: labels from {name}, in no order; if the most important stands first: --task label_ranking"
    return Guess("label_ranking" if ordered else "multilabel", options, [told])


def _in_one_order(rows: Sequence[Sequence[str]]) -> bool:
    """Whether labels stand in the same order in almost all rows, as where somebody ticked boxes."""
    several = [row for row in rows if len(row) > 1]
    pairs = [pair for row in several for pair in pairwise(row)]
    both = {frozenset(pair): 0 for pair in pairs}
    for first, second in pairs:
        both[frozenset((first, second))] += 1 if first < second else -1
    agreed = sum(map(abs, both.values()))
    return not pairs or agreed > 0.9 * len(pairs)


def _flags(columns: _Columns) -> Guess | None:
    """Take columns of 0 and 1, or of small ranks, that begin alike."""
    small = [name for name in columns.free if columns.are(name, lambda v: (v >= 0) & (v == np.round(v)) & (v < 100))]
    targets = any(_called(name, "target") and columns.is_number(name) for name in columns.free)
    begin = r"(label|tag|class|rank)_" if targets else r"(label|tag|is|has|class|rank)_"
    for start, names in _alike(small, least=2).items():
        if re.match(begin, start):
            ranks = max(columns.numbers(name).max() for name in names) > 1  # ty: ignore
            columns.free = [name for name in columns.free if name not in names]
            task, role = ("label_ranking", "label_ranks") if ranks else ("multilabel", "labels")
            return Guess(task, {role: f"{start}*"}, [f"truth: {role} from {start}*"])
    return None


def _relevance(columns: _Columns, structure: dict[str, Any]) -> Guess | None:
    group = structure.get("group")
    if group is None or not _called(group, "query"):
        return None
    name = columns.take(lambda one: _called(one, "relevance") and columns.are(one, lambda v: v >= 0), "relevance")
    if name is None:
        return None
    return _queries({"relevance": name}, f"truth: relevance from {name}, of each {group}")


def _queries(options: dict[str, Any], told: str) -> Guess:
    """Leave out queries that say nothing of an order, which logs of searches often have."""
    left_out = "queries with one document, or none that is relevant, are left out (`without_relevant`)"
    return Guess("query_ranking", {**options, "without_relevant": "drop"}, [told, left_out])


def _target(columns: _Columns) -> Guess | None:
    numbers = [name for name in columns.free if columns.is_number(name)]
    alike = {name for names in _alike(numbers, least=4).values() for name in names}  # features, also one called site_y
    alone = [name for name in numbers if name not in alike]
    called = [name for name in alone if _called(name, "target")]
    called.sort(key=lambda name: re.fullmatch(rf"{NAMES['target']}", name.lower()) is None)  # price before price_log
    numbers = called or alone[-1:] or numbers[-1:]
    if not called:
        _refuse_names(columns, numbers)
    if not numbers:
        return None
    plain = [name for name in alone if columns.is_copy(numbers[0], name)]  # price, where the last column is price_log
    target = (plain or numbers)[0]
    columns.free.remove(target)
    told = [f"truth: target from {target}, a number to rank by"]
    if copies := [name for name in columns.free if columns.is_copy(name, target)]:
        columns.free = [name for name in columns.free if name not in copies]
        told.append(f"not used: {', '.join(copies)}, which is {target} on another scale; it may be a `train_target`")
    return Guess("score_ranking", {"target": target}, told)


def _refuse_names(columns: _Columns, numbers: list[str]) -> None:
    """Refuse to rank by any number where another column is called like a truth, but holds names."""
    path, others = columns.sheet.paths[0], [name for name in columns.free if not columns.is_number(name)]
    for name in others:
        cells = columns.cells[name]
        if _called(name, "labels") and columns.is_category(name) and len(numbers) < 2:
            raise ValueError(f"{path}: {name} holds names: `--task multilabel` learns them, another name lets them be")
        ends_so = re.search(rf"(^|[^a-z]){NAMES['target']}$", _plain(name))  # unit_price, not price_range
        if ends_so and not columns.is_text(name) and not columns.is_vector(name):
            other = cells[pd.to_numeric(cells, errors="coerce").isna()].iloc[0]
            raise ValueError(
                f"{path}: {name} is called like a target, but has {other!r}: make numbers of its cells, or rename it"
            )


def _rest(columns: _Columns) -> dict[str, Any]:
    """Take the input from what is left: sentences, or all numbers, names of few kinds, and letters in places."""
    if (name := columns.take(lambda one: columns.is_text(one) and not columns.is_category(one))) is not None:
        return {"text": name}
    numbers = [name for name in columns.free if columns.is_number(name)]
    names = {
        "categories": [name for name in columns.free if columns.is_category(name)],
        "letters": [name for name in columns.free if columns.is_aligned(name) and not _is_of_one_value(name)],
    }
    if any(names.values()):
        numbers = [name for name in numbers if not _is_of_one_value(name)]
    found: dict[str, Any] = {"features": _in_patterns(columns, numbers)} if numbers else {}
    found |= {role: some for role, some in names.items() if some}
    if not found:
        raise ValueError(
            f"{columns.sheet.paths[0]}: no column of pictures, numbers or text is left to learn from; write the block "
            "by hand"
        )
    return found


def _in_patterns(columns: _Columns, numbers: list[str]) -> str | list[str]:
    """Return the columns of features, by a pattern those that begin alike."""
    features = numbers
    for start, names in _alike(numbers, least=4).items():
        if not [name for name in columns.sheet.frame if name.startswith(start) and name not in names]:
            features = [f"{start}*" if name == names[0] else name for name in features if name not in names[1:]]
    return features[0] if len(features) == 1 and len(numbers) > 1 else features


def _alike(names: Sequence[str], *, least: int) -> dict[str, list[str]]:
    """Return names that begin alike, up to their first `_`, where there are enough of them."""
    starts: dict[str, list[str]] = {}
    for name in names:
        start, found, _ = name.partition("_")
        if found:
            starts.setdefault(f"{start}_", []).append(name)
    return {start: some for start, some in starts.items() if len(some) >= least}
