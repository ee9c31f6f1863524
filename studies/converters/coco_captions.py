"""COCO captions with Karpathy's splits: photographs, each with five sentences (SoDeep, Section 4.2.3)."""

import json
from pathlib import Path

import pandas as pd

from studies.converters.writing import block_of, convert

CAPTIONS = [f"caption_{number}" for number in range(1, 6)]  # the standard protocol uses the first five
BLOCK = block_of("coco_captions", size=224, image="image", captions=CAPTIONS, gallery="gallery", split="split")
GALLERY = 1000  # consecutive test images that the papers search together
# Karpathy's names of splits, and ours; restval has the remaining images of COCO's validation split, used for training.
OURS = {"train": "train", "restval": "train", "val": "val", "test": "test"}


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each photograph of dataset_coco.json (or dataset.json), next to train2014 and val2014."""
    path = raw / "dataset_coco.json"
    rows = []
    for photo in json.loads((path if path.is_file() else raw / "dataset.json").read_bytes())["images"]:
        row = {"image": f"{photo['filepath']}/{photo['filename']}", "split": OURS[photo["split"]]}
        for column, sentence in zip(CAPTIONS, photo["sentences"], strict=False):
            row[column] = " ".join(sentence["raw"].split())
        rows.append(row)
    table = pd.DataFrame(rows)
    number, count = table.groupby("split").cumcount(), table.groupby("split")["split"].transform("size")
    galleries = (count / GALLERY).round().clip(lower=1).astype(int)  # of nearly equal size
    return table.assign(gallery=table["split"] + " " + (number * galleries // count).astype(str))


if __name__ == "__main__":
    convert(table, BLOCK)
