"""Evaluation: metrics of test examples and training seeds, with confidence intervals, and paired differences.

Test examples are resampled (percentile bootstrap), in the same way for all models, so that differences are paired. Over
several training seeds the variance of the seeds is added, and the interval is Student's t with Satterthwaite's degrees
of freedom. With one seed, an interval covers only the sampling of test examples: it describes that one trained model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain

import numpy as np
import pyarrow as pa

from rankgrad.io.parquet import FOLD
from rankgrad.io.results import Row

__all__ = [
    "METHOD", "Statistic", "by_fold", "by_group", "describe_undefined", "differences", "evaluate", "holm",
    "interval", "joined", "remembered",
]  # fmt: skip

METHOD = "bootstrap of test examples; Student's t over seeds"  # how intervals are computed; stored with results
PIECE = 2_000_000  # row numbers drawn at once

Show = Callable[[int, int], object]  # receives the number of resamples done and their total


@dataclass(frozen=True)
class Statistic:
    """Metrics as a function of the chosen examples, so that resamples can be paired.

    Attributes:
        names: names of the metrics; a dot means nesting, as in `ranked.accuracy`.
        examples: the number of examples.
        of_rows: maps row numbers (..., n) to the metrics of those examples (metrics, ...); NaN for undefined metrics.
        parts: statistics of parts that are scored separately, by name, such as `fold 1`; empty without such parts.
    """

    names: list[str]
    examples: int
    of_rows: Callable[[np.ndarray], np.ndarray]
    parts: Mapping[str, "Statistic"] = field(default_factory=dict)

    def of_all(self) -> np.ndarray:
        """Return the metrics (metrics,) of all examples; NaN for undefined metrics, or if there are no examples."""
        return self.of_rows(np.arange(self.examples)) if self.examples else np.full(len(self.names), np.nan)


def describe_undefined(statistic: Statistic) -> list[str]:
    """Return the metrics that are undefined on all examples, each with the parts that cause it.

    >>> always = Statistic(["hit", "tau"], 2, lambda rows: np.stack([rows.mean(-1), np.full(rows.shape[:-1], np.nan)]))
    >>> describe_undefined(always)
    ['tau']
    >>> describe_undefined(joined({"fold 1": always, "fold 2": always}, [np.array([0, 1]), np.array([2, 3])]))
    ['tau (fold 1, fold 2)']
    """
    undefined = [name for name, value in zip(statistic.names, statistic.of_all(), strict=True) if np.isnan(value)]
    if not undefined:
        return []
    by_part = {part: dict(zip(own.names, own.of_all(), strict=True)) for part, own in statistic.parts.items()}
    described = []
    for name in undefined:
        to_blame = [part for part, values in by_part.items() if np.isnan(values.get(name, np.nan))]
        described.append(f"{name} ({', '.join(to_blame)})" if to_blame else name)
    return described


def by_group(statistic: Statistic, group: np.ndarray) -> Statistic:
    """Return a statistic that resamples whole groups, because errors within a group are not independent.

    Args:
        statistic: a statistic of n examples.
        group: (n,), equal for examples that belong together, such as those of a customer, a product, or a session.

    >>> hits = np.array([1.0, 0.0, 1.0])
    >>> grouped = by_group(Statistic(["hits"], 3, lambda rows: hits[rows].mean(-1)[None]), np.array(["a", "b", "a"]))
    >>> grouped.examples, grouped.of_rows(np.array([[0, 0], [0, 1]])).round(2).tolist()
    (2, [[1.0, 0.67]])
    """
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(number, kind="stable"), np.cumsum(sizes)[:-1])
    members = members[: len(sizes)]  # np.split returns one part even for no rows
    if len(set(sizes.tolist())) == 1:
        table = np.stack(members)
        return replace(
            statistic,
            examples=len(members),
            of_rows=lambda rows: statistic.of_rows(table[rows].reshape(*rows.shape[:-1], -1)),
        )

    def of_rows(rows: np.ndarray) -> np.ndarray:
        several = rows.reshape(-1, rows.shape[-1])  # resamples differ in their number of examples
        values = []
        for groups in several:
            values.append(statistic.of_rows(np.concatenate([members[group] for group in groups])))
        return np.stack(values, axis=-1).reshape(-1, *rows.shape[:-1])

    return replace(statistic, examples=len(members), of_rows=of_rows)


def joined(
    statistics: Mapping[str, Statistic], rows: Sequence[np.ndarray], weight: np.ndarray | None = None
) -> Statistic:
    """Join parts that are scored separately: return mean metrics over parts, weighted by their examples' weights.

    Models of different folds score on different scales, so their scores cannot be ranked together. A metric that is
    missing or undefined in a part is undefined for the whole; leaving out a part could make a model look better.

    Args:
        statistics: statistic of each part, by name.
        rows: row numbers of each part's examples, in the part's order (n,); each example is in one part.
        weight: the weight of each example (examples,), by which the statistics weight them; None for equal weights.

    >>> hits = {"fold 1": np.array([1.0, 0.0]), "fold 2": np.array([1.0])}
    >>> parts = {name: Statistic(["hit"], len(own), lambda rows, own=own: own[rows].mean(-1)[None])
    ...          for name, own in hits.items()}
    >>> joined(parts, [np.array([0, 2]), np.array([1])]).of_rows(np.array([[0, 1, 2], [1, 1, 2]]))
    array([[0.66666667, 0.66666667]])
    """
    examples = sum(map(len, rows))
    part, row_of_part = np.empty(examples, np.int64), np.empty(examples, np.int64)
    weight = np.ones(examples) if weight is None else weight
    for number, members in enumerate(rows):
        part[members], row_of_part[members] = number, np.arange(len(members))

    # The columns of each part's metrics among all metrics: a part may lack some classes.
    names = list(dict.fromkeys(chain.from_iterable(statistic.names for statistic in statistics.values())))
    columns = {}
    for number, statistic in enumerate(statistics.values()):
        columns[number] = [names.index(name) for name in statistic.names]

    def of_resample(chosen: np.ndarray) -> np.ndarray:
        mean = np.zeros(len(names))
        for number, statistic in enumerate(statistics.values()):
            members = chosen[part[chosen] == number]
            if len(members):
                values = np.full(len(names), np.nan)
                values[columns[number]] = statistic.of_rows(row_of_part[members])
                mean += weight[members].sum() / weight[chosen].sum() * values
        return mean

    def of_rows(chosen: np.ndarray) -> np.ndarray:
        values = [of_resample(rows) for rows in chosen.reshape(-1, chosen.shape[-1])]
        return np.stack(values, axis=-1).reshape(-1, *chosen.shape[:-1])

    return Statistic(names, examples, of_rows, statistics)


def by_fold(statistic: Callable[[pa.Table], Statistic], predictions: pa.Table) -> Statistic:
    """Return the metrics of predictions; with a column `fold`, each fold is scored separately, see `joined`.

    Args:
        statistic: a task's function from predictions to their statistic.
        predictions: table of predictions of one seed.
    """
    if FOLD not in predictions.column_names or not len(predictions):
        return statistic(predictions)
    folds = predictions[FOLD].to_numpy()
    rows = {f"{FOLD} {fold}": np.flatnonzero(folds == fold) for fold in np.unique(folds)}
    statistics = {name: statistic(predictions.take(pa.array(own))) for name, own in rows.items()}
    weight = predictions["weight"].to_numpy() if "weight" in predictions.column_names else None
    return joined(statistics, list(rows.values()), weight)


def remembered(statistic: Statistic) -> Statistic:
    """Return a statistic that caches its results, for comparing one model with several others on the same resamples.

    >>> calls = []
    >>> one = remembered(Statistic(["hits"], 2, lambda rows: calls.append(rows) or rows.mean(-1)[None]))
    >>> one.of_rows(np.array([[0, 1]])), one.of_rows(np.array([[0, 1]])), len(calls)
    (array([[0.5]]), array([[0.5]]), 1)
    """
    answers: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}

    def of_rows(rows: np.ndarray) -> np.ndarray:
        key = rows.shape, blake2b(rows.tobytes()).digest()
        if key not in answers:
            answers[key] = statistic.of_rows(rows)
        return answers[key]

    return replace(statistic, of_rows=of_rows)


def _resampled(
    statistics: list[Statistic], *, resamples: int, seed: int, show: Show | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the metrics of all examples and their resamples, (seeds, metrics) and (seeds, metrics, resamples).

    With fewer than two examples, all resamples are NaN.

    Raises:
        ValueError: the statistics have different examples or metrics.
    """
    first = statistics[0]
    for statistic in statistics:
        if (statistic.examples, statistic.names) != (first.examples, first.names):
            raise ValueError(
                f"{statistic.examples} examples with metrics {statistic.names} cannot be compared with "
                f"{first.examples} with {first.names}: expected predictions for the same split by models of one task"
            )
    values = np.stack([statistic.of_all() for statistic in statistics])
    if first.examples < 2:
        return values, np.full((*values.shape, resamples), np.nan)
    draws = np.random.default_rng(seed)
    pieces, left = [], resamples
    while left:
        count = min(left, max(1, PIECE // first.examples))
        rows = draws.integers(first.examples, size=(count, first.examples))
        piece = []
        for number, statistic in enumerate(statistics, 1):
            piece.append(statistic.of_rows(rows))
            if show:
                show(len(statistics) * (resamples - left) + number * count, len(statistics) * resamples)
        pieces.append(np.stack(piece))
        left -= count
    return values, np.concatenate(pieces, axis=-1)


def _bounds(value: float, of_seeds: np.ndarray, resampled: np.ndarray, confidence: float) -> tuple[float, float, float]:
    """Return low, high, and the two-sided p value of a mean over seeds; NaN if too few resamples are defined.

    A metric that is undefined on more than half of the resamples has no interval, since the rest would give one that is
    too narrow.

    Args:
        value: the mean.
        of_seeds: the value of each seed (S,).
        resampled: the value of each seed on each resample (S, resamples).
        confidence: confidence level of the interval.
    """
    means = resampled.mean(0)
    defined = means[~np.isnan(means)]
    if np.isnan(value) or 2 * len(defined) < len(means):
        return math.nan, math.nan, math.nan
    seeds = len(of_seeds)
    if seeds == 1:
        low, high = np.percentile(defined, [50 * (1 - confidence), 50 * (1 + confidence)])
        tail = min((defined <= 0).sum(), (defined >= 0).sum())
        return float(low), float(high), float(min(1.0, 2 * (tail + 1) / (len(defined) + 1)))
    # Two sources of variance: the sample of test examples, and the training seeds.
    by_examples, by_seeds = float(defined.var()), float(of_seeds.var(ddof=1)) / seeds
    variance = by_examples + by_seeds
    if variance == 0:
        return value, value, float(value == 0)
    freedom = (seeds - 1) * (variance / by_seeds) ** 2 if by_seeds else math.inf
    error = math.sqrt(variance)
    from scipy.special import stdtr, stdtrit  # takes a third of a second to import; training needs none of it

    margin = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return value - margin, value + margin, float(2 * stdtr(freedom, -abs(value) / error))


def evaluate(
    run: str,
    statistics: Mapping[int, Statistic],
    *,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
    limits: Mapping[str, tuple[float, float]] | None = None,
    show: Show | None = None,
) -> list[Row]:
    """Return each metric of a run as its mean over training seeds with an interval, then the value of each seed.

    Resamples on which a metric is undefined are left out. A metric that is undefined on all examples of a seed is NaN.
    Bounds are NaN if the metric is, if there are fewer than two examples, or if more than half of the resamples are
    left out.

    Args:
        run: name of the run, for the rows.
        statistics: statistic of each training seed, on the same examples.
        resamples, seed: number of bootstrap resamples, and their seed. The same seed gives the same resamples for each
            model.
        confidence: confidence level of the interval.
        limits: smallest and largest value of each metric; bounds are cut to them, because Student's t may exceed them.
        show: called from time to time with the number of resamples done and the total.

    Raises:
        ValueError: the statistics have different examples or metrics.

    >>> hits = np.array([1.0, 0.0, 1.0, 1.0])
    >>> statistic = Statistic(["recall.at_1"], 4, lambda rows: hits[rows].mean(-1)[None])
    >>> for row in evaluate("mine", {1: statistic}, resamples=50, seed=0):
    ...     print(row.metric, row.seed, row.value, row.low < 0.75 < row.high)
    recall.at_1 None 0.75 True
    recall.at_1 1 0.75 False
    """
    values, resampled = _resampled(list(statistics.values()), resamples=resamples, seed=seed, show=show)
    rows = []
    for number, metric in enumerate(next(iter(statistics.values())).names):
        of_seeds = values[:, number]
        value = float(of_seeds.mean())
        low, high, _ = _bounds(value, of_seeds, resampled[:, number], confidence)
        least, most = (limits or {}).get(metric, (-math.inf, math.inf))
        rows.append(Row(run, metric, value, max(low, least), min(high, most)))  # NaN stays NaN
        rows += [Row(run, metric, float(own), seed=key) for key, own in zip(statistics, of_seeds, strict=True)]
    return rows


def differences(
    runs: Mapping[str, Mapping[int, Statistic]],
    baseline: Mapping[int, Statistic],
    *,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
    show: Show | None = None,
) -> list[Row]:
    """Return the differences of runs minus a baseline for each metric, paired by training seed and test example.

    Args:
        runs: statistics of each run, by training seed; seeds that only the run or only the baseline has are ignored.
        baseline: statistics by training seed; resampled once for all runs.
        resamples, seed: see `evaluate`.
        confidence: confidence level of the interval.
        show: see `evaluate`.

    Returns:
        For each run and metric, the difference with its interval, the difference for each seed, and the two-sided p
        value as the metric `p of <metric>`; NaN if undefined, see `evaluate`.

    Raises:
        ValueError: run and baseline have no seed in common, or have different examples or metrics.

    >>> one, other = (Statistic(["hit"], 4, lambda rows, hits=np.array(hits): hits[rows].mean(-1)[None])
    ...               for hits in ([1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]))
    >>> differences({"one": {1: one}}, {1: other}, resamples=50, seed=0)[0].value
    0.25
    """
    # Pair the seeds. The baseline's statistics come first, then those of each run.
    pairs: dict[str, list[int]] = {}
    for name, ours in runs.items():
        pairs[name] = [key for key in ours if key in baseline]
        if not pairs[name]:
            raise ValueError(f"seeds {list(ours)} and {list(baseline)} have none in common: expected paired seeds")
    seeds = set().union(*pairs.values())
    paired = [key for key in baseline if key in seeds]
    statistics, starts = [baseline[key] for key in paired], {}
    for name, ours in runs.items():
        starts[name] = len(statistics)
        statistics += [ours[key] for key in pairs[name]]
    values, resampled = _resampled(statistics, resamples=resamples, seed=seed, show=show)

    # Compare each run with the same seeds of the baseline.
    rows = []
    for name, keys in pairs.items():
        ours, theirs = slice(starts[name], starts[name] + len(keys)), [paired.index(key) for key in keys]
        apart, resampled_apart = values[ours] - values[theirs], resampled[ours] - resampled[theirs]
        for number, (metric, value) in enumerate(zip(statistics[0].names, apart.mean(0).tolist(), strict=True)):
            low, high, p = _bounds(value, apart[:, number], resampled_apart[:, number], confidence)
            rows.append(Row(name, metric, value, low, high))
            rows.append(Row(name, f"p of {metric}", p))
            rows += [Row(name, metric, float(own), seed=key) for key, own in zip(keys, apart[:, number], strict=True)]
    return rows


def holm(p: list[float]) -> list[float]:
    """Return p values adjusted for several comparisons (Holm, 1979).

    NaN stays NaN but still counts as a comparison.

    >>> holm([0.01, 0.04, 0.03]), holm([0.01, np.nan])
    ([0.03, 0.06, 0.06], [0.02, nan])
    """
    adjusted, most = [np.nan] * len(p), 0.0
    defined = [number for number in range(len(p)) if not np.isnan(p[number])]
    for smaller, number in enumerate(sorted(defined, key=p.__getitem__)):
        most = max(most, min(1.0, (len(p) - smaller) * p[number]))
        adjusted[number] = most
    return adjusted


def interval(values: np.ndarray, *, resamples: int, seed: int) -> tuple[float, float, float]:
    """Return the mean of one value per example (n,) with its 95% interval: value, low, high.

    >>> value, low, high = interval(np.array([0.0, 1.0, 1.0, 0.0]), resamples=500, seed=0)
    >>> value, low < 0.5 < high
    (0.5, True)
    """
    statistic = Statistic(["mean"], len(values), lambda rows: values[rows].mean(-1)[None])
    return evaluate("", {0: statistic}, resamples=resamples, seed=seed)[0].interval
