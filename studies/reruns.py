"""Compare a rerun with the kept results: `python -m studies.reruns STUDY RERUN [RERUN ...]`.

A rerun trains the same code and params elsewhere, for example on another type of processor, and is kept by
`python -m studies.keep NAME` there. A study is a name in studies/made, or an absolute path. The exit status is 1 if a
difference is beyond chance in one of them and not in the other, or has the other sign.
"""

import math
import sys

from pipelines.reporting.results import cell
from rankgrad.io.results import Row
from studies import kept


def conclusion(row: Row) -> str:
    """Return what the interval of a difference says.

    >>> conclusion(Row("ours", "spearman minus mse", 0.2, low=0.1, high=0.3))
    'better'
    """
    if row.low > 0:
        return "better"
    return "worse" if row.high < 0 else "on par"


def compare(study: kept.Study, rerun: kept.Study) -> list[str]:
    """Print which intervals of a study contain the rerun's values; return the differences with another conclusion."""
    contained = {"metrics": [0, 0], "differences": [0, 0]}  # number of intervals, and of those with the rerun's value
    outside, changed = [], []
    for row in study.rows:
        if (row.seed, row.fold) != (None, None) or math.isnan(row.low) or not rerun.has(row.run, row.metric):
            continue
        again = rerun.row(row.run, row.metric)
        is_difference = " minus " in row.metric
        counts = contained["differences" if is_difference else "metrics"]
        counts[0] += 1
        kept_cell, new_cell = (cell(*numbers.interval, digits=3, sign=is_difference) for numbers in (row, again))
        line = f"{row.run}, {row.metric}: {kept_cell}; rerun {new_cell}"
        if row.low <= again.value <= row.high:
            counts[1] += 1
        else:
            outside.append(line)
        if is_difference and conclusion(row) != conclusion(again):
            changed.append(f"{line}: {conclusion(row)}, now {conclusion(again)}")
    print(f"{rerun.name} ({rerun.made_by['machine']['processor']})")
    for kind, (count, inside) in contained.items():
        print(f"  {inside} of {count} intervals of {kind} contain the rerun's value")
    for title, lines in (("outside", outside), ("another conclusion", changed)):
        for line in lines:
            print(f"  {title}: {line}")
    return changed


if __name__ == "__main__":
    try:
        first, *others = map(kept.read, sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(f"{error}\n{__doc__}")
    changed = [line for other in others for line in compare(first, other)]
    sys.exit(bool(changed))
