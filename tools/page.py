"""Pages whose tables are generated: tables in Markdown, and the place between two marker lines that they replace."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipelines.reporting.results import number
from rankops.io.atomic import replaced_file

__all__ = ["difference", "markdown", "write_results"]


def difference(compared: dict[str, Any]) -> list[str]:
    """Return the cells of a run in a kept comparison: its difference from the baseline, and p; empty for the baseline.

    >>> difference({"value": 0.5, "seeds": 3})
    ['', '']
    >>> difference({"value": 0.5, "difference": {"value": 0.1, "low": 0.0, "high": 0.2}, "p": 0.04, "seeds": 3})
    ['+0.100 (0.000 to +0.200)', '0.040']
    """
    gain = compared.get("difference")
    return [number(**gain, sign=True), f"{compared['p']:.3f}"] if gain else ["", ""]


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, a line each.

    >>> print(markdown(["loss", "L1"], [["mse", "0.1"]]), end="")
    | loss | L1 |
    | --- | --- |
    | mse | 0.1 |
    """
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, ["---"] * len(columns), *rows))


def write_results(page: Path, results: str, *, by: str = "") -> None:
    """Write results between the lines `<!-- results: ... -->` and `<!-- end of results -->` of a page.

    Args:
        page: Markdown file.
        results: the new text.
        by: what the first line names, where the page has several places.

    Raises:
        ValueError: the page does not have exactly one such place.
    """
    place = rf"(<!-- results:[^\n]*{re.escape(by)}[^\n]*-->\n).*?(<!-- end of results -->)"
    text, count = re.subn(place, lambda match: f"{match[1]}{results}{match[2]}", page.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(
            f"{page}: {count} places for results, expected 1: `<!-- results: ... -->` and `<!-- end of results -->`"
        )
    with replaced_file(page) as partial:
        partial.write_text(text)
