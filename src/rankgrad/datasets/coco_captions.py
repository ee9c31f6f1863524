"""COCO captions with Karpathy's splits for cross-modal retrieval, read from their public layout (SoDeep, 4.2.3)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import in_set
from rankgrad.datasets.public.reading import PhotoDataset, require, with_gate
from rankgrad.datasets.tables.cells import has_word
from rankgrad.io.parquet import IMAGE

__all__ = ["CocoCaptions", "SCHEMA"]  # noqa: RUF022 - the dataset comes first

CAPTIONS = 5  # of an image: the usual protocol takes the first five of those that have more
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("image", IMAGE),
        ("captions", pa.list_(pa.string(), CAPTIONS)),
        ("gallery", pa.int64()),  # images of one number are searched together
    ]
)
# Karpathy's name of a split, and ours: restval is what COCO's validation images left over, used for training.
OURS = {"train": "train", "restval": "train", "val": "val", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class CocoCaptions(PhotoDataset):
    """Images with `captions`, the first five of each.

    Attributes:
        gallery: how many images are searched together: 1,000 in the papers, which cut the 5,000 test images into five
            parts, in their order. None searches all images of a split. Parts are as equal as can be.
    """

    gallery: int | None = None

    layout: ClassVar[str] = """\
coco_captions/
  dataset_coco.json   Karpathy's splits (also known as dataset.json): `images`, each with filepath, filename,
                      split (train, restval, val, test) and sentences (each with raw)
  train2014/          COCO_train2014_000000000009.jpg and so on
  val2014/            COCO_val2014_000000000042.jpg and so on
"""
    needs: ClassVar[tuple[str, ...]] = ("train2014", "val2014")
    schema: ClassVar[pa.Schema] = SCHEMA
    expected: ClassVar[tuple[dict[str, Any], ...]] = (
        in_set("captions", CAPTIONS),
        in_set("captions_have_words", True),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gallery is not None and self.gallery < 2:
            raise ValueError(f"gallery is {self.gallery}, expected at least 2 images, or none to search all of a split")

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        other = raw / "dataset.json"
        path = other if other.is_file() else require(raw / "dataset_coco.json", self.layout)
        kept = ("images", "filepath", "filename", "split", "sentences", "raw")
        try:
            # The words of each caption stand there too: most of the memory, and not used.
            whole = json.loads(path.read_bytes(), object_hook=lambda one: {key: one[key] for key in kept if key in one})
            images = list(whole["images"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path}: not Karpathy's JSON file with a list `images` ({error!r}); get it again"
            ) from error
        rows = []
        for number, image in enumerate(images):
            try:
                file, split = f"{image['filepath']}/{image['filename']}", OURS[image["split"]]
                # A run of spaces and line breaks is one space.
                captions = [" ".join(sentence["raw"].split()) for sentence in image["sentences"][:CAPTIONS]]
                " ".join([file, *captions]).encode()  # JSON can say halves of characters, which no table holds
            except (KeyError, TypeError, AttributeError, UnicodeEncodeError) as error:
                raise ValueError(
                    f"{path}: images[{number}]: not as Karpathy has it ({error!r}); get it again"
                ) from error
            if len(captions) < CAPTIONS or not all(map(has_word, captions)):
                raise ValueError(
                    f"{path}: images[{number}] ({file}): captions are {captions}, expected at least {CAPTIONS}, each "
                    "with a word; remove the image"
                )
            rows.append({"file": file, "split": split, "name": image["filename"], "captions": captions})
        table = pd.DataFrame(rows, columns=["file", "split", "name", "captions"])
        table["split"] = with_gate(table["split"], table["file"], gate_share=self.gate_share, seed=seed)
        splits = table.groupby("split")["file"]
        number, count = splits.cumcount(), splits.transform("size")
        parts = 1 if self.gallery is None else (count / self.gallery).round().clip(lower=1).astype(int)
        return table.assign(gallery=number * parts // count)

    def facts(self, read: pa.Table) -> dict[str, Any]:
        captions = read["captions"].to_pylist()
        return {
            "captions": [len(row) for row in captions],
            "captions_have_words": [all(has_word(caption or "") for caption in row) for row in captions],
            "gallery": read["gallery"].to_pylist(),
        }
