"""Captions: scenes in twos that differ in order alone, with five sentences each; digits are of its split."""

from pipelines.config.schema import Settings
from pipelines.stages.runner import run
from pipelines.stages.write_splits import write_splits
from rankops.datasets.scenes.captions import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.captions, params.compute.threads
    write_splits("captions", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
