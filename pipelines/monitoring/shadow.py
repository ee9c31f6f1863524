"""Compare a challenger's predictions with the champion's on incoming rows, before it is promoted."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from pipelines.ops.messages import as_line

__all__ = ["Agreement", "Shadow", "agreements"]


@dataclass(frozen=True)
class Agreement:
    """The agreement of both models on the same rows, in one quantity of their predictions."""

    name: str  # such as `score cat`
    champion: float  # mean
    challenger: float  # mean
    correlation: float | None  # rank correlation over rows; None if either model's values are constant
    alike: float  # fraction of rows with equal values


@dataclass(frozen=True)
class Shadow:
    """A second model's agreement on the rows, or why it could not predict them; the comparison continues either way."""

    model: str  # such as `models:/label_ranking-photos/3`, or a folder
    agreement: list[Agreement] = field(default_factory=list)  # for the quantities that both have, the lowest first
    failed: str = ""  # the reason for failing

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if self.failed:
            return f"{self.model} could not answer: {self.failed}"
        if not self.agreement:
            return f"{self.model}: its answers have no quantity that could be compared row by row"
        least = self.agreement[0]
        correlation = "none" if least.correlation is None else f"{least.correlation:.3f}"
        name = as_line(least.name)  # it may contain a class name with any characters
        return f"{self.model} agrees least in {name}: rank correlation {correlation}, {least.alike:.0%} alike"


def agreements(ours: pd.DataFrame, theirs: pd.DataFrame) -> list[Agreement]:
    """Return the agreement of two models' predictions for the same rows, the lowest first.

    Args:
        ours, theirs: quantities of the champion's and the challenger's predictions (n, ...).
    """
    shared = [_agreement(name, ours[name].to_numpy(), theirs[name].to_numpy()) for name in ours if name in theirs]
    return sorted(
        shared, key=lambda agreement: agreement.alike if agreement.correlation is None else agreement.correlation
    )


def _agreement(name: str, ours: np.ndarray, theirs: np.ndarray) -> Agreement:
    varies = all(np.ptp(values) > 0 for values in (ours, theirs))
    correlation = float(spearmanr(ours, theirs).statistic) if varies else None
    return Agreement(name, float(ours.mean()), float(theirs.mean()), correlation, float((ours == theirs).mean()))
