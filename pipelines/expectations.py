"""The only module of the project that imports Great Expectations."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.reporting.dataset_report import Check, in_digits, in_words, render
from rankgrad.io.atomic import replaced_file

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which reads it

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.registry import get_expectation_impl

__all__ = ["ExpectationsFailed", "Measured", "hold"]

# Facts about a dataset, by table, and the expectations for these tables.
Measured = tuple[dict[str, pd.DataFrame], dict[str, list[dict[str, Any]]]]

SHOWN, ON_PAGE = 5, 100  # rows to list for each failed expectation, in the log and on the page


class ExpectationsFailed(ValueError):
    """A dataset fails expectations; the message has one line for each."""


def _columns_of(expectation: dict[str, Any]) -> list[str]:
    return [expectation["column"]] if "column" in expectation else expectation.get("column_list", [])


def _check(table: str, result: dict[str, Any], index: list[str], names: Mapping[str, str]) -> tuple[Check, str]:
    """Return the expectation and its result, for the page and as a line for the log."""
    config, outcome = result["expectation_config"], result["result"]
    columns = _columns_of(config["kwargs"])
    arguments = {k: value for k, value in config["kwargs"].items() if k not in ("batch_id", "column", "column_list")}
    words = in_words(config["type"], columns, arguments, table)
    line = words
    details = [_named(row, index, names) for row in (outcome.get("unexpected_index_list") or [])[:ON_PAGE]]
    if details:
        line += f"; not so for {outcome['unexpected_count']}: {'; '.join(details[:SHOWN])}"
    elif message := result["exception_info"].get("exception_message"):
        details = [message]
        line += f"; {message}"
    else:
        observed = outcome.get("observed_value")
        details = [] if observed is None else [in_digits(observed)]
        line += f"; found {observed}"
    state = "passed" if result["success"] else "warning" if config.get("severity") == "warning" else "failed"
    if state == "passed" and config["type"].startswith("expect_column_values"):
        details = []
    return Check(table, words, state, details, outcome.get("unexpected_count") or 0), line


def _named(row: dict[str, Any], index: list[str], names: Mapping[str, str]) -> str:
    """Return a row's location, name, and values; a value that refers to another row gets that row's name."""
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


def hold(key: str, measured: Callable[[], Measured]) -> None:
    """Check facts about `data/<key>` against expectations, and write `checks/<key>.passed` if all hold.

    The results are in `reports/data/<key>.html` in either case. A failed expectation whose `severity` is warning is
    only reported, in the log and on the page.

    Args:
        key: key of the dataset.
        measured: returns the tables of facts, with one row per example, named by the index, and the expectations of
            each, see `rankgrad.datasets.files.expected`. No value may be missing in any column, because expectations of
            values skip missing ones.

    Raises:
        ExpectationsFailed: has one line for each failed expectation, with the failing rows and values.
    """
    passed, page = Path("checks") / f"{key}.passed", Path("reports/data") / f"{key}.html"
    passed.unlink(missing_ok=True)  # so that an old verdict does not remain if the data cannot be read
    page.unlink(missing_ok=True)
    facts, expectations = measured()
    for name in (
        "great_expectations",
        "great_expectations.data_context.types.base",
    ):  # the second one has its own level
        logging.getLogger(name).setLevel(logging.ERROR)  # it logs each page and folder
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    checks, failures = [], []
    for table, expected in expectations.items():
        place, index = f"{key}.{table}", list(facts[table].index.names)
        frame = facts[table].reset_index()
        keys = [" ".join(map(str, row)) for row in facts[table].index] if "name" in frame else []
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
        partial.write_text(render(key, facts, checks, understood=_understood(Path("data") / key)))
    if failures:
        raise ExpectationsFailed("\n".join([*failures, f"details: {page}"]))
    with replaced_file(passed) as partial:
        partial.write_text("passed\n")


def _understood(folder: Path) -> dict[str, str]:
    """Return how a dataset was read, from its manifest, one line each."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) if path.is_file() else {}
    understood = dict(manifest.get("fitted", {}).get("understood", {}))
    if "deliveries" in manifest:
        understood["deliveries"] = ", ".join(manifest["deliveries"])
    if "searched" in manifest:
        understood["searched"] = f"{manifest['searched']:,} passages: those of all splits, and of `collection`"
    for split, left_out in manifest.get("skipped", {}).items():
        if left_out["files"]:
            understood[f"left out of {split}"] = f"{left_out['files']}: {', '.join(left_out['names'][:20])}"
    for split, count in manifest.get("dropped", {}).items():
        understood[f"dropped from {split}"] = f"{count} queries with nothing to order"
    if "known" in manifest:
        understood["left out of later deliveries"] = f"{manifest['known']} rows that are held out, or whose group is"
    return understood
