"""Render a self-contained page for each dataset: how it was interpreted, its numbers, and the checks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import pandas as pd

__all__ = ["Check", "in_digits", "in_words", "render"]

TEMPLATES = Path(__file__).parent / "templates"
KINDS = 12  # most values of a column to count one by one
LINES = 200  # most lines of a table of facts to show
LONG = 60  # most characters of a value
DIVERGENCE = "expect_column_kl_divergence_to_be_less_than"


# What a line of a table of facts is about, if not a row; and what facts mean.
UNITS = {"classes": "class", "groups": "split", "splits": "split", "training": "split"}
MEANINGS = {
    "classes.drift": "change of the class's fraction after the first delivery",
    "classes.in_training": "training rows of the class",
    "groups.judged_groups": "groups with two different targets",
    "rows.has_relevant": "fraction of queries with a relevant document",
    "rows.repeated_captions": "captions that another row has too",
    "rows.same_group_as": "a row of another split with the same group",
    "rows.same_input_as": "a row of another split with the same input",
    "rows.same_name_as": "a row of another split with the same name",
    "rows.same_query_as": "a row of another split with the same query, which `group` keeps in one split",
    "rows.same_picture_as": "a row of another split with the same image",
    "splits.left_out_share": "fraction of rows left out",
    "splits.shift_in_deviations": "change of the mean target after the first delivery, in standard deviations",
    "training.different_inputs": "how many different inputs the training rows have",
    "training.queries_of_different_documents": "training queries with two different documents",
}


class Check(NamedTuple):
    """An expectation about a table of facts, and its outcome.

    Attributes:
        table: the table of facts.
        expected: the expectation in words.
        state: passed, warning, or failed.
        found: rows for which it does not hold, one per line, or the observed value.
        count: for how many rows it does not hold.
    """

    table: str
    expected: str
    state: str
    found: list[str]
    count: int


def in_words(kind: str, columns: Sequence[str], arguments: Mapping[str, Any], table: str = "") -> str:
    """Return an expectation of a table of facts in plain words.

    >>> in_words("expect_column_values_to_be_between", ["labels"], {"min_value": 1})
    'labels: at least 1 in every row'
    >>> in_words("expect_column_mean_to_be_between", ["score"], {"min_value": -0.424264, "max_value": 0.424264})
    'score: mean from -0.4243 to 0.4243'
    >>> in_words("expect_column_values_to_be_between", ["in_training"], {"min_value": 1}, "classes")
    'in_training (training rows of the class): at least 1 in every class'
    >>> in_words("expect_compound_columns_to_be_unique", ["split", "id"], {})
    'split, id: no two rows are equal'
    """
    name, unit = ", ".join(columns), UNITS.get(table, "row")
    if meaning := MEANINGS.get(f"{table}.{name}"):
        name += f" ({meaning})"
    bounds = _bounds(arguments)
    values = [_cell(value) or "nothing" for value in arguments.get("value_set", [])]
    words = {
        "expect_column_values_to_be_between": f"{name}: {bounds} in every {unit}",
        "expect_column_mean_to_be_between": f"{name}: mean {bounds}",
        "expect_column_stdev_to_be_between": f"{name}: standard deviation {bounds}",
        "expect_column_value_lengths_to_be_between": f"{name}: {bounds} characters in every {unit}",
        "expect_column_values_to_be_in_set": f"{name}: {_or(values)} in every {unit}",
        "expect_column_values_to_be_unique": f"{name}: no two rows are equal",
        "expect_compound_columns_to_be_unique": f"{name}: no two rows are equal",
        "expect_column_values_to_not_be_null": f"{name}: a value in every {unit}",
        "expect_table_row_count_to_equal": f"{arguments.get('value')} rows",
        DIVERGENCE: f"{name}: frequencies as drawn, divergence at most {in_digits(arguments.get('threshold'))}",
    }
    return words.get(kind, f"{name}: {kind}")


def in_digits(value: Any) -> str:
    """Return a number with four digits, or with all digits if it is whole; return anything else as text."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e15)
    return f"{value:.0f}" if is_whole else f"{value:.4g}" if isinstance(value, float) else str(value)


def _bounds(arguments: Mapping[str, Any]) -> str:
    low, high = arguments.get("min_value"), arguments.get("max_value")
    if low is None and high is None:
        return "any"
    if high is None:
        return f"more than {in_digits(low)}" if arguments.get("strict_min") else f"at least {in_digits(low)}"
    if low is None:
        return f"at most {in_digits(high)}"
    return in_digits(high) if low == high else f"from {in_digits(low)} to {in_digits(high)}"


def _or(values: Sequence[str]) -> str:
    first = [*values[:KINDS], *(["..."] if len(values) > KINDS else [])]
    return " or ".join([", ".join(first[:-1]), first[-1]] if len(first) > 1 else first)


def render(
    dataset: str, facts: Mapping[str, pd.DataFrame], checks: Sequence[Check], *, understood: Mapping[str, str]
) -> str:
    """Return the page of a dataset. It is the same for the same data, and loads nothing from the internet.

    Args:
        dataset: the name of the dataset.
        facts: its tables of facts, see `pipelines.expectations.hold`.
        checks: the expectations and their outcomes.
        understood: how the dataset was interpreted, one line per item.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    counts = dict.fromkeys(("passed", "warning", "failed"), 0)
    for check in checks:
        counts[check.state] += 1
    tables = [_shown(name, frame) for name, frame in facts.items()]
    return environment.get_template("data.html.j2").render(
        dataset=dataset, counts=counts, checks=checks, understood=understood, tables=tables
    )


def _shown(name: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the table to show for a table of facts: itself if small, else a summary of each column by split."""
    plain = frame.reset_index()
    if "id" not in plain and len(plain) <= LINES:
        return {"title": name, "header": list(plain), "rows": plain.map(_cell).to_numpy().tolist()}
    splits = dict(list(plain.groupby("split", sort=False))) if "split" in plain else {"all": plain}
    rows = [["rows", *(f"{len(rows_of_split):,}" for rows_of_split in splits.values())]]
    for column in plain.columns.difference(["split", "id", "split_rows", "pixels", "contents", "query"], sort=False):
        rows.append([column, *(_summary(rows_of_split[column]) for rows_of_split in splits.values())])
    return {"title": name, "header": ["", *splits], "rows": rows}


def _summary(values: pd.Series) -> str:
    """Summarize a column: counts if it has few values, or the range and mean of numbers."""
    counts = values.value_counts(dropna=False)
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values) and len(counts) > 2:
        return f"{_cell(values.min())} to {_cell(values.max())}, mean {_cell(float(values.mean()))}"
    if len(counts) <= KINDS:
        ordered = sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0])))
        return ", ".join(f"{_cell(value) or 'nothing'}: {count:,}" for value, count in ordered)
    return f"{len(counts):,} different"


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= LONG else f"{text[:LONG]}..."
