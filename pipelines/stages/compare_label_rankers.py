"""One method of the comparison of label rankers: trained with several seeds, some of them at once.

Every epoch of every training is kept, so that a killed comparison goes on with the next one.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from pipelines.comparison import Trial, compared, kept_or_made, kept_trials, measured
from pipelines.digit_scenes import scenes_of
from pipelines.epochs import shown
from pipelines.settings import Comparison, Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stage import die_with_parent, run
from rankops.atomic_writes import remove_folder
from rankops.datasets import digits
from rankops.tasks import label_ranking

SPLITS = ("train", "val", "test")


def new_scenes(params: Settings) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    """Draws so many training scenes as the stage ranked_mnist draws them, from the training digits."""
    glyphs = digits.load("data/digits", digits.DIGITS_OF["train"], threads=params.compute.threads)
    options = params.ranked_mnist.model_dump(exclude={"rows", "seed"})
    return lambda rows, generator: scenes_of(glyphs, rows, generator=generator, **options)


class Trainer:
    """Carries out trials of one method; each process that does has its own."""

    def __init__(self, params: Settings, comparison: str, method: str, plan: Comparison, kept: Path):
        self._params, self._name, self._method, self._plan, self._kept = params, comparison, method, plan, kept
        folder, threads = Path("data") / plan.dataset, max(1, params.compute.threads // plan.together)
        torch.set_num_threads(threads)
        self._splits = {name: label_ranking.load_split(folder, name, threads=threads) for name in SPLITS}

    def __call__(self, trial: Trial) -> dict[str, Any]:
        checkpoint = self._kept / f"setting{trial[0]}-seed{trial[1]}"
        result = kept_or_made(self._kept, trial, lambda: self._made(trial, checkpoint))
        remove_folder(checkpoint)
        return result

    def _made(self, trial: Trial, checkpoint: Path) -> dict[str, Any]:
        number, seed, tested = trial
        params, plan, options = self._params, self._plan, self._plan.methods[self._method]
        run = plan.tried(self._method, plan.settings(self._method)[number])
        sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
        scorer, thresholds = run["training"]["scorer"], run["training"]["thresholds"]
        epochs = label_ranking.train(
            self._splits["train"], self._splits["val"], model=plan.model.model_dump(), loss=run["loss"],
            training=run["training"], seed=seed, sorter=sorter, beside=run["beside"],
            fresh=new_scenes(params) if options.fresh else None, device=params.compute.device,
            precision=params.compute.precision, checkpoint=checkpoint, name=f"{self._name}.{self._method}",
        )  # fmt: skip
        validation = None
        bar = shown(epochs, name=f"{self._method}, seed {seed}", total=scorer["epochs"] + thresholds["epochs"])
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


_given: tuple  # of a worker process: what its trainer is made with,
_trainer: Trainer | None = None  # and that, once it is needed: an error in making it is told as any other


def _begin(*given: Any) -> None:
    global _given
    die_with_parent()
    _given = given


def _train(trial: Trial) -> dict[str, Any]:
    global _trainer
    _trainer = _trainer or Trainer(*_given)
    return _trainer(trial)


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments(params).comparisons[comparison]
    inputs = [Path("data") / plan.dataset / f"{name}.parquet" for name in SPLITS]
    if plan.methods[method].fresh:
        inputs.append(Path("data/digits") / f"{digits.DIGITS_OF['train']}.parquet")
    kept = kept_trials("compare_label_rankers", params, comparison, method, plan, inputs)
    given = (params, comparison, method, plan, kept)
    count = len(plan.settings(method))
    with tqdm(total=count * (count > 1) + plan.seeds, desc=f"{comparison}.{method}", unit=" trainings") as bar:
        if plan.together == 1:
            trainer: Trainer | None = None

            def trained(trials: list[Trial]) -> Iterator[dict[str, Any]]:
                nonlocal trainer
                for trial in trials:
                    trainer = trainer or Trainer(*given)
                    yield trainer(trial)
                    bar.update()

            compared(comparison, method, plan, trained)
        else:
            spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
            executor = ProcessPoolExecutor(plan.together, mp_context=spawn, initializer=_begin, initargs=given)

            def trained_together(trials: list[Trial]) -> list[dict[str, Any]]:
                futures = [executor.submit(_train, trial) for trial in trials]
                for future in as_completed(futures):
                    future.result()  # the first error is told at once
                    bar.update()
                return [future.result() for future in futures]

            try:
                compared(comparison, method, plan, trained_together)
            except BaseException as error:
                executor.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.kill()
                if isinstance(error, BrokenProcessPool):
                    raise ChildProcessError(
                        f"one of {plan.together} trainings at once was killed (for memory?): `dvc repro` goes on from "
                        f"its last whole epoch; a smaller comparisons.{comparison}.together needs less"
                    ) from error
                raise
            executor.shutdown()
    remove_folder(kept)


if __name__ == "__main__":
    run(main)
