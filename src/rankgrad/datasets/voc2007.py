"""PASCAL VOC 2007 for multi-label classification, read from its public layout (SoDeep, Section 4.2.2)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between, in_set
from rankgrad.datasets.public.reading import SPLITS, PhotoDataset, read_list, with_gate
from rankgrad.io.parquet import IMAGE

__all__ = ["Voc2007", "CLASSES", "SCHEMA"]  # noqa: RUF022 - the dataset comes first

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
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


@dataclass(frozen=True, kw_only=True)
class Voc2007(PhotoDataset):
    """Images with `labels` (0 or 1) of each class, and which of them are `difficult`.

    A difficult object counts as present (label 1): a positive in training. `difficult` tells the metric, which skips
    it in the average precision.
    """

    layout: ClassVar[str] = """\
voc2007/
  VOCdevkit/VOC2007/
    ImageSets/Main/   aeroplane_train.txt, aeroplane_val.txt, aeroplane_test.txt and so on for all 20 classes:
                      a line an image, `000012 -1` (absent), `000017  1` (present), `000023  0` (present, difficult)
    JPEGImages/       000001.jpg and so on, of the trainval and the test archive
"""
    needs: ClassVar[tuple[str, ...]] = (f"{HOME}/ImageSets/Main", f"{HOME}/JPEGImages")
    schema: ClassVar[pa.Schema] = SCHEMA
    expected: ClassVar[tuple[dict[str, Any], ...]] = (
        in_set("labels_are_0_or_1", True),
        # Every image of VOC 2007 was chosen because something of the 20 classes is on it.
        between("labels", 1, len(CLASSES)),
        in_set("difficult_are_present", True),
    )

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        listed = pd.concat([self._split(raw, split) for split in SPLITS], ignore_index=True)
        return listed.assign(split=with_gate(listed["split"], listed["name"], gate_share=self.gate_share, seed=seed))

    def _split(self, raw: Path, split: str) -> pd.DataFrame:
        flags = {}
        for name in CLASSES:
            path = raw / HOME / f"ImageSets/Main/{name}_{split}.txt"
            flags[name] = read_list(path, ["image", "flag"], layout=self.layout, sep=r"\s+").set_index("image")["flag"]
            if wrong := sorted(set(flags[name]) - {"-1", "0", "1"}):
                image = flags[name][flags[name] == wrong[0]].index[0]
                raise ValueError(f"{path}: {image} is {wrong[0]!r}, expected -1, 0 or 1; get the file again")
            if different := sorted(set(flags[name].index) ^ set(flags[CLASSES[0]].index)):
                raise ValueError(
                    f"{path}: {different[0]} is listed there or for {CLASSES[0]}, not in both; get them again"
                )
        table = pd.DataFrame(flags, index=flags[CLASSES[0]].index)
        return pd.DataFrame(
            {
                "file": [f"{HOME}/JPEGImages/{name}.jpg" for name in table.index],
                "split": split,
                "name": table.index,
                "labels": (table != "-1").astype(int).to_numpy().tolist(),
                "difficult": (table == "0").to_numpy().tolist(),
            }
        )

    def facts(self, read: pa.Table) -> dict[str, Any]:
        labels, difficult = read["labels"].to_pylist(), read["difficult"].to_pylist()
        return {
            "labels_are_0_or_1": [set(row) <= {0, 1} for row in labels],
            "labels": [sum(label == 1 for label in row) for row in labels],
            "difficult_are_present": [
                all(hard is False or (hard and label == 1) for label, hard in zip(row, hards, strict=True))
                for row, hards in zip(labels, difficult, strict=True)
            ],
        }
