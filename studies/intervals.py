"""Means over seeds or splits with intervals and tests, for tables of kept results."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from rankgrad.evaluation import holm
from studies.kept import Study

__all__ = [
    "adjusted", "check_seeds", "half_width", "of_seeds", "over_splits", "p_of_zero", "paired", "small_p", "with_half",
]  # fmt: skip

Values = Sequence[float] | np.ndarray | pd.Series
HELD_OUT = 0.2 / 0.8  # ratio of test rows to training rows in random splits


def of_seeds(study: Study, run: str, metric: str) -> pd.Series:
    """Return a metric by seed, in the order of the seeds.

    Raises:
        ValueError: the study lacks the metric.
    """
    values = study.by_seed(run, metric)
    if not values:
        raise ValueError(f"{study.name}: no {metric} of {run}; run the study again")
    return pd.Series(values).sort_index()


def check_seeds(*methods: pd.Series) -> None:
    """Raise ValueError if methods to compare have different seeds."""
    seeds = {tuple(values.index) for values in methods}
    if len(seeds) > 1:
        shown = " and ".join(str(list(some_seeds)) for some_seeds in sorted(seeds))
        raise ValueError(f"methods with different seeds cannot be compared: {shown}; expected the same seeds for each")


def half_width(values: Values) -> float:
    """Return the half-width of the 95% interval of a mean (Student's t)."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5 * student.ppf(0.975, len(values) - 1))


def with_half(values: pd.Series | np.ndarray, form: str = ".3f") -> str:
    """Return a mean and the half-width of its 95% interval."""
    return f"{values.mean():{form}} ± {half_width(values):{form.removeprefix('+')}}"


def small_p(p: float) -> str:
    """Show a p-value; show a bound if it would round to 0."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def p_of_zero(differences: pd.Series) -> float:
    """Return p of a t-test for a mean of 0; it is 1 if all differences are 0."""
    return float(ttest_1samp(differences, 0).pvalue) if differences.any() else 1.0


def adjusted(p_values: dict[str, float]) -> dict[str, float]:
    """Return Holm-adjusted p-values."""
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def paired(pairs: Sequence[tuple[pd.Series, pd.Series]]) -> list[str]:
    """Return the cells of a table: means over seeds, each with its difference from the standard method.

    The difference has a 95% interval, and p of a paired t-test over seeds, Holm-adjusted for all pairs.

    >>> usual = pd.Series([0.4, 0.4, 0.6], [1, 2, 3])
    >>> paired([(pd.Series([0.5, 0.6, 0.7], [1, 2, 3]), usual), (usual, usual)])
    ['0.600 (+0.133 ± 0.143, p 0.114)', '0.467 (+0.000 ± 0.000, p 1.000)']
    """
    for values, usual in pairs:
        check_seeds(values, usual)
    p_values = holm([p_of_zero(values - usual) for values, usual in pairs])
    cells = []
    for (values, usual), p in zip(pairs, p_values, strict=True):
        cells.append(f"{values.mean():.3f} ({with_half(values - usual, '+.3f')}, p {small_p(p)})")
    return cells


def over_splits(gain: pd.Series) -> tuple[float, float]:
    """Return the half-width of the 95% interval of a mean over random splits of the same rows, and p for a mean of 0.

    The variance accounts for shared training rows (Nadeau and Bengio 2003).
    """
    deviation = (gain.var(ddof=1) * (1 / len(gain) + HELD_OUT)) ** 0.5
    freedom = len(gain) - 1
    return float(deviation * student.ppf(0.975, freedom)), float(2 * student.sf(abs(gain.mean()) / deviation, freedom))
