"""Print a benchmark's figures as a table and write them to studies/times/results/, with the machine they belong to."""

import json
from pathlib import Path

from pipelines.cli.shared import table
from pipelines.reporting.results import markdown
from studies.kept import machine

__all__ = ["FOLDER", "write"]

FOLDER = Path(__file__).parent / "results"


def write(name: str, figures: dict[str, dict[str, float]], shown: tuple[str, ...] = ()) -> None:
    """Print figures, a row each with its values (or those `shown`); write them to results/<name>.json and .md."""
    columns = list(shown) or list(dict.fromkeys(column for row in figures.values() for column in row))
    made_on = machine()
    rows = [
        [row, *(f"{values[column]:.4g}" if column in values else "" for column in columns)]
        for row, values in figures.items()
    ]
    table(name, *columns, rows=rows)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": made_on, "figures": figures}, indent=2) + "\n")
    where = f"{made_on['processor']}, {made_on['threads']} thread(s)" + (
        f", {made_on['gpu']}" if made_on["gpu"] else ""
    )
    about = f"**{name}** ({where}; PyTorch {made_on['torch']}, Python {made_on['python']}, {made_on['date']})\n\n"
    shown_columns = ["", *(column.replace("_", " ") for column in columns)]
    (FOLDER / f"{name}.md").write_text(f"{about}{markdown(shown_columns, rows)}\n")
