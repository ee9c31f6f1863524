"""One method of a comparison: its settings are tried on validation, then the best one is trained with every seed."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipelines.settings import Comparison
from rankops.atomic_writes import replaced_file
from rankops.evaluation import Figures, evaluate

__all__ = ["Training", "compared", "kept_or_made", "measured"]

Training = tuple[int, int, bool]  # number of the setting, seed, and whether it is tested


def compared(
    comparison: str, method: str, plan: Comparison, trained: Callable[[list[Training]], Iterable[dict[str, Any]]]
) -> None:
    """Tries the settings of a method and trains the best with all seeds; writes results/comparisons.

    Nothing is chosen by the test split.

    Args:
        comparison, method: their names.
        plan: of the comparison.
        trained: carries out some trainings; in their order, the `validation` figure of each, and of a tested one
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


def kept_or_made(folder: Path, training: Training, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a training ended with, from its file in `folder` if it is done, so that a killed comparison goes on."""
    number, seed, tested = training
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
