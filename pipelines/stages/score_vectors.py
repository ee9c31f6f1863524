"""Write score vectors with their ranks, on which sorters are trained and measured, and validate them."""

import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.expectations import Measured, hold, joined
from rankgrad.datasets.vectors.score_vectors import expectations, measure, table
from rankgrad.io.atomic import replaced_folder
from rankgrad.seeding import generator

__all__ = ["check", "main"]


def main(params: Settings) -> None:
    options = params.score_vectors
    with replaced_folder("data/score_vectors") as folder:
        for split, rows in options.rows.model_dump().items():
            draws = generator(options.seed, "score_vectors", split)
            pq.write_table(table(rows, options.length, draws), folder / f"{split}.parquet", compression="zstd")
    check(params)


def check(params: Settings) -> None:
    """Hold data/score_vectors against what is expected of them, and write checks/score_vectors.passed."""
    options = params.score_vectors
    rows = options.rows.model_dump()

    def measured() -> Measured:
        parts = [measure("data/score_vectors", split) for split in rows]
        return joined(parts), expectations(rows, length=options.length)

    hold("score_vectors", measured)
