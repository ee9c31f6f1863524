"""COCO captions with Karpathy's splits: photographs, each with five sentences (SoDeep, Section 4.2.3)."""

import json
from pathlib import Path

import pandas as pd

from studies.converters.writing import convert

CAPTIONS = [f"caption_{number}" for number in range(1, 6)]  # the usual protocol takes the first five
BLOCK = {
    "name": "table",
    "raw": "data/raw/coco_captions",
    "size": 224,
    "args": {"file": "coco_captions.parquet", "image": "image", "captions": CAPTIONS, "split": "split"},
    "seed": 1,
}
# Karpathy's name of a split, and ours: restval is what COCO's validation images left over, used for training.
OURS = {"train": "train", "restval": "train", "val": "val", "test": "test"}


def table(raw: Path) -> pd.DataFrame:
    """Return a row a photograph, of dataset_coco.json (or dataset.json), which lies beside train2014 and val2014."""
    path = raw / "dataset_coco.json"
    rows = []
    for photo in json.loads((path if path.is_file() else raw / "dataset.json").read_bytes())["images"]:
        row = {"image": f"{photo['filepath']}/{photo['filename']}", "split": OURS[photo["split"]]}
        for column, sentence in zip(CAPTIONS, photo["sentences"], strict=False):
            row[column] = " ".join(sentence["raw"].split())
        rows.append(row)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    convert(table, BLOCK)
