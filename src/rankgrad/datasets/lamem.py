"""LaMem for memorability of single images, read from its public layout (SoDeep, Section 4.2.1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between
from rankgrad.datasets.public.reading import SPLITS, PhotoDataset, read_list, scores_of, with_gate
from rankgrad.io.parquet import IMAGE

__all__ = ["Lamem", "SCHEMA"]  # noqa: RUF022 - the dataset comes first

FRAMES = 1  # a photo is a clip of one frame, so that the task is the same as for videos
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("frames", pa.list_(IMAGE, FRAMES)), ("target", pa.float32())]
)


@dataclass(frozen=True, kw_only=True)
class Lamem(PhotoDataset):
    """Images, as clips of one frame, with a `target` in [0, 1].

    Attributes:
        fold: which of the dataset's own splits, from 1.
    """

    fold: int = 1

    layout: ClassVar[str] = """\
lamem/
  images/   00000001.jpg and so on
  splits/   train_1.txt, val_1.txt, test_1.txt and so on for five folds: a line an image, `00000001.jpg 0.83`,
            separated by a space or a comma
"""
    needs: ClassVar[tuple[str, ...]] = ("images",)
    schema: ClassVar[pa.Schema] = SCHEMA
    checked: ClassVar[tuple[str, ...]] = ("target",)
    photos: ClassVar[int] = FRAMES
    expected: ClassVar[tuple[dict[str, Any], ...]] = (between("target", 0.0, 1.0),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fold < 1:
            raise ValueError(f"fold is {self.fold}, expected a number from 1")

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        parts = []
        for split in SPLITS:
            path = raw / f"splits/{split}_{self.fold}.txt"
            table = read_list(path, ["name", "target"], layout=self.layout, sep=r"[\s,]+")
            parts.append(table.assign(target=scores_of(table, "target", path), split=split))
        listed = pd.concat(parts, ignore_index=True)
        splits = with_gate(listed["split"], listed["name"], gate_share=self.gate_share, seed=seed)
        return listed.assign(file="images/" + listed["name"], split=splits)
