"""Copy the report's tables and its sheet of images into README.md and docs/: `python -m tools.readme`.

README.md gets the best loss of each task, docs/results.md all tables.
"""

import shutil
from pathlib import Path

from tools.page import write_results

RESULTS, SHEET = Path("reports/results.md"), Path("reports/figures/orders.png")
BORDER = "<!-- all tables -->\n"


def main() -> None:
    """Copy tables and sheet.

    Raises:
        FileNotFoundError: the report has not been made.
        ValueError: a page has no place for the tables, or the report is of older code.
    """
    if not RESULTS.is_file():
        raise FileNotFoundError(f"{RESULTS}: no such file; make it with `dvc repro`")
    short, border, tables = RESULTS.read_text().partition(BORDER)
    if not border:
        raise ValueError(f"{RESULTS}: no line {BORDER.strip()}; make it again with `dvc repro`")
    write_results(Path("README.md"), short)
    write_results(Path("docs/results.md"), tables, by="tools/readme.py")
    if SHEET.is_file():  # there is none without label ranking
        shutil.copyfile(SHEET, Path("docs") / SHEET.name)


if __name__ == "__main__":
    main()
