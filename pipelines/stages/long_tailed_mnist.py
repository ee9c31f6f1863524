"""Long-tailed MNIST: scenes of common and rare digits among distractors, each split from digits of its own."""

from pipelines.made_data import write_splits
from pipelines.settings import Settings
from pipelines.stage import run
from rankops.datasets.long_tailed_mnist import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.long_tailed_mnist, params.compute.threads
    write_splits("long_tailed_mnist", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
