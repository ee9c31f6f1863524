"""Means over seeds or splits with intervals and tests, for tables of kept results."""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from rankgrad.evaluation import holm
from studies.kept import Study

Key = TypeVar("Key", bound=Hashable)
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


def half_width(values: pd.Series | np.ndarray) -> float:
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


def adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return Holm-adjusted p-values."""
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def compared(gains: Mapping[Key, pd.Series], form: str = "+.3f") -> dict[Key, list[str]]:
    """Return each mean difference with its 95% interval, and p of a paired t-test, Holm-adjusted for all of them."""
    p_values = adjusted({key: p_of_zero(gain) for key, gain in gains.items()})
    return {key: [with_half(gain, form), small_p(p_values[key])] for key, gain in gains.items()}


def paired(values: Mapping[tuple[Any, str], pd.Series], usual: str) -> dict[tuple[Any, str], str]:
    """Return the mean over seeds for each case and method, with its difference from the standard method.

    >>> usual = pd.Series([0.4, 0.4, 0.6], [1, 2, 3])
    >>> ours = pd.Series([0.5, 0.6, 0.7], [1, 2, 3])
    >>> paired({(1, "mse"): usual, (1, "ours"): ours, (1, "same"): usual}, "mse")[1, "ours"]
    '0.600 (+0.133 ± 0.143, p 0.114)'
    """
    gains = {}
    for (case, method), of_method in values.items():
        if method != usual:
            check_seeds(of_method, values[case, usual])
            gains[case, method] = of_method - values[case, usual]
    cells = {key: f"{of_method.mean():.3f}" for key, of_method in values.items()}
    for key, (gain, p) in compared(gains).items():
        cells[key] += f" ({gain}, p {p})"
    return cells


def over_splits(gain: pd.Series) -> tuple[float, float]:
    """Return the half-width of the 95% interval of a mean over random splits of the same rows, and p for a mean of 0.

    The variance accounts for shared training rows (Nadeau and Bengio 2003).
    """
    deviation = (gain.var(ddof=1) * (1 / len(gain) + HELD_OUT)) ** 0.5
    freedom = len(gain) - 1
    p = 2 * float(student.sf(abs(gain.mean()) / deviation, freedom)) if deviation != 0 else float(gain.mean() == 0)
    return float(deviation * student.ppf(0.975, freedom)), p
