"""One method of a comparison: its settings are tried on validation, then the best one is trained with every seed.

Every trial that is done is kept, and every epoch of those under way, so that a killed comparison goes on.
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from pipelines.config.schema import Comparison, Settings
from pipelines.ops.gpus import gpus, on_one
from pipelines.ops.process import die_with_parent
from pipelines.sorters import sorter_of
from pipelines.stages.runner import checkpoint_folder
from rankops.io.atomic import remove_folder, replaced_file
from rankops.metrics.evaluation import Figures

__all__ = ["SPLITS", "Trial", "compared", "measured"]

SPLITS = ("train", "val", "test")  # that a comparison reads of its dataset

Trial = tuple[int, int, bool]  # a training: number of the setting, seed, and whether it is tested
# Carries one out, with a folder for its epochs: its `validation` figure and, if tested, `test` and maybe `figures`.
Train = Callable[[Trial, Path], dict[str, Any]]
Begin = Callable[[Settings, str, str, Comparison], Train]
Trials = Callable[[list[Trial]], list[dict[str, Any]]]  # carries out some: what `Train` gives of each, in their order


def compared(
    params: Settings, comparison: str, method: str, plan: Comparison, *, stage: str, inputs: list[Path],
    begin: Begin,
) -> None:  # fmt: skip
    """Tries the settings of a method and trains the best with all seeds; writes results/comparisons.

    Nothing is chosen by the test split.

    Args:
        params: all of them.
        comparison, method, plan: their names, and what it says.
        stage: for what is kept.
        inputs: files that are read beside the dataset's `SPLITS` and a pretrained sorter.
        begin: makes, of the params, the names and the plan, what carries out a trial; once in each process.
    """
    settings = plan.settings(method)
    first = [(number, 1, False) for number in range(len(settings))] if len(settings) > 1 else []  # one needs no choice
    kept = _kept_trials(stage, params, comparison, method, plan, inputs)
    with tqdm(total=len(first) + plan.seeds, desc=f"{comparison}.{method}", unit=" trainings") as bar:
        worker = _Worker(begin, params, comparison, method, plan, kept)
        with _one_by_one(worker, bar) if plan.together == 1 else _together(worker, bar) as trained:
            validations = [result["validation"] for result in trained(first)] or [None]
            best = max(range(len(settings)), key=lambda number: validations[number] or 0.0)
            seeds = range(1, plan.seeds + 1)
            tested = trained([(best, seed, True) for seed in seeds])
    results = [result | {"seed": seed} for seed, result in zip(seeds, tested, strict=True)]
    tried = [
        {"setting": setting, "validation": found} for setting, found in zip(settings, validations, strict=True)
    ]  # fmt: skip
    with replaced_file(f"results/comparisons/{comparison}-{method}.json") as partial:
        found = {"tried": tried, "chosen": settings[best], "seeds": results}
        partial.write_text(json.dumps(found, indent=2) + "\n")
    remove_folder(kept)


def _kept_trials(
    stage: str, params: Settings, comparison: str, method: str, plan: Comparison, inputs: list[Path]
) -> Path:  # fmt: skip
    """The folder where a method's trials are kept until all are done: of these params, this data and this code."""
    options = plan.methods[method]
    sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
    inputs = [*inputs, *(Path("data") / plan.dataset / f"{split}.parquet" for split in SPLITS)]
    if options.sorter in params.sorters:
        inputs = [*inputs, Path("models/sorters") / options.sorter / "model.safetensors"]
    common = plan.model_dump(exclude={"methods", "baseline", "settings_each", "seeds"})  # which change no trial
    made_with = {"plan": common, "method": options.model_dump(), "compute": params.compute.model_dump(),
                 "sorter": getattr(sorter, "recipe", None),
                 "scenes": params.ranked_mnist.model_dump() if options.fresh else None}  # fmt: skip
    kept = checkpoint_folder(stage, f"{comparison}-{method}", params=made_with, inputs=inputs)
    kept.mkdir(parents=True, exist_ok=True)
    return kept


class _Worker:
    """Carries out trials in one process; what it needs for that is made with the first one that is not kept."""

    def __init__(
        self, begin: Begin, params: Settings, comparison: str, method: str, plan: Comparison, kept: Path
    ):  # fmt: skip
        self._given, self._begin, self._kept, self._train = (params, comparison, method, plan), begin, kept, None
        self.comparison, self.together = comparison, plan.together
        self.compute, self.threads = params.compute, max(1, params.compute.threads // plan.together)

    def __call__(self, trial: Trial) -> dict[str, Any]:
        number, seed, tested = trial
        epochs = self._kept / f"setting{number}-seed{seed}"
        file = self._kept / f"{epochs.name}{'-tested' if tested else ''}.json"
        if not file.is_file():
            self._train = self._train or self._begin(*self._given)
            result = self._train(trial, epochs)
            with replaced_file(file) as partial:
                partial.write_text(json.dumps(result))
        if tested:  # else it may be the one that is: then it is not trained again
            remove_folder(epochs)
        return json.loads(file.read_text())


@contextmanager
def _one_by_one(worker: _Worker, bar: tqdm) -> Iterator[Trials]:
    def trained(trials: list[Trial]) -> list[dict[str, Any]]:
        results = []
        for trial in trials:
            results.append(worker(trial))
            bar.update()
        return results

    yield trained


_worker: _Worker  # of a process that carries out trials beside others


_until_its_end = ExitStack()


def _begin_process(worker: _Worker, names: list[str]) -> None:
    global _worker
    die_with_parent()
    os.environ |= _until_its_end.enter_context(on_one(names))  # before it looks for GPUs
    torch.set_num_threads(worker.threads)
    _worker = worker


def _carry_out(trial: Trial) -> dict[str, Any]:
    return _worker(trial)


@contextmanager
def _together(worker: _Worker, bar: tqdm) -> Iterator[Trials]:
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    executor = ProcessPoolExecutor(
        worker.together, mp_context=spawn, initializer=_begin_process, initargs=(worker, gpus(worker.compute))
    )  # fmt: skip

    def trained(trials: list[Trial]) -> list[dict[str, Any]]:
        futures = [executor.submit(_carry_out, trial) for trial in trials]
        for future in as_completed(futures):
            future.result()  # the first error is told at once
            bar.update()
        return [future.result() for future in futures]

    try:
        yield trained
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                f"one of {worker.together} trainings at once was killed (for memory?): `dvc repro` goes on from its "
                f"last whole epoch; a smaller comparisons.{worker.comparison}.together needs less memory, and begins "
                "anew"
            ) from error
        raise
    executor.shutdown()


def measured(figures: Figures, names: Iterable[str]) -> dict[str, float]:
    """Figures of all examples by their dotted names, without intervals: those are over seeds.

    Raises:
        ValueError: one is not defined.
    """
    found = dict(zip(figures.names, figures.of_rows(np.arange(figures.examples)).tolist(), strict=True))
    wanted = {name: found[name] for name in names}
    if undefined := [name for name, value in wanted.items() if not np.isfinite(value)]:
        raise ValueError(f"{', '.join(undefined)}: not defined for these {figures.examples} examples")
    return wanted
