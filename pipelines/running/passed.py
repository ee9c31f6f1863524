"""The small file that tells that data are as expected: stages that use the data depend on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.expectations import validate
from rankops.io.atomic import replaced_file

__all__ = ["Measured", "hold", "joined"]

# Facts about a dataset, by table, and what must hold for the tables.
Measured = tuple[dict[str, pd.DataFrame], dict[str, list[dict[str, Any]]]]


def hold(key: str, measured: Callable[[], Measured]) -> None:
    """Hold what is measured of `data/<key>` against what must hold, and write `checks/<key>.passed` if it does.

    `reports/data/<key>.html` says what was found, in either case.

    Raises:
        ExpectationsFailed: a line for each failed expectation.
    """
    passed, page = Path("checks") / f"{key}.passed", Path("reports/data") / f"{key}.html"
    passed.unlink(missing_ok=True)  # what is said of earlier data is not left standing if these cannot even be read
    page.unlink(missing_ok=True)
    facts, expectations = measured()
    validate(key, facts, expectations, page=page, understood=_understood(Path("data") / key))
    with replaced_file(passed) as partial:
        partial.write_text("passed\n")


def joined(parts: list[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Put the facts of all splits one below another, table by table."""
    return {name: pd.concat([part[name] for part in parts]) for name in parts[0]}


def _understood(folder: Path) -> dict[str, str]:
    """Return what its manifest says of how a dataset was read, a line each."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) if path.is_file() else {}
    told = dict(manifest.get("fitted", {}).get("understood", {}))
    if "deliveries" in manifest:
        told["deliveries"] = ", ".join(manifest["deliveries"])
    for split, left_out in manifest.get("skipped", {}).items():
        if left_out["files"]:
            told[f"left out of {split}"] = f"{left_out['files']}: {', '.join(left_out['names'][:20])}"
    return told
