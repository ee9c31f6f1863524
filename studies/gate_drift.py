"""Simulate years of nightly challengers at the gate: `python -m studies.gate_drift`, a minute on one core.

Every night one model or several are trained anew and judged on the same rows of a gate split. Each has a true value of
the gate's metric and of a guarded metric. If all are equally good, every promotion is due to chance. If they differ, as
trainings with different seeds do, those that are better in one metric tend to be worse in the other. The gate holds the
guarded metric against the last champion; whether it falls step by step, and whether it would if it were held against
the best champion so far, is what the table shows.
"""

from collections.abc import Sequence
from statistics import fmean
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pipelines.tracking.gate import verdict
from rankgrad.io.results import Row

NIGHTS, YEARS = 200, 200
NOISE = 0.3  # standard deviation of a row's value
CORRELATION = -0.7  # between a model's true values of the two metrics
JUDGED = SimpleNamespace(metric="main", guarded=["guarded"])
GATE = SimpleNamespace(minimum_gain=0.0, tolerance=0.01)
LOWER_IS_BETTER = {"main": False, "guarded": False}


class Case(NamedTuple):
    """A gate and its challengers."""

    rows: int  # of the gate split
    spread: float  # standard deviation of the models' true values
    models: int  # judged each night
    corrected: bool = True  # whether intervals are corrected for the number of models
    against_best: bool = False  # whether the guarded metric is held against the best champion so far, not the last


CASES = (
    Case(300, 0.0, 1),
    Case(300, 0.0, 4, corrected=False),
    Case(300, 0.0, 4),
    Case(300, 0.01, 1),
    Case(300, 0.01, 1, against_best=True),
    Case(2000, 0.03, 1),
    Case(2000, 0.03, 1, against_best=True),
    Case(2000, 0.03, 4),
    Case(2000, 0.03, 4, against_best=True),
)


class Model(NamedTuple):
    """A model's true values of both metrics (2,), and its values on the gate split (2,)."""

    true: np.ndarray
    measured: np.ndarray

    def minus(self, other: "Model", margin: float) -> dict[str, Row]:
        """Return the measured differences from another model with their intervals."""
        rows = {}
        for metric, gap in zip(LOWER_IS_BETTER, self.measured - other.measured, strict=True):
            rows[metric] = Row("challenger", metric, gap, gap - margin, gap + margin)
        return rows


class Year(NamedTuple):
    """What happened in a year: the number of promotions, and the last minus the first champion's true values."""

    promotions: int
    main: float
    guarded: float


def drawn(case: Case, draws: np.random.Generator) -> Model:
    """Return a random model."""
    covariance = case.spread**2 * np.array([[1, CORRELATION], [CORRELATION, 1]])
    true = draws.multivariate_normal(np.zeros(2), covariance)
    return Model(true, true + NOISE / case.rows**0.5 * draws.standard_normal(2))


def year(case: Case, draws: np.random.Generator) -> Year:
    """Simulate a year from the first champion on."""
    tests = case.models if case.corrected else 1
    margin = float(ndtri(1 - 0.025 / tests)) * NOISE * (2 / case.rows) ** 0.5
    first = champion = best = drawn(case, draws)
    promotions = 0
    for _ in range(NIGHTS):
        better = []
        for _ in range(case.models):
            model = drawn(case, draws)
            gaps, gaps_to_best = model.minus(champion, margin), model.minus(best, margin)
            guarded = gaps_to_best if case.against_best else gaps
            if verdict(gaps | {"guarded": guarded["guarded"]}, JUDGED, GATE, LOWER_IS_BETTER)[0]:
                better.append(model)
        if better:
            champion = max(better, key=lambda model: model.measured[0])
            best = max(best, champion, key=lambda model: model.measured[1])
            promotions += 1
    return Year(promotions, *(champion.true - first.true))


def means(years: Sequence[Year]) -> str:
    """Return the means of years in columns."""
    promotions, main, guarded = (fmean(values) for values in zip(*years, strict=True))
    return f"{promotions:10.2f}  {main:+9.4f}  {guarded:+9.4f}"


if __name__ == "__main__":
    print("rows  spread  models  corrected  against best  promotions       main    guarded")
    for case in CASES:
        draws = np.random.default_rng(0)
        years = [year(case, draws) for _ in range(YEARS)]
        about = f"{case.rows:4}  {case.spread:6}  {case.models:6}  {case.corrected!s:9}  {case.against_best!s:12}"
        print(f"{about}  {means(years)}")
