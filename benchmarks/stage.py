"""Images a second of the whole ranked_mnist stage at 224 px: recipes, drawing, PNG and Parquet."""

import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch

from benchmarks.results import write
from rankops.datasets.digits import Digits, tables
from rankops.datasets.ranked_mnist import SCHEMA
from rankops.datasets.ranked_mnist import tables as scenes
from rankops.tables import decode_images

IMAGES = 4000


def main() -> None:
    torch.set_num_threads(2)
    table = tables("bundled", "", seed=0, threads=2)["train"]
    images = torch.from_numpy(decode_images(table["image"], path="bundled", threads=2))
    digits = Digits(torch.arange(len(table)), images, torch.from_numpy(table["label"].to_numpy().copy()))
    figures = {}
    for canvas in (64, 224):
        options = {"canvas": canvas, "digits_per_image": (3, 6), "scale": (1.0, 4.0), "overlap": 0.0}
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            with pq.ParquetWriter(Path(folder) / "train.parquet", SCHEMA, compression="zstd") as writer:
                for part in scenes(digits, IMAGES, threads=2, generator=torch.Generator().manual_seed(0), **options):
                    writer.write_table(part)
            figures[f"{canvas} px"] = {"images/s": IMAGES / (time.perf_counter() - start)}
    write("stage", figures)


if __name__ == "__main__":
    main()
