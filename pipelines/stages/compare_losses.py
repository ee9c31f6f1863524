"""One loss of one task in the fair comparison, on a network that starts from a run's weights."""

import copy
from pathlib import Path

import torch
from torch import Tensor

from pipelines.comparison import SPLITS, Trial, compared, measured
from pipelines.config.schema import Comparison, Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stages.runner import run
from rankops import lookup
from rankops.io.parquet import read_table
from rankops.seeding import derived_seed


def noisy(split: tuple, path: Path, viewers: int) -> tuple:
    """A split of clips whose scores are of another number of viewers, drawn anew from the hidden probabilities."""
    hidden = read_table(path, ["probability"])["probability"].to_numpy()
    probability = torch.from_numpy(hidden.astype("float64"))
    draws = torch.Generator().manual_seed(derived_seed(viewers, "viewers"))
    remembered = torch.binomial(torch.full_like(probability, viewers), probability, generator=draws)
    return split[0], (remembered / viewers).float()


class Trainer:
    """Carries out trials of one method."""

    def __init__(self, params: Settings, comparison: str, method: str, plan: Comparison):
        self._params, self._name, self._method, self._plan = params, comparison, method, plan
        self._task = lookup.module("tasks", plan.task)
        options, data = plan.methods[method], Path("data") / plan.dataset
        self._splits = {
            name: self._task.load_split(data, name, threads=torch.get_num_threads()) for name in SPLITS
        }  # fmt: skip
        if options.viewers is not None:  # judged on the same scores as all others
            self._splits["train"] = noisy(self._splits["train"], data / "train.parquet", options.viewers)
        self._sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
        self._features: dict[str, Tensor] = {}  # the same for all: heads on frozen features

    def __call__(self, trial: Trial, epochs: Path) -> dict[str, float]:
        number, seed, tested = trial
        params, plan, task = self._params, self._plan, self._task
        run = plan.tried(self._method, plan.settings(self._method)[number])
        validations = []
        for _, epoch, predictor in task.train(
            self._splits["train"], self._splits["val"], model=plan.model.model_dump(), loss=run["loss"],
            training=run["training"], seed=seed, start=plan.start, sorter=copy.deepcopy(self._sorter),
            fine_tune=run["fine_tune"], beside=run["beside"], device=params.compute.device,
            precision=params.compute.precision, checkpoint=epochs, features=self._features,
            name=f"{self._name}.{self._method}",
        ):  # fmt: skip
            validations.append(epoch.validation[task.JUDGED_BY])
        result = {"validation": max(validations)}
        if tested:
            test = self._splits["test"]
            result["test"] = measured(task.figures(task.predictions(predictor, test), test), [plan.figure])[plan.figure]
        return result


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments(params).comparisons[comparison]
    start = Path(plan.start)
    inputs = sorted(start.rglob("*.safetensors")) if start.is_dir() else [start]
    compared(params, comparison, method, plan, stage="compare_losses", inputs=inputs, begin=Trainer)


if __name__ == "__main__":
    run(main)
