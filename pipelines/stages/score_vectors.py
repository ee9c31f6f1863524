"""Write score vectors with their ranks, on which sorters are trained and measured."""

import pyarrow.parquet as pq

from pipelines.config import Settings
from rankops.datasets.vectors.score_vectors import table
from rankops.io.atomic import replaced_folder
from rankops.seeding import generator

__all__ = ["main"]


def main(params: Settings) -> None:
    options = params.score_vectors
    with replaced_folder("data/score_vectors") as folder:
        for split, rows in options.rows.model_dump().items():
            draws = generator(options.seed, "score_vectors", split)
            pq.write_table(table(rows, options.length, draws), folder / f"{split}.parquet", compression="zstd")
