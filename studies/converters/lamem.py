"""LaMem: photographs and how many people remember them (SoDeep, Section 4.2.1)."""

from pathlib import Path

import pandas as pd

from studies.converters.writing import block_of, convert

# Clips with one frame, so that the task is the same as for videos; the first of five published splits.
BLOCK = block_of("lamem", size=224, frames="image", target="target", id="name", split="split_1")


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each photograph in images/, with a column for each published split (splits/train_1.txt, ...)."""
    folds = []
    for path in sorted((raw / "splits").glob("*.txt")):
        split, _, fold = path.stem.partition("_")
        rows = pd.read_csv(
            path, sep=r"[\s,]+", header=None, names=["name", "target"], engine="python", encoding="utf-8-sig"
        )
        folds.append(rows.assign(split=split, fold=f"split_{fold}"))
    every = pd.concat(folds).pivot(index=["name", "target"], columns="fold", values="split")
    return every.reset_index().assign(image=lambda rows: "images/" + rows["name"])


if __name__ == "__main__":
    convert(table, BLOCK)
