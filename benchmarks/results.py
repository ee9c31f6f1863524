"""Figures of a benchmark: printed as a table and kept under `benchmarks/results/`, with the machine they belong to."""

import json
import platform
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"


def write(name: str, figures: dict[str, dict[str, float]], shown: tuple[str, ...] = ()) -> None:
    """Prints `figures`, a row each with its values (or those `shown`), and writes them to `results/<name>.json`."""
    columns = shown or list(dict.fromkeys(column for row in figures.values() for column in row))
    table = Table("", *columns, title=name)
    for row, values in figures.items():
        table.add_row(row, *(f"{values[column]:.4g}" if column in values else "" for column in columns))
    Console().print(table)
    machine = {
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")
