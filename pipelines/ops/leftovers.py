"""Find outputs of runs, sorters, and datasets that params.yaml no longer defines, in folders that stages read whole."""

from pathlib import Path

from pipelines.config import Settings
from pipelines.config.schema import NONE

__all__ = ["FOLDER", "described", "leftovers", "set_aside"]

FOLDER = Path(".leftovers")  # git and DVC ignore it


def leftovers(params: Settings) -> list[Path]:
    """Return the outputs in the current folder that do not belong to any block of the params.

    With them, this checkout's dvc.lock would differ from a fresh clone's.
    """
    by_other_programs = list[str]()
    for comparison in params.comparisons.values():
        by_other_programs += comparison.rivals
    defined = {
        "metrics/runs": params.runs, "models/runs": params.runs,
        "predictions": [*params.runs, *params.rivals, *by_other_programs],
        "metrics/sorters": params.sorters, "models/sorters": params.sorters,
        "reports/data": [*params.datasets, "score_vectors"],
    }  # fmt: skip
    paths = []
    for folder, names in defined.items():
        for path in sorted(Path(folder).glob("[!.]*")):
            if path.stem not in {NONE, *names} and ".partial-" not in path.name:
                paths.append(path)
    return paths


def described(path: Path) -> str:
    """Return what is wrong with an output that belongs to no block."""
    return f"{path}: belongs to no block of params.yaml; `make repro` moves it away{_advice(path)}"


def _advice(path: Path) -> str:
    return "; if another program wrote it, name it in `rivals`" if path.parts[0] == "predictions" else ""


def set_aside(params: Settings) -> list[str]:
    """Move leftovers into a folder that nothing reads; return one line for each.

    If a block is added to the params again, DVC's run cache restores its outputs.
    """
    lines = []
    for path in leftovers(params):
        target = FOLDER / path
        target.parent.mkdir(parents=True, exist_ok=True)
        number = 1
        while target.exists():
            number += 1
            target = (FOLDER / path).with_name(f"{path.name}-{number}")
        path.rename(target)
        lines.append(f"{path}: belongs to no block of params.yaml: moved to {target}{_advice(path)}")
    return lines
