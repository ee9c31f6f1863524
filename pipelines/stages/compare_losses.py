"""One loss of one task in the fair comparison, on a network that starts from a run's weights.

Every training that is done is kept, so that a killed comparison goes on with the next one.
"""

import copy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from pipelines.comparison import Trial, compared, kept_or_made, kept_trials, measured
from pipelines.settings import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stage import run
from rankops.atomic_writes import remove_folder
from rankops.generators import derived_seed
from rankops.tables import read_table


def noisy(split: tuple, path: Path, viewers: int) -> tuple:
    """A split of clips whose scores are of another number of viewers, drawn anew from the hidden probabilities."""
    hidden = read_table(path, ["probability"])["probability"].to_numpy()
    probability = torch.from_numpy(hidden.astype("float64"))
    draws = torch.Generator().manual_seed(derived_seed(viewers, "viewers"))
    remembered = torch.binomial(torch.full_like(probability, viewers), probability, generator=draws)
    return split[0], (remembered / viewers).float()


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments(params).comparisons[comparison]
    options = plan.methods[method]
    task = import_module(f"rankops.tasks.{plan.task}")
    data, start = Path("data") / plan.dataset, Path(plan.start)
    splits = {name: task.load_split(data, name, threads=params.compute.threads) for name in ("train", "val", "test")}
    if options.viewers is not None:  # judged on the same scores as all others
        splits["train"] = noisy(splits["train"], data / "train.parquet", options.viewers)
    inputs = [data / f"{name}.parquet" for name in splits]
    inputs += sorted(start.rglob("*.safetensors")) if start.is_dir() else [start]
    sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
    kept = kept_trials("compare_losses", params, comparison, method, plan, inputs)
    features: dict[str, Tensor] = {}  # the same for all: heads on frozen features
    settings = plan.settings(method)

    def one(trial: Trial) -> dict[str, float]:
        number, seed, tested = trial
        run = plan.tried(method, settings[number])
        validations = []
        for _, epoch, predictor in task.train(
            splits["train"], splits["val"], model=plan.model.model_dump(), loss=run["loss"],
            training=run["training"], seed=seed, start=plan.start, sorter=copy.deepcopy(sorter),
            fine_tune=run["fine_tune"], beside=run["beside"], device=params.compute.device,
            precision=params.compute.precision, features=features, name=f"{comparison}.{method}",
        ):  # fmt: skip
            validations.append(epoch.validation[task.JUDGED_BY])
        result = {"validation": max(validations)}
        if tested:
            figures = task.figures(task.predictions(predictor, splits["test"]), splits["test"])
            result["test"] = measured(figures, [plan.figure])[plan.figure]
        return result

    with tqdm(total=len(settings) + plan.seeds, desc=f"{comparison}.{method}", unit=" trainings") as bar:
        bar.update(len(settings) == 1)  # which is not tried

        def trained(trials: list[Trial]) -> Iterator[dict[str, float]]:
            for trial in trials:
                yield kept_or_made(kept, trial, lambda: one(trial))  # noqa: B023
                bar.update()

        compared(comparison, method, plan, trained)
    remove_folder(kept)


if __name__ == "__main__":
    run(main)
