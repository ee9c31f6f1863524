"""Write score vectors and their ranks, for training and measuring sorters, and validate them."""

from pathlib import Path

import pyarrow.parquet as pq

from pipelines.config import Settings
from rankgrad.datasets.files.expected import joined
from rankgrad.datasets.vectors.score_vectors import expectations, measure, table
from rankgrad.io.atomic import replaced_folder
from rankgrad.seeding import generator

__all__ = ["FOLDER", "check", "main"]

FOLDER = Path("data/score_vectors")


def main(params: Settings, key: str) -> None:
    options = params.score_vectors[key]
    with replaced_folder(FOLDER / key) as folder:
        for split, rows in options.rows.model_dump().items():
            draws = generator(options.seed, "score_vectors", split)
            pq.write_table(table(rows, options.length, draws), folder / f"{split}.parquet", compression="zstd")
    check(params, key)


def check(params: Settings, key: str) -> None:
    """Check data/score_vectors/<key> against expectations, and write checks/score_vectors/<key>.passed."""
    from pipelines.expectations import Measured, hold  # takes seconds, and other stages import this one

    options = params.score_vectors[key]
    rows = options.rows.model_dump()

    def measured() -> Measured:
        return joined([measure(FOLDER / key, split) for split in rows]), expectations(rows, length=options.length)

    hold(f"score_vectors/{key}", measured)
