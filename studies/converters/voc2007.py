"""PASCAL VOC 2007: photographs labeled with the classes they show, out of 20 (SoDeep, Section 4.2.2)."""

from pathlib import Path

import pandas as pd

from studies.converters.writing import block_of, convert

CLASSES = [
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
]  # fmt: skip
HOME = "VOCdevkit/VOC2007"  # below the raw folder, with ImageSets/Main and JPEGImages
BLOCK = block_of("voc2007", size=224, image="image", labels=CLASSES, ignore="difficult_*", id="name", split="split")


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each photograph: labels, and which of them are difficult, so average precision ignores them."""
    splits = []
    for split in ("train", "val", "test"):
        flags = {}
        for name in CLASSES:
            path = raw / HOME / f"ImageSets/Main/{name}_{split}.txt"
            flags[name] = pd.read_csv(path, sep=r"\s+", header=None, dtype={0: str}, index_col=0)[1]
        every = pd.DataFrame(flags)  # -1: absent, 0: difficult, 1: present
        if not every.isin([-1, 0, 1]).all(axis=None):
            raise ValueError(f"{HOME}/ImageSets/Main: lists of {split} differ, or a flag is not -1, 0 or 1")
        labels = (every >= 0).astype(int)
        difficult = (every == 0).astype(int).add_prefix("difficult_")
        splits.append(pd.concat([labels, difficult], axis=1).assign(split=split))
    rows = pd.concat(splits).rename_axis("name").reset_index()
    return rows.assign(image=f"{HOME}/JPEGImages/" + rows["name"] + ".jpg")


if __name__ == "__main__":
    convert(table, BLOCK)
