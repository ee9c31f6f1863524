"""Great Expectations: the project's only module that imports it."""

import html
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.ops.imports import uncollected, without
from rankops.io.atomic import replaced_folder

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which reads it

# It imports these if they are there, and they are not used here.
with uncollected(), without("boto3", "botocore", "pyspark", "sqlalchemy"):
    import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.registry import get_expectation_impl
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView

__all__ = ["ExpectationsFailed", "validate"]

SHOWN = 5  # rows named for each failed expectation


class ExpectationsFailed(ValueError):
    """A dataset is not as it should be: a line for each failed expectation."""


def _columns_of(expectation: dict[str, Any]) -> list[str]:
    return [expectation["column"]] if "column" in expectation else expectation.get("column_list", [])


def _in_a_line(place: str, result: dict[str, Any], index: list[str]) -> str:
    config, found = result["expectation_config"], result["result"]
    columns = _columns_of(config["kwargs"])
    expected = {k: value for k, value in config["kwargs"].items() if k not in ("batch_id", "column", "column_list")}
    line = f"{place}: {', '.join(columns) or 'rows'}: {config['type']} {json.dumps(expected)}"
    rows = found.get("unexpected_index_list") or []
    if rows:
        named = []
        for row in rows[:SHOWN]:
            where = ", ".join(f"{key} {row[key]}" for key in index)
            values = ", ".join(f"{key} = {value}" for key, value in row.items() if key not in index)
            named.append(f"{where}: {values}" if values else where)
        return f"{line}: {found['unexpected_count']} rows fail, such as {'; '.join(named)}"
    if message := result["exception_info"].get("exception_message"):
        return f"{line}: {message}"
    return f"{line}: found {found.get('observed_value')}"


def validate(
    dataset: str, facts: dict[str, pd.DataFrame], expectations: dict[str, list[dict[str, Any]]], *, report: Path
) -> None:
    """Hold tables of facts against their expectations, and write the details and a page of them to `report`.

    Args:
        dataset: its name.
        facts: tables of a dataset, a row an example; the index names it. No value may be missing, in any column:
            expectations of values pass over what is not there.
        expectations: of each table, see `rankops.datasets.expected`.
        report: folder.

    Raises:
        ExpectationsFailed: a line for each failed expectation, with the rows and values that fail it.
    """
    for name in ("great_expectations", "great_expectations.data_context.types.base"):  # which has a level of its own
        logging.getLogger(name).setLevel(logging.ERROR)  # it tells of each page and folder
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    results, failures = {}, []
    for table, expected in expectations.items():
        place, index = f"{dataset}.{table}", list(facts[table].index.names)
        frame = facts[table].reset_index()
        for one in expected:
            if missing := [name for name in _columns_of(one) if name not in frame]:
                raise ExpectationsFailed(f"{place}: no column {', '.join(missing)}, which is expected to be checked")
        suite = gx.ExpectationSuite(place)
        filled = [
            {"type": "expect_column_values_to_not_be_null", "column": str(name)}
            for name in frame
            if frame[name].isna().any()  # one for each column would take half of the time
        ]
        for one in [*expected, *filled]:
            arguments = {key: value for key, value in one.items() if key != "type"}
            suite.add_expectation(get_expectation_impl(one["type"])(**arguments))
        data = context.data_sources.add_pandas(place).add_dataframe_asset(table)
        results[table] = gx.ValidationDefinition(
            name=place, data=data.add_batch_definition_whole_dataframe("whole"), suite=context.suites.add(suite)
        ).run(
            batch_parameters={"dataframe": frame},
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": index},
        )
        failed = [one.to_json_dict() for one in results[table].results if not one.success]
        failures += [_in_a_line(place, one, index) for one in failed]
    with replaced_folder(report) as folder:
        _write_pages(folder, dataset, results)
    if failures:
        raise ExpectationsFailed("\n".join([*failures, f"details: {report}/index.html"]))


def _write_pages(folder: Path, dataset: str, results: dict[str, Any]) -> None:
    """Great Expectations' own pages, an index, and the raw results without the lists of all rows."""
    links = []
    for name, result in results.items():
        brief = result.to_json_dict()
        for one in brief["results"]:
            for long in ("unexpected_index_list", "unexpected_list", "partial_unexpected_list"):
                one["result"][long] = (one["result"].get(long) or [])[:100]
            one["result"].pop("unexpected_index_query", None)
        (folder / f"{name}.json").write_text(json.dumps(brief, indent=2, default=str) + "\n")
        for one in result.results:
            # The renderer takes Python's numbers only.
            if isinstance(one.result.get("observed_value"), np.generic):
                one.result["observed_value"] = one.result["observed_value"].item()
        page = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
        (folder / f"{name}.html").write_text(page)
        passed = sum(one["success"] for one in brief["results"])
        state = "passed" if result.success else "FAILED"
        links.append(
            f'<li><a href="{name}.html">{html.escape(name)}</a>: {state}, {passed} of {len(brief["results"])}</li>'
        )
    (folder / "index.html").write_text(
        f"<!doctype html><title>{dataset}</title><h1>{html.escape(dataset)}</h1><ul>{''.join(links)}</ul>\n"
    )
