"""Compare methods by their values for each test example, with intervals over examples and seeds.

While a study runs, it keeps these values in predictions/<study>/, so that later methods can be compared with earlier
baselines. `p of ...` in its results is not adjusted; tables adjust it for all comparisons that they show.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from rankgrad.evaluation import Statistic, differences, evaluate
from rankgrad.io.atomic import replaced_file
from rankgrad.io.results import Row, minus

RESAMPLES, SEED = 1000, 1
Summary = Callable[[np.ndarray, np.ndarray], np.ndarray]  # values (metrics, n), row numbers (..., r) to (metrics, ...)


def means(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the mean of each metric over examples.

    >>> means(np.array([[1.0, 0.0, 1.0]]), np.array([[0, 1], [0, 2]]))
    array([[0.5, 1. ]])
    """
    return values[:, rows].mean(-1)


def stored(study: str, run: str) -> np.ndarray:
    """Return the values of a run (seeds, metrics, n).

    Raises:
        FileNotFoundError: the run was made elsewhere, and only its results are here.
    """
    path = _path(study, run)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; remove studies/made/{study} and run the study again")
    return np.load(path)


def compared(
    study: str,
    run: str,
    names: list[str],
    values: np.ndarray,
    *,
    baselines: Iterable[str],
    group: str = "",
    summary: Summary = means,
) -> list[Row]:
    """Store the values of a run, and return its metrics and their differences from earlier baselines.

    Args:
        study, run: names under which the values are stored.
        names: names of the metrics.
        values: values (seeds, metrics, n). A deterministic method has one seed, which is repeated.
        baselines: the names of the baselines in rows; a run is not compared with itself.
        group: what precedes a baseline's name in its run.
        summary: computes metrics from the values.
    """
    with replaced_file(_path(study, run)) as partial, partial.open("wb") as file:
        np.save(file, values)
    rows = evaluate(run, _statistics(names, values, len(values), summary), resamples=RESAMPLES, seed=SEED)
    for baseline in baselines:
        if group + baseline == run:
            continue
        of_baseline = stored(study, group + baseline)
        seeds = max(len(values), len(of_baseline))
        ours, theirs = (_statistics(names, of_run, seeds, summary) for of_run in (values, of_baseline))
        for row in differences({run: ours}, theirs, resamples=RESAMPLES, seed=SEED):
            if row.seed is None:
                rows.append(row._replace(metric=minus(row.metric, baseline)))
    return rows


def _path(study: str, run: str) -> Path:
    return Path("predictions") / study / f"{run}.npy"


def _statistics(names: list[str], values: np.ndarray, seeds: int, summary: Summary) -> dict[int, Statistic]:
    """Return a statistic for each seed; a deterministic method's is repeated."""
    statistics = {}
    for seed in range(seeds):
        of_seed = values[seed % len(values)]
        statistics[seed + 1] = Statistic(names, of_seed.shape[1], lambda rows, own=of_seed: summary(own, rows))
    return statistics
