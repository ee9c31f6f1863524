"""Photos with up to three ordered labels for multi-label ranking, as in ARC (RLSEP, Section 5.1)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankops.datasets.public.reading import (
    SPLITS,
    check_listed,
    check_shares,
    csv_rows,
    measure_photos,
    numbered_lines,
    photo_expectations,
    read_photos,
    require,
    share_of,
    splits_of,
)
from rankops.io.parquet import IMAGE, read_table

__all__ = ["LAYOUT", "SCHEMA", "check", "expectations", "measure", "schema", "tables"]

LABELS = ("label1", "label2", "label3")
LAYOUT = """\
arc/
  images/       the photos, in folders if need be
  labels.csv    with the columns image (its path below images/), label1, label2, label3 (most important first; the last
                ones may be empty) and, if the dataset has splits, split (train, val or test)
  classes.txt   all classes, a line each, in the order of the scores; or give them in the option `classes`
"""


SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("image", IMAGE), ("label_ranks", pa.list_(pa.int64()))]
)  # of any classes


def schema(classes: list[str]) -> pa.Schema:
    """Of the tables for some classes: there are as many label ranks as classes."""
    place, kind = SCHEMA.get_field_index("label_ranks"), pa.list_(pa.int64(), len(classes))
    return SCHEMA.set(place, pa.field("label_ranks", kind)).with_metadata({"classes": json.dumps(classes)})


def tables(
    raw: str | Path,
    split: str,
    skipped: list[str] | None = None,
    *,
    size: int,
    threads: int,
    seed: int,
    classes: list[str] | None = None,
    val_share: float = 0.1,
    test_share: float = 0.2,
    skip_broken: bool = False,
) -> Iterator[pa.Table]:
    """One split in pieces: `id`, `name`, `image` and `label_ranks` (0 = absent, larger = more important).

    Args:
        raw: folder of the dataset, see `LAYOUT`.
        split: train, val, test or all.
        skipped: takes the names of broken files that were left out.
        size: pixels on a side.
        threads: to decode with.
        seed: of the splits, where labels.csv has none.
        classes: their names, in the order of the scores; null = those of classes.txt.
        val_share, test_share: of all images, where labels.csv has no splits; train gets the rest.
        skip_broken: leave out images that cannot be decoded.

    Raises:
        FileNotFoundError: labels.csv, classes.txt or an image is missing.
        ValueError: a class, split or line is not as expected, an image is there twice or broken.
    """
    known = _classes(Path(raw), classes)
    path, listed, splits = _listed(Path(raw), known)
    every = list(listed)
    if splits is None:
        shares = {"val_share": val_share, "test_share": test_share}
        chosen = share_of(every, split, seed=seed, use="arc", listed_in=path, **shares)
    else:
        wanted = splits_of(split)
        chosen = [place for place, name in enumerate(every) if splits[name] in wanted]
    names = [every[place] for place in chosen]
    files = [f"images/{name}" for name in names]
    check_listed(raw, files, listed_in=f"{path} (split {split})")
    rows = 0
    for places, photos in read_photos(raw, files, size=size, threads=threads, skip_broken=skip_broken, skipped=skipped):
        columns = {
            "id": range(rows, rows + len(places)),
            "name": [names[place] for place in places],
            "image": photos,
            "label_ranks": [_label_ranks(listed[names[place]], known) for place in places],
        }
        yield pa.table(columns, schema=schema(known))
        rows += len(places)


def check(
    raw: str | Path,
    *,
    classes: list[str] | None = None,
    val_share: float = 0.1,
    test_share: float = 0.2,
    skip_broken: bool = False,
) -> None:
    """Sees that the folder has the layout, before anything is decoded; options as for `tables`.

    Raises:
        FileNotFoundError: a file is missing; the message names it and shows the layout.
        ValueError: an option is impossible, or labels.csv is not as expected.
    """
    check_shares(val_share, test_share)
    _listed(Path(raw), _classes(Path(raw), classes))
    require(Path(raw) / "images", LAYOUT)


def _classes(raw: Path, classes: list[str] | None) -> list[str]:
    """The names of the classes, from the option or else from classes.txt."""
    where = "arc: the option classes"
    if classes is None:
        path = require(raw / "classes.txt", LAYOUT)
        where, classes = str(path), [line for _, line in numbered_lines(path)]
    twice = sorted({name for name in classes if classes.count(name) > 1})
    if twice or len(classes) < 2 or not all(classes):
        raise ValueError(f"{where}: {classes}, expected two or more names, each once, none empty")
    return list(classes)


def _listed(raw: Path, classes: list[str]) -> tuple[Path, dict[str, list[str]], dict[str, str] | None]:
    """The list, the labels of each image with the most important first, and the splits if it has them."""
    path = require(raw / "labels.csv", LAYOUT)
    header, lines = csv_rows(path, ["image", *LABELS])
    unknown = [name for name in header if name not in ("image", "split", *LABELS)]
    if unknown:
        raise ValueError(f"{path}: unknown column {', '.join(unknown)}; expected image, split, {', '.join(LABELS)}")
    listed: dict[str, list[str]] = {}
    splits: dict[str, str] = {}
    for number, row in lines:
        where, name = f"{path}: line {number}", row["image"]
        if not name or name in listed:
            raise ValueError(
                f"{where}: {f'image {name} is there twice' if name else 'no image is named'}; remove the line"
            )
        labels = [row[column] for column in LABELS]
        present = [label for label in labels if label]
        if not present or labels[: len(present)] != present:
            raise ValueError(f"{where}: labels are {labels}, expected label1, then label2, then label3, without gaps")
        for label in present:
            if label not in classes:
                raise ValueError(f"{where}: unknown class {label!r}; there are {', '.join(classes)}")
        if len(set(present)) < len(present):
            raise ValueError(f"{where}: labels are {labels}, expected each class once")
        if "split" in header and row["split"] not in SPLITS:
            raise ValueError(f"{where}: split is {row['split']!r}, expected one of {', '.join(SPLITS)}")
        listed[name], splits[name] = present, row.get("split", "")
    return path, listed, splits if "split" in header else None


def _label_ranks(labels: list[str], classes: list[str]) -> list[int]:
    """The most important of n labels has label rank n, the last 1, absent ones 0."""
    ranks = {label: len(labels) - place for place, label in enumerate(labels)}
    return [ranks.get(name, 0) for name in classes]


def measure(folder: str | Path, split: str, *, threads: int = 1) -> dict[str, Any]:
    """What the expectations are held against, one row an image."""
    label_ranks = read_table(Path(folder) / f"{split}.parquet", ["label_ranks"])["label_ranks"].to_pylist()
    present = [sorted(rank for rank in row if rank != 0) for row in label_ranks]
    return measure_photos(folder, split, "image", threads=threads) | {
        "labels": [len(row) for row in present],
        "ranks_are_1_upwards": [row == list(range(1, len(row) + 1)) for row in present],
    }


def expectations(*, rows: dict[str, int], size: int) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
    """
    return [
        *photo_expectations(rows=rows, size=size),
        {"type": "expect_column_values_to_be_between", "column": "labels", "min_value": 1, "max_value": len(LABELS)},
        {"type": "expect_column_values_to_be_in_set", "column": "ranks_are_1_upwards", "value_set": [True]},
    ]
