"""Solar cells: photographs with experts' grades of how defective they are, from the ELPV dataset."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between
from rankgrad.datasets.public.packages import PackagedFile
from rankgrad.datasets.public.reading import DrawnSplits, PhotoDataset, read_list, scores_of
from rankgrad.io.parquet import IMAGE

__all__ = ["FILE", "SolarCells"]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("frames", pa.list_(IMAGE, 1)), ("target", pa.float32())]
)
FILE = PackagedFile(
    package="elpv-dataset",
    version="1.0.0.post1",
    wheel="85e31c1126ee9b48e62d3a0232c58f58b2d189b0814a45c13642fa0415af4a4c",
    member="elpv_dataset/data",
    digest="24e4fbe28b1e525a9912cfb2408f3e58a8145941ca791e3097f577b7b6b1b0d1",
    origin="The data are the ELPV dataset by Buerhop-Lutz, Deitsch and others, CC BY-NC-SA 4.0: not for commercial use",
)


@dataclass(frozen=True, kw_only=True)
class SolarCells(DrawnSplits, PhotoDataset):
    """Photographs, as clips of one frame, with a `target`: the grade of defect (0, 1/3, 2/3, 1) less its training mean.

    So a regression that starts at 0 starts at the mean. Cells are split by a hash of `seed` and their names.
    """

    val_share: float = 0.15
    test_share: float = 0.25

    layout: ClassVar[str] = """\
solar_cells/   `rankgrad fetch solar_cells` downloads it
  data/
    labels.csv   a line a cell: `images/cell0001.png 1.0 mono`
    images/
"""
    needs: ClassVar[tuple[str, ...]] = ("data/images",)
    schema: ClassVar[pa.Schema] = SCHEMA
    checked: ClassVar[tuple[str, ...]] = ("target",)
    foldable: ClassVar[bool] = False  # the mean grade
    expected: ClassVar[tuple[dict[str, Any], ...]] = (between("target", -1.0, 1.0),)

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        path = raw / "data/labels.csv"
        table = read_list(path, ["name", "grade", "module"], layout=self.layout, sep=r"\s+")
        splits = self.drawn(table["name"].tolist(), seed=seed)
        return table.assign(file="data/" + table["name"], split=splits, grade=scores_of(table, "grade", path))

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        """Return the mean grade of training."""
        listed = self.placed(Path(raw), seed=seed)
        learned = listed["grade"][listed["split"] == "train"]
        if not len(learned):
            raise ValueError(f"{raw}: none of its {len(listed)} cells is for training; get the dataset again")
        return {"mean_grade": float(learned.mean())}

    def prepared(self, listed: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
        if "mean_grade" not in fitted:
            raise ValueError("the mean grade of training is missing; expected what `fit` gave for the first delivery")
        return listed.assign(target=listed["grade"] - fitted["mean_grade"])
