"""Graded search results: LightGBM's example of ranking, 251 queries with 3,773 documents graded 0 to 4.

Put `rank.train`, `rank.train.query`, `rank.test`, and `rank.test.query` into data/raw/graded_search. They are in
`examples/lambdarank` of the GitHub repository microsoft/LightGBM, under the MIT license.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from studies.converters.writing import block_of_lists, convert, lists

FEATURES = 300
BLOCK = block_of_lists("graded_search", folds=5, without_relevant="drop")  # a few queries have one document


def table(raw: Path) -> pa.Table:
    """Return a row for each document of both files; a feature that a line does not list is 0."""
    queries, grades, features = [], [], []
    for name in ("rank.train", "rank.test"):
        counts = np.loadtxt(raw / f"{name}.query", dtype=int, ndmin=1)
        first = queries[-1] + 1 if queries else 0
        queries += (first + np.arange(len(counts))).repeat(counts).tolist()
        for line in (raw / name).read_text().splitlines():
            grade, *pairs = line.split()
            values = np.zeros(FEATURES)
            for pair in pairs:
                number, value = pair.split(":")
                values[int(number) - 1] = float(value)
            grades.append(int(grade))
            features.append(values)
    if len(queries) != len(grades):
        raise ValueError(f"{len(grades)} documents, but the files of queries count {len(queries)}")
    return lists(pd.Series(queries), np.stack(features), pd.Series(grades))


if __name__ == "__main__":
    convert(table, BLOCK)
