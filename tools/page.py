"""Pages whose tables are generated: what stands between two marker lines is replaced."""

import re
from pathlib import Path

from rankops.io.atomic import replaced_file

__all__ = ["write_results"]

PLACE = re.compile(r"(<!-- results:[^\n]*-->\n).*?(<!-- end of results -->)", re.DOTALL)


def write_results(page: Path, results: str) -> None:
    """Write results between the lines `<!-- results: ... -->` and `<!-- end of results -->` of a page.

    Raises:
        ValueError: the page does not have exactly one such place.
    """
    text, count = PLACE.subn(lambda match: f"{match[1]}{results}{match[2]}", page.read_text())
    if count != 1:
        raise ValueError(
            f"{page}: {count} places for results, expected 1: `<!-- results: ... -->` and `<!-- end of results -->`"
        )
    with replaced_file(page) as partial:
        partial.write_text(text)
