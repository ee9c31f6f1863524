"""Great Expectations: the project's only module that imports it."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.reporting.dataset_report import Check, in_words, observed_in_words, render
from rankgrad.io.atomic import replaced_file

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which reads it

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.registry import get_expectation_impl

__all__ = ["ExpectationsFailed", "Measured", "hold", "validate"]

# Facts about a dataset, by table, and what must hold for the tables.
Measured = tuple[dict[str, pd.DataFrame], dict[str, list[dict[str, Any]]]]

SHOWN, ON_PAGE = 5, 100  # rows named for each failed expectation, on the log and on the page


class ExpectationsFailed(ValueError):
    """A dataset is not as it should be: a line for each failed expectation."""


def _columns_of(expectation: dict[str, Any]) -> list[str]:
    return [expectation["column"]] if "column" in expectation else expectation.get("column_list", [])


def _check(table: str, result: dict[str, Any], index: list[str], names: Mapping[str, str]) -> tuple[Check, str]:
    """Return what was expected and found for the page, and in a line for the log."""
    config, outcome = result["expectation_config"], result["result"]
    columns = _columns_of(config["kwargs"])
    arguments = {k: value for k, value in config["kwargs"].items() if k not in ("batch_id", "column", "column_list")}
    line = f"{', '.join(columns) or 'rows'}: {config['type']} {json.dumps(arguments)}"
    details = [_named(row, index, names) for row in (outcome.get("unexpected_index_list") or [])[:ON_PAGE]]
    if details:
        line += f": {outcome['unexpected_count']} rows fail, such as {'; '.join(details[:SHOWN])}"
    elif message := result["exception_info"].get("exception_message"):
        details = [message]
        line += f": {message}"
    else:
        observed = outcome.get("observed_value")
        details = [] if observed is None else [observed_in_words(config["type"], observed)]
        line += f": found {observed}"
    state = "passed" if result["success"] else "warning" if config.get("severity") == "warning" else "failed"
    if state == "passed" and config["type"].startswith("expect_column_values"):
        details = []
    words = in_words(config["type"], columns, arguments)
    return Check(table, words, state, details, outcome.get("unexpected_count") or 0), line


def _named(row: dict[str, Any], index: list[str], names: Mapping[str, str]) -> str:
    """Return a row's place and name, and its values; a value that is the place of another row has that row's name."""
    place = ", ".join(f"{key} {row[key]}" for key in index)
    if name := names.get(" ".join(str(row[key]) for key in index)):
        place += f" ({name})"
    values = []
    for key, value in row.items():
        if key not in index:
            values.append(f"{key} = {value} ({names[value]})" if value in names else f"{key} = {value}")
    return f"{place}: {', '.join(values)}" if values else place


def _suite(place: str, frame: pd.DataFrame, expectations: list[dict[str, Any]]) -> gx.ExpectationSuite:
    for expectation in expectations:
        if missing := [name for name in _columns_of(expectation) if name not in frame]:
            raise ExpectationsFailed(f"{place}: no column {', '.join(missing)}, which is expected to be checked")
    # Only for columns with missing values: one for each column would take half of the time.
    with_missing = frame.columns[frame.isna().any()]
    filled = [{"type": "expect_column_values_to_not_be_null", "column": str(name)} for name in with_missing]
    suite = gx.ExpectationSuite(place)
    for expectation in [*expectations, *filled]:
        arguments = {key: value for key, value in expectation.items() if key != "type"}
        suite.add_expectation(get_expectation_impl(expectation["type"])(**arguments))
    return suite


def validate(
    dataset: str,
    facts: dict[str, pd.DataFrame],
    expectations: dict[str, list[dict[str, Any]]],
    *,
    page: Path,
    understood: Mapping[str, str] | None = None,
) -> None:
    """Hold tables of facts against their expectations, and write a page of them.

    A failed expectation whose `severity` is warning is reported in the log and on the page.

    Args:
        dataset: its name.
        facts: tables of a dataset, a row an example; the index names it. No value may be missing, in any column:
            expectations of values pass over what is not there.
        expectations: of each table, see `rankgrad.datasets.files.expected`.
        page: file.
        understood: how it was read, a line each.

    Raises:
        ExpectationsFailed: a line for each failed expectation, with the rows and values that fail it.
    """
    for name in ("great_expectations", "great_expectations.data_context.types.base"):  # which has a level of its own
        logging.getLogger(name).setLevel(logging.ERROR)  # it logs each page and folder
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    checks, failures = [], []
    for table, expected in expectations.items():
        place, index = f"{dataset}.{table}", list(facts[table].index.names)
        frame = facts[table].reset_index()
        keys = [" ".join(map(str, key)) for key in facts[table].index] if "name" in frame else []
        names = dict(zip(keys, frame.get("name", []), strict=True))
        suite = _suite(place, frame, expected)
        data = context.data_sources.add_pandas(place).add_dataframe_asset(table)
        results = gx.ValidationDefinition(
            name=place, data=data.add_batch_definition_whole_dataframe("whole"), suite=context.suites.add(suite)
        ).run(
            batch_parameters={"dataframe": frame},
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": index},
        )
        for result in results.results:
            check, line = _check(table, result.to_json_dict(), index, names)
            checks.append(check)
            if check.state == "failed":
                failures.append(f"{place}: {line}")
            elif check.state == "warning":
                logging.warning("%s: %s", place, line)
    with replaced_file(page) as partial:
        partial.write_text(render(dataset, facts, checks, understood=understood or {}))
    if failures:
        raise ExpectationsFailed("\n".join([*failures, f"details: {page}"]))


def hold(key: str, measured: Callable[[], Measured]) -> None:
    """Hold what is measured of `data/<key>` against what must hold, and write `checks/<key>.passed` if it does.

    `reports/data/<key>.html` says what was found, in either case.

    Raises:
        ExpectationsFailed: a line for each failed expectation.
    """
    passed, page = Path("checks") / f"{key}.passed", Path("reports/data") / f"{key}.html"
    passed.unlink(missing_ok=True)  # so that no verdict on earlier data stays if these cannot even be read
    page.unlink(missing_ok=True)
    facts, expectations = measured()
    validate(key, facts, expectations, page=page, understood=_understood(Path("data") / key))
    with replaced_file(passed) as partial:
        partial.write_text("passed\n")


def _understood(folder: Path) -> dict[str, str]:
    """Return how a dataset was read, from its manifest, a line each."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) if path.is_file() else {}
    understood = dict(manifest.get("fitted", {}).get("understood", {}))
    if "deliveries" in manifest:
        understood["deliveries"] = ", ".join(manifest["deliveries"])
    for split, left_out in manifest.get("skipped", {}).items():
        if left_out["files"]:
            understood[f"left out of {split}"] = f"{left_out['files']}: {', '.join(left_out['names'][:20])}"
    for split, count in manifest.get("dropped", {}).items():
        understood[f"dropped from {split}"] = f"{count} queries with nothing to order"
    return understood
