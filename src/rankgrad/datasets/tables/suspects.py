"""Find suspicious columns of numbers: constants, placeholders such as -999, outliers, and copies of the target."""

import logging
import re
from collections import defaultdict
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
NEXT = 3  # a target may be an outlier if it is so many times larger than the next largest
NAMED = 10  # most columns that a line lists


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


def outliers(values: np.ndarray) -> tuple[float, bool]:
    """Return the largest usual size in a column (n,), and whether its largest number is an outlier.

    Of fewer than 1,000 rows, the usual size is the second largest. Among grades, such as a 40 typed for a 4, an outlier
    is nearer to the others than among other numbers, but no other number may be between.

    >>> outliers(np.array([0.0, 4.0, 40.0, 3.0]))[1], outliers(np.array([0.5, 4.0, 40.0, 3.0]))[1]
    (True, False)
    """
    sizes = np.abs(values)
    usual, largest = np.nanquantile(sizes, USUAL, method="lower"), np.nanmax(sizes)
    are_grades = usual <= GRADE and (np.isnan(values) | (values % 1 == 0)).all()
    limit = (FAR if are_grades else OUTLYING) * usual
    are_between = ((sizes > usual) & (sizes <= limit)).any()
    return usual, bool(0 < limit < largest and not (are_grades and are_between))


def times_the_next(values: np.ndarray) -> float:
    """Return how many times larger the largest number of a column (n,) is than the next largest.

    >>> times_the_next(np.array([20.0, 150.0, np.nan, 30.0]))
    5.0
    """
    *_, second, largest = np.sort(values[~np.isnan(values)])
    return float(largest / second) if second > 0 else 0.0


def rank_correlation(values: np.ndarray, other: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Return the Spearman correlation over rows that have both numbers; 0 for few rows or a constant column.

    Args:
        values, other: numbers of rows (n,).
        groups: the number of each row's group (n,), within which rows are ranked, or None for one group. The ranks of
            all groups are correlated together.

    >>> rank_correlation(np.arange(20.0), np.arange(20.0) ** 3)
    1.0
    >>> rank_correlation(np.tile(np.arange(10.0), 2), np.arange(20.0), np.repeat([0, 1], 10))
    1.0
    """
    is_whole = ~np.isnan(values) & ~np.isnan(other)
    rows = np.column_stack([values, other])[is_whole]
    group, names = pd.factorize(np.zeros(len(rows)) if groups is None else groups[is_whole])
    if len(rows) - len(names) < FEWEST:
        return 0.0
    step = -(-len(rows) // MOST)
    numbers = group if len(names) > MOST // 10 else np.arange(len(rows))  # of many groups, whole ones
    is_used = numbers % step == 0
    group = group[is_used]
    ranks = pd.DataFrame(rows[is_used]).groupby(group).rank().to_numpy() - (np.bincount(group)[group, None] + 1) / 2
    norm = np.sqrt((ranks**2).sum(0).prod())
    return float(ranks[:, 0] @ ranks[:, 1] / norm) if norm > 0 else 0.0


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
    >>> described({"price": np.array([30.0, 50.0, 991.0])}, None, None, target="price")
    {'outliers': 'price is 991 in a row, 19.8 times the next largest'}
    """
    suspects = defaultdict[str, list[str]](list)
    by_group = starts = np.arange(0)
    if groups is not None:
        by_group = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[by_group], prepend=-1))
    for name, numbers in columns.items():
        values = numbers.astype(np.float64)
        if np.nanmin(values) == np.nanmax(values):
            suspects["constant"].append(name)
            continue
        if groups is not None:
            ordered = values[by_group]
            if (np.maximum.reduceat(ordered, starts) == np.minimum.reduceat(ordered, starts)).all():
                suspects["constant within each group"].append(name)
        for text, count in stand_ins(values).items():
            suspects["stand-ins"].append(f"{name} is {text} in {count} rows")
        usual, has_outlier = outliers(values)
        if has_outlier:
            line = f"{name} is {values[np.nanargmax(np.abs(values))]:g}"
            suspects["outliers"].append(f"{line} ({100 * USUAL:g} % of rows: at most {usual:g})")
        elif name == target and (times := times_the_next(values)) > NEXT:
            suspects["outliers"].append(f"{name} is {np.nanmax(values):g} in a row, {times:.1f} times the next largest")
        correlation = 0.0 if truth is None or name == target else rank_correlation(values, truth, groups)
        if abs(correlation) > SAME_ORDER:
            line = f"{name} (Spearman {correlation:.3f}{'' if groups is None else ' within groups'})"
            suspects["orders rows as the target"].append(line)
    lines = {}
    for suspicion, names in suspects.items():
        more = f", ... ({len(names)} columns)" if len(names) > NAMED else ""
        lines[suspicion] = ", ".join(names[:NAMED]) + more
    return lines
