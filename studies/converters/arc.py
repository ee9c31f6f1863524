"""Photographs with up to three labels in order, as in ARC (RLSEP, Section 5.1)."""

from pathlib import Path

import pandas as pd

from studies.converters.writing import block_of, convert

LABELS = ["label1", "label2", "label3"]
# If the table has such columns, `group: group` and `split: split` are added; so are `classes`, in order.
BLOCK = block_of("arc", size=224, image="image", labels="labels", ordered=True)


def table(raw: Path) -> pd.DataFrame:
    """Return the rows of labels.csv (image, label1 to label3, optionally split and group) with labels in one cell."""
    rows = pd.read_csv(raw / "labels.csv", dtype=str, keep_default_na=False, encoding="utf-8-sig")
    labels = ["|".join(filter(None, cells)) for cells in rows[LABELS].to_numpy().tolist()]
    return rows.drop(columns=LABELS).assign(image="images/" + rows["image"], labels=labels)


if __name__ == "__main__":
    convert(table, BLOCK)
