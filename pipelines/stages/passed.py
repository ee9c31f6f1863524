"""The small file that tells that data are as expected: stages that use the data depend on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.expectations import validate
from rankops.io.atomic import remove_folder, replaced_file

__all__ = ["Measured", "hold", "joined"]

# Facts about a dataset, by table, and what must hold for the tables.
Measured = tuple[dict[str, pd.DataFrame], dict[str, list[dict[str, Any]]]]


def hold(key: str, measured: Callable[[], Measured]) -> None:
    """Hold what is measured of `data/<key>` against what must hold, and write `checks/<key>.passed` if it does.

    Raises:
        ExpectationsFailed: a line for each failed expectation.
    """
    passed, report = Path("checks") / f"{key}.passed", Path("reports/validation") / key
    passed.unlink(missing_ok=True)  # what is said of earlier data is not left standing if these cannot even be read
    remove_folder(report)
    facts, expectations = measured()
    validate(key, facts, expectations, report=report)
    with replaced_file(passed) as partial:
        partial.write_text("passed\n")


def joined(parts: list[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Put the facts of all splits one below another, table by table."""
    return {name: pd.concat([part[name] for part in parts]) for name in parts[0]}
