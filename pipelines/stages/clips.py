"""Clips that drift and zoom, scored by simulated viewers; each split from digits of its own."""

import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.settings import Settings
from pipelines.stage import run
from rankops.atomic_writes import replaced_folder
from rankops.datasets import digits
from rankops.datasets.clips import SCHEMA, class_effects, tables
from rankops.generators import generator


def main(params: Settings) -> None:
    options, threads = params.clips, params.compute.threads
    rows = options.rows.model_dump()
    scene = options.model_dump(exclude={"rows", "seed"})
    # One table for all splits: viewers of the test clips are like those of the others.
    effects = class_effects(generator(options.seed, "clips", "classes"))
    with (
        replaced_folder("data/clips") as folder,
        tqdm(total=sum(rows.values()), desc="clips", unit=" clips") as bar,
    ):
        for split, count in rows.items():
            glyphs = digits.load("data/digits", split, threads=threads)
            draws = generator(options.seed, "clips", split)
            with pq.ParquetWriter(folder / f"{split}.parquet", SCHEMA, compression="zstd") as writer:
                for table in tables(glyphs, count, threads=threads, effects=effects, generator=draws, **scene):
                    writer.write_table(table)
                    bar.update(len(table))


if __name__ == "__main__":
    run(main)
