"""Figures of predictions with confidence intervals, and the paired difference of two models' figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankops.metrics.bootstrap import intervals

__all__ = ["Figures", "compare", "evaluate"]


@dataclass(frozen=True)
class Figures:
    """What a task is scored by, as a function of which examples are looked at: so that resamples can be paired.

    Attributes:
        names: of the figures; a dot stands for nesting, as in `ranked.accuracy`.
        examples: how many there are.
        of_rows: takes row numbers (..., n) to the figures of those examples (figures, ...); NaN where one is not
            defined.
    """

    names: list[str]
    examples: int
    of_rows: Callable[[np.ndarray], np.ndarray]


def _bounds(
    statistic: Callable[[np.ndarray], np.ndarray], examples: int, *, resamples: int, seed: int, confidence: float
) -> list[dict[str, float]]:
    def of_column(rows: np.ndarray, axis: int = -1) -> np.ndarray:
        return statistic(rows.astype(np.int64))

    return intervals(
        np.arange(examples, dtype=np.float64), statistic=of_column, resamples=resamples,
        generator=np.random.default_rng(seed), confidence=confidence,
    )  # fmt: skip


def evaluate(figures: Figures, *, resamples: int, seed: int) -> dict[str, Any]:
    """Each figure with its 95 % percentile bootstrap interval over examples, nested by the dots in its name.

    Args:
        figures: from a task's `figures`.
        resamples, seed: of the bootstrap. The same seed gives the same resamples for each model.

    Returns:
        Figures as `value`, `low` and `high`.

    Raises:
        ValueError: fewer than two examples, or a figure is not defined for all of them.

    >>> hits = np.array([1.0, 0.0, 1.0, 1.0])
    >>> figures = Figures(["recall.at_1"], 4, lambda rows: hits[rows].mean(-1)[None])
    >>> evaluate(figures, resamples=50, seed=0)["recall"]["at_1"]["value"]
    0.75
    """
    result: dict[str, Any] = {}
    bounds = _bounds(figures.of_rows, figures.examples, resamples=resamples, seed=seed, confidence=0.95)
    for name, figure in zip(figures.names, bounds, strict=True):
        *parents, last = name.split(".")
        block = result
        for parent in parents:
            block = block.setdefault(parent, {})
        block[last] = figure
    return result


def compare(
    challenger: Figures, champion: Figures, *, resamples: int, seed: int, confidence: float = 0.95
) -> dict[str, dict[str, float]]:
    """By how much the challenger's figures exceed the champion's, on the same resamples of the same examples.

    Args:
        challenger, champion: of the same task and split.
        resamples, seed: of the bootstrap.
        confidence: of the interval.

    Returns:
        Of each figure, the difference as `value`, `low` and `high`.

    Raises:
        ValueError: they are not of the same examples or figures.

    >>> one, other = (Figures(["hit"], 4, lambda rows, hits=np.array(hits): hits[rows].mean(-1)[None])
    ...               for hits in ([1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]))
    >>> compare(one, other, resamples=50, seed=0)["hit"]["value"]
    0.25
    """
    if (challenger.examples, challenger.names) != (champion.examples, champion.names):
        raise ValueError(
            f"{challenger.examples} examples with figures {challenger.names} cannot be compared with "
            f"{champion.examples} with {champion.names}: expected predictions for the same split by models of one task"
        )
    bounds = _bounds(
        lambda rows: challenger.of_rows(rows) - champion.of_rows(rows), challenger.examples, resamples=resamples,
        seed=seed, confidence=confidence,
    )  # fmt: skip
    return dict(zip(challenger.names, bounds, strict=True))
