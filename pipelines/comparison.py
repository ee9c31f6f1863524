"""One method of a comparison: its settings are tried on validation, then the best one is trained with every seed."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipelines.settings import Comparison, Settings
from pipelines.sorters import sorter_of
from pipelines.stage import checkpoint_folder
from rankops.atomic_writes import replaced_file
from rankops.by_name import find
from rankops.evaluation import Figures, evaluate

__all__ = ["Trial", "compared", "kept_or_made", "kept_trials", "measured"]

Trial = tuple[int, int, bool]  # a training: number of the setting, seed, and whether it is tested


def compared(
    comparison: str, method: str, plan: Comparison, trained: Callable[[list[Trial]], Iterable[dict[str, Any]]]
) -> None:
    """Tries the settings of a method and trains the best with all seeds; writes results/comparisons.

    Nothing is chosen by the test split.

    Args:
        comparison, method: their names.
        plan: of the comparison.
        trained: carries out some trials; in their order, the `validation` figure of each, and of a tested one
            `test` and maybe `figures`.
    """
    settings = plan.settings(method)
    first = [(number, 1, False) for number in range(len(settings))] if len(settings) > 1 else []  # one needs no choice
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


def kept_trials(
    stage: str, params: Settings, comparison: str, method: str, plan: Comparison, inputs: list[Path]
) -> Path:  # fmt: skip
    """The folder where a method's trials are kept until all are done: of these params, this data and this code.

    Args:
        stage: that carries them out.
        params: all of them.
        comparison, method, plan: as for `compared`.
        inputs: files of data and weights; those of a pretrained sorter are added.
    """
    options = plan.methods[method]
    sorter = None if options.sorter is None else sorter_of(params, options.sorter, options.sorter_args)
    if options.sorter in params.sorters:
        inputs = [*inputs, Path("models/sorters") / options.sorter / "model.safetensors"]
    for folder, named in (("losses", options.loss), ("losses", options.beside), ("models", plan.model)):
        if named is not None:
            find(folder, named.name)  # imported, so that what was kept is of their present code
    common = plan.model_dump(exclude={"methods", "baseline", "settings_each", "seeds"})  # which change no trial
    made_with = {"plan": common, "method": options.model_dump(), "compute": params.compute.model_dump(),
                 "sorter": getattr(sorter, "recipe", None),
                 "scenes": params.ranked_mnist.model_dump() if options.fresh else None}  # fmt: skip
    kept = checkpoint_folder(stage, f"{comparison}-{method}", params=made_with, inputs=inputs)
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def kept_or_made(folder: Path, trial: Trial, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a trial ended with, from its file in `folder` if it is done, so that a killed comparison goes on."""
    number, seed, tested = trial
    file = folder / f"setting{number}-seed{seed}{'-tested' if tested else ''}.json"
    if not file.is_file():
        result = make()
        with replaced_file(file) as partial:
            partial.write_text(json.dumps(result))
    return json.loads(file.read_text())


def measured(figures: Figures, names: Iterable[str]) -> dict[str, float]:
    """Figures by their dotted names, without intervals: those are over seeds."""
    found = evaluate(figures, resamples=2, seed=0)
    result = {}
    for name in names:
        figure: Any = found
        for part in name.split("."):
            figure = figure[part]
        result[name] = figure["value"]
    return result
