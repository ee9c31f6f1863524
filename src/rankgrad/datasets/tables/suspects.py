"""Find suspicious columns of numbers: constants, placeholders such as -999, outliers, and copies of the target."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["REPEATED", "SAME_ORDER", "described", "outliers", "rank_correlation", "stand_ins", "warn"]

STANDS_IN = re.compile(r"-?9{2,}")  # a number such as -999, which may stand for a missing value
REPEATED = 3  # fewest rows with such a number
SAME_ORDER = 0.99  # two columns with a Spearman correlation above this order rows the same way
FEWEST, MOST = 9, 10_000  # fewest rows beyond the first of each group, and most rows, used for that correlation
USUAL, OUTLYING = 0.999, 1000  # a number is an outlier if it is so many times larger than this fraction of all numbers
GRADE, FAR = 10, 5  # whole numbers up to this may be grades, of which one more than five times as large is an outlier
NAMED = 10  # most columns that a line lists
TOGETHER = 64  # columns to process at once, since embeddings may have hundreds


def warn(place: Path, suspects: Mapping[str, str]) -> None:
    """Log a warning for each suspicion of `described` that is usually a mistake."""
    for suspicion in sorted(suspects.keys() & {"stand-ins", "outliers", "orders rows as the target"}):
        logging.warning("%s: %s: %s; see whether that is right", place, suspicion, suspects[suspicion])


def stand_ins(values: np.ndarray) -> dict[str, int]:
    """Return the smallest and the largest number, if they may stand for missing values, and how many rows have them.

    These are numbers such as -999, and the only negative number of a column with many others, such as an age of -1.

    >>> stand_ins(np.array([0.5, -999.0, -999.0, 0.1, -999.0, 99.5]))
    {'-999': 3}
    """
    counts = {}
    for value in (np.nanmin(values), np.nanmax(values)):
        text = f"{value:.17g}"  # all digits: :g has six
        is_alone = value < 0 and (values < 0).sum() == (values == value).sum() and len(np.unique(values)) > GRADE
        if (STANDS_IN.fullmatch(text) or is_alone) and (count := int((values == value).sum())) >= REPEATED:
            counts[text] = count
    return counts


def outliers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest usual size in each column (n, k), and whether its largest number is an outlier.

    Of fewer than 1,000 rows, the usual size is the second largest. Among grades, such as a 40 typed for a 4, an outlier
    is nearer to the others than among other numbers, but no other number may be between.

    >>> usual, has_outlier = outliers(np.array([[0.0, 0.5], [4.0, 4.0], [40.0, 40.0], [3.0, 3.0]]))
    >>> usual.tolist(), has_outlier.tolist()
    ([4.0, 4.0], [True, False])
    """
    sizes = np.abs(values)
    usual, largest = np.nanquantile(sizes, USUAL, axis=0, method="lower"), np.nanmax(sizes, axis=0)
    are_grades = (usual <= GRADE) & (np.isnan(values) | (values % 1 == 0)).all(0)
    limit = np.where(are_grades, FAR, OUTLYING) * usual
    are_between = ((sizes > usual) & (sizes <= limit)).any(0)
    return usual, (limit > 0) & (limit < largest) & ~(are_grades & are_between)


def rank_correlation(values: np.ndarray, other: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Return the Spearman correlation over rows that have both numbers; 0 for few rows or a constant column.

    Args:
        values, other: numbers of rows (n,).
        groups: the number of each row's group (n,), within which rows are ranked, or None for one group.

    >>> rank_correlation(np.arange(20.0), np.arange(20.0) ** 3)
    1.0
    >>> rank_correlation(np.tile(np.arange(10.0), 2), np.arange(20.0), np.repeat([0, 1], 10))
    1.0
    """
    is_whole = ~np.isnan(values) & ~np.isnan(other)
    groups = None if groups is None else groups[is_whole]
    return float(_rank_correlations(values[is_whole, None], other[is_whole], groups)[0])


def _rank_correlations(columns: np.ndarray, other: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the Spearman correlation (k,) of each column (n, k) with another column (n,); none has NaN.

    Rows are ranked within their group (n,), and the ranks of all groups are correlated together.
    """
    group, names = pd.factorize(np.zeros(len(other)) if groups is None else groups)
    if len(other) - len(names) < FEWEST:
        return np.zeros(columns.shape[1])
    step = -(-len(other) // MOST)
    numbers = group if len(names) > MOST // 10 else np.arange(len(other))  # of many groups, whole ones
    is_used = numbers % step == 0
    group = group[is_used]
    rows = pd.DataFrame(np.column_stack([columns, other])[is_used])
    ranks = rows.groupby(group).rank().to_numpy() - (np.bincount(group)[group, None] + 1) / 2
    ranks, ranked = ranks[:, :-1], ranks[:, -1]
    norms = np.sqrt((ranks**2).sum(0) * (ranked**2).sum())
    return np.divide(ranked @ ranks, norms, out=np.zeros_like(norms), where=norms > 0)


def described(
    columns: Mapping[str, np.ndarray], truth: np.ndarray | None, groups: np.ndarray | None, target: str | None = None
) -> dict[str, str]:
    """Return a line for each kind of suspicion, with the columns that it concerns.

    Args:
        columns: numbers of training rows (n,) by column; missing ones are NaN.
        truth: the target or grade of each row (n,), or None.
        groups: the number of each row's group or query (n,), if rows are compared only within groups, or None.
        target: the name of the column that has the truth, if it is one of `columns`.

    >>> described({"x": np.full(3, 2.0), "y": np.arange(3.0)}, None, np.array([0, 1, 2]))
    {'constant': 'x', 'constant within each group': 'y'}
    >>> described({"price": np.array([3.0, -5.0, 99_999.0])}, None, None)
    {'outliers': 'price is 99999 (99.9 % of rows: at most 5)'}
    """
    suspects: dict[str, list[str]] = {}
    all_names = [*columns]
    for start in range(0, len(all_names), TOGETHER):
        names = all_names[start : start + TOGETHER]
        values = np.column_stack([columns[name] for name in names]).astype(np.float64)
        is_constant = np.nanmin(values, axis=0) == np.nanmax(values, axis=0)
        usual, has_outlier = outliers(values)
        is_constant_within, correlations = _are_constant_within(values, groups), _correlations(values, truth, groups)
        for index, name in enumerate(names):
            if is_constant[index]:
                suspects.setdefault("constant", []).append(name)
                continue
            if is_constant_within[index]:
                suspects.setdefault("constant within each group", []).append(name)
            for text, count in stand_ins(values[:, index]).items():
                suspects.setdefault("stand-ins", []).append(f"{name} is {text} in {count} rows")
            if has_outlier[index]:
                line = f"{name} is {values[np.nanargmax(np.abs(values[:, index])), index]:g}"
                line += f" ({100 * USUAL:g} % of rows: at most {usual[index]:g})"
                suspects.setdefault("outliers", []).append(line)
            if name != target and abs(correlations[index]) > SAME_ORDER:
                line = f"{name} (Spearman {correlations[index]:.3f}{'' if groups is None else ' within groups'})"
                suspects.setdefault("orders rows as the target", []).append(line)
    lines = {}
    for suspicion, names in suspects.items():
        more = f", ... ({len(names)} columns)" if len(names) > NAMED else ""
        lines[suspicion] = ", ".join(names[:NAMED]) + more
    return lines


def _are_constant_within(values: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return which columns (n, k) are constant within each group."""
    if groups is None:
        return np.zeros(values.shape[1], bool)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ordered = values[order]
    return (np.maximum.reduceat(ordered, starts) == np.minimum.reduceat(ordered, starts)).all(0)


def _correlations(values: np.ndarray, truth: np.ndarray | None, groups: np.ndarray | None) -> np.ndarray:
    """Return the Spearman correlation (k,) of each column (n, k) with the truth; 0 if there is no truth."""
    correlations = np.zeros(values.shape[1])
    if truth is None:
        return correlations
    is_full = ~np.isnan(values).any(0)
    correlations[is_full] = _rank_correlations(values[:, is_full], truth, groups)
    for index in np.flatnonzero(~is_full):
        correlations[index] = rank_correlation(values[:, index], truth, groups)
    return correlations
