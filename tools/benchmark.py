"""Measure sorters and losses beside other people's; write the tables into docs/sorters.md: `python -m tools.benchmark`.

Name one of them to measure it alone; the other table is then that of its last run.
"""

import shutil
import sys
from pathlib import Path

from benchmarks.__main__ import run
from pipelines.reporting import pages

FOLDER, PAGE = Path("benchmarks/results"), Path("docs/sorters.md")
TABLES = {"sorters": ["sorters"], "trained_losses": ["losses, Spearman of clips", "losses, mAP of long-tailed digits"]}


def main(names: list[str]) -> None:
    """Run the benchmarks, then write all tables.

    Raises:
        ValueError: unknown benchmark, or a table of the other one is missing.
        CalledProcessError: a benchmark failed.
    """
    if unknown := set(names) - set(TABLES):
        raise ValueError(f"{', '.join(unknown)}: expected {' or '.join(TABLES)}; all others: python -m benchmarks")
    for name in names or TABLES:
        run(name)
    files = [FOLDER / f"{title}.md" for titles in TABLES.values() for title in titles]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise ValueError(
            f"{PAGE} shows all tables, and there is no {', '.join(missing)}: run python -m tools.benchmark"
        )
    pages.write(PAGE, "sorters", "".join(file.read_text() for file in files))
    if (FOLDER / "sorters.png").is_file():
        shutil.copyfile(FOLDER / "sorters.png", PAGE.parent / "sorters.png")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
