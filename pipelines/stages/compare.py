"""Compares runs with a baseline: the difference of a metric, paired by seed and by test example. Trains nothing."""

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.config import Settings
from rankops import lookup
from rankops.io.atomic import replaced_folder
from rankops.metrics.bootstrap import Statistic, difference, holm
from rankops.seeding import derived_seed


def statistics_of(params: Settings, name: str) -> dict[int, Statistic]:
    """Return the metrics of each seed of a run, from its predictions."""
    table = pq.read_table(f"predictions/{name}.parquet")
    task = lookup.find("tasks", params.runs[name].task)()
    return {seed: task.statistic(table.filter(pc.equal(table["seed"], seed))) for seed in params.runs[name].seeds}


def main(params: Settings) -> None:
    draws = derived_seed(params.evaluate.seed, "compare")
    with replaced_folder("metrics/comparisons") as folder:
        for key, comparison in params.comparisons.items():
            baseline = statistics_of(params, comparison.baseline)
            place = next(iter(baseline.values())).names.index(comparison.metric)
            runs = {
                comparison.baseline: {"value": _mean(baseline, place), "seeds": len(baseline)},
            }
            for name in comparison.runs:
                ours = statistics_of(params, name)
                gain = difference(ours, baseline, resamples=params.evaluate.resamples, seed=draws)[comparison.metric]
                p = gain.pop("p")
                paired = len(set(ours) & set(baseline))
                runs[name] = {"value": _mean(ours, place), "difference": gain, "p": p, "seeds": paired}
            for name, p in zip(comparison.runs, holm([runs[name]["p"] for name in comparison.runs]), strict=True):
                runs[name]["p"] = p
            result = comparison.model_dump(exclude={"runs"}) | {"runs": runs}
            (folder / f"{key}.json").write_text(json.dumps(result, indent=2) + "\n")


def _mean(statistics: dict[int, Statistic], place: int) -> float:
    every = np.arange(next(iter(statistics.values())).examples)
    return float(np.mean([one.of_rows(every)[place] for one in statistics.values()]))
