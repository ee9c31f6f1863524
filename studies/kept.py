"""Kept results: `studies/made/<study>/results.csv`, and `made_by.json`, which records how they were made.

The table has the form of `rankgrad.io.results`. In addition to metrics and differences, it has `setting.<key>`, the
value chosen from a grid, and `validation`, the metric that decided.
"""

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from pipelines.ops.git import git
from rankgrad.evaluation import METHOD
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.results import Results, Row

FOLDER = Path("studies/made")
TABLE, MADE_BY, SUM = "results.csv", "made_by.json", "sha256_of_results"
MADE = {"commit": str, "params": dict, "hashes": dict, "machine": dict}


@dataclass(frozen=True, eq=False)
class Study(Results):
    """Results of runs to compare, and how they were made.

    Attributes:
        name: the study's folder below studies/made/.
        made_by: `commit`, `params`, `hashes` of inputs, `code`, `machine`, and other information.
    """

    name: str = ""
    made_by: dict[str, Any] = field(default_factory=dict)


def read(name: str) -> Study:
    """Return a kept study.

    Raises:
        FileNotFoundError: the study was not kept.
        ValueError: its files are not in the form of `write`; the message names file and line.
    """
    table, made_by = FOLDER / name / TABLE, FOLDER / name / MADE_BY
    rows = [_with_split(row) for row in results.read(table).rows]
    try:
        about = json.loads(made_by.read_text()) if made_by.is_file() else {}
    except ValueError as error:  # also if it is not text
        raise ValueError(f"{made_by}: not JSON ({error}); restore it with `git checkout {made_by}`") from error
    _check_about(made_by, about)
    digest, expected = _sum(table), about.get(SUM)
    if digest != expected:
        raise ValueError(
            f"{table}: its SHA-256 is {digest}, expected {expected} of {made_by}: `git checkout {FOLDER / name}`"
        )
    return Study(str(table), rows, name, about)


def _with_split(row: Row) -> Row:
    """Return a row with its split, which old tables lack."""
    return row._replace(split="val") if row.metric.startswith("val") else row


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(name: str, rows: Iterable[Row], made_by: Mapping[str, Any]) -> Path:
    """Write a study atomically, replacing one with the same name, and return its folder; leave out rows with NaN.

    Raises:
        ValueError: information on its origin is missing, or a number occurs twice or is infinite.
    """
    _check_about(FOLDER / name / MADE_BY, made_by)
    with replaced_folder(FOLDER / name) as folder:
        results.write(folder / TABLE, [row for row in rows if not math.isnan(row.value)])
        about = {**made_by, "intervals": METHOD, SUM: _sum(folder / TABLE)}
        (folder / MADE_BY).write_text(json.dumps(about, indent=1) + "\n")
    return FOLDER / name


def commit_of(*paths: str) -> str:
    """Return the last commit that changed files which make results.

    Raises:
        ValueError: a file is not committed, or there is no repository.
    """
    try:
        changed = git(".", "status", "--porcelain", "--", *paths)
    except ValueError as error:
        raise ValueError(f"{error}; without the repository, pass the commit of the code with --commit HASH") from error
    if changed:
        raise ValueError(f"not in a commit: {changed}. Commit what makes the results first")
    return git(".", "log", "-1", "--format=%H", "--", *paths)


def machine() -> dict[str, str | int | None]:
    """Return what timings depend on (hardware, threads, and versions), and the date."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    """Return the processor's name if the system has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _check_about(path: Path, about: Any) -> None:
    for key, kind in MADE.items():
        if not isinstance(about, Mapping) or not isinstance(about.get(key), kind):
            raise ValueError(f"{path}: {key} is missing or not a {kind.__name__}; expected {', '.join(MADE)}")
