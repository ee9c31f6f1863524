"""Print a benchmark's figures as a table, and write them to studies/times/results/ with the machine's description."""

import json
from pathlib import Path

from pipelines.cli.shared import table
from pipelines.reporting.results import markdown
from studies.kept import machine

FOLDER = Path(__file__).parent / "results"


def write(name: str, figures: dict[str, dict[str, float]], columns: tuple[str, ...]) -> None:
    """Print columns of figures as a table; write all figures to results/<name>.json, and the table to <name>.md."""
    rows = []
    for title, values in figures.items():
        cells = [f"{values[column]:.4g}" if column in values else "" for column in columns]
        rows.append([title, *cells])
    table(name, *columns, rows=rows)
    made_on = machine()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": made_on, "figures": figures}, indent=2) + "\n")
    hardware = f"{made_on['processor']}, {made_on['threads']} thread(s)"
    if made_on["gpu"]:
        hardware += f", {made_on['gpu']}"
    title = f"**{name}** ({hardware}; PyTorch {made_on['torch']}, Python {made_on['python']}, {made_on['date']})"
    titles = ["", *(column.replace("_", " ") for column in columns)]
    (FOLDER / f"{name}.md").write_text(f"{title}\n\n{markdown(titles, rows)}\n")
