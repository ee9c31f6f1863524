"""Write handwritten digits in disjoint splits, and validate them: MNIST's, or those of its subset that ships."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.expectations import Measured, hold, joined
from rankgrad.datasets.scenes.digits import expectations, measure, splits, table
from rankgrad.io.atomic import replaced_folder

__all__ = ["check", "main"]


def main(params: Settings) -> None:
    source = params.digits.source
    made = splits(source, f"data/raw/{source}")
    with replaced_folder("data/digits") as folder:
        for split, digits in made.items():
            pq.write_table(table(digits), folder / f"{split}.parquet", compression="zstd", use_dictionary=False)
        manifest = {"source": source, "rows": {split: len(digits.glyph) for split, digits in made.items()}}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    check(params)


def check(params: Settings) -> None:
    """Hold data/digits against what is expected of them, and write checks/digits.passed."""

    def measured() -> Measured:
        rows = json.loads(Path("data/digits/manifest.json").read_text())["rows"]
        return joined([measure("data/digits", split) for split in rows]), expectations(rows)

    hold("digits", measured)
