"""COCO captions with Karpathy's splits for cross-modal retrieval, read from their public layout (SoDeep, 4.2.3)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankops.datasets.public.reading import (
    check_listed,
    measure_photos,
    photo_expectations,
    read_photos,
    require,
    splits_of,
)
from rankops.io.parquet import IMAGE, read_table

__all__ = ["CAPTIONS", "LAYOUT", "SCHEMA", "check", "expectations", "measure", "tables"]

CAPTIONS = 5  # of an image: the usual protocol takes the first five of those that have more
LAYOUT = """\
coco_captions/
  dataset_coco.json   Karpathy's splits (also known as dataset.json): `images`, each with filepath, filename,
                      split (train, restval, val, test) and sentences (each with raw)
  train2014/          COCO_train2014_000000000009.jpg and so on
  val2014/            COCO_val2014_000000000042.jpg and so on
"""
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("image", IMAGE),
        ("captions", pa.list_(pa.string(), CAPTIONS)),
    ]
)
# Karpathy's name of a split, and ours: restval is what COCO's validation images left over, used for training.
OURS = {"train": "train", "restval": "train", "val": "val", "test": "test"}
LISTS = ("dataset_coco.json", "dataset.json")


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
    """One split in pieces: `id`, `name`, `image` and `captions` (the first five).

    Args:
        raw: folder of the dataset, see `LAYOUT`.
        split: train (Karpathy's train and restval), val, test or all.
        skipped: takes the names of broken files that were left out.
        size: pixels on a side.
        threads: to decode with.
        seed: taken by all datasets alike; nothing is drawn here.
        skip_broken: leave out images that cannot be decoded.

    Raises:
        FileNotFoundError: the list or an image is missing.
        ValueError: the list is not as Karpathy's, an image has fewer than five captions or an empty one, or is broken.
    """
    list_, named = _listed(Path(raw), split)
    files = list(named)
    check_listed(raw, files, listed_in=f"{list_} (split {split})")
    rows = 0
    for places, photos in read_photos(raw, files, size=size, threads=threads, skip_broken=skip_broken, skipped=skipped):
        columns = {
            "id": range(rows, rows + len(places)),
            "name": [Path(files[place]).name for place in places],
            "image": photos,
            "captions": [named[files[place]] for place in places],
        }
        yield pa.table(columns, schema=SCHEMA)
        rows += len(places)


def check(raw: str | Path, *, skip_broken: bool = False) -> None:
    """Sees that the folder has the public layout, before anything is decoded; options as for `tables`.

    Raises:
        FileNotFoundError: a file is missing; the message names it and shows the layout.
        ValueError: there are two lists.
    """
    _list(Path(raw))
    for folder in ("train2014", "val2014"):
        require(Path(raw) / folder, LAYOUT)


def _list(raw: Path) -> Path:
    there = [raw / name for name in LISTS if (raw / name).is_file()]
    if len(there) > 1:
        raise ValueError(f"{raw}: both {' and '.join(LISTS)} are there; remove the one that is not meant")
    return there[0] if there else require(raw / LISTS[0], LAYOUT)


def _listed(raw: Path, split: str) -> tuple[Path, dict[str, list[str]]]:
    """The list, and the captions of each image of a split by its file."""
    path = _list(raw)
    kept = ("images", "filepath", "filename", "split", "sentences", "raw")
    try:
        # The words of each caption stand there too: most of the memory, and not used.
        whole = json.loads(path.read_bytes(), object_hook=lambda one: {key: one[key] for key in kept if key in one})
    except ValueError as error:
        raise ValueError(f"{path}: not a whole JSON file ({error}); get it again") from error
    images = whole.get("images") if isinstance(whole, dict) else None
    if not isinstance(images, list):
        raise ValueError(f"{path}: no list `images`, expected Karpathy's file; get it again")
    wanted = splits_of(split)
    found: dict[str, list[str]] = {}
    for number, image in enumerate(images):
        where = f"{path}: images[{number}]"
        for field in ("filepath", "filename", "split", "sentences"):
            if not isinstance(image, dict) or field not in image:
                raise ValueError(f"{where}: no {field}, expected Karpathy's file; get it again")
        if not isinstance(image["split"], str) or image["split"] not in OURS:
            raise ValueError(f"{where}: split is {image['split']!r}, expected one of {', '.join(OURS)}")
        if OURS[image["split"]] not in wanted:
            continue
        file = f"{image['filepath']}/{image['filename']}"
        if file in found:
            raise ValueError(f"{where}: {file} is there twice; remove one of the entries")
        found[file] = _captions(image["sentences"], where=f"{where} ({file})")
    return path, found


def _captions(sentences: list[dict[str, str]], *, where: str) -> list[str]:
    """The first five captions of an image, each run of spaces and line breaks as one space."""
    if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
        raise ValueError(
            f"{where}: sentences are no list of objects with `raw`, expected Karpathy's file; get it again"
        )
    captions = [" ".join(str(sentence.get("raw", "")).split()) for sentence in sentences[:CAPTIONS]]
    if len(captions) < CAPTIONS:
        raise ValueError(f"{where}: {len(captions)} captions, expected at least {CAPTIONS}; remove the image")
    if not all(captions):
        raise ValueError(f"{where}: caption {captions.index('')} is empty; remove it or the image")
    return captions


def measure(folder: str | Path, split: str, *, threads: int = 1) -> dict[str, Any]:
    """What the expectations are held against, one row an image."""
    captions = read_table(Path(folder) / f"{split}.parquet", ["captions"])["captions"].to_pylist()
    return measure_photos(folder, split, "image", threads=threads) | {
        "captions": [len(row) for row in captions],
        "shortest_caption": [min(len((caption or "").strip()) for caption in row) for row in captions],
    }


def expectations(*, rows: dict[str, int], size: int) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
    """
    return [
        *photo_expectations(rows=rows, size=size),
        {"type": "expect_column_values_to_be_in_set", "column": "captions", "value_set": [CAPTIONS]},
        {"type": "expect_column_values_to_be_between", "column": "shortest_caption", "min_value": 1},
    ]
