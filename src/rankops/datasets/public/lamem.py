"""LaMem for memorability of single images, read from its public layout (SoDeep, Section 4.2.1)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankops.datasets.public.reading import (
    check_listed,
    measure_photos,
    numbered_lines,
    photo_expectations,
    read_photos,
    require,
    score_of,
    splits_of,
)
from rankops.io.parquet import IMAGE, read_table

__all__ = ["FRAMES", "LAYOUT", "SCHEMA", "check", "expectations", "measure", "tables"]

FRAMES = 1  # a photo is a clip of one frame, so that the task is the same as for videos
LAYOUT = """\
lamem/
  images/   00000001.jpg and so on
  splits/   train_1.txt, val_1.txt, test_1.txt and so on for five folds: a line an image, `00000001.jpg 0.83`,
            separated by a space or a comma
"""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("frames", pa.list_(IMAGE, FRAMES)), ("score", pa.float32())]
)
LINE = re.compile(r"(?P<name>\S.*?)(?:\s*,\s*|\s+)(?P<score>[^\s,]+)")


def tables(
    raw: str | Path,
    split: str,
    skipped: list[str] | None = None,
    *,
    size: int,
    threads: int,
    seed: int,
    fold: int = 1,
    skip_broken: bool = False,
) -> Iterator[pa.Table]:
    """One split in pieces: `id`, `name`, `frames` (one) and `score` in [0, 1].

    Args:
        raw: folder of the dataset, see `LAYOUT`.
        split: train, val, test or all.
        skipped: takes the names of broken files that were left out.
        size: pixels on a side.
        threads: to decode with.
        seed: taken by all datasets alike; nothing is drawn here.
        fold: which of the dataset's own splits, from 1.
        skip_broken: leave out images that cannot be decoded.

    Raises:
        FileNotFoundError: a list or an image is missing.
        ValueError: a line cannot be understood, an image is there twice or broken, a score is outside [0, 1].
    """
    paths = _lists(Path(raw), split, fold)
    scores = _scores(paths)
    names = list(scores)
    check_listed(raw, [f"images/{name}" for name in names], listed_in=" and ".join(str(path) for path in paths))
    rows = 0
    for places, photos in read_photos(
        raw,
        [f"images/{name}" for name in names],
        size=size,
        threads=threads,
        skip_broken=skip_broken,
        skipped=skipped,
    ):
        columns = {
            "id": range(rows, rows + len(places)),
            "name": [names[place] for place in places],
            "frames": [[photo] for photo in photos],
            "score": [scores[names[place]] for place in places],
        }
        yield pa.table(columns, schema=SCHEMA)
        rows += len(places)


def check(raw: str | Path, *, fold: int = 1, skip_broken: bool = False) -> None:
    """Sees that the folder has the public layout, before anything is decoded; options as for `tables`.

    Raises:
        FileNotFoundError: a file is missing; the message names it and shows the layout.
        ValueError: `fold` is below 1.
    """
    _lists(Path(raw), "all", fold)
    require(Path(raw) / "images", LAYOUT)


def _lists(raw: Path, split: str, fold: int) -> list[Path]:
    if fold < 1:
        raise ValueError(f"lamem: fold is {fold}, expected a number from 1")
    return [require(raw / "splits" / f"{name}_{fold}.txt", LAYOUT) for name in splits_of(split)]


def _scores(paths: list[Path]) -> dict[str, float]:
    """Scores by image, in the order of the lists."""
    scores: dict[str, float] = {}
    for path, (number, line) in ((file, numbered) for file in paths for numbered in numbered_lines(file)):
        where = f"{path}: line {number}"
        parts = LINE.fullmatch(line)
        if not parts:
            raise ValueError(f"{where}: {line!r}, expected an image and its score; correct or remove the line")
        if parts["name"] in scores:
            raise ValueError(f"{where}: image {parts['name']} is there twice; remove one of the lines")
        scores[parts["name"]] = score_of(parts["score"], where=where)
    return scores


def measure(folder: str | Path, split: str, *, threads: int = 1) -> dict[str, Any]:
    """What the expectations are held against, one row an image."""
    scores = read_table(Path(folder) / f"{split}.parquet", ["score"])["score"].to_pylist()
    return measure_photos(folder, split, "frames", threads=threads) | {"score": scores}


def expectations(*, rows: dict[str, int], size: int) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
    """
    return [
        *photo_expectations(rows=rows, size=size, photos=FRAMES),
        {"type": "expect_column_values_to_not_be_null", "column": "score"},
        {"type": "expect_column_values_to_be_between", "column": "score", "min_value": 0.0, "max_value": 1.0},
    ]
