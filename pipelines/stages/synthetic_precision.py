"""Train on points with a hidden score: average precision against iterations and flipped labels (SoDeep, Fig. 6)."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from pipelines.config import Settings
from pipelines.config.schema import NONE, SyntheticPrecision, required
from pipelines.running.runner import checkpoint_folder
from rankops.datasets.vectors.labelled_points import draw, with_flips
from rankops.io.atomic import remove_folder, replaced_file
from rankops.io.checkpoints import build
from rankops.metrics.mean_average_precision import mean_average_precision
from rankops.seeding import generator
from rankops.sorters import load_sorter
from rankops.training.loop import fit
from rankops.training.objective import Objective, grouped
from rankops.training.phase import Batch, Phase

Data = tuple[Tensor, Tensor]  # points (n, features) and labels (n,)


class Precision(Phase):
    """Tell positive points from others in lists of one length; validated by average precision.

    Whole batches alone, so that every method makes as many steps.
    """

    monitor = "average_precision"

    def __init__(self, network: nn.Module, train: Data, val: Data, objective: Objective, *, length: int, group: int):
        self.module, self.train, self.val, self.objective = network, train, val, objective
        self.rows, self.length, self.group = len(train[0]), length, group

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        points, labels = self.train
        return Batch((points[rows],), (labels[rows],))

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        return self.objective(grouped(outputs[0].squeeze(1), self.length), grouped(truth[0], self.length))

    def validate(self, module: nn.Module) -> dict[str, float]:
        points, labels = self.val
        return {"average_precision": mean_average_precision(module(points).squeeze(1), labels).item()}


def main(params: Settings, method: str) -> None:
    plan, length = required(params.synthetic_precision, "synthetic_precision"), params.score_vectors.length
    sorter = Path("models/sorters") / plan.methods[method].sorter
    checkpoint = checkpoint_folder(
        "synthetic_precision",
        method,
        params={"plan": plan.model_dump(), "method": method, "length": length, "compute": params.compute.model_dump()},
        inputs=sorted(sorter.glob("model.*")),
    )
    curves = []
    with tqdm(total=len(plan.flipped) * plan.seeds, desc=method, unit=" trainings") as bar:
        for flipped in plan.flipped:
            for seed in range(1, plan.seeds + 1):
                curve = trained(plan, method, length, flipped, seed, checkpoint / f"{flipped}-{seed}")
                curves.append({"flipped": flipped, "seed": seed, "average_precision": curve})
                bar.update()
    result = {"iterations_per_epoch": plan.rows // 2 // plan.batch_size, "curves": curves}
    with replaced_file(f"metrics/synthetic_precision/{method}.json") as partial:
        partial.write_text(json.dumps(result, indent=2) + "\n")
    remove_folder(checkpoint)


def trained(
    plan: SyntheticPrecision, name: str, length: int, flipped: float, seed: int, checkpoint: Path
) -> list[float]:
    """Return the test average precision after each epoch; a share of the training labels is flipped.

    Every method sees lists of the same length, that of the sorters.
    """
    method, half = plan.methods[name], plan.rows // 2
    network: dict[str, Any] = {
        "backbone": {"name": "perceptron", "args": {"hidden": [plan.hidden] * (plan.layers - 1)}},
        "head": {"name": "linear", "args": {"standardize": False}},
    }
    drawn = {"features": plan.features, "positive": plan.positive, "hidden": plan.hidden, "layers": plan.layers}
    points, labels = draw(plan.rows, seed=seed, **drawn)
    given = with_flips(labels[:half], flipped, generator(seed, "synthetic_precision", "flips"))
    sorter = None if method.sorter == NONE else load_sorter(Path("models/sorters") / method.sorter)
    epochs = fit(
        Precision(
            build("models", "network", network, seed=seed + 1000, features=plan.features, outputs=1),
            (points[:half], given),
            (points[half:], labels[half:]),
            Objective(method.loss.model_dump(), sorter=sorter),
            length=length,
            group=plan.batch_size,
        ),
        {
            "batch_size": plan.batch_size,
            "epochs": plan.epochs,
            "patience": plan.epochs,
            "optimizer": method.optimizer.model_dump(),
            "schedule": {"name": "constant"},
        },
        seed=seed,
        device="cpu",
        checkpoint=checkpoint,
        name=f"synthetic_precision.{name}",
    )
    return [epoch.validation["average_precision"] for epoch in epochs]
