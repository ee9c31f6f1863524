"""Solar cells: photographs with experts' grades of defects, from the ELPV dataset."""

from pathlib import Path

import numpy as np
import pandas as pd

from studies.converters.packages import PackagedFile
from studies.converters.writing import block_of, convert, drawn_splits

FILE = PackagedFile(
    package="elpv-dataset",
    version="1.0.0.post1",
    wheel="85e31c1126ee9b48e62d3a0232c58f58b2d189b0814a45c13642fa0415af4a4c",
    member="elpv_dataset/data",
    digest="24e4fbe28b1e525a9912cfb2408f3e58a8145941ca791e3097f577b7b6b1b0d1",
    origin="The data are the ELPV dataset by Buerhop-Lutz, Deitsch and others, CC BY-NC-SA 4.0: not for commercial use",
)
BLOCK = block_of("solar_cells", size=64, frames="image", target="target", id="name", split="split", gate_share=0)


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each cell: its grade (0, 1/3, 2/3, or 1) minus the training mean, where regression starts."""
    rows = pd.read_csv(raw / "data/labels.csv", sep=r"\s+", header=None, names=["name", "grade", "module"])
    rows["split"] = drawn_splits(rows["name"], test=0.25, val=0.15)
    center = rows["grade"][rows["split"] == "train"].mean()
    return rows.assign(image="data/" + rows["name"], target=(rows["grade"] - center).astype(np.float32))


if __name__ == "__main__":
    convert(table, BLOCK, FILE)
