"""Write handwritten digits in disjoint splits: MNIST if it is there, else those that scikit-learn ships."""

import json
import logging
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.config import Settings
from rankops.datasets.scenes import mnist
from rankops.datasets.scenes.digits import tables
from rankops.io.atomic import replaced_folder

__all__ = ["main"]

RAW = Path("data/raw/mnist")


def main(params: Settings) -> None:
    source = params.digits.source
    if source == "auto":
        # Some of the files, or damaged ones, are a mistake to be told, not a reason to use other digits.
        source = "mnist" if mnist.is_there(RAW) else "bundled"
        if source == "bundled":
            logging.warning(
                "NO MNIST IN %s: using the 1,797 small digits that scikit-learn ships. Figures will differ from the "
                "papers'. To use MNIST: RANKOPS_MNIST_ROOT=<its folder> rankops fetch, then dvc repro",
                RAW,
            )
    made = tables(source, RAW, seed=params.digits.seed)
    with replaced_folder("data/digits") as folder:
        for split, table in made.items():
            pq.write_table(table, folder / f"{split}.parquet", compression="zstd", use_dictionary=False)
        manifest = {"source": source, "rows": {split: len(table) for split, table in made.items()}}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
