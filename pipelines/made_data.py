"""How scenes made of digits become a folder of splits."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.settings import Scenes
from rankops.atomic_writes import replaced_folder
from rankops.datasets import digits
from rankops.generators import generator

__all__ = ["write_splits"]


def write_splits(
    name: str, tables: Callable[..., Iterator[pa.Table]], options: Scenes, *, schema: pa.Schema, threads: int, unit: str
) -> None:
    """Writes data/<name>: each split from digits and draws of its own, in pieces, whole or not at all.

    Args:
        name: of the dataset.
        tables: of the digits of a split, a number of rows, and the dataset's options.
        options: the dataset's block of the params.
        schema: of the tables.
        threads: to encode images with.
        unit: what a row is, for the progress bar.
    """
    rows = options.rows.model_dump()
    scene = options.model_dump(exclude={"rows", "seed"})
    with (
        replaced_folder(f"data/{name}") as folder,
        tqdm(total=sum(rows.values()), desc=name, unit=f" {unit}") as bar,
    ):
        for split, count in rows.items():
            glyphs = digits.load("data/digits", split, threads=threads)
            draws = generator(options.seed, name, split)
            with pq.ParquetWriter(folder / f"{split}.parquet", schema, compression="zstd") as writer:
                for table in tables(glyphs, count, threads=threads, generator=draws, **scene):
                    writer.write_table(table)
                    bar.update(len(table))
