"""A challenger answers the rows that came in too: what would change for those who ask, before it is promoted."""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import spearmanr

from pipelines.monitoring.measure import Answers
from pipelines.ops.messages import as_line

__all__ = ["Agreement", "Shadow", "agreements"]


@dataclass(frozen=True)
class Agreement:
    """What both models say of the same rows, in one quantity of their answers."""

    name: str  # such as `score cat`
    champion: float  # mean
    challenger: float
    correlation: float | None  # of ranks over rows; None where one of them says the same of all
    alike: float  # fraction of rows with equal values


@dataclass(frozen=True)
class Shadow:
    """A model that answered the rows too, or why it could not, which takes nothing from the comparison."""

    model: str  # such as `models:/label_ranking-photos/3`, or a folder
    agreement: list[Agreement] = field(default_factory=list)  # of the quantities that both have, the least first
    failed: str = ""

    @property
    def verdict(self) -> str:
        """In a line."""
        if self.failed:
            return f"{self.model} could not answer: {self.failed}"
        if not self.agreement:
            return f"{self.model}: its answers have no quantity that could be compared row by row"
        least = self.agreement[0]
        correlation = "none" if least.correlation is None else f"{least.correlation:.3f}"
        name = as_line(least.name)  # of a class, as a person called it
        return f"{self.model} agrees least in {name}: rank correlation {correlation}, {least.alike:.0%} alike"


def agreements(champion: Answers, challenger: Answers) -> list[Agreement]:
    """Return the quantities of two models' answers to the same rows, the least agreement first."""
    ours, theirs = champion.quantities, challenger.quantities
    shared = [_agreement(name, ours[name].to_numpy(), theirs[name].to_numpy()) for name in ours if name in theirs]
    return sorted(
        shared, key=lambda agreement: agreement.alike if agreement.correlation is None else agreement.correlation
    )


def _agreement(name: str, ours: np.ndarray, theirs: np.ndarray) -> Agreement:
    varies = all(np.ptp(values) > 0 for values in (ours, theirs))
    correlation = float(spearmanr(ours, theirs).statistic) if varies else None
    return Agreement(name, float(ours.mean()), float(theirs.mean()), correlation, float((ours == theirs).mean()))
