"""Copy the report's tables and its sheet of images into README.md and docs/: `python -m tools.readme`."""

import shutil
from pathlib import Path

from tools.page import write_results

RESULTS, SHEET = Path("reports/results.md"), Path("reports/figures/orders.png")


def main() -> None:
    """Copy both.

    Raises:
        FileNotFoundError: the report has not been made.
        ValueError: README.md has no place for the tables.
    """
    if not RESULTS.is_file():
        raise FileNotFoundError(f"{RESULTS}: no such file; make it with `dvc repro`")
    write_results(Path("README.md"), RESULTS.read_text())
    if SHEET.is_file():  # there is none without label ranking
        Path("docs").mkdir(exist_ok=True)
        shutil.copyfile(SHEET, Path("docs") / SHEET.name)


if __name__ == "__main__":
    main()
