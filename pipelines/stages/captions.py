"""Captions: scenes in twos that differ in order alone, with five sentences each; digits are of its split."""

from pipelines.made_data import write_splits
from pipelines.settings import Settings
from pipelines.stage import run
from rankops.datasets.captions import SCHEMA, tables


def main(params: Settings) -> None:
    options, threads = params.captions, params.compute.threads
    write_splits("captions", tables, options, data=params.data, schema=SCHEMA, threads=threads, unit="images")


if __name__ == "__main__":
    run(main)
