"""Long-tailed MNIST: scenes of common and rare digits among distractors, each split from digits of its own."""

import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.settings import Settings
from pipelines.stage import run
from rankops.atomic_writes import replaced_folder
from rankops.datasets import digits
from rankops.datasets.long_tailed_mnist import SCHEMA, tables
from rankops.generators import generator


def main(params: Settings) -> None:
    options, threads = params.long_tailed_mnist, params.compute.threads
    rows = options.rows.model_dump()
    scene = options.model_dump(exclude={"rows", "seed"})
    with (
        replaced_folder("data/long_tailed_mnist") as folder,
        tqdm(total=sum(rows.values()), desc="long_tailed_mnist", unit=" images") as bar,
    ):
        for split, count in rows.items():
            glyphs = digits.load("data/digits", split, threads=threads)
            draws = generator(options.seed, "long_tailed_mnist", split)
            with pq.ParquetWriter(folder / f"{split}.parquet", SCHEMA, compression="zstd") as writer:
                for table in tables(glyphs, count, threads=threads, generator=draws, **scene):
                    writer.write_table(table)
                    bar.update(len(table))


if __name__ == "__main__":
    run(main)
