"""Clips that drift and zoom, scored by simulated viewers; each split from digits of its own."""

from functools import partial

from pipelines.config.schema import Settings
from pipelines.stages.runner import run
from pipelines.stages.write_splits import write_splits
from rankops.datasets.scenes.clips import SCHEMA, class_effects, tables
from rankops.seeding import generator


def main(params: Settings) -> None:
    options, threads = params.clips, params.compute.threads
    # One table for all splits: viewers of the test clips are like those of the others.
    effects = class_effects(generator(options.seed, "clips", "classes"))
    write_splits(
        "clips", partial(tables, effects=effects), options, data=params.data, schema=SCHEMA, threads=threads,
        unit="clips",
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
