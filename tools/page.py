"""Pages whose tables are generated: what stands between two marker lines is replaced."""

import re
from pathlib import Path

from rankops.io.atomic import replaced_file

__all__ = ["write_results"]


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
