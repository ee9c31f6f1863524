"""Bootstrap confidence intervals, in the form in which every figure of the project is written."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import DegenerateDataWarning, bootstrap

__all__ = ["interval", "intervals", "mean"]


def mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(values, axis=axis)


def interval(
    *columns: np.ndarray,
    statistic: Callable[..., np.ndarray] = mean,
    resamples: int,
    generator: np.random.Generator,
) -> dict[str, float]:
    """A statistic of some paired columns, with its 95 % percentile bootstrap interval over rows.

    Resamples for which the statistic is not defined (NaN), such as the correlation of equal values, are left out.

    Args:
        columns: one value an example each, (n,); booleans count as 0 and 1.
        statistic: of the columns, along an `axis`.
        resamples: how often the rows are drawn.
        generator: draws them.

    Returns:
        `value`, `low` and `high`.

    Raises:
        ValueError: fewer than two rows, one that is not finite, or a statistic that is not defined.

    >>> generator = np.random.default_rng(0)
    >>> figure = interval(np.array([0.0, 1.0, 1.0, 0.0]), resamples=500, generator=generator)
    >>> figure["value"], figure["low"] < 0.5 < figure["high"]
    (0.5, True)
    """

    def one(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(statistic(*columns, axis=axis))[None]

    return intervals(*columns, statistic=one, resamples=resamples, generator=generator)[0]


def intervals(
    *columns: np.ndarray,
    statistic: Callable[..., np.ndarray],
    resamples: int,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> list[dict[str, float]]:
    """The same of several statistics at once, from the same resamples: `statistic` gives them along a first dimension.

    `confidence` is the share of the distribution that is inside an interval.

    >>> both = lambda values, axis: np.stack([values.mean(axis), values.max(axis)])
    >>> figures = intervals(np.array([0.0, 1.0]), statistic=both, resamples=9, generator=np.random.default_rng(0))
    >>> [figure["value"] for figure in figures]
    [0.5, 1.0]
    """
    columns = tuple(np.asarray(column) for column in columns)
    columns = tuple(column.astype(np.float64) if column.dtype == np.bool_ else column for column in columns)
    rows = len(columns[0])
    if rows < 2:
        raise ValueError(f"an interval needs at least 2 examples, found {rows}")
    for column in columns:
        if not np.isfinite(column).all():
            raise ValueError(f"row {int(np.flatnonzero(~np.isfinite(column))[0])} is not finite")
    values = [float(value) for value in statistic(*columns, axis=-1)]
    if not np.isfinite(values).all():
        raise ValueError(f"the statistic is not defined for these {rows} examples: {values}")
    if all(np.ptp(column) == 0 for column in columns):
        return [{"value": value, "low": value, "high": value} for value in values]  # all resamples are the same
    with warnings.catch_warnings():
        # It warns of resamples that are not defined, before they are left out here.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        drawn = bootstrap(
            columns, statistic, paired=True, vectorized=True, method="percentile", confidence_level=confidence,
            n_resamples=resamples, batch=max(1, 2_000_000 // rows), rng=generator,
        ).bootstrap_distribution  # fmt: skip
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    bounds = [np.percentile(part[~np.isnan(part)], tails) if not np.isnan(part).all() else (v, v)
              for part, v in zip(drawn, values, strict=True)]  # fmt: skip
    return [
        {"value": value, "low": float(low), "high": float(high)}
        for value, (low, high) in zip(values, bounds, strict=True)
    ]
