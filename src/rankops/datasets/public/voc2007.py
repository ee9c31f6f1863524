"""PASCAL VOC 2007 for multi-label classification, read from its public layout (SoDeep, Section 4.2.2)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankops.datasets.public.reading import (
    SPLITS,
    check_listed,
    measure_photos,
    numbered_lines,
    photo_expectations,
    read_photos,
    require,
    splits_of,
)
from rankops.io.parquet import IMAGE, read_table

__all__ = ["CLASSES", "LAYOUT", "SCHEMA", "check", "expectations", "measure", "tables"]

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
LAYOUT = """\
voc2007/
  VOCdevkit/VOC2007/
    ImageSets/Main/   aeroplane_train.txt, aeroplane_val.txt, aeroplane_test.txt and so on for all 20 classes:
                      a line an image, `000012 -1` (absent), `000017  1` (present), `000023  0` (present, difficult)
    JPEGImages/       000001.jpg and so on, of the trainval and the test archive
"""
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("image", IMAGE),
        ("labels", pa.list_(pa.int64(), len(CLASSES))),
        ("difficult", pa.list_(pa.bool_(), len(CLASSES))),
    ],
    metadata={"classes": json.dumps(CLASSES)},
)
HOME = "VOCdevkit/VOC2007"
FLAGS = {"-1": -1, "0": 0, "1": 1}


def tables(
    raw: str | Path,
    split: str,
    skipped: list[str] | None = None,
    *,
    size: int,
    threads: int,
    seed: int,
    skip_broken: bool = False,
) -> Iterator[pa.Table]:
    """One split in pieces: `id`, `name`, `image`, and for each class `labels` (0 or 1) and `difficult`.

    A difficult object counts as present (label 1): a positive in training. `difficult` tells the metric, which skips
    it in the average precision.

    Args:
        raw: folder of the dataset, see `LAYOUT`.
        split: train, val or test, each of which has lists of its own, or all.
        skipped: takes the names of broken files that were left out.
        size: pixels on a side.
        threads: to decode with.
        seed: taken by all datasets alike; nothing is drawn here.
        skip_broken: leave out images that cannot be decoded.

    Raises:
        FileNotFoundError: a class's list or an image is missing.
        ValueError: the lists disagree, a line or a class is unknown, or an image is broken.
    """
    names, flags, parts = [], [], splits_of(split)
    for part in parts:
        some, their_flags = _listed(Path(raw), part)
        names += some
        flags += their_flags
    files = [f"{HOME}/JPEGImages/{name}.jpg" for name in names]
    lists = [str(Path(raw) / HOME / f"ImageSets/Main/{CLASSES[0]}_{part}.txt") for part in parts]
    check_listed(raw, files, listed_in=" and ".join(lists))
    rows = 0
    for places, photos in read_photos(raw, files, size=size, threads=threads, skip_broken=skip_broken, skipped=skipped):
        columns = {
            "id": range(rows, rows + len(places)),
            "name": [names[place] for place in places],
            "image": photos,
            "labels": [[int(flag != -1) for flag in flags[place]] for place in places],
            "difficult": [[flag == 0 for flag in flags[place]] for place in places],
        }
        yield pa.table(columns, schema=SCHEMA)
        rows += len(places)


def check(raw: str | Path, *, skip_broken: bool = False) -> None:
    """Sees that the folder has the public layout, before anything is decoded; options as for `tables`.

    Raises:
        FileNotFoundError: a file is missing; the message names it and shows the layout.
        ValueError: there is a list of an unknown class.
    """
    for split in SPLITS:
        _class_files(Path(raw), split)
    require(Path(raw) / HOME / "JPEGImages", LAYOUT)


def _class_files(raw: Path, split: str) -> list[Path]:
    """The lists of all classes for a split, in the order of `CLASSES`."""
    folder = require(raw / HOME / "ImageSets/Main", LAYOUT)
    suffix = f"_{split}.txt"
    for path in sorted(folder.glob(f"*{suffix}")):
        if path.name.removesuffix(suffix) not in CLASSES:
            raise ValueError(
                f"{path}: unknown class {path.name.removesuffix(suffix)!r}; VOC 2007 has {', '.join(CLASSES)}; "
                "remove the file"
            )
    return [require(folder / f"{name}{suffix}", LAYOUT) for name in CLASSES]


def _flags(path: Path) -> dict[str, int]:
    """A class's list: -1 absent, 0 difficult, 1 present, by image."""
    flags = {}
    for number, line in numbered_lines(path):
        parts = line.split()  # the lists have one space before -1 and two before 0 and 1
        if len(parts) != 2 or parts[1] not in FLAGS:
            raise ValueError(f"{path}: line {number}: {line!r}, expected an image and -1, 0 or 1; get the file again")
        if parts[0] in flags:
            raise ValueError(f"{path}: line {number}: image {parts[0]} is there twice; remove one of the lines")
        flags[parts[0]] = FLAGS[parts[1]]
    return flags


def _listed(raw: Path, split: str) -> tuple[list[str], list[list[int]]]:
    """Names of the images of a split, and the flag of each class for each of them."""
    paths = _class_files(raw, split)
    by_class = [_flags(path) for path in paths]
    names = list(by_class[0])
    for path, flags in zip(paths, by_class, strict=True):
        different = sorted(set(names) ^ set(flags))
        if different:
            raise ValueError(
                f"{path}: lists other images than {paths[0].name}: {different[0]} is in one of them only "
                f"({len(different)} such images); get the lists again"
            )
    return names, [[flags[name] for flags in by_class] for name in names]


def measure(folder: str | Path, split: str, *, threads: int = 1) -> dict[str, Any]:
    """What the expectations are held against, one row an image."""
    read = read_table(Path(folder) / f"{split}.parquet", ["labels", "difficult"])
    labels, difficult = read["labels"].to_pylist(), read["difficult"].to_pylist()
    return measure_photos(folder, split, "image", threads=threads) | {
        "labels_are_0_or_1": [set(row) <= {0, 1} for row in labels],
        "labels": [sum(row) for row in labels],
        "difficult_are_present": [
            all(label == 1 for label, hard in zip(row, hards, strict=True) if hard)
            for row, hards in zip(labels, difficult, strict=True)
        ],
    }


def expectations(*, rows: dict[str, int], size: int) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
    """
    in_set = "expect_column_values_to_be_in_set"
    return [
        *photo_expectations(rows=rows, size=size),
        {"type": in_set, "column": "labels_are_0_or_1", "value_set": [True]},
        # Every image of VOC 2007 was chosen because something of the 20 classes is on it.
        {
            "type": "expect_column_values_to_be_between",
            "column": "labels",
            "min_value": 1,
            "max_value": len(CLASSES),
        },
        {"type": in_set, "column": "difficult_are_present", "value_set": [True]},
    ]
