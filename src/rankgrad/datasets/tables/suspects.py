"""Columns of numbers that a person should look at: constants, stand-ins such as -999, and copies of the target."""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

__all__ = ["SAME_ORDER", "described", "rank_correlation", "stand_ins"]

STANDS_IN = re.compile(r"-?9{2,}")  # for a missing value, as -999 does
REPEATED = 3  # rows that must share such a number
SAME_ORDER = 0.99  # Spearman's correlation beyond which two columns order rows the same way
FEWEST, MOST = 10, 10_000  # rows by which that is judged
NAMED = 10  # columns that a line names


def stand_ins(values: np.ndarray) -> dict[str, int]:
    """Return the smallest and the largest number if it may stand for a missing value, and how many rows have it.

    >>> stand_ins(np.array([0.5, -999.0, -999.0, 0.1, -999.0, 99.5]))
    {'-999': 3}
    """
    counts = {}
    for value in (np.nanmin(values), np.nanmax(values)):
        text, count = f"{value:.17g}", int((values == value).sum())  # all digits: :g has six
        if STANDS_IN.fullmatch(text) and count >= REPEATED:
            counts[text] = count
    return counts


def rank_correlation(values: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's correlation of rows that have both numbers; 0 if they are few, or one column is constant.

    >>> rank_correlation(np.arange(20.0), np.arange(20.0) ** 3)
    1.0
    """
    step = -(-len(values) // MOST)
    ranks = pd.DataFrame({"values": values[::step], "other": other[::step]}).dropna().rank()
    if len(ranks) < FEWEST or (ranks.nunique() < 2).any():
        return 0.0
    return float(ranks.corr().to_numpy()[0, 1])


def described(columns: Mapping[str, np.ndarray], truth: np.ndarray | None, groups: np.ndarray | None) -> dict[str, str]:
    """Return a line for each suspicion, with the columns that are under it.

    Args:
        columns: numbers of training rows (n,) by their column, NaN where one is missing.
        truth: what is to be learned of each row (n,), or None.
        groups: the number of the group or query within which each row is compared (n,), or None.

    >>> described({"x": np.full(3, 2.0), "y": np.arange(3.0)}, None, np.array([0, 1, 2]))
    {'constant': 'x', 'constant within each group': 'y'}
    """
    suspects: dict[str, list[str]] = {}
    for name, values in columns.items():
        if np.nanmin(values) == np.nanmax(values):
            suspects.setdefault("constant", []).append(name)
            continue
        if groups is not None and _is_constant_within(values, groups):
            suspects.setdefault("constant within each group", []).append(name)
        for text, count in stand_ins(values).items():
            suspects.setdefault("stand-ins", []).append(f"{name} is {text} in {count} rows")
        correlation = 0.0 if truth is None else rank_correlation(values, truth)
        if abs(correlation) > SAME_ORDER:
            suspects.setdefault("orders rows as the target", []).append(f"{name} (Spearman {correlation:.3f})")
    lines = {}
    for suspicion, names in suspects.items():
        more = f", ... ({len(names)} columns)" if len(names) > NAMED else ""
        lines[suspicion] = ", ".join(names[:NAMED]) + more
    return lines


def _is_constant_within(values: np.ndarray, groups: np.ndarray) -> bool:
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ordered = values[order]
    return bool((np.maximum.reduceat(ordered, starts) == np.minimum.reduceat(ordered, starts)).all())
