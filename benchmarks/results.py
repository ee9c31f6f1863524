"""Print a benchmark's figures as a table and write them to benchmarks/results/, with the machine they belong to."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

FOLDER = Path(__file__).parent / "results"


def _processor() -> str:
    """Return the processor's name if the system has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict[str, str | int | None]:
    """Return what figures of time depend on: hardware, threads, versions; and the date."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean (Student's t)."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5 * student.ppf(0.975, len(values) - 1))


def paired(values: Sequence[float], usual: Sequence[float]) -> str:
    """Return a mean over seeds, with its difference from that of the same seeds of another method and a 95 % interval.

    >>> paired([0.5, 0.6, 0.7], [0.4, 0.4, 0.6])
    '0.600 (+0.133 ± 0.143)'
    """
    apart = np.subtract(values, usual)
    return f"{np.mean(values):.3f} ({apart.mean():+.3f} ± {half_width(apart):.3f})"


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
    lines = [
        "| | " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "| --- " * (len(columns) + 1) + "|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    where = f"{made_on['processor']}, {made_on['threads']} thread(s)" + (
        f", {made_on['gpu']}" if made_on["gpu"] else ""
    )
    (FOLDER / f"{name}.md").write_text(
        f"**{name}** ({where}; PyTorch {made_on['torch']}, Python {made_on['python']}, {made_on['date']})\n\n"
        + "\n".join(lines) + "\n\n"
    )  # fmt: skip
