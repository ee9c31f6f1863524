"""Write the tables of the docs from the kept results: `python -m studies.pages [NAME ...]`.

pages.yaml lists the tables of each page. They go between the lines `<!-- results: NAME -->` and
`<!-- end of results -->`. The name `report` stands for the tables and the sheet of images from the last `dvc repro`; it
is written only if it is named.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipelines.reporting.results import markdown
from rankgrad.io.atomic import replaced_file
from studies import cells, papers, tables
from studies.kept import Study, read

REPORT, SHEET = Path("reports/results.md"), Path("reports/figures/orders.png")
PLACES: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))


def page_of(name: str) -> Path:
    return Path(PLACES[name]["page"])


def text_of(name: str) -> str:
    """Return the tables of one name in pages.yaml, from top to bottom."""
    return "\n".join(_table(block) for block in PLACES[name]["tables"])


def _table(block: dict[str, Any]) -> str:
    if "paper" in block:
        return papers.text_of(block["paper"])
    if "commands" in block:
        return _commands(block["commands"])
    study = read(block["study"])
    if "computed" in block:
        return getattr(tables, block["computed"])(study)
    keys = block["rows"] if "rows" in block else _best_first(study, block["best_first"])
    columns = [text.split() for text in block["columns"].values()]
    rows = []
    for shown, key in keys.items():
        row = [getattr(cells, cell)(study, key, *arguments) for cell, *arguments in columns]
        rows.append([shown, *row])
    seeds = len({row.seed for row in study.rows} - {None})
    shape = {row.metric: row.value for row in study.rows if row.run == "table"}
    title = block.get("title", "").format(seeds=seeds, **shape)
    return title + markdown([block["first"], *block["columns"]], rows)


def _best_first(study: Study, metric: str) -> dict[str, str]:
    """Return the runs that have a metric, those with the highest value first."""
    runs = [run for run in study.runs if study.has(run, metric)]
    return {run: run for run in sorted(runs, key=lambda run: -study.leaf(run, metric)[0])}


def _commands(commands: dict[str, list[str]]) -> str:
    """Return the command and time of each study, the pages that show it, and the machine of its kept results."""
    rows = []
    for study, (command, time, *pages) in commands.items():
        for place in PLACES.values():
            page = Path(place["page"]).name
            if page not in pages and any(block.get("study") == study for block in place["tables"]):
                pages.append(page)
        links = ", ".join(f"[{Path(page).stem}]({page})" for page in pages)
        machine = read(study).made_by["machine"]
        hardware = machine["gpu"] or f"{machine['processor']}, {machine['threads']} thread(s)"
        rows.append([study, links, f"`{command}`", time, f"{hardware}; {machine['date']}"])
    return markdown(["study", "page", "command", "time", "kept results: made on"], rows)


def write(page: Path, name: str, text: str) -> None:
    """Write text between the marker lines of a page.

    Raises:
        ValueError: the page does not have exactly one such pair of lines.
    """
    place = rf"(<!-- results: {re.escape(name)} -->\n).*?(<!-- end of results -->)"
    new, count = re.subn(place, lambda match: f"{match[1]}{text}{match[2]}", page.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(
            f"{page}: {count} places {name}, expected 1: `<!-- results: {name} -->` and `<!-- end of results -->`"
        )
    with replaced_file(page) as partial:
        partial.write_text(new)


def write_report() -> None:
    """Copy the tables and the sheet of images of the last `dvc repro` into docs/.

    Raises:
        FileNotFoundError: there is no report yet.
        ValueError: the page has no marker lines for the tables.
    """
    if not REPORT.is_file():
        raise FileNotFoundError(f"{REPORT}: no such file; create it with `dvc repro`")
    write(Path("docs/results.md"), "report", REPORT.read_text())
    if SHEET.is_file():  # only label ranking has one
        shutil.copyfile(SHEET, Path("docs") / SHEET.name)


def main(names: Sequence[str]) -> None:
    """Write the tables with these names; by default, all but the report's.

    Raises:
        FileNotFoundError: a study was not kept.
        ValueError: a name is unknown, or a study is damaged.
    """
    if unknown := sorted({*names} - {"report", *PLACES}):
        raise ValueError(f"{unknown[0]}: unknown name, expected report, {', '.join(PLACES)}")
    for name in names or PLACES:
        if name == "report":
            write_report()
        else:
            write(page_of(name), name, text_of(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
