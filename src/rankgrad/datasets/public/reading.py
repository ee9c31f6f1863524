"""What adapters of public datasets share: lists that name files, splits, decoding in pieces, facts and expectations."""

import json
import logging
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from math import floor
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import in_set, rows_of, unique
from rankgrad.io.images import as_jpeg, open_photo, photo_facts
from rankgrad.io.parquet import columns_of, read_table

__all__ = [
    "SPLITS",
    "DiskDataset",
    "DrawnSplits",
    "PhotoDataset",
    "Reading",
    "check_shares",
    "fold_of",
    "place_of",
    "read_list",
    "require",
    "row_facts",
    "rows_expected",
    "same_elsewhere",
    "scores_of",
    "split_at",
    "with_classes",
    "with_gate",
]

SPLITS = ("train", "val", "test")  # and the gate, where it has a share


class Reading(NamedTuple):
    """What a dataset is read with.

    Attributes:
        size: pixels on a side of photos, where there are any.
        seed: of the splits, where the dataset has none.
        threads: to decode with.
        fitted: what `fit` gave for the first delivery.
        skipped: takes the names of broken files that were left out.
        snapshot: how many deliveries count, where one file holds several by a column of days.
    """

    size: int | None
    seed: int
    threads: int
    fitted: Mapping[str, Any]
    skipped: list[str]
    snapshot: int = 1


@dataclass(frozen=True, kw_only=True)
class DiskDataset:
    """A dataset that is read from disk. An adapter is a subclass in a file of its own; its fields are its options.

    Attributes:
        gate_share: of the rows that the gate gets, on which versions are compared before one is promoted; 0 for none.
            Where splits are published, it is a share of validation; where they are drawn, of all rows.
    """

    gate_share: float = 0.5

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # unknown options are errors where the params are checked
    layout: ClassVar[str]
    schema: ClassVar[pa.Schema]  # `id`, `name`, and what the task learns from
    grows: ClassVar[bool] = True  # whether later deliveries can be read by what is known of the first
    foldable: ClassVar[bool] = True  # whether no value in a row depends on which rows are for training

    def __post_init__(self) -> None:
        if not 0 <= self.gate_share < 1:
            raise ValueError(f"gate_share is {self.gate_share}, expected from 0 (no gate) to below 1")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return (*SPLITS, "gate") if self.gate_share else SPLITS

    def schema_of(self, raw: Path) -> pa.Schema:
        """Return the schema of the tables, where it depends on the data."""
        return self.schema

    def check(self, raw: str | Path) -> None:
        """Check that a folder has the public layout, before anything is decoded.

        Raises:
            FileNotFoundError: a file is missing; the message names it and shows the layout.
            ValueError: a file is not as expected.
        """
        raise NotImplementedError

    def check_head(self, raw: str | Path) -> None:
        """Check the first rows of its files, which is quick, before any stage runs; raises as `check`."""

    def check_later(self, raw: str | Path, *, first: str | Path, seed: int) -> None:
        """Check that a later delivery has no rows that belong to those which the first holds out.

        Raises:
            ValueError: it has; the message names them.
        """

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        """Return what tables need to know of the training rows, such as means of features, as JSON can hold it.

        It is fitted on the first delivery and applied to all, so that a shift of a later one stays to be seen.

        Raises:
            FileNotFoundError, ValueError: see `check`.
        """
        return {}

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        """Read one split in pieces, so that memory does not grow with the number of files.

        Args:
            raw: folder of the dataset, see `layout`.
            split: one of `splits`, or all of them.
            reading: size, seed, threads, and what was fitted.

        Raises:
            FileNotFoundError: a list or a file is missing.
            ValueError: a list is not as expected, a split has no file, a file is broken, or nothing was fitted.
        """
        raise NotImplementedError

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        """Return what the expectations are held against: a row a row of a split.

        Raises:
            FileNotFoundError, ValueError: the file is missing or corrupt, or lacks a column.
        """
        raise NotImplementedError

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return what `measure` gave for all splits together, with what can be said of them only side by side."""
        if "pixels" not in (rows := facts["rows"]):
            return facts
        return facts | {"rows": rows.assign(same_picture_as=same_elsewhere(rows["pixels"]))}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        """Return what must hold, see `rankgrad.datasets.files.expected`.

        Args:
            rows: of each split, as the manifest has them.
            size: pixels on a side of photos, where there are any.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class DrawnSplits(DiskDataset):
    """A dataset that comes without splits: they are drawn by a hash of a seed and a name, so no row changes sides.

    Attributes:
        val_share, test_share, gate_share: of all rows; train gets the rest.
    """

    val_share: float = 0.1
    test_share: float = 0.2
    gate_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(val_share=self.val_share, test_share=self.test_share, gate_share=self.gate_share)

    def drawn(self, names: Sequence[str], *, seed: int) -> list[str]:
        """Return a split for each name; give a group's name for all of its rows. Splits have about their shares."""
        shares = {"test": self.test_share, "val": self.val_share, "gate": self.gate_share}
        return [split_at(place_of(posixpath.normpath(name), seed=seed), shares) for name in names]


@dataclass(frozen=True, kw_only=True)
class PhotoDataset(DiskDataset):
    """A dataset of photos or videos, in files that lists name.

    Attributes:
        skip_broken: leave out files that cannot be decoded, and tell of it on the log, instead of raising.
        allow_repeated: accept that a picture is in several splits, as in some sets that are published so.
    """

    skip_broken: bool = False
    allow_repeated: bool = False

    needs: ClassVar[tuple[str, ...]] = ()  # folders
    photos: ClassVar[int] = 1  # of a row
    piece: ClassVar[int] = 512  # rows read, written and forgotten together
    checked: ClassVar[tuple[str, ...]] = ()  # columns that are facts as they are
    expected: ClassVar[tuple[dict[str, Any], ...]] = ()  # what must hold for the dataset's own columns and `facts`

    # What an adapter's file says.

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        """Read the lists of a dataset.

        Args:
            raw: folder of the dataset, see `layout`.
            seed: of the splits, where the dataset has none.

        Returns:
            A row a file: `file` (below `raw`), `split`, and the columns of `schema` but `id` and the image.

        Raises:
            FileNotFoundError, ValueError: a list is missing, or is not as expected.
        """
        raise NotImplementedError

    def decode(self, path: Path, size: int) -> list[bytes]:
        """Return the photos of a file as JPEG.

        Raises:
            OSError: it cannot be read.
            ValueError: it cannot be decoded.
        """
        return [as_jpeg(open_photo(path.read_bytes(), size))]

    def photos_of(self, raw: Path, file: str, size: int) -> list[bytes]:
        """Return the photos of a file below `raw`, see `decode`."""
        return self.decode(raw / file, size)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many photos rows have."""
        return (self.photos,)

    def prepared(self, listed: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
        """Return the rows of `listed` with what `fit` gave applied to them."""
        return listed

    def facts(self, read: pa.Table) -> dict[str, Any]:
        """Return what is to be checked of the dataset's own columns, a row a row."""
        return {name: read[name].to_pylist() for name in self.checked}

    # What stages call.

    def check(self, raw: str | Path) -> None:
        for folder in self.needs:
            require(Path(raw) / folder, self.layout)
        self.placed(Path(raw), seed=0)

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        raw, size = Path(raw), reading.size
        assert size is not None  # as the params are checked
        listed = self.prepared(self.placed(raw, seed=reading.seed), reading.fitted)
        chosen = listed if split == "all" else listed[listed["split"] == split]
        if not len(chosen):
            raise ValueError(
                f"{raw}: none of the {len(listed)} files that its lists name is in {split}; get them again, or, where "
                "splits are drawn, choose a larger share"
            )
        if missing := [file for file in chosen["file"] if not os.path.isfile(raw / file)]:  # of long names too
            raise FileNotFoundError(
                f"{raw / missing[0]}: no such file, but a list names it ({len(missing)} of {len(chosen)} files of "
                f"{split} are missing); unpack the whole dataset"
            )
        schema, rows, broken = self.schema_of(raw), 0, []
        with ThreadPoolExecutor(reading.threads) as pool:
            for start in range(0, len(chosen), self.piece):
                part = chosen.iloc[start : start + self.piece]
                decoded = list(pool.map(lambda file: self._attempt(raw, file, size), part["file"]))
                part = part.assign(frames=pd.Series(decoded, part.index, dtype=object))
                broken += part["file"][part["frames"].isna()].tolist()
                part = part[part["frames"].notna()]
                part = part.assign(image=part["frames"].str[0], id=range(rows, rows + len(part)))
                yield pa.table({name: part[name].tolist() for name in schema.names}, schema=schema)
                rows += len(part)
        if broken:
            logging.warning("%d of %d files left out, broken: %s", len(broken), len(chosen), ", ".join(broken))
            reading.skipped.extend(broken)

    def placed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        """Return the rows of `listed`, each of a file of its own below `raw`, by its plain path.

        Raises:
            FileNotFoundError, ValueError: see `listed`; or a file is outside of the dataset, or there twice.
        """
        listed = self.listed(raw, seed=seed)
        for file in listed["file"]:
            if file.startswith("/") or ".." in file.split("/") or "\0" in file:
                raise ValueError(
                    f"{raw}: a list names {file!r}, expected a file of the dataset, by a path without `..`; correct it"
                )
        plain = listed["file"].map(posixpath.normpath)
        if (twice := plain.duplicated(keep=False)).any():
            named = " and ".join(dict.fromkeys(listed["file"][plain == plain[twice].iloc[0]]))
            raise ValueError(f"{raw}: the lists name {named} twice; remove one of the entries")
        return listed.assign(file=plain)

    def _attempt(self, raw: Path, file: str, size: int) -> list[dict[str, Any]] | None:
        """The photos of a file, as in `rankgrad.io.parquet.IMAGE`, or None if it is broken and may be left out."""
        try:
            return [{"bytes": photo, "path": file} for photo in self.photos_of(raw, file, size)]
        except ValueError as error:
            if self.skip_broken:
                return None
            raise ValueError(f"{raw / file}: {error}; get it again, or set skip_broken: true") from error

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        """Return facts of each row.

        `file` is where a photo came from; what differs among the photos of a row stands there once each.
        """
        path = Path(folder) / f"{split}.parquet"
        column = "frames" if "frames" in self.schema.names else "image"
        read = read_table(path, [name for name in self.schema.names if name != column])
        if column not in columns_of(path):
            raise ValueError(f"{path}: no column {column}")
        photos = photo_facts(path, column, piece=self.piece, threads=threads)
        rows = row_facts(split, read) | self.facts(read)
        return {"rows": pd.DataFrame(rows).join(photos).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        photos = [
            *rows_expected(rows),
            unique("file"),
            # A picture in two splits would be tested on what it was trained on.
            *([] if self.allow_repeated else [in_set("same_picture_as", "")]),
            {"type": "expect_column_value_lengths_to_be_between", "column": "name", "min_value": 1},
            in_set("photos", *self.lengths),
            in_set("decodes", True),
            in_set("mode", "RGB"),
            in_set("size", f"{size} x {size}"),
        ]
        return {"rows": [*photos, *self.expected]}


def with_classes(schema: pa.Schema, classes: Sequence[str]) -> pa.Schema:
    """Return a schema with as many label ranks as classes, whose names are in the metadata."""
    field = pa.field("label_ranks", pa.list_(pa.int64(), len(classes)))
    return schema.set(schema.get_field_index("label_ranks"), field).with_metadata({"classes": json.dumps(classes)})


def row_facts(split: str, read: pa.Table) -> dict[str, Any]:
    """Return the columns of facts that `rows_expected` is held against, and the names."""
    own = {name: read[name].to_pylist() for name in ("id", "name")}
    return {"split": split, "id": own["id"], "split_rows": f"{split}: {len(read)}", "name": own["name"]}


def rows_expected(rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expect the rows of these splits, as many in each as the manifest says."""
    return [*rows_of(rows), in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items()))]


def same_elsewhere(values: pd.Series) -> pd.Series:
    """Return for each row the split and id of the first row of another split that has the same value, or "".

    Args:
        values: by `split` and `id`.

    >>> rows = pd.MultiIndex.from_tuples([("train", 0), ("train", 1), ("test", 0)], names=["split", "id"])
    >>> same_elsewhere(pd.Series(["a", "b", "a"], rows)).tolist()
    ['test 0', '', 'train 0']
    """
    places = values.index.to_frame(index=False).assign(value=values.to_numpy())
    firsts = places.drop_duplicates(["value", "split"])  # most rows are the only ones of their value
    firsts = firsts[firsts["value"].duplicated(keep=False)].groupby("value")[["split", "id"]]
    found = {value: list(rows.itertuples(index=False, name=None)) for value, rows in firsts}
    same = [
        next((f"{split} {number}" for split, number in found.get(value, []) if split != own), "")
        for own, value in zip(places["split"], places["value"], strict=True)
    ]
    return pd.Series(same, values.index)


def require(path: Path, layout: str) -> Path:
    """Return the path if it exists; else raise FileNotFoundError with the layout that is expected."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no such file or folder; put the dataset there in its public layout, then run `dvc repro`:\n"
            f"{layout.rstrip()}"
        )
    return path


def read_list(path: Path, columns: Sequence[str], *, layout: str, sep: str = ",", header: bool = False) -> pd.DataFrame:
    """Read a list as text, stripped, a row a line; the first of the columns names each row.

    Args:
        path: of the list.
        columns: that it has; with a header, it may have more.
        layout: of the dataset, for messages.
        sep: between cells; more than a character is a regular expression.
        header: whether the first line names the columns.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a text file, a line has too many cells, a column is missing, or a row has no name or another's.
    """
    try:
        table = pd.read_csv(
            require(path, layout),
            sep=sep,
            header=None,
            names=None if header else range(len(columns) + 1),
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            engine="python" if len(sep) > 1 else "c",
        )
    except pd.errors.EmptyDataError:
        table = pd.DataFrame(columns=range(len(columns) + 1), dtype=str)
    except (UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"{path}: not a list in UTF-8 of {', '.join(columns)} ({str(error).strip()})") from error
    table = table.fillna("").apply(lambda cells: cells.str.strip())
    if header:
        names = table.iloc[0].tolist() if len(table) else []
        if missing := [name for name in columns if names.count(name) != 1]:
            raise ValueError(f"{path}: no column {', '.join(missing)}, or several; it has {', '.join(names) or 'none'}")
        table = table.iloc[1:].set_axis(names, axis=1)
    else:
        if (longer := table[table[len(columns)] != ""]).size:
            raise ValueError(f"{path}: a line is {longer.iloc[0].tolist()}, expected {', '.join(columns)}; correct it")
        table = table.iloc[:, : len(columns)].set_axis(columns, axis=1)
    key = table[columns[0]]
    if not key.all():
        raise ValueError(f"{path}: a line has no {columns[0]}: {table[key == ''].iloc[0].tolist()}; remove the line")
    if key.duplicated().any():
        raise ValueError(
            f"{path}: {columns[0]} {key[key.duplicated()].iloc[0]} is there twice; remove one of the lines"
        )
    return table.reset_index(drop=True)


def scores_of(table: pd.DataFrame, column: str, path: Path) -> pd.Series:
    """Return a column of scores in [0, 1] as numbers.

    Raises:
        ValueError: one is no number, NaN, or outside [0, 1]; the message names its row by the first column.
    """
    scores = pd.to_numeric(table[column], errors="coerce")
    wrong = table[~scores.between(0, 1)]
    if len(wrong):
        raise ValueError(
            f"{path}: {wrong.iloc[0, 0]}: {column} is {wrong[column].iloc[0]!r}, expected a number in [0, 1]; correct "
            "or remove the line"
        )
    return scores


def check_shares(*, val_share: float, test_share: float, gate_share: float) -> None:
    """Raise ValueError if the shares of validation, test and gate leave nothing to train on, or are none."""
    for name, share in (("val_share", val_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}, expected above 0 and below 1")
    if val_share + test_share + gate_share >= 1:
        raise ValueError(
            f"val_share + test_share + gate_share is {val_share + test_share + gate_share:g}, expected below 1: train "
            "gets the rest"
        )


def place_of(key: str, *, seed: int) -> float:
    """Return a number in [0, 1) for a key: by the key and the seed alone, so that no other row can move it.

    >>> place_of("a.jpg", seed=1) == place_of("a.jpg", seed=1) != place_of("a.jpg", seed=2)
    True
    """
    digest = sha256(f"{seed}/{key}".encode(errors="surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def fold_of(key: str, *, folds: int, seed: int) -> int:
    """Return the fold of a key, from 1: by the key and the seed alone, so that no other row can move it.

    >>> [fold_of(key, folds=3, seed=1) for key in "abcde"]
    [2, 1, 1, 1, 3]
    """
    return 1 + floor(folds * place_of(f"fold of {key}", seed=seed))  # no other draw is of this text


def split_at(place: float, shares: Mapping[str, float]) -> str:
    """Return the split at a place, if shares stand one after another from 0 on; train gets what is behind them.

    >>> split_at(0.1, {"test": 0.2, "val": 0.1}), split_at(0.25, {"test": 0.2, "val": 0.1})
    ('test', 'val')
    """
    for split, share in shares.items():
        if place < share:
            return split
        place -= share
    return "train"


def with_gate(splits: Sequence[str], names: Sequence[str], *, gate_share: float, seed: int) -> list[str]:
    """Return published splits with a share of validation as the gate, by a hash of the names."""
    places = [place_of(posixpath.normpath(name), seed=seed) for name in names]
    return [
        "gate" if split == "val" and place < gate_share else split for split, place in zip(splits, places, strict=True)
    ]
