"""Trains label_ranking-rlsep on images of exactly three digits, all else as in its own block (RLSEP, Fig. 5)."""

from dataclasses import replace
from pathlib import Path

from pipelines.config.schema import Settings
from pipelines.reporting.history import write_trained
from pipelines.stages.runner import checkpoint_folder, run
from rankops.datasets.scenes.digits import DIGITS_OF, load
from rankops.datasets.scenes.ranked_mnist import RankedMnist
from rankops.io.atomic import remove_folder
from rankops.seeding import generator
from rankops.tasks import label_ranking

RUN = "label_ranking-rlsep"
NAME = f"{RUN}-three_digits"


def main(params: Settings) -> None:
    options, training = params.runs[RUN].model_dump(), params.training.label_ranking.model_dump()
    scene, deliveries = params.ranked_mnist, params.ranked_mnist.deliveries(params.data)
    dataset = replace(RankedMnist(**scene.model_dump()), digits_per_image=(3, 3))
    splits = [
        dataset.scenes(
            load("data/digits", DIGITS_OF[split], threads=params.compute.threads),
            sum(deliveries[split]),
            generator(scene.seed, "label_ranking_three_digits", split),
        )
        for split in ("train", "val")
    ]
    checkpoint = checkpoint_folder(
        "label_ranking_three_digits", NAME,
        params={
            "run": options, "training": training, "scene": scene.model_dump(), "deliveries": deliveries,
            "compute": params.compute.model_dump(),
        },
        inputs=[Path("data/digits") / f"{DIGITS_OF[split]}.parquet" for split in ("train", "val")],
    )  # fmt: skip
    progress = label_ranking.train(
        *splits, model=options["model"], loss=options["loss"], training=training, seed=options["seed"],
        device=params.compute.device, precision=params.compute.precision, checkpoint=checkpoint, name=NAME,
    )  # fmt: skip
    write_trained(f"experiments/models/{NAME}", label_ranking, progress, name=NAME, training=training)
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
