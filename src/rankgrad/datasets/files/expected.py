"""Expectations as plain data: the `type` and arguments with which Great Expectations checks a table of facts.

None of them checks for missing values: a missing value in any column of facts fails anyway.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Expectation", "Expectations", "between", "frequencies", "in_set", "joined", "mean", "rows_of", "unique"]

Expectation = dict[str, Any]
Expectations = dict[str, list[Expectation]]  # by the table of facts


def joined(splits: "Sequence[dict[str, pd.DataFrame]]") -> "dict[str, pd.DataFrame]":
    """Concatenate the facts of all splits, table by table."""
    import pandas as pd  # takes half a second to import; only validation needs it

    return {name: pd.concat(map(operator.itemgetter(name), splits)) for name in splits[0]}


def _bounds(low: float | None, high: float | None) -> dict[str, float]:
    return {name: value for name, value in (("min_value", low), ("max_value", high)) if value is not None}


def between(column: str, low: float | None = None, high: float | None = None) -> Expectation:
    """Expect every value from `low` to `high`; None means no bound.

    >>> between("zoom", high=1.1)
    {'type': 'expect_column_values_to_be_between', 'column': 'zoom', 'max_value': 1.1}
    """
    return {"type": "expect_column_values_to_be_between", "column": column} | _bounds(low, high)


def mean(column: str, low: float, high: float) -> Expectation:
    """Expect the mean of a column from `low` to `high`."""
    return {"type": "expect_column_mean_to_be_between", "column": column} | _bounds(low, high)


def in_set(column: str, *values: Any) -> Expectation:
    """Expect one of these values in each row."""
    return {"type": "expect_column_values_to_be_in_set", "column": column, "value_set": list(values)}


def unique(*columns: str) -> Expectation:
    """Expect that no two rows have the same value, or for several columns, the same combination of values."""
    if len(columns) == 1:
        return {"type": "expect_column_values_to_be_unique", "column": columns[0]}
    return {"type": "expect_compound_columns_to_be_unique", "column_list": list(columns)}


def rows_of(rows: Mapping[str, int]) -> list[Expectation]:
    """Expect the rows of these splits, this many in total, each with a unique number in its split."""
    return [
        {"type": "expect_table_row_count_to_equal", "value": sum(rows.values())},
        in_set("split", *rows),
        unique("split", "id"),
    ]


def frequencies(column: str, weights: Mapping[int, float], *, total: int) -> Expectation:
    """Expect each value with a frequency near its weight.

    Args:
        column: the column of the values.
        weights: the weight of each value; they sum to 1.
        total: the number of independent draws. By chance, total times the divergence has mean (values - 1) / 2; the
            threshold is far above that for any number of values.
    """
    return {
        "type": "expect_column_kl_divergence_to_be_less_than",
        "column": column,
        "partition_object": {"values": list(weights), "weights": list(weights.values())},
        "threshold": 4 * len(weights) / total,
    }
