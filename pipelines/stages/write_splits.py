"""How scenes made of digits become a folder of splits."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.config.schema import Data, Scenes
from rankops.datasets.scenes import digits
from rankops.io.atomic import replaced_folder
from rankops.seeding import generator

__all__ = ["write_splits"]


def write_splits(
    name: str,
    tables: Callable[..., Iterator[pa.Table]],
    options: Scenes,
    *,
    data: Data,
    schema: pa.Schema,
    threads: int,
    unit: str,
) -> None:
    """Writes data/<name>: each split from digits and draws of its own, in pieces, whole or not at all.

    Each snapshot's new training scenes have draws of their own and come after the earlier ones, which stay as they are.

    Args:
        name: of the dataset.
        tables: of the digits of a split, a number of rows, and the dataset's options.
        options: the dataset's block of the params.
        data: how much has come in.
        schema: of the tables.
        threads: to encode images with.
        unit: what a row is, for the progress bar.
    """
    deliveries = options.deliveries(data)
    scene = options.model_dump(exclude={"rows", "seed"})
    with (
        replaced_folder(f"data/{name}") as folder,
        tqdm(total=sum(map(sum, deliveries.values())), desc=name, unit=f" {unit}") as bar,
    ):
        for split, counts in deliveries.items():
            glyphs = digits.load("data/digits", digits.DIGITS_OF[split], threads=threads)
            with pq.ParquetWriter(folder / f"{split}.parquet", schema, compression="zstd") as writer:
                for number, count in enumerate(counts):
                    draws = generator(options.seed, name, split, *([f"snapshot {number + 1}"] if number else []))
                    for table in tables(
                        glyphs, count, threads=threads, generator=draws, first=sum(counts[:number]), **scene
                    ):
                        writer.write_table(table)
                        bar.update(len(table))
