"""Ranked MNIST: scenes of digits of different sizes, each split from digits of its own."""

from pipelines.made_data import write_splits
from pipelines.settings import Settings
from pipelines.stage import run
from rankops.datasets.ranked_mnist import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.ranked_mnist, params.compute.threads
    write_splits("ranked_mnist", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
