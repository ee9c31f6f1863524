"""Images a second of the whole ranked_mnist stage at 224 px: recipes, drawing, PNG and Parquet."""

import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch

from benchmarks.drawing import bundled_digits
from benchmarks.results import write
from rankops.datasets.scenes.ranked_mnist import SCHEMA, tables

IMAGES = 4000


def main() -> None:
    torch.set_num_threads(2)
    digits = bundled_digits()
    figures = {}
    for canvas in (64, 224):
        options = {"canvas": canvas, "digits_per_image": (3, 6), "scale": (1.0, 4.0), "overlap": 0.0}
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            with pq.ParquetWriter(Path(folder) / "train.parquet", SCHEMA, compression="zstd") as writer:
                for part in tables(digits, IMAGES, threads=2, generator=torch.Generator().manual_seed(0), **options):
                    writer.write_table(part)
            figures[f"{canvas} px"] = {"images/s": IMAGES / (time.perf_counter() - start)}
    write("stage", figures)


if __name__ == "__main__":
    main()
