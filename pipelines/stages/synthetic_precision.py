"""Average precision on points with a hidden score, against iterations and flipped labels (SoDeep, Fig. 6)."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from pipelines.config.schema import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stages.runner import checkpoint_folder, run
from rankops.datasets.vectors.labelled_points import draw, with_flips
from rankops.io.atomic import remove_folder, replaced_file
from rankops.io.checkpoints import build
from rankops.lookup import find
from rankops.metrics.mean_average_precision import mean_average_precision
from rankops.seeding import generator
from rankops.training.loop import fit, random_batches
from rankops.training.objective import Criterion, grouped


def main(params: Settings, method: str) -> None:
    plan = load_experiments(params).synthetic_precision
    options = plan.methods[method]
    sorters = params.benchmark_sorters.model_dump()["untrained"]
    for folder, name in (("models", "perceptron"), ("losses", options.loss.name)):
        find(folder, name)  # imported, so that what was kept is of their present code
    weights = [] if options.sorter is None else Path("models/sorters", options.sorter).glob("model.*")
    checkpoint = checkpoint_folder(
        "synthetic_precision", method,
        params={"plan": plan.model_dump(), "compute": params.compute.model_dump(), "sorters": sorters}, inputs=weights,
    )  # fmt: skip
    curves = []
    with tqdm(total=len(plan.flipped) * plan.seeds, desc=method, unit=" trainings") as bar:
        for flipped in plan.flipped:
            for seed in range(1, plan.seeds + 1):
                network_options = {"hidden": plan.hidden, "layers": plan.layers}
                points, labels = draw(
                    plan.rows, features=plan.features, positive=plan.positive, seed=seed, **network_options
                )  # fmt: skip
                half = plan.rows // 2
                given = with_flips(labels[:half], flipped, generator(seed, "synthetic_precision", "flips"))
                learner = build(
                    "models", "perceptron", network_options, seed=seed + 1000, features=plan.features, outputs=1
                )  # fmt: skip
                sorter = None if options.sorter is None else sorter_of(params, options.sorter)
                criterion = Criterion(options.loss.model_dump(), sorter=sorter)
                group = criterion.length or plan.batch_size

                def batches(draws: torch.Generator, half: int = half) -> Iterator[Tensor]:
                    # Whole batches alone, so that every method makes as many steps.
                    return random_batches(half, plan.batch_size, draws, multiple_of=plan.batch_size)

                def loss(
                    learner: nn.Module, rows: Tensor, criterion=criterion, group=group, points=points, given=given
                ) -> Tensor:  # fmt: skip
                    scores = learner(points[rows])
                    return criterion(grouped(scores, group), grouped(given[rows, None], group), epoch=1)

                def validate(learner: nn.Module, points=points, labels=labels, half=half) -> dict[str, float]:
                    precision = mean_average_precision(learner(points[half:]), labels[half:, None])
                    return {"average_precision": precision.item()}

                epochs = fit(
                    learner, batches=batches, loss=loss, validate=validate, judged_by="average_precision",
                    epochs=plan.epochs, batches_per_epoch=half // plan.batch_size, patience=plan.epochs,
                    optimizer=options.optimizer.model_dump(), schedule={"name": "constant"}, seed=seed,
                    device="cpu", checkpoint=checkpoint / f"{flipped}-{seed}", name=f"synthetic_precision.{method}",
                )  # fmt: skip
                curve = [epoch.validation["average_precision"] for epoch in epochs]
                curves.append({"flipped": flipped, "seed": seed, "average_precision": curve})
                bar.update()
    result = {"iterations_per_epoch": plan.rows // 2 // plan.batch_size, "curves": curves}
    with replaced_file(f"results/synthetic_precision/{method}.json") as partial:
        partial.write_text(json.dumps(result, indent=2) + "\n")
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
