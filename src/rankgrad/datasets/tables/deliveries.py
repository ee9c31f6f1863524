"""Rows of a user's own table: a first delivery, which is split, and later ones, which train and extend the gate."""

import logging
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.files.folds import fraction_of, split_at
from rankgrad.datasets.tables.collection import collection_of, passages_of
from rankgrad.datasets.tables.examples import Examples, by_query, examples_of, gathered, shortened, with_truth
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.datasets.tables.fitting import check_margins, encoded, fitted_to, numbers_learned, with_later_names
from rankgrad.datasets.tables.formats import FORMATS
from rankgrad.datasets.tables.pictures import decoded, require_files
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.datasets.tables.suspects import described, warn
from rankgrad.lookup import did_you_mean
from rankgrad.plain_text import spelled_alike

__all__ = ["Deliveries", "Delivery", "delivery_of", "drawn_splits", "folders_of", "further_passages"]

DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
PICTURES_AT_ONCE = 512  # decoded, written, and released together
ROWS_AT_ONCE = 2**14  # for any other input
GROWING = {"train": "training rows", "gate": "rows of the gate"}  # splits that later deliveries add to


class Delivery(NamedTuple):
    """A folder, and the examples in its files with their splits."""

    raw: Path
    examples: Examples


def folders_of(raw: Path, snapshot: int | None = None) -> list[Path]:
    """Return the folders to read: `raw` itself, or, if the dataset arrives in deliveries, `first` and the dated ones.

    Args:
        raw: the dataset's folder. It holds the files, or a folder `first` and one per later delivery, named by its
            date, such as 2026-11-30, each with files of the same names.
        snapshot: how many deliveries to use: `first`, then the oldest; all of them if it is None or there are fewer.

    Raises:
        ValueError: there are dated folders without a folder `first`, anything else next to them, or a name that is not
            a valid date, such as 2026-02-30.
    """
    inside = sorted(path for path in raw.iterdir() if not path.name.startswith(".")) if raw.is_dir() else []
    first = raw / "first"
    dated = [path for path in inside if path.is_dir() and DATED.fullmatch(path.name)]
    if not dated and first not in inside:
        return [raw]
    if not first.is_dir():
        advice = f": mv {dated[0]} {first}" if dated and first not in inside else ""
        raise ValueError(f"{raw}: deliveries need a folder `first`, which provides validation and test{advice}")
    folders = [first, *dated]
    if unexpected := [path.name for path in inside if path not in folders]:
        raise ValueError(
            f"{raw}: unexpected {unexpected[0]}; expected only the folder `first` and one folder per later delivery, "
            "named by its date, such as 2026-11-30: move it into one of them"
        )
    for path in dated:
        try:
            date.fromisoformat(path.name)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; expected a folder named by its date, such as 2026-11-30") from error
    if snapshot is not None and snapshot > len(folders):
        logging.info("%s: data.snapshot is %d, but there are %d deliveries; all are used", raw, snapshot, len(folders))
    return folders[:snapshot]  # names sort by date


def delivery_of(
    table: TableOptions,
    raw: Path,
    *,
    seed: int,
    head: int | None = None,
    first_roles: Mapping[str, list[str]] | None = None,
) -> Delivery:
    """Read the files of a delivery, and assign each example to a split.

    Args:
        table: the options.
        raw: its folder.
        seed: the seed of splits by hash.
        head: how many rows of each file to read; None for all.
        first_roles: of a later delivery, the roles of the first one.

    Raises:
        FileNotFoundError, ValueError: a file is missing, or a cell does not fit its role; the message names its row.
    """
    paths = {split: _matching(raw, pattern) for split, pattern in table.files.items()}
    files = [*chain.from_iterable(paths.values())]
    sheet = read_sheet(
        files,
        lambda names: [*dict.fromkeys(chain.from_iterable(table.roles(names).values()))],
        kind=table.format, encoding=table.encoding, empty=table.empty or (), writing=table.writing, head=head,
        pictures=[*table.input_columns, *filter(None, [table.rejected])] if table.input_type.files else [],
    )  # fmt: skip
    examples = examples_of(table, sheet, first_roles)
    frame = examples.frame
    if table.drawn:
        frame = frame.assign(split=drawn_splits(table, frame["key"], seed))
    elif isinstance(table.file, dict):
        splits = [split for split, files_of_split in paths.items() for _ in files_of_split]
        if head is not None and first_roles is None:  # in later deliveries, files other than training's may be empty
            _require_rows(paths, [splits[file] for file in sheet.file])
        frame = frame.assign(split=[splits[file] for file in sheet.file[frame.index]])
    if head is not None and first_roles is None and sheet.head is None:
        check_margins(table, raw, frame)
    gather = by_query if table.relevance else gathered
    examples = gather(table, examples._replace(frame=frame))
    if not table.drawn:
        examples = examples._replace(frame=_with_gate(table, examples.frame, raw, seed))
    return Delivery(raw, examples)


def further_passages(table: TableOptions, raw: Path, *, head: int | None = None) -> list[str]:
    """Return the passages in the files of a delivery that `collection` names, see `passages_of`."""
    return [] if table.collection is None else passages_of(table, _matching(raw, table.collection), head=head)


def _require_rows(paths: dict[str, list[Path]], splits: Collection[str]) -> None:
    """Raise ValueError if the files of a split have no rows."""
    for split, files in paths.items():
        if split not in splits:
            raise ValueError(
                f"{files[0]}: 0 rows, but it is the file of {split}, expected at least one; add rows, or name a single "
                "file, which is then split for you"
            )


def _matching(raw: Path, pattern: str) -> list[Path]:
    """Return the files that match a name or a pattern, without hidden ones, such as an editor's `.#t.csv`."""
    files = [raw / pattern]
    is_hidden = Path(pattern).name.startswith(".")
    if set(pattern) & set("*?["):
        files = sorted(file for file in raw.glob(pattern) if not file.name.startswith(".") or is_hidden)
    if files and files[0].exists():  # reading a folder is refused with what to write
        return files
    inside = sorted(path.name for path in raw.iterdir()) if raw.is_dir() else []
    near = [name for name in inside if Path(name).suffix.lower() in FORMATS][:10] or inside[:10]
    content = f"it has {', '.join(near)}{did_you_mean(pattern, near)}" if near else "it is empty or missing"
    raise FileNotFoundError(f"{raw / pattern}: no such file in {raw}; {content}")


def drawn_splits(table: TableOptions, keys: pd.Series, seed: int) -> list[str]:
    """Return the split of each key by its hash.

    Test and gate are at opposite ends, so that changing the validation fraction moves no test or gate row.
    """
    shares = {name: table.shares[name] for name in ("test", "val")}
    gate_start = 1 - table.shares["gate"]
    splits = {}
    for key in keys.unique():
        fraction = fraction_of(posixpath.normpath(key), seed=seed)
        splits[key] = "gate" if fraction >= gate_start else split_at(fraction, shares)
    return [splits[key] for key in keys]


def _with_gate(table: TableOptions, frame: pd.DataFrame, raw: Path, seed: int) -> pd.DataFrame:
    """Return examples with a gate split: the table's own, or a fraction of validation."""
    if (frame["split"] == "gate").any():
        if "gate" not in table.splits:
            raise ValueError(f"{raw}: it has a gate split, but gate_share is 0; set it above 0 to use that split")
        return frame
    fractions = frame["key"].map(lambda key: fraction_of(posixpath.normpath(key), seed=seed))
    is_moved = (frame["split"] == "val") & (fractions < table.gate_share)
    return frame.assign(split=frame["split"].where(~is_moved, "gate"))


class Deliveries:
    """The rows of a table, see `rankgrad.datasets.files.dataset.Source`.

    Attributes:
        splits: the rows of the first delivery by split, with their truth.
        fitted: what was computed from the first delivery's training rows, see `fitted_to`; and names of categories
            that only later deliveries have.
        skipped: names of the rows that were left out while writing, by split.
        known: how many later rows were left out, because they or their groups are held out.
        further_passages: see the function of this name.
    """

    total = None

    def __init__(self, table: TableOptions, raw: Path, reading: Reading):
        self.table, self.raw, self.reading = table, raw, reading
        folders = folders_of(raw, reading.snapshot)
        self.first = delivery_of(table, folders[0], seed=reading.seed)
        roles = self.first.examples.roles
        self.later = [delivery_of(table, folder, seed=reading.seed, first_roles=roles) for folder in folders[1:]]
        for later in self.later:
            self._require_new_names(later)
        first = self._first_rows
        self.splits: dict[str, pd.DataFrame] = {}
        for split in table.splits:
            in_split = first[first["split"] == split]
            self.splits[split] = with_truth(table, self.first.examples, in_split, learned=split == "train")
        self.fitted = fitted_to(table, self.first.raw, self.first.examples, self.splits, reading)
        if table.has_names:
            later_rows = []
            for delivery in (self.first, *self.later):
                frame, is_later = delivery.examples.frame, self._is_later(delivery)
                later_rows.append(frame[is_later & ~self._joins_gate[delivery.raw]])
            self.fitted |= with_later_names(table, self.first.examples, pd.concat(later_rows), self.fitted["features"])
        self.skipped: dict[str, list[str]] = {split: [] for split in table.splits}
        self.known = 0
        self.further_passages = further_passages(table, self.first.raw)
        for later in self.later:
            if table.collection is not None and any(later.raw.glob(table.collection)):
                logging.warning(
                    "%s: %s is not read: all models search the passages of %s", later.raw, table.collection, folders[0]
                )

    def _warn_of_later(self, examples: Examples, later: pd.DataFrame) -> None:
        """Warn of numbers of later training rows that are outside those of the first delivery, and suspicious."""
        if not len(later):
            return
        numbers, joined = numbers_learned(self.table, examples, later), dict[str, np.ndarray]()
        for name, values in self._first_numbers.items():
            others = numbers.get(name, values)
            if np.nanmax(np.abs(others), initial=0) > np.nanmax(np.abs(values), initial=0):
                joined[name] = np.concatenate([values, others])
        if joined:
            warn(self.raw, described(joined, None, None))

    @cached_property
    def _first_numbers(self) -> dict[str, np.ndarray]:
        return numbers_learned(self.table, self.first.examples, self.splits["train"])

    @property
    def _first_rows(self) -> pd.DataFrame:
        """The rows of the first delivery; if a column has the date of each row, without those of later dates."""
        frame = self.first.examples.frame
        return frame[frame["delivery"] == 0]

    def _is_later(self, delivery: Delivery) -> pd.Series:
        """Return which rows of a folder are later ones: all, or in the first folder those of later dates."""
        frame = delivery.examples.frame
        if delivery is self.first:
            return frame["delivery"].between(1, self.reading.snapshot - 1)
        return pd.Series(True, frame.index)

    @property
    def _first_held_out(self) -> pd.DataFrame:
        """The rows of the first delivery from which nothing may be learned: with folds, only those of the gate."""
        first = self._first_rows
        is_held_out = first["split"] == "gate" if self.reading.folds else first["split"] != "train"
        return first[is_held_out]

    @cached_property
    def _held_out(self) -> pd.DataFrame:
        """The rows of all deliveries from which nothing may be learned."""
        later = [delivery.examples.frame[self._joins_gate[delivery.raw]] for delivery in (self.first, *self.later)]
        return pd.concat([self._first_held_out, *later])

    @property
    def _gate_grows(self) -> bool:
        """Whether later rows join the gate; with `train_target`, they may lack the target of rows that judge."""
        return self.table.drawn and self.table.train_target is None

    @cached_property
    def _joins_gate(self) -> dict[Path, pd.Series]:
        """Which rows join the gate, by folder: later rows that the hash puts there, unless another split has them.

        So the gate grows, and has later days. Validation and test stay as they are, so that their metrics compare. A
        row or a query that the gate has already does not join again, unless the bootstrap draws its group as one.
        """
        first, joins_gate = self._first_rows, dict[Path, pd.Series]()
        is_in_gate, has_own_groups = first["split"] == "gate", "group" in self.table.schema.names
        others, known = first[~is_in_gate], first[is_in_gate]
        for delivery in (self.first, *self.later):
            frame = delivery.examples.frame
            joins = self._is_later(delivery) & (frame["split"] == "gate") & self._gate_grows
            if self.table.group is not None:
                joins &= ~frame["group"].isin(others["group"])
            if self.table.is_one_collection:  # new queries may search known passages
                joins &= ~self._is_asked_in(frame, others if has_own_groups else pd.concat([others, known]))
            elif not has_own_groups:
                joins &= ~frame["key"].isin(known["key"]) & ~frame["key"].where(joins).duplicated()
            known = pd.concat([known, frame[joins]])
            joins_gate[delivery.raw] = joins
        return joins_gate

    @staticmethod
    def _is_asked_in(frame: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
        """Return which rows have a query that one of the other rows has, perhaps spelled in another way."""
        asked = {*others["truth"].explode().map(spelled_alike)}
        return frame["truth"].map(lambda queries: not asked.isdisjoint(map(spelled_alike, queries)))

    def _require_new_names(self, later: Delivery) -> None:
        """Raise ValueError if ids or file names of a later delivery are also in the first one."""
        table, frame = self.table, later.examples.frame
        may_repeat = later.examples.are_numbered or table.relevance or table.passages_repeat
        if may_repeat or not (table.id or table.input_type.suffixes):
            return
        first = self._first_held_out if table.captions else self._first_rows  # items in training may get more captions
        for row, name in frame["name"][frame["name"].isin(first["name"])].items():
            split = first["split"][first["name"] == name].iloc[0]
            raise ValueError(
                f"{later.examples.sheet.place(row)}: {table.id or table.image} {name} is also in {self.first.raw}, "
                f"among rows for {split}; expected new names: remove such rows of this delivery, or rename those that "
                "are other rows"
            )

    def manifest(self) -> dict[str, Any]:
        folders = [self.first.raw, *(delivery.raw for delivery in self.later)]
        skipped = {split: {"files": len(names), "names": names} for split, names in self.skipped.items()}
        deliveries = {} if folders[0] == self.raw else {"deliveries": [folder.name for folder in folders]}
        known = {"known": self.known} if self.known else {}
        return deliveries | {"skipped": skipped, "dropped": self._dropped(), **known, "fitted": self.fitted}

    def collection(self, splits: Sequence[Path]) -> pa.Table | None:
        return collection_of(splits, self.further_passages) if self.table.is_one_collection else None

    def _dropped(self) -> dict[str, int]:
        """Return how many queries with nothing to order were dropped, by split."""
        frames = [self.first.examples.dropped, *(later.examples.dropped.assign(delivery=1) for later in self.later)]
        dropped = pd.concat(frames)
        dropped = dropped[dropped["delivery"] < self.reading.snapshot]
        stays = dropped["delivery"] == 0
        if self._gate_grows:
            stays |= dropped["split"] == "gate"
        return dropped["split"].where(stays, "train").value_counts().to_dict()

    def rows(self, split: str) -> Iterator[pa.Table]:
        """Yield the rows of a split; the gate gets its part of later deliveries, too, and training the others."""
        first = self._first_and_later_rows(split)
        count = len(first)
        if count:
            yield from self._tables(self.first, first, split)
        for later in self.later if split in GROWING else ():
            frame = self._later_rows(later, split)
            if self.table.relevance or later.examples.are_numbered:  # queries return, and so do numbers
                frame = frame.assign(name=[f"{later.raw.name}/{name}" for name in frame["name"]])
            count += len(frame)
            rows = GROWING[split]
            logging.info("%s: %d more %s, from a later delivery: %d in all", later.raw, len(frame), rows, count)
            if len(frame):
                yield from self._tables(later, frame, split)

    def _later_rows(self, delivery: Delivery, split: str) -> pd.DataFrame:
        """Return the later rows of a delivery that training or the gate gets."""
        examples, is_later, joins_gate = delivery.examples, self._is_later(delivery), self._joins_gate[delivery.raw]
        if split == "gate":
            return examples.frame[joins_gate]
        frame = with_truth(self.table, examples, examples.frame[is_later & ~joins_gate], learned=True)
        is_folder = delivery is not self.first  # else its rows without a date are those of the first delivery
        self.skipped[split] += [name for name, number in examples.left_out.items() if number or is_folder]
        frame = self._without_held_out(frame, delivery.raw)
        self._warn_of_later(examples, frame)
        return frame

    def _first_and_later_rows(self, split: str) -> pd.DataFrame:
        """Return a split's rows of the first delivery; training and the gate also get rows of later dates.

        Raises:
            ValueError: the first delivery has no row in the split.
        """
        rows = self.splits[split]
        if not len(rows) and (self.reading.folds is None or split == "gate"):  # folds join the other splits
            raise ValueError(
                f"{self.first.raw}: none of its {len(self._first_rows)} rows is in {split}; add rows, or choose a "
                "larger share"
            )
        if split not in GROWING or not self.table.date:
            return rows
        later, of = self._later_rows(self.first, split), GROWING[split]
        logging.info("%s: %d %s of later days, after %d of the first delivery", self.raw, len(later), of, len(rows))
        return pd.concat([rows, later])

    def _without_held_out(self, later: pd.DataFrame, raw: Path) -> pd.DataFrame:
        """Return later rows without those of held-out groups, and those that repeat held-out rows."""
        held_out = self._held_out
        is_held_out = later["key"].isin(held_out["key"])
        if not self.table.drawn:  # rows may repeat inputs, unless they call themselves held out
            is_held_out &= later["split"] != "train"
        if self.table.group is not None:
            is_held_out |= later["group"].isin(held_out["group"])
        if self.table.is_one_collection:
            is_held_out |= self._is_asked_in(later, held_out)
        if is_held_out.any():
            logging.warning(
                "%s: %d of %d rows of later deliveries belong to held-out groups, or repeat held-out rows: left out",
                raw, is_held_out.sum(), len(later),
            )  # fmt: skip
            self.known += int(is_held_out.sum())
        return later[~is_held_out]

    def _tables(self, delivery: Delivery, frame: pd.DataFrame, split: str) -> Iterator[pa.Table]:
        """Yield examples as tables of the dataset's schema; `id` counts the rows of each; a stage renumbers them."""
        table, names = self.table, frame["name"]
        frame = encoded(table, delivery.examples, frame, self.fitted)
        self.skipped[split] += names.drop(frame.index).tolist()  # rows without a known label
        schema = table.schema_for(self.fitted)
        for piece in self._pieces(delivery, frame, split):
            columns = {"id": range(len(piece)), table.input: piece["input"], table.truth: piece["truth"]}
            columns["key"] = piece["key"].map(shortened)
            arrays = []
            for field in schema:
                values = columns.get(field.name, piece.get(field.name, []))
                arrays.append(pa.array([*values], field.type))
            yield pa.table(arrays, schema=schema)

    def _pieces(self, delivery: Delivery, frame: pd.DataFrame, split: str) -> Iterator[pd.DataFrame]:
        """Yield examples in pieces, their pictures decoded; add the names of rows that are left out to `skipped`."""
        if not self.table.input_type.pictures:
            yield from _cut(frame, ROWS_AT_ONCE)
            return
        sheet, size = delivery.examples.sheet, self.reading.size
        assert size is not None  # the check of the params requires it
        require_files(delivery.raw, sheet, frame["input"])
        pictures = frame["input"].map(lambda cell: len(cell) if isinstance(cell, list) else 1).sum()
        pieces = _cut(frame, max(1, PICTURES_AT_ONCE * len(frame) // pictures))
        skipped = []
        for piece, broken in decoded(
            self.table, delivery.raw, sheet, pieces, size=size, threads=self.reading.threads
        ):  # fmt: skip
            skipped += broken
            yield piece
        if skipped:
            logging.warning(
                "%d of %d rows left out, pictures are broken: %s", len(skipped), len(frame), ", ".join(skipped)
            )
            self.skipped[split] += skipped


def _cut(frame: pd.DataFrame, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a frame in pieces of at most `rows` rows."""
    for start in range(0, len(frame), rows):
        yield frame.iloc[start : start + rows]
