"""Figures of a benchmark: printed as a table and kept under `benchmarks/results/`, with the machine they belong to."""

import json
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"


def _processor() -> str:
    """Its name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(name: str, figures: dict[str, dict[str, float]], shown: tuple[str, ...] = ()) -> None:
    """Prints `figures`, a row each with its values (or those `shown`); writes `results/<name>.json` and `.md`."""
    columns = list(shown) or list(dict.fromkeys(column for row in figures.values() for column in row))
    machine = {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    rows = [
        [row, *(f"{values[column]:.4g}" if column in values else "" for column in columns)]
        for row, values in figures.items()
    ]
    table = Table("", *columns, title=name)
    for row in rows:
        table.add_row(*row)
    Console(width=None if not shown else 200).print(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")
    lines = [
        "| | " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "| --- " * (len(columns) + 1) + "|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    where = f"{machine['processor']}, {machine['threads']} thread(s)" + (
        f", {machine['gpu']}" if machine["gpu"] else ""
    )
    (FOLDER / f"{name}.md").write_text(
        f"**{name}** ({where}; PyTorch {machine['torch']}, Python {machine['python']}, {machine['date']})\n\n"
        + "\n".join(lines) + "\n\n"
    )  # fmt: skip
