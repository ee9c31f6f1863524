"""Tables of kept results, and their cells: each takes a study and a run, unless it says otherwise."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from pipelines.reporting.results import cell, markdown
from rankgrad.evaluation import holm
from studies.kept import Study, read

__all__ = [
    "Cell", "Computed", "Table", "at_an_end", "check_seeds", "gain", "half_width", "mean", "of_seeds", "p_of", "paired",
    "small_p", "value", "with_half",
]  # fmt: skip

Values = Sequence[float] | np.ndarray | pd.Series
Cell = Callable[[Study, Any], str]  # of a study and the key of a row


@dataclass(frozen=True)
class Table:
    """A table of a study.

    Attributes:
        study: its folder below studies/made/.
        first: title of the first column.
        rows: what the first column shows, and the key that the cells get: a run, a metric.
        columns: by title, what gives a cell.
        title: Markdown above the table; `{seeds}` stands for how many there are.
    """

    study: str
    first: str
    rows: Iterable[tuple[str, Any]]
    columns: Mapping[str, Cell]
    title: str = ""

    def text(self) -> str:
        study = read(self.study)
        rows = [[shown, *(cell(study, key) for cell in self.columns.values())] for shown, key in self.rows]
        seeds = len({row.seed for row in study.rows} - {None})
        return self.title.format(seeds=seeds) + markdown([self.first, *self.columns], rows)


@dataclass(frozen=True)
class Computed:
    """Tables that a function makes of a whole study, where their rows depend on its numbers."""

    study: str
    make: Callable[[Study], str]

    def text(self) -> str:
        return self.make(read(self.study))


def value(metric: str, digits: str | None = None) -> Cell:
    """Show a metric with its interval, if it has one; nothing where the run has no such metric."""
    places = int(digits) if digits else None
    return lambda study, run: cell(*study.leaf(run, metric), digits=places) if study.has(run, metric) else ""


def mean(metric: str, form: str = ".3f") -> Cell:
    """Show a metric without its interval."""
    return lambda study, run: format(study.leaf(run, metric)[0], form) if study.has(run, metric) else ""


def gain(metric: str, baseline: str, digits: str | None = None) -> Cell:
    """Show the difference from a baseline with its interval; nothing for the baseline."""
    name, places = f"{metric} minus {baseline}", int(digits) if digits else None
    return lambda study, run: cell(*study.leaf(run, name), digits=places, sign=True) if study.has(run, name) else ""


def p_of(metric: str, baseline: str) -> Cell:
    """Show p of the difference from a baseline, paired by seed and test example, adjusted for all runs (Holm)."""
    name = f"p of {metric} minus {baseline}"
    return lambda study, run: small_p(study.leaf(run, name)[0]) if study.has(run, name) else ""


def small_p(p: float) -> str:
    """Show a p value; one that would round to 0 as a bound."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def at_an_end(study: Study, run: str) -> str:
    """Show in how many folds the lowest or the highest value of the run's grid was chosen."""
    grids = study.made_by["params"]["runs"].get(run, {}).get("grid", {})
    chosen = [(one, grid) for place, grid in grids.items() for one in study.by_fold(run, f"setting.{place}").values()]
    return f"{sum(one in (min(grid), max(grid)) for one, grid in chosen)} of {len(chosen)}" if chosen else ""


def half_width(values: Values) -> float:
    """Return half the width of the 95 % interval of a mean (Student's t)."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5 * student.ppf(0.975, len(values) - 1))


def paired(pairs: Sequence[tuple[pd.Series, pd.Series]]) -> list[str]:
    """Return the cells of a table: means over seeds, each with its difference from the usual method's.

    The difference has a 95 % interval, and p of a paired t-test over seeds, adjusted for all pairs (Holm).

    >>> usual = pd.Series([0.4, 0.4, 0.6], [1, 2, 3])
    >>> paired([(pd.Series([0.5, 0.6, 0.7], [1, 2, 3]), usual), (usual, usual)])
    ['0.600 (+0.133 ± 0.143, p 0.114)', '0.467 (+0.000 ± 0.000, p 1.000)']
    """
    cells, tests = [], []
    for values, usual in pairs:
        check_seeds(values, usual)
        apart = values - usual
        # Equal values have no t; they do not differ.
        tests.append(float(ttest_1samp(apart, 0).pvalue) if apart.any() else 1.0)
        cells.append(f"{values.mean():.3f} ({with_half(apart, '+.3f')}")
    return [f"{cell}, p {small_p(p)})" for cell, p in zip(cells, holm(tests), strict=True)]


def check_seeds(*of_each: pd.Series) -> None:
    """Raise ValueError where methods that are compared have other seeds."""
    if len(seeds := {tuple(one.index) for one in of_each}) > 1:
        shown = " and ".join(", ".join(map(str, one)) for one in sorted(seeds))
        raise ValueError(f"different seeds of methods that are compared, {shown}: expected the same of each")


def with_half(values: pd.Series | np.ndarray, form: str = ".3f") -> str:
    """Return a mean and the half width of its 95 % interval."""
    return f"{values.mean():{form}} ± {half_width(values):{form.removeprefix('+')}}"


def of_seeds(study: Study, run: str, metric: str) -> pd.Series:
    """Return a metric by seed, in the order of the seeds.

    Raises:
        ValueError: the study has none.
    """
    if not (found := study.by_seed(run, metric)):
        raise ValueError(f"{study.name}: no {metric} of {run}; keep the study anew")
    return pd.Series(found).sort_index()
