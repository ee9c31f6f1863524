"""Bootstrap confidence intervals, in the form in which every figure of the project is written."""

from collections.abc import Callable

import numpy as np
from scipy.stats import bootstrap

__all__ = ["interval", "mean"]


def mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(values, axis=axis)


def interval(
    *columns: np.ndarray,
    statistic: Callable[..., np.ndarray] = mean,
    resamples: int,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> dict[str, float]:
    """A statistic of some paired columns, with its percentile bootstrap interval over rows.

    Args:
        columns: one value an example each, (n,).
        statistic: of the columns, along an `axis`.
        resamples: how often the rows are drawn.
        generator: draws them.
        confidence: share of the distribution inside the interval.

    Returns:
        `value`, `low` and `high`.

    Raises:
        ValueError: fewer than two rows, or one that is not finite.

    >>> generator = np.random.default_rng(0)
    >>> figure = interval(np.array([0.0, 1.0, 1.0, 0.0]), resamples=500, generator=generator)
    >>> figure["value"], figure["low"] < 0.5 < figure["high"]
    (0.5, True)
    """
    rows = len(columns[0])
    if rows < 2:
        raise ValueError(f"an interval needs at least 2 examples, found {rows}")
    for column in columns:
        if not np.isfinite(column).all():
            raise ValueError(f"row {int(np.flatnonzero(~np.isfinite(column))[0])} is not finite")
    value = float(statistic(*columns, axis=-1))
    if all(np.ptp(column) == 0 for column in columns):
        return {"value": value, "low": value, "high": value}  # all resamples are the same
    drawn = bootstrap(
        columns, statistic, paired=True, vectorized=True, method="percentile", confidence_level=confidence,
        n_resamples=resamples, batch=max(1, 2_000_000 // rows), rng=generator,
    )  # fmt: skip
    return {
        "value": value,
        "low": float(drawn.confidence_interval.low),
        "high": float(drawn.confidence_interval.high),
    }
