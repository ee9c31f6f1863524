"""Print a benchmark's figures as a table and write them to benchmarks/results/, with the machine they belong to."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from pipelines.reporting.results import markdown
from pipelines.reporting.studies import machine

__all__ = ["FOLDER", "beside", "machine", "write"]

FOLDER = Path(__file__).parent / "results"


def beside(calls: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Time two calls by turns: the median milliseconds of each, and the ratio of the second's time to the first's.

    Processor time, in which other work on the machine does not count.
    """
    times = np.array([[_seconds(call) for call in calls.values()] for _ in range(rounds)])
    ratios = times[:, 1] / times[:, 0]
    return {
        **{f"{name} ms": 1e3 * float(median) for name, median in zip(calls, np.median(times, axis=0), strict=True)},
        "ratio": float(np.median(ratios)),
        "lowest": float(ratios.min()),
        "highest": float(ratios.max()),
    }


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def write(name: str, figures: dict[str, dict[str, float]], shown: tuple[str, ...] = ()) -> None:
    """Print figures, a row each with its values (or those `shown`); write them to results/<name>.json and .md."""
    columns = list(shown) or list(dict.fromkeys(column for row in figures.values() for column in row))
    made_on = machine()
    rows = [
        [row, *(f"{values[column]:.4g}" if column in values else "" for column in columns)]
        for row, values in figures.items()
    ]
    table = Table("", *columns, title=name)
    for row in rows:
        table.add_row(*row)
    Console(width=None if not shown else 200).print(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": made_on, "figures": figures}, indent=2) + "\n")
    where = f"{made_on['processor']}, {made_on['threads']} thread(s)" + (
        f", {made_on['gpu']}" if made_on["gpu"] else ""
    )
    about = f"**{name}** ({where}; PyTorch {made_on['torch']}, Python {made_on['python']}, {made_on['date']})\n\n"
    shown_columns = ["", *(column.replace("_", " ") for column in columns)]
    (FOLDER / f"{name}.md").write_text(f"{about}{markdown(shown_columns, rows)}\n")
