"""One method of the comparison of label rankers: trained from random weights, with several seeds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.comparison import SPLITS, Trial, compared, measured
from pipelines.config.schema import Comparison, Settings, load_experiments
from pipelines.reporting.history import shown
from pipelines.sorters import sorter_of
from pipelines.stages.runner import run
from rankops.datasets.scenes import digits
from rankops.datasets.scenes.ranked_mnist import RankedMnist
from rankops.tasks import label_ranking


def new_scenes(params: Settings) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    """Draws so many training scenes as the stage ranked_mnist draws them, from the training digits."""
    glyphs = digits.load("data/digits", digits.DIGITS_OF["train"], threads=torch.get_num_threads())
    dataset = RankedMnist(**params.ranked_mnist.model_dump())
    return lambda rows, generator: dataset.scenes(glyphs, rows, generator)


class Trainer:
    """Carries out trials of one method."""

    def __init__(self, params: Settings, comparison: str, method: str, plan: Comparison):
        self._params, self._name, self._method, self._plan = params, comparison, method, plan
        self._options, folder = plan.methods[method], Path("data") / plan.dataset
        self._splits = {
            name: label_ranking.load_split(folder, name, threads=torch.get_num_threads()) for name in SPLITS
        }
        self._fresh = new_scenes(params) if self._options.fresh else None

    def __call__(self, trial: Trial, epochs: Path) -> dict[str, Any]:
        number, seed, tested = trial
        params, plan, options = self._params, self._plan, self._options
        run = plan.tried(self._method, plan.settings(self._method)[number])
        sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
        scorer, thresholds = run["training"]["scorer"], run["training"]["thresholds"]
        progress = label_ranking.train(
            self._splits["train"], self._splits["val"], model=run["model"], loss=run["loss"],
            training=run["training"], seed=seed, sorter=sorter, beside=run["beside"], fresh=self._fresh,
            device=params.compute.device, precision=params.compute.precision, checkpoint=epochs,
            name=f"{self._name}.{self._method}",
        )  # fmt: skip
        validation = None
        bar = shown(progress, name=f"{self._method}, seed {seed}", total=scorer["epochs"] + thresholds["epochs"])
        for step, epoch, ranker in bar:
            if step == "scorer" and epoch.best:  # the same figure of all, whichever chose the epoch
                validation = epoch.validation[plan.figure.removeprefix("ranked.")]
        result: dict[str, Any] = {"validation": validation}
        if tested:
            test = self._splits["test"]
            names = [plan.figure, *plan.shown]
            figures = measured(label_ranking.figures(label_ranking.predictions(ranker, test), test), names)
            result |= {"test": figures[plan.figure], "figures": figures}
        return result


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments(params).comparisons[comparison]
    fresh = plan.methods[method].fresh
    inputs = [Path("data/digits") / f"{digits.DIGITS_OF['train']}.parquet"] if fresh else []
    compared(params, comparison, method, plan, stage="compare_label_rankers", inputs=inputs, begin=Trainer)


if __name__ == "__main__":
    run(main)
