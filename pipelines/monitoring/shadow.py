"""A challenger beside the champion on rows that came in: what would change for those who ask, before it is promoted."""

from dataclasses import dataclass

import numpy as np
from rich.table import Table
from rich.text import Text
from scipy.stats import spearmanr

from pipelines.monitoring.measure import Measured

__all__ = ["Agreement", "agreements", "table"]


@dataclass(frozen=True)
class Agreement:
    """What both models say of the same rows, in one quantity of their answers."""

    name: str  # such as `score cat`
    champion: float  # mean
    challenger: float
    correlation: float | None  # of ranks over rows; None where one of them says the same of all
    alike: float  # share of rows in which it is equal


def agreements(champion: Measured, challenger: Measured) -> list[Agreement]:
    """Return the quantities of two models' answers to the same rows, those that agree least first.

    Raises:
        ValueError: their answers have no quantity in common, such as embeddings.
    """
    shared = [name for name in champion.answers if name in challenger.answers]
    if not shared:
        raise ValueError("the answers of both models have no quantity in common that could be compared row by row")
    found = [
        _agreement(name, champion.answers[name].to_numpy(), challenger.answers[name].to_numpy()) for name in shared
    ]
    return sorted(found, key=lambda one: -2.0 if one.correlation is None else one.correlation)


def _agreement(name: str, ours: np.ndarray, theirs: np.ndarray) -> Agreement:
    varies = all(np.ptp(values) > 0 for values in (ours, theirs))
    correlation = float(spearmanr(ours, theirs).statistic) if varies else None
    return Agreement(name, float(ours.mean()), float(theirs.mean()), correlation, float((ours == theirs).mean()))


def table(found: list[Agreement], *, champion: str, challenger: str) -> Table:
    """Return the quantities, for a terminal."""
    shown = Table(title=Text(f"means of the answers of {champion} and of {challenger}"), title_justify="left")
    shown.add_column("quantity", no_wrap=True)
    for column in ("champion", "challenger", "rank correlation", "rows alike"):
        shown.add_column(column, justify="right")
    for one in found:
        correlation = "" if one.correlation is None else f"{one.correlation:.3f}"
        shown.add_row(one.name, f"{one.champion:.3f}", f"{one.challenger:.3f}", correlation, f"{one.alike:.0%}")
    return shown
