"""Write handwritten digits in disjoint splits: MNIST's, or those of its subset that ships with the project."""

import json

import pyarrow.parquet as pq

from pipelines.config import Settings
from rankops.datasets.scenes.digits import splits, table
from rankops.io.atomic import replaced_folder

__all__ = ["main"]


def main(params: Settings) -> None:
    source = params.digits.source
    made = splits(source, f"data/raw/{source}")
    with replaced_folder("data/digits") as folder:
        for split, digits in made.items():
            pq.write_table(table(digits), folder / f"{split}.parquet", compression="zstd", use_dictionary=False)
        manifest = {"source": source, "rows": {split: len(digits.glyph) for split, digits in made.items()}}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
