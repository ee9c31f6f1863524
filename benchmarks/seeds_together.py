"""Trainings of one label ranker with several seeds, one after another and together in processes: how many times faster.

With a GPU thirty seeds share it; without, as many as there are threads, one each. Needs the data of the pipeline.
"""

import tempfile
import time
from contextlib import chdir
from pathlib import Path

import torch

from benchmarks.results import write
from pipelines.comparison import SPLITS, compared
from pipelines.config.schema import load, load_experiments
from pipelines.stages.compare_label_rankers import Trainer

COMPARISON, METHOD, EPOCHS, ROUNDS = "label_ranking", "rlsep", 2, 3


def main() -> None:
    params = load()
    plan = load_experiments(params).comparisons[COMPARISON]
    data = (Path("data") / plan.dataset).resolve()
    if missing := [name for name in SPLITS if not (data / f"{name}.parquet").is_file()]:
        raise SystemExit(f"no {', '.join(missing)} in {data}: run `dvc repro {plan.dataset}` first")
    torch.set_num_threads(params.compute.threads)
    on_gpu = params.compute.device != "cpu" and torch.cuda.is_available()
    seeds = 30 if on_gpu else max(2, params.compute.threads)
    training = plan.training.model_copy(
        update={step: getattr(plan.training, step).model_copy(update={"epochs": EPOCHS, "patience": EPOCHS})
                for step in ("scorer", "thresholds")}
    )  # fmt: skip
    common = {"seeds": seeds, "training": training, "methods": {METHOD: plan.methods[METHOD]}}
    plans = {together: plan.model_copy(update=common | {"together": together}) for together in (1, seeds)}
    seconds: dict[int, list[float]] = {1: [], seeds: []}
    results = set()
    # Elsewhere, so that no results of the project are written over.
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        Path("data").mkdir()
        (Path("data") / plan.dataset).symlink_to(data)
        Path("results/comparisons").mkdir(parents=True)
        for _ in range(ROUNDS):
            for together, found in plans.items():
                begun = time.perf_counter()
                compared(params, COMPARISON, METHOD, found, stage="benchmark", inputs=[], begin=Trainer)
                seconds[together].append(time.perf_counter() - begun)
                results.add((together, Path(f"results/comparisons/{COMPARISON}-{METHOD}.json").read_text()))
    ratios = sorted(alone / beside for alone, beside in zip(*seconds.values(), strict=True))
    figures_of = {
        "times faster": ratios[len(ratios) // 2], "lowest": ratios[0], "highest": ratios[-1],
        "seconds one by one": min(seconds[1]), "seconds together": min(seconds[seeds]),
        "same figures again": float(len(results) == 2),  # in each round; a GPU may differ in a bit
        "same figures": float(len({text for _, text in results}) == 1),  # with other threads they may differ in a bit
    }  # fmt: skip
    write("seeds_together", {f"{seeds} seeds, {EPOCHS} epochs": figures_of})


if __name__ == "__main__":
    main()
