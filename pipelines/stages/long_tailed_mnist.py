"""Long-tailed MNIST: scenes of common and rare digits among distractors, each split from digits of its own."""

from pipelines.config.schema import Settings
from pipelines.stages.runner import run
from pipelines.stages.write_splits import write_splits
from rankops.datasets.scenes.long_tailed_mnist import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.long_tailed_mnist, params.compute.threads
    write_splits("long_tailed_mnist", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
