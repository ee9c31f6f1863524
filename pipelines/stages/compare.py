"""Compares runs with a baseline: the difference of a metric, paired by seed and by test example. Trains nothing."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.config.schema import Comparison, Resampling
from pipelines.ops.progress_bar import counted
from pipelines.reporting.results import shown
from rankgrad import lookup
from rankgrad.bootstrap import Statistic, differences, holm, remembered
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.written import as_json
from rankgrad.seeding import derived_seed


def statistics_of(task: str, predictions: str | Path) -> dict[int, Statistic]:
    """Return the metrics of each seed of a run, or of a rival, from its predictions; several comparisons may ask.

    Raises:
        FileNotFoundError: there are none.
    """
    if not Path(predictions).is_file():
        raise FileNotFoundError(f"{predictions}: no such file; make it with `dvc repro`, a rival's by its program")
    table, statistic = pq.read_table(predictions), lookup.find("tasks", task)().statistic
    seeds = table["seed"].to_numpy()
    every = dict.fromkeys(seeds.tolist())
    return {seed: remembered(statistic(table.filter(pa.array(seeds == seed)))) for seed in every}


def compared(
    comparison: Comparison, statistics: Mapping[str, dict[int, Statistic]], resampling: Resampling
) -> dict[str, Any]:
    """Return what metrics/comparisons has of a comparison.

    Args:
        comparison: of runs and rivals that `statistics` has.
        statistics: by run and seed.
        resampling: of the intervals.
    """
    draws = derived_seed(resampling.seed, "compare")
    baseline = statistics[comparison.baseline]
    place = next(iter(baseline.values())).names.index(comparison.metric)
    runs: dict[str, dict[str, Any]] = {
        comparison.baseline: {"value": _mean(baseline, place), "seeds": len(baseline)},
    }
    names = [*comparison.runs, *comparison.rivals]
    challengers = {name: statistics[name] for name in names}
    with counted(f"against {comparison.baseline}", "resamples") as show:
        gains = differences(challengers, baseline, resamples=resampling.resamples, seed=draws, show=show)
    for name in names:
        ours, gain = statistics[name], gains[name][comparison.metric]
        p = gain.pop("p")
        paired = len(set(ours) & set(baseline))
        runs[name] = {"value": _mean(ours, place), "difference": gain, "p": p, "seeds": paired}
    for name, p in zip(names, holm([runs[name]["p"] for name in names]), strict=True):
        runs[name]["p"] = p
    return comparison.model_dump(exclude={"runs", "rivals"}) | {"runs": runs}


def main(params: Settings) -> None:
    log = logging.getLogger(__name__)
    known: dict[tuple[str, str], dict[int, Statistic]] = {}  # of the last comparison, by task and run
    with replaced_folder("metrics/comparisons") as folder:
        for key, comparison in params.comparisons.items():
            names = (comparison.baseline, *comparison.runs, *comparison.rivals)
            task, statistics = params.runs[comparison.baseline].task, {}
            with counted(key, "runs") as show:
                for number, name in enumerate(names, 1):
                    found = known.get((task, name)) or statistics_of(task, f"predictions/{name}.parquet")
                    statistics[name] = found
                    show(number, len(names))
            known = {(task, name): one for name, one in statistics.items()}
            result = compared(comparison, statistics, params.evaluate)
            (folder / f"{key}.json").write_text(as_json(result, indent=2) + "\n")
            for line in _told(result):
                log.info("%s: %s", key, line)


def _told(result: Mapping[str, Any]) -> list[str]:
    """Return what a comparison found, a line a run."""
    baseline, lines = result["runs"][result["baseline"]]["value"], []
    for name, run in result["runs"].items():
        if gain := run.get("difference"):
            found = f"{shown(run['value'])} with {name}, {shown(baseline)} with the baseline"
            lines.append(f"{result['metric']} {found}: {shown(**gain, sign=True)}")
    return lines


def _mean(statistics: dict[int, Statistic], place: int) -> float:
    return float(np.mean([one.of_all()[place] for one in statistics.values()]))
