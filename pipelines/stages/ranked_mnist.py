"""Ranked MNIST: scenes of digits of different sizes, each split from digits of its own."""

from pipelines.config.schema import Settings
from pipelines.stages.runner import run
from pipelines.stages.write_splits import write_splits
from rankops.datasets.scenes.ranked_mnist import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.ranked_mnist, params.compute.threads
    write_splits("ranked_mnist", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
