"""Photos of public datasets: any file as RGB of one size, the lists that name them, and facts about stored ones."""

import csv
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from PIL import Image

from rankops.io.images import BROKEN, BrokenFile, as_jpeg, open_photo
from rankops.io.parquet import read_table
from rankops.seeding import generator

__all__ = [
    "SPLITS",
    "check_listed",
    "check_shares",
    "csv_rows",
    "measure_photos",
    "numbered_lines",
    "photo_expectations",
    "pieces",
    "read_photos",
    "require",
    "score_of",
    "share_of",
    "splits_of",
]


SPLITS = ("train", "val", "test")
PIECE = 512  # rows read, written and forgotten together


def pieces(
    files: Sequence[str],
    read: Callable[[str], Any],
    *,
    threads: int,
    skip_broken: bool,
    skipped: list[str] | None,
    rows: int = PIECE,
) -> Iterator[tuple[list[int], list[Any]]]:
    """What `read` gives for each file, a piece at a time, so that memory does not grow with the number of files.

    Args:
        files: relative to the raw folder, as messages name them.
        read: decodes one file; raises BrokenFile.
        threads: to decode with.
        skip_broken: leave broken files out and tell of it on the log, instead of raising.
        skipped: takes the names of the files left out.
        rows: files in a piece.

    Yields:
        Places in `files` of those that were read, and what was read; pieces of which nothing is left are not given.

    Raises:
        BrokenFile: a file cannot be decoded, and `skip_broken` is off.
    """

    def attempt(file: str) -> tuple[Any, BrokenFile | None]:
        try:
            return read(file), None
        except BrokenFile as error:
            return None, error

    broken: dict[str, BrokenFile] = {}
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(files), rows):
            places, results = [], []
            for place, (result, error) in enumerate(pool.map(attempt, files[start : start + rows]), start):
                if error is None:
                    places.append(place)
                    results.append(result)
                elif skip_broken:
                    broken[files[place]] = error
                else:
                    raise error
            if places:
                yield places, results
    if broken:
        logging.warning("%d of %d files left out, broken: %s", len(broken), len(files), ", ".join(broken))
        if skipped is not None:
            skipped += broken


def read_photos(
    raw: str | Path, files: Sequence[str], *, size: int, threads: int, skip_broken: bool, skipped: list[str] | None
) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """Places in `files`, and the photos there in the form of `rankops.io.parquet.IMAGE`; see `pieces` and `open_photo`."""

    def read(file: str) -> dict[str, Any]:
        return {"bytes": as_jpeg(open_photo(Path(raw) / file, size)), "path": file}

    return pieces(files, read, threads=threads, skip_broken=skip_broken, skipped=skipped)


def require(path: str | Path, layout: str) -> Path:
    """The path, if there is such a file or folder.

    Raises:
        FileNotFoundError: there is not; the message shows the layout that is expected.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no such file or folder; put the dataset there in its public layout, then run `dvc repro`:\n"
            f"{layout.rstrip()}"
        )
    return path


def check_listed(raw: str | Path, files: Sequence[str], *, listed_in: str | Path) -> None:
    """Sees that each file that a list names is there, before hours go into decoding the others.

    Raises:
        FileNotFoundError: some are not; the message names the first and how many.
        ValueError: the list is empty.
    """
    if not files:
        raise ValueError(f"{listed_in}: names no file; get it again")
    missing = [file for file in files if not (Path(raw) / file).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{Path(raw) / missing[0]}: no such file, but {listed_in} names it ({len(missing)} of {len(files)} files "
            "are missing); unpack the whole dataset"
        )


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, and their numbers from 1.

    Raises:
        ValueError: it is no text.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8 ({error}); get it again") from error
    return ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def csv_rows(path: Path, columns: Sequence[str]) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The names of all columns of a CSV file, and its rows with their line numbers, cells stripped of spaces.

    Raises:
        ValueError: a column of `columns` is missing, one is there twice, a line cannot be read, or a row has more or
            fewer cells than there are columns.
    """
    lines = list(numbered_lines(path))
    if not lines:
        raise ValueError(f"{path}: empty, expected a line with the columns {', '.join(columns)}")
    # A line at a time: no name in these lists has a line break, and the numbers are those of the file.
    cells = []
    for number, line in lines:
        try:
            cells.append([cell.strip() for cell in next(csv.reader([line]))])
        except csv.Error as error:
            raise ValueError(f"{path}: line {number}: no line of a CSV file ({error}); mend it") from error
    header = cells[0]
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise ValueError(f"{path}: column {', '.join(twice)} is there twice; remove one of them")
    missing = [name for name in columns if name not in header]
    if missing:
        raise ValueError(f"{path}: no column {', '.join(missing)}; it has {', '.join(header)}")
    for (number, _), row in zip(lines, cells, strict=True):
        if len(row) != len(header):
            raise ValueError(f"{path}: line {number}: {len(row)} cells, expected {len(header)} ({', '.join(header)})")
    return header, [
        (number, dict(zip(header, row, strict=True))) for (number, _), row in zip(lines[1:], cells[1:], strict=True)
    ]


def score_of(text: str, *, where: str) -> float:
    """A score in [0, 1] from its text.

    Args:
        text: as the file has it.
        where: file and line, for messages.

    Raises:
        ValueError: no number, NaN, or outside [0, 1].

    >>> score_of("0.8", where="train_1.txt: line 3")
    0.8
    """
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not 0 <= score <= 1:
        raise ValueError(f"{where}: score is {text!r}, expected a number in [0, 1]; correct or remove the line")
    return score


def splits_of(split: str) -> tuple[str, ...]:
    """The splits to read for one that is asked for: that one, or for `all` the three of them.

    Raises:
        ValueError: it is none of these.

    >>> splits_of("val"), splits_of("all")
    (('val',), ('train', 'val', 'test'))
    """
    if split == "all":
        return SPLITS
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {', '.join(SPLITS)}, or all")
    return (split,)


def check_shares(val_share: float, test_share: float) -> None:
    """Sees that the shares of validation and test leave something to train on.

    Raises:
        ValueError: they do not.
    """
    for name, share in (("val_share", val_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}, expected above 0 and below 1")
    if val_share + test_share >= 1:
        raise ValueError(f"val_share + test_share is {val_share + test_share:g}, expected below 1: train gets the rest")


def share_of(
    names: Sequence[str], split: str, *, val_share: float, test_share: float, seed: int, use: str, listed_in: Path
) -> list[int]:
    """Which of some names are in a split, for datasets that come without splits: their places, ascending.

    A permutation of the sorted names, so the order of the list does not matter; `use` keeps datasets apart.

    Raises:
        ValueError: too few names for each split to get one, unless `all` of them are asked for.

    >>> shares = {"val_share": 0.2, "test_share": 0.2, "seed": 1, "use": "doctest", "listed_in": Path("labels.csv")}
    >>> [len(share_of("abcdefghij", split, **shares)) for split in SPLITS]
    [6, 2, 2]
    """
    check_shares(val_share, test_share)
    if splits_of(split) == SPLITS:
        return list(range(len(names)))
    held_out, tested = (round(share * len(names)) for share in (val_share, test_share))
    by_name = sorted(range(len(names)), key=lambda place: names[place])
    order = torch.randperm(len(names), generator=generator(seed, use, "splits")).tolist()
    ends = {"val": (0, held_out), "test": (held_out, held_out + tested), "train": (held_out + tested, len(names))}
    if any(begin >= end for begin, end in ends.values()):
        raise ValueError(
            f"{listed_in}: {len(names)} names are too few for val_share {val_share} and test_share {test_share}: "
            "each split needs one; larger shares or more data"
        )
    begin, end = ends[split]
    return sorted(by_name[place] for place in order[begin:end])


def _facts_of(photo: dict[str, Any] | None) -> tuple[str, bool, str, str]:
    """File, whether it decodes, mode and size of a stored photo."""
    photo = photo or {"bytes": None, "path": None}
    try:
        with Image.open(BytesIO(photo["bytes"] or b""), formats=["JPEG"]) as image:
            image.load()
    except BROKEN:
        return photo["path"] or "", False, "", ""
    return photo["path"] or "", True, image.mode, f"{image.width} x {image.height}"


def measure_photos(folder: str | Path, split: str, column: str, *, threads: int) -> dict[str, list[Any]]:
    """Facts about a split with an `IMAGE` column, or one of lists of them: one row a row, read in pieces.

    Args:
        folder: of the dataset.
        split: train, val or test.
        column: of the photos.
        threads: to decode with.

    Returns:
        `split`, `split_rows` (its name and number of rows), `id`, `name`, `file` (where the photo came from), `photos`
        (how many), `decodes`, `mode` and `size`; what differs among the photos of a row stands there once each.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or has no such column.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["id", "name"])
    names = pq.read_schema(path).names
    if column not in names:
        raise ValueError(f"{path}: no column {column}; it has {', '.join(names)}")
    facts: dict[str, list[Any]] = {name: [] for name in ("file", "photos", "decodes", "mode", "size")}
    with pq.ParquetFile(path) as file, ThreadPoolExecutor(threads) as pool:
        for batch in file.iter_batches(batch_size=PIECE, columns=[column]):
            cells = [cell if isinstance(cell, list) else [cell] for cell in batch.column(0).to_pylist()]
            for row in pool.map(lambda cell: [_facts_of(photo) for photo in cell], cells):
                files, decodes, modes, sizes = zip(*row, strict=True)
                facts["file"].append(", ".join(dict.fromkeys(files)))
                facts["photos"].append(len(row))
                facts["decodes"].append(all(decodes))
                facts["mode"].append(", ".join(dict.fromkeys(modes)))
                facts["size"].append(", ".join(dict.fromkeys(sizes)))
    return {
        "split": [split] * len(read),
        "split_rows": [f"{split}: {len(read)}"] * len(read),
        "id": read["id"].to_pylist(),
        "name": read["name"].to_pylist(),
    } | facts


def photo_expectations(*, rows: dict[str, int], size: int, photos: int = 1) -> list[dict[str, Any]]:
    """What must hold for every dataset of photos, as plain data: `type` and arguments of an expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
        photos: in a row.
    """
    in_set = "expect_column_values_to_be_in_set"
    return [
        {"type": "expect_table_row_count_to_equal", "value": sum(rows.values())},
        {"type": in_set, "column": "split", "value_set": list(rows)},
        {"type": in_set, "column": "split_rows", "value_set": [f"{split}: {count}" for split, count in rows.items()]},
        {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
        # Over all splits: a file in two of them would be tested on what it was trained on.
        {"type": "expect_column_values_to_be_unique", "column": "file"},
        {"type": "expect_column_value_lengths_to_be_between", "column": "name", "min_value": 1},
        {"type": in_set, "column": "photos", "value_set": [photos]},
        {"type": in_set, "column": "decodes", "value_set": [True]},
        {"type": in_set, "column": "mode", "value_set": ["RGB"]},
        {"type": in_set, "column": "size", "value_set": [f"{size} x {size}"]},
    ]
