"""Great Expectations: the project's only module that imports it."""

import html
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankops.io.atomic import replaced_folder

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which reads it

import great_expectations as gx
from great_expectations.expectations.registry import get_expectation_impl
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView

__all__ = ["ExpectationsFailed", "Suite", "validate"]

SHOWN = 5  # rows named for each failed expectation


class ExpectationsFailed(ValueError):
    """A dataset is not as it should be: a line for each failed expectation."""


@dataclass(frozen=True)
class Suite:
    """A table of facts and what must hold for it.

    Attributes:
        name: of the table.
        facts: one row an example.
        expectations: `type` and arguments of Great Expectations' expectations.
        index: columns that name a row.
    """

    name: str
    facts: pd.DataFrame
    expectations: list[dict[str, Any]]
    index: list[str]


def _columns_of(expectation: dict[str, Any]) -> list[str]:
    return [expectation["column"]] if "column" in expectation else expectation.get("column_list", [])


def _in_a_line(dataset: str, suite: Suite, result: dict[str, Any]) -> str:
    config, found = result["expectation_config"], result["result"]
    expected = {
        key: value for key, value in config["kwargs"].items() if key not in ("batch_id", "column", "column_list")
    }
    what = ", ".join(_columns_of(config["kwargs"])) or "rows"
    line = f"{dataset}.{suite.name}: {what}: {config['type']} {json.dumps(expected)}"
    rows = found.get("unexpected_index_list") or []
    if rows:
        named = []
        for row in rows[:SHOWN]:
            place = ", ".join(f"{key} {row[key]}" for key in suite.index)
            values = ", ".join(f"{key} = {value}" for key, value in row.items() if key not in suite.index)
            named.append(f"{place}: {values}" if values else place)
        return f"{line}: {found['unexpected_count']} rows fail, such as {'; '.join(named)}"
    if result["exception_info"].get("exception_message"):
        return f"{line}: {result['exception_info']['exception_message']}"
    return f"{line}: found {found.get('observed_value')}"


def validate(dataset: str, suites: list[Suite], *, report: Path) -> None:
    """Holds each suite's facts against its expectations and writes the details and a page of them to `report`.

    Raises:
        ExpectationsFailed: a line for each failed expectation, with the rows and values that fail it.
    """
    logging.getLogger("great_expectations").setLevel(logging.ERROR)  # it tells of each page and folder
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    results, failures = {}, []
    for suite in suites:
        for expectation in suite.expectations:
            missing = [name for name in _columns_of(expectation) if name not in suite.facts]
            if missing:
                raise ExpectationsFailed(f"{dataset}.{suite.name}: no column {', '.join(missing)} to hold to anything")
        definition = (
            context.data_sources.add_pandas(f"{dataset}.{suite.name}")
            .add_dataframe_asset(suite.name)
            .add_batch_definition_whole_dataframe("whole")
        )
        expectations = gx.ExpectationSuite(f"{dataset}.{suite.name}")
        for expectation in suite.expectations:
            arguments = {key: value for key, value in expectation.items() if key != "type"}
            expectations.add_expectation(get_expectation_impl(expectation["type"])(**arguments))
        result = gx.ValidationDefinition(
            name=f"{dataset}.{suite.name}", data=definition, suite=context.suites.add(expectations)
        ).run(
            batch_parameters={"dataframe": suite.facts},
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": suite.index},
        )
        results[suite.name] = result
        failures += [
            _in_a_line(dataset, suite, one.to_json_dict()) for one in result.results if not one.success
        ]  # fmt: skip
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
