"""Draw a dataset of scenes: each split from digits of its own."""

from pathlib import Path

import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.config import Settings
from rankops import lookup
from rankops.datasets.scenes import digits
from rankops.io.atomic import replaced_folder

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    block = params.datasets[key]
    dataset = lookup.find("datasets", block.name)(**block.model_dump(exclude={"name"}))
    deliveries = dataset.deliveries(snapshot=params.data.snapshot, growth=params.data.growth)
    rows, threads = sum(map(sum, deliveries.values())), params.compute.threads
    with replaced_folder(Path("data") / key) as folder, tqdm(total=rows, desc=key, unit=" scenes") as bar:
        for split, counts in deliveries.items():
            glyphs = digits.load("data/digits", digits.DIGITS_OF[split])
            with pq.ParquetWriter(folder / f"{split}.parquet", dataset.schema, compression="zstd") as writer:
                for table in dataset.tables(glyphs, split, counts, threads=threads):
                    writer.write_table(table)
                    bar.update(len(table))
