"""What adapters of public datasets share: lists that name files, decoding in pieces, facts and expectations."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from rankops.datasets.expected import in_set, rows_of, unique
from rankops.io.images import as_jpeg, open_photo
from rankops.io.parquet import read_table
from rankops.io.pictures import BROKEN
from rankops.seeding import generator

__all__ = [
    "SPLITS",
    "PhotoDataset",
    "PublicDataset",
    "check_shares",
    "read_list",
    "require",
    "scores_of",
    "splits_by_seed",
]

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class PublicDataset:
    """A dataset as it is published. An adapter is a subclass in a file of its own; its fields are its options."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # unknown options are errors where the params are checked
    layout: ClassVar[str]
    schema: ClassVar[pa.Schema]  # `id`, `name`, and what the task learns from

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

    def tables(
        self, raw: str | Path, split: str, *, size: int | None, seed: int, threads: int, skipped: list[str] | None
    ) -> Iterator[pa.Table]:
        """Read one split in pieces, so that memory does not grow with the number of files.

        Args:
            raw: folder of the dataset, see `layout`.
            split: train, val, test, or all of them.
            size: pixels on a side of photos, where there are any.
            seed: of the splits, where the dataset has none.
            threads: to decode with.
            skipped: takes the names of broken files that were left out.

        Raises:
            FileNotFoundError: a list or a file is missing.
            ValueError: a list is not as expected, a split has no file, or a file is broken.
        """
        raise NotImplementedError

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        """Return what the expectations are held against: a row a row of a split.

        Raises:
            FileNotFoundError, ValueError: the file is missing or corrupt, or lacks a column.
        """
        raise NotImplementedError

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        """Return what must hold, see `rankops.datasets.expected`.

        Args:
            rows: of each split, as the manifest has them.
            size: pixels on a side of photos, where there are any.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PhotoDataset(PublicDataset):
    """A dataset of photos or videos, in files that lists name.

    Attributes:
        skip_broken: leave out files that cannot be decoded, and tell of it on the log, instead of raising.
    """

    skip_broken: bool = False

    needs: ClassVar[tuple[str, ...]] = ()  # folders
    photos: ClassVar[int] = 1  # of a row
    piece: ClassVar[int] = 512  # rows read, written and forgotten together
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

    def facts(self, read: pa.Table) -> dict[str, Any]:
        """Return what is to be checked of the dataset's own columns, a row a row."""
        return {}

    # What stages call.

    def check(self, raw: str | Path) -> None:
        for folder in self.needs:
            require(Path(raw) / folder, self.layout)
        self._listed(Path(raw), seed=0)

    def tables(
        self,
        raw: str | Path,
        split: str,
        *,
        size: int | None,
        seed: int,
        threads: int,
        skipped: list[str] | None = None,
    ) -> Iterator[pa.Table]:
        raw = Path(raw)
        assert size is not None  # as the params are checked
        listed = self._listed(raw, seed=seed)
        chosen = listed if split == "all" else listed[listed["split"] == split]
        if not len(chosen):
            raise ValueError(f"{raw}: its lists name no file of {split}, and {len(listed)} in all; get them again")
        missing = [file for file in chosen["file"] if not (raw / file).is_file()]
        if missing:
            raise FileNotFoundError(
                f"{raw / missing[0]}: no such file, but a list names it ({len(missing)} of {len(chosen)} files of "
                f"{split} are missing); unpack the whole dataset"
            )
        schema, rows, broken = self.schema_of(raw), 0, []
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(chosen), self.piece):
                part = chosen.iloc[start : start + self.piece]
                decoded = list(pool.map(lambda file: self._attempt(raw, file, size), part["file"]))
                broken += [file for file, photos in zip(part["file"], decoded, strict=True) if photos is None]
                columns = {name: part[name].tolist() for name in schema.names if name in part}
                columns |= {"image": [photos and photos[0] for photos in decoded], "frames": decoded}
                keep = [place for place, photos in enumerate(decoded) if photos is not None]
                columns = {name: [columns[name][place] for place in keep] for name in schema.names[1:]}
                yield pa.table({"id": range(rows, rows + len(keep))} | columns, schema=schema)
                rows += len(keep)
        if broken:
            logging.warning("%d of %d files left out, broken: %s", len(broken), len(chosen), ", ".join(broken))
            if skipped is not None:
                skipped += broken

    def _listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        listed = self.listed(raw, seed=seed)
        twice = listed["file"][listed["file"].duplicated()]
        if len(twice):
            raise ValueError(f"{raw}: the lists name {twice.iloc[0]} twice; remove one of the entries")
        return listed

    def _attempt(self, raw: Path, file: str, size: int) -> list[dict[str, Any]] | None:
        """The photos of a file, as in `rankops.io.parquet.IMAGE`, or None if it is broken and may be left out."""
        try:
            return [{"bytes": photo, "path": file} for photo in self.decode(raw / file, size)]
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
        if column not in pq.read_schema(path).names:
            raise ValueError(f"{path}: no column {column}")
        rows = []
        with pq.ParquetFile(path) as file, ThreadPoolExecutor(threads) as pool:
            for batch in file.iter_batches(batch_size=self.piece, columns=[column]):
                cells = [cell if isinstance(cell, list) else [cell] for cell in batch.column(0).to_pylist()]
                rows += pool.map(_photo_facts, cells)
        facts = {
            "split": split,
            "id": read["id"].to_pylist(),
            "split_rows": f"{split}: {len(read)}",
            "name": read["name"].to_pylist(),
            **self.facts(read),
        }
        return {"rows": pd.DataFrame(facts).join(pd.DataFrame(rows)).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        photos = [
            *rows_of(rows),
            in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items())),
            unique("file"),  # a file in two splits would be tested on what it was trained on
            {"type": "expect_column_value_lengths_to_be_between", "column": "name", "min_value": 1},
            in_set("photos", self.photos),
            in_set("decodes", True),
            in_set("mode", "RGB"),
            in_set("size", f"{size} x {size}"),
        ]
        return {"rows": [*photos, *self.expected]}


def _photo_facts(photos: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Of the photos of a row: their files, how many they are, whether all decode, and their modes and sizes."""
    files, modes, sizes, decodes = {}, {}, {}, True
    for photo in photos:
        photo = photo or {"bytes": None, "path": None}
        files[photo["path"] or ""] = None
        try:
            with Image.open(BytesIO(photo["bytes"] or b""), formats=["JPEG"]) as image:
                image.load()
            modes[image.mode] = sizes[f"{image.width} x {image.height}"] = None
        except BROKEN:
            decodes = False
    seen = {"file": files, "mode": modes, "size": sizes}
    return {name: ", ".join(values) for name, values in seen.items()} | {"photos": len(photos), "decodes": decodes}


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
        table = table.iloc[1:].set_axis(names, axis=1)
        if missing := [name for name in columns if names.count(name) != 1]:
            raise ValueError(f"{path}: no column {', '.join(missing)}, or several; it has {', '.join(names)}")
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


def check_shares(val_share: float, test_share: float) -> None:
    """Raise ValueError if the shares of validation and test leave nothing to train on."""
    for name, share in (("val_share", val_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}, expected above 0 and below 1")
    if val_share + test_share >= 1:
        raise ValueError(f"val_share + test_share is {val_share + test_share:g}, expected below 1: train gets the rest")


def splits_by_seed(names: Sequence[str], *, val_share: float, test_share: float, seed: int, use: str) -> list[str]:
    """Return a split for each name, for datasets that come without.

    A permutation of the sorted names, so the order of the list does not matter; `use` keeps datasets apart.

    >>> splits_by_seed("abcde", val_share=0.2, test_share=0.2, seed=1, use="doctest")
    ['test', 'train', 'train', 'val', 'train']
    """
    order = torch.randperm(len(names), generator=generator(seed, use, "splits")).tolist()
    by_name = sorted(range(len(names)), key=lambda place: names[place])
    held_out, tested = (round(share * len(names)) for share in (val_share, test_share))
    splits = ["train"] * len(names)
    for split, places in (("val", order[:held_out]), ("test", order[held_out : held_out + tested])):
        for place in places:
            splits[by_name[place]] = split
    return splits
