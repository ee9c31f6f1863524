"""Compare runs with a baseline: the difference of a metric, paired by seed and test example. Trains nothing."""

import logging
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.config import Settings
from pipelines.config.schema import Comparison, Resampling
from pipelines.ops.progress_bar import counted
from pipelines.reporting.results import best_on_validation, cell, rivals_are_chosen_on
from rankgrad import lookup
from rankgrad.evaluation import Statistic, differences, holm, remembered
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.parquet import flat, is_list, is_number
from rankgrad.io.results import Row, minus
from rankgrad.seeding import derived_seed

CHECKED = ("id", "target", "relevance", "labels", "difficult", "true_label_ranks")  # of a rival, as of the baseline
EXACT = "answer.exact_match"  # of label rankings: what people see of them
BySeed = dict[int, Statistic]  # the metrics of each seed of a run or a rival
ByName = Mapping[str, BySeed]  # those of several runs and rivals


def statistics_of(task: str, predictions: str | Path, *, seeds: Collection[int] = ()) -> BySeed:
    """Return the metrics of each seed of a run or a rival, from its predictions.

    Args:
        task: name of the task.
        predictions: file with the predictions.
        seeds: seeds of the baseline, if it is a rival; with one seed or none, a rival is compared with each of them.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    if not Path(predictions).is_file():
        raise FileNotFoundError(
            f"{predictions}: no such file; create it with `dvc repro`, or for a rival with its program"
        )
    table = pq.read_table(predictions)
    statistic = lookup.find("tasks", task)().statistic
    seed_of_row = table["seed"].to_numpy() if "seed" in table.column_names else np.zeros(len(table))
    seeds_of_table = dict.fromkeys(seed_of_row.tolist())
    if not seeds_of_table:
        raise ValueError(f"{predictions}: no rows, expected those of the test split")
    if seeds and len(seeds_of_table) == 1:
        return dict.fromkeys(seeds, remembered(statistic(table)))
    by_seed = {}
    for seed in seeds_of_table:
        by_seed[seed] = remembered(statistic(table.filter(pa.array(seed_of_row == seed))))
    return by_seed


def read_statistics(
    params: Settings,
    comparison: Comparison,
    predictions: Mapping[str, str | Path],
    known: ByName,
    show: Callable[[int, int], object] | None = None,
) -> dict[str, BySeed]:
    """Return the metrics of a comparison's baseline, runs and rivals by seed, see `statistics_of`.

    Args:
        params: with the runs.
        comparison: the baseline, runs and rivals.
        predictions: the file of each.
        known: metrics of runs, as of the comparison before.
        show: is called with how many are read, and how many there are.
    """
    baseline, statistics = params.runs[comparison.baseline], {}
    for number, name in enumerate(comparison.names, 1):
        if name in comparison.rivals:
            _require_same_rows(predictions[name], predictions[comparison.baseline])
            statistics[name] = statistics_of(baseline.task, predictions[name], seeds=baseline.seeds)
        else:
            is_known = known.get(name, {}).keys() == {*params.runs[name].seeds}
            statistics[name] = known[name] if is_known else statistics_of(baseline.task, predictions[name])
        expected = next(iter(statistics[comparison.baseline].values())).examples
        for examples in {statistic.examples for statistic in statistics[name].values()} - {expected}:
            raise ValueError(
                f"{predictions[name]}: {examples} examples, but {comparison.baseline} has {expected}; expected "
                "the same split: predict again, or remove it from the comparison"
            )
        if show:
            show(number, len(comparison.names))
    return statistics


def _require_same_rows(rival: str | Path, baseline: str | Path) -> None:
    """Raise ValueError if a rival's columns, row numbers, or truth are not those of the baseline, its pair."""
    if "estimate" in set(pq.read_schema(baseline).names) - set(pq.read_schema(rival).names):
        raise ValueError(
            f"{rival}: no column estimate, which {baseline} has: add what your model expects of each row's target, or "
            "NaN in all rows if it only orders them"
        )
    of_rival, of_baseline = _first_seed(rival), _first_seed(baseline)
    if len(of_rival) != len(of_baseline):
        return  # `read_statistics` counts the examples
    for column in [name for name in of_baseline.column_names if name in of_rival.column_names]:
        (found, counts), (expected, counts_expected) = (_numbers(table[column]) for table in (of_rival, of_baseline))
        if column == "id" and {*found} != {*expected}:
            continue  # the rival has ids of its own
        if len(unlike := np.flatnonzero(counts != counts_expected)):
            row = unlike[0]
            raise ValueError(
                f"{rival}: row {row + 1}: {column} has {counts[row]} numbers, expected {counts_expected[row]}, as in "
                f"{baseline}: write the rows in the order of the test split"
            )
        tolerance = 0.0 if column == "id" else 1e-6 * np.ptp(expected) + 2e-7 * np.abs(expected).max()  # of float32
        wrong = np.flatnonzero(np.abs(found - expected) > tolerance)
        if len(wrong):
            row = np.arange(len(counts)).repeat(counts)[wrong[0]]
            raise ValueError(
                f"{rival}: row {row + 1}: {column} has {found[wrong[0]]:.10g}, expected "
                f"{expected[wrong[0]]:.10g}, as in {baseline}: write the rows in the order of the test split"
            )


def _numbers(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in a column, whose cells have one or a list each, and how many each row has."""
    if not is_list(column.type):
        return column.to_numpy().astype(np.float64), np.ones(len(column), np.int64)
    numbers, counts = flat(column)
    return numbers.to_numpy().astype(np.float64), counts.numpy()


def _first_seed(path: str | Path) -> pa.Table:
    """Return the row numbers and the truth, if they are numbers, of the first seed in a file, or all without seeds."""
    columns = []
    for field in pq.read_schema(path):
        kind = field.type.value_type if is_list(field.type) else field.type
        if field.name == "seed" or (field.name in CHECKED and (is_number(kind) or pa.types.is_boolean(kind))):
            columns.append(field.name)
    table = pq.read_table(path, columns=columns)
    if "seed" not in columns:
        return table
    first = table["seed"].slice(0, 1).combine_chunks()
    return table.filter(pc.field("seed").isin(first)).drop_columns("seed")


def compared(comparison: Comparison, statistics: ByName, resampling: Resampling) -> list[Row]:
    """Return the rows of a comparison: the metric of each run, its difference from the baseline, and p (Holm).

    The metric of a run is the mean over the seeds that the baseline has too, as in its difference. That of the baseline
    is the mean over its seeds that any of the runs has.

    Args:
        comparison: of runs and rivals that `statistics` has.
        statistics: by run and seed.
        resampling: of the intervals.
    """
    metric, baseline = comparison.metric, statistics[comparison.baseline]
    runs = {name: statistics[name] for name in (*comparison.runs, *comparison.rivals)}
    with counted(f"against {comparison.baseline}", "resamples") as show:
        difference_rows = differences(
            runs, baseline, resamples=resampling.resamples, seed=derived_seed(resampling.seed, "compare"), show=show
        )
    # The metric of each run.
    seeds_of_runs = set().union(*runs.values())
    rows = [Row(comparison.baseline, metric, _mean(baseline, metric, seeds_of_runs))]
    for name, by_seed in runs.items():
        rows.append(Row(name, metric, _mean(by_seed, metric, baseline)))
    # The differences, then their p values.
    named = minus(metric, comparison.baseline)
    rows += [row._replace(metric=named) for row in difference_rows if row.metric == metric]
    p_rows = [row for row in difference_rows if row.metric == f"p of {metric}"]
    adjusted = holm([row.value for row in p_rows])
    for row, p in zip(p_rows, adjusted, strict=True):
        rows.append(row._replace(metric=f"p of {named}", value=p))
    return rows


def strongest_rival(params: Settings, comparison: Comparison, statistics: ByName) -> str:
    """Return the strongest rival on the split that `rivals_are_chosen_on` names."""
    if rivals_are_chosen_on(params, comparison) == "validation":
        return best_on_validation(comparison.rivals)
    metric = comparison.metric
    values = [_mean(statistics[name], metric, statistics[name]) for name in comparison.rivals]
    return comparison.rivals[best_of(values, params.runs[comparison.baseline].task, metric)]


def best_of(values: Sequence[float], task: str, metric: str) -> int:
    """Return the number of the best value of a task's metric; undefined ones are the worst."""
    worth = np.multiply(values, -1 if lookup.find("tasks", task).metric_named(metric).lower_is_better else 1)
    return int(np.nan_to_num(worth, nan=-np.inf).argmax())


def against_rival(
    comparison: Comparison,
    statistics: ByName,
    network: str,
    rival: str,
    resampling: Resampling,
) -> list[Row]:
    """Return the difference of a network from a rival, over seeds and of each seed.

    Args:
        comparison: with rivals.
        statistics: by run and seed.
        network: a run of the comparison, or its baseline.
        rival: one of the rivals.
        resampling: of the intervals.
    """
    paired = comparison.model_copy(update={"baseline": rival, "runs": [network], "rivals": []})
    named = minus(comparison.metric, rival)
    return [row for row in compared(paired, statistics, resampling) if row.metric == named]


def _mean(by_seed: Mapping[int, Statistic], metric: str, seeds: Container[int]) -> float:
    """Return the mean of a metric over those of a run's seeds that are in `seeds`."""
    values = []
    for seed, statistic in by_seed.items():
        if seed in seeds:
            values.append(statistic.of_all()[statistic.names.index(metric)])
    return float(np.mean(values))


def main(params: Settings) -> None:
    log = logging.getLogger(__name__)
    statistics: dict[str, BySeed] = {}
    with replaced_folder("metrics/comparisons") as folder:
        for key, comparison in params.comparisons.items():
            predictions = {name: f"predictions/{name}.parquet" for name in comparison.names}
            with counted(key, "runs") as show:
                statistics = read_statistics(params, comparison, predictions, statistics, show)
            rows = compared(comparison, statistics, params.evaluate)
            hint = _hint(params.runs[comparison.baseline].task, comparison.metric)
            log.info("%s: %s%s\n%s", key, comparison.metric, hint, _table(comparison, rows, statistics))
            if exact := _exact(statistics):
                log.info("  lists of labels exactly right: %s", exact)
            if comparison.rivals:
                network = best_on_validation(comparison.networks)
                rival = strongest_rival(params, comparison, statistics)
                rows_of_rival = against_rival(comparison, statistics, network, rival, params.evaluate)
                log.info(
                    "  %s (best run on validation) minus %s (strongest rival on %s): %s",
                    network, rival, rivals_are_chosen_on(params, comparison),
                    cell(*rows_of_rival[0].interval, sign=True),
                )  # fmt: skip
                rows += rows_of_rival
                best = best_on_validation(name for name in comparison.names if name in params.runs)
                for untrained in [name for name in comparison.rivals if name in params.rivals]:
                    if (best, untrained) == (network, rival):
                        continue
                    gain = against_rival(comparison, statistics, best, untrained, params.evaluate)[0]
                    log.info("  %s (best on validation) minus %s: %s", best, untrained, cell(*gain.interval, sign=True))
            results.write(folder / f"{key}.csv", rows)


def _exact(statistics: ByName) -> str:
    """Return how often each run's list of labels is exactly right; empty if the task has no such lists."""
    values = []
    for name, by_seed in statistics.items():
        if all(EXACT in statistic.names for statistic in by_seed.values()):
            values.append(f"{name} {cell(_mean(by_seed, EXACT, by_seed))}")
    return ", ".join(values)


def _hint(task: str, metric: str) -> str:
    """Return in brackets whether a lower value is better, and the value by chance, where a reader may not know.

    >>> _hint("query_ranking", "log_loss"), _hint("score_ranking", "spearman")
    (' (lower is better; by chance 0.693)', '')
    """
    about = lookup.find("tasks", task).metric_named(metric)
    hints = ["lower is better"] if about.lower_is_better else []
    if about.chance:
        hints.append(f"by chance {about.chance:.3f}")
    return f" ({'; '.join(hints)})" if hints else ""


def _table(comparison: Comparison, rows: list[Row], statistics: ByName) -> str:
    """Return a line for the baseline and each run: the metric, and its difference from the baseline."""
    baseline = statistics[comparison.baseline]
    values = {row.run: row.value for row in rows if row.metric == comparison.metric}
    gain = minus(comparison.metric, comparison.baseline)
    gains = {row.run: cell(*row.interval, sign=True) for row in rows if row.metric == gain and row.seed is None}
    width = max(map(len, values))
    lines = []
    for name, value in values.items():
        lines.append(f"  {name:{width}}  {cell(value)}  {gains.get(name, '(baseline)')}")
        common = [str(seed) for seed in baseline if seed in statistics[name]]
        if len(common) < len(baseline):
            lines[-1] += f", with the baseline's seed{'s'[: len(common) - 1]} {', '.join(common)}"
    return "\n".join(lines)
