"""One method of the comparison of label rankers: trained with several seeds, some of them at once.

Every epoch of every training is kept, so that a killed comparison goes on with the next one.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from pipelines.comparison import Training, compared, kept_or_made, measured
from pipelines.digit_scenes import scenes_of
from pipelines.epochs import shown
from pipelines.settings import Comparison, Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stage import checkpoint_folder, die_with_parent, run
from rankops.atomic_writes import remove_folder
from rankops.by_name import find
from rankops.datasets import digits
from rankops.tasks import label_ranking


def new_scenes(params: Settings) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    """Draws so many training scenes as the stage ranked_mnist draws them, from the training digits."""
    glyphs = digits.load("data/digits", digits.DIGITS_OF["train"], threads=params.compute.threads)
    options = params.ranked_mnist.model_dump(exclude={"rows", "seed"})
    return lambda rows, generator: scenes_of(glyphs, rows, generator=generator, **options)


class Trainer:
    """Carries out trainings of one method; each process that does has its own."""

    def __init__(self, params: Settings, plan: Comparison, comparison: str, method: str, kept: Path):
        self._params, self._plan, self._name, self._method, self._kept = params, plan, comparison, method, kept
        torch.set_num_threads(max(1, params.compute.threads // plan.together))
        folder, threads = Path("data") / plan.dataset, params.compute.threads
        self._splits = {
            name: label_ranking.load_split(folder, name, threads=threads) for name in ("train", "val", "test")
        }

    def __call__(self, training: Training) -> dict[str, Any]:
        return kept_or_made(self._kept, training, lambda: self._made(training))

    def _made(self, training: Training) -> dict[str, Any]:
        number, seed, tested = training
        params, plan, options = self._params, self._plan, self._plan.methods[self._method]
        run = plan.tried(self._method, plan.settings(self._method)[number])
        sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
        checkpoint = self._kept / f"setting{number}-seed{seed}"
        scorer, thresholds = run["training"]["scorer"], run["training"]["thresholds"]
        epochs = label_ranking.train(
            self._splits["train"], self._splits["val"], model=plan.model.model_dump(), loss=run["loss"],
            training=run["training"], seed=seed, sorter=sorter, beside=run["beside"],
            fresh=new_scenes(params) if options.fresh else None, device=params.compute.device,
            precision=params.compute.precision, checkpoint=checkpoint, name=f"{self._name}.{self._method}",
        )  # fmt: skip
        judged, best = scorer["judged_by"], None
        bar = shown(epochs, name=f"{self._method}, seed {seed}", total=scorer["epochs"] + thresholds["epochs"])
        for step, epoch, ranker in bar:
            if step == "scorer" and epoch.best:
                best = epoch.validation[judged]
        result: dict[str, Any] = {"validation": best}
        if tested:
            test = self._splits["test"]
            names = [plan.figure, *plan.shown]
            figures = measured(label_ranking.figures(label_ranking.predictions(ranker, test), test), names)
            result |= {"test": figures[plan.figure], "figures": figures}
        remove_folder(checkpoint)
        return result


_trainer: Trainer  # of a worker process


def _begin(*args: Any) -> None:
    global _trainer
    die_with_parent()
    _trainer = Trainer(*args)


def _train(training: Training) -> dict[str, Any]:
    return _trainer(training)


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments(params).comparisons[comparison]
    options = plan.methods[method]
    data = Path("data") / plan.dataset
    inputs = [data / f"{name}.parquet" for name in ("train", "val", "test")]
    if options.fresh:
        inputs += sorted(Path("data/digits").glob("*.parquet"))
    sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
    if options.sorter in params.sorters:
        inputs.append(Path("models/sorters") / options.sorter / "model.safetensors")
    for folder, named in (("losses", options.loss), ("losses", options.beside), ("models", plan.model)):
        if named is not None:
            find(folder, named.name)  # imported, so that what was kept is of their present code
    kept = checkpoint_folder(
        "compare_label_rankers", f"{comparison}-{method}",
        params={
            # More seeds or figures do not change the trainings that are done.
            "plan": plan.model_dump(exclude={"methods", "seeds"}), "method": options.model_dump(),
            "sorter": getattr(sorter, "recipe", None), "compute": params.compute.model_dump(),
            "scenes": params.ranked_mnist.model_dump(),
        },
        inputs=inputs,
    )  # fmt: skip
    kept.mkdir(parents=True, exist_ok=True)
    made_with = (params, plan, comparison, method, kept)
    count = len(plan.settings(method))
    with tqdm(total=count * (count > 1) + plan.seeds, desc=f"{comparison}.{method}", unit=" trainings") as bar:
        if plan.together == 1:
            trainer = Trainer(*made_with)

            def trained(trainings: list[Training]) -> Iterator[dict[str, Any]]:
                for training in trainings:
                    yield trainer(training)
                    bar.update()

            compared(comparison, method, plan, trained)
        else:
            spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
            executor = ProcessPoolExecutor(plan.together, mp_context=spawn, initializer=_begin, initargs=made_with)

            def trained_together(trainings: list[Training]) -> Iterator[dict[str, Any]]:
                for result in executor.map(_train, trainings):
                    yield result
                    bar.update()

            try:
                compared(comparison, method, plan, trained_together)
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.kill()
                raise
            executor.shutdown()
    remove_folder(kept)


if __name__ == "__main__":
    run(main)
