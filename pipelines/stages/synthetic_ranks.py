"""Score vectors with their ranks, on which sorters are trained and measured."""

import pyarrow.parquet as pq

from pipelines.settings import Settings
from pipelines.stage import run
from rankops.atomic_writes import replaced_folder
from rankops.datasets.synthetic_ranks import table
from rankops.generators import generator


def main(params: Settings) -> None:
    options = params.synthetic_ranks
    with replaced_folder("data/synthetic_ranks") as folder:
        for split, rows in options.rows.model_dump().items():
            draws = generator(options.seed, "synthetic_ranks", split)
            pq.write_table(table(rows, options.length, draws), folder / f"{split}.parquet", compression="zstd")


if __name__ == "__main__":
    run(main)
