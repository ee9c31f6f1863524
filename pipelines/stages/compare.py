"""Compare runs with a baseline: the difference of a metric, paired by seed and test example. Trains nothing."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.config.schema import Comparison, Resampling
from pipelines.ops.progress_bar import counted
from pipelines.reporting.results import cell
from rankgrad import lookup
from rankgrad.evaluation import Statistic, differences, holm, remembered
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.results import Row, minus
from rankgrad.seeding import derived_seed


def statistics_of(task: str, predictions: str | Path, *, seeds: Iterable[int] = ()) -> dict[int, Statistic]:
    """Return the metrics of each seed of a run, or of a rival, from its predictions.

    Args:
        task: its name.
        predictions: the file.
        seeds: of the baseline, each of which a rival without seeds is compared with.

    Raises:
        FileNotFoundError: there are none.
    """
    if not Path(predictions).is_file():
        raise FileNotFoundError(f"{predictions}: no such file; make it with `dvc repro`, a rival's by its program")
    table, statistic = pq.read_table(predictions), lookup.find("tasks", task)().statistic
    if "seed" not in table.column_names:
        return dict.fromkeys(seeds, remembered(statistic(table)))
    seed_of_row = table["seed"].to_numpy()
    by_seed = {}
    for seed in dict.fromkeys(seed_of_row.tolist()):
        by_seed[seed] = remembered(statistic(table.filter(pa.array(seed_of_row == seed))))
    return by_seed


def compared(
    comparison: Comparison, statistics: Mapping[str, dict[int, Statistic]], resampling: Resampling
) -> list[Row]:
    """Return the rows of a comparison: the metric of each run, its difference from the baseline, and p (Holm).

    Args:
        comparison: of runs and rivals that `statistics` has.
        statistics: by run and seed.
        resampling: of the intervals.
    """
    metric, baseline = comparison.metric, statistics[comparison.baseline]
    number = next(iter(baseline.values())).names.index(metric)
    names = [*comparison.runs, *comparison.rivals]
    rows = []
    for name in (comparison.baseline, *names):
        values = [of_seed.of_all()[number] for of_seed in statistics[name].values()]
        rows.append(Row(name, metric, float(np.mean(values))))
    with counted(f"against {comparison.baseline}", "resamples") as show:
        gains = differences(
            {name: statistics[name] for name in names}, baseline, resamples=resampling.resamples,
            seed=derived_seed(resampling.seed, "compare"), show=show,
        )  # fmt: skip
    tests = [row for row in gains if row.metric == f"p of {metric}"]
    p_values = holm([row.value for row in tests])
    adjusted = [row._replace(value=p) for row, p in zip(tests, p_values, strict=True)]
    for row in [*(row for row in gains if row.metric == metric), *adjusted]:
        rows.append(row._replace(metric=minus(row.metric, comparison.baseline)))
    return rows


def main(params: Settings) -> None:
    log = logging.getLogger(__name__)
    read: dict[tuple[str, str], dict[int, Statistic]] = {}  # of the last comparison, by task and run
    with replaced_folder("metrics/comparisons") as folder:
        for key, comparison in params.comparisons.items():
            names = (comparison.baseline, *comparison.runs, *comparison.rivals)
            baseline, statistics = params.runs[comparison.baseline], {}
            with counted(key, "runs") as show:
                for number, name in enumerate(names, 1):
                    statistics[name] = read.get((baseline.task, name)) or statistics_of(
                        baseline.task, f"predictions/{name}.parquet", seeds=baseline.seeds
                    )
                    show(number, len(names))
            read = {(baseline.task, name): statistics[name] for name in names if name in params.runs}
            rows = compared(comparison, statistics, params.evaluate)
            results.write(folder / f"{key}.csv", rows)
            for line in _lines(comparison, rows):
                log.info("%s: %s", key, line)


def _lines(comparison: Comparison, rows: list[Row]) -> list[str]:
    """Return a line for each run that is compared."""
    values = {row.run: row.value for row in rows if row.metric == comparison.metric}
    baseline, lines = cell(values[comparison.baseline]), []
    for row in rows:
        if row.metric == minus(comparison.metric, comparison.baseline) and row.seed is None:
            means = f"{cell(values[row.run])} with {row.run}, {baseline} with the baseline"
            lines.append(f"{comparison.metric} {means}: {cell(*row.interval, sign=True)}")
    return lines
