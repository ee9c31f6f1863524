"""Keep results of runs that a laptop cannot repeat, as JSON in git with what made them: `python -m tools.keep NAME`.

Call it where the results were made, after committing code and params. It writes results/<NAME>/<run>.json for each run
that has metrics; runs may be named, and `--in experiments` takes those of another project.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.results import machine
from pipelines.ops import dvc_lock
from pipelines.ops.git import git
from rankops.io.atomic import replaced_file

# What decides about results; all of it must be in the commit that is written down.
COMMITTED = ("src", "pipelines", "params.yaml", "dvc.yaml", "experiments")


def keep(name: str, *, runs: list[str] | None = None, folder: Path = Path(), command: str = "dvc repro") -> list[Path]:
    """Write the results of runs to results/<name>/ and return the files.

    Args:
        name: folder below results/, such as a scale's name.
        runs: by default all that have metrics.
        folder: the DVC project that has them.
        command: what was run.

    Raises:
        ValueError: code or params are in no commit, or results are not those that dvc.lock describes.
        FileNotFoundError: a run has no results.
    """
    if changed := [line[3:] for line in git(".", "status", "--porcelain", "--", *COMMITTED).splitlines()]:
        raise ValueError(f"not in a commit: {', '.join(changed)}. Commit what made the results first")
    runs = runs or sorted(path.stem for path in (folder / "metrics/runs").glob("*.json"))
    if not runs:
        raise FileNotFoundError(f"{folder / 'metrics/runs'}: no results; run `dvc repro` first")
    lock, params = dvc_lock.stages(folder / "dvc.lock"), YAML(typ="safe").load(folder / "params.yaml")
    made_by = {"commit": git(".", "rev-parse", "HEAD"), "command": command, "machine": machine()}
    kept = {run: made_by | _results(run, folder, lock, params) for run in runs}
    for run, results in kept.items():  # none, if one of them is refused
        path = Path("results") / name / f"{run}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            partial.write_text(json.dumps(results, indent=1) + "\n")
    return [Path("results") / name / f"{run}.json" for run in runs]


def _results(run: str, folder: Path, lock: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return a run's metrics, and its params and inputs."""
    metrics = folder / f"metrics/runs/{run}.json"
    entries = {stage: lock.get(f"{stage}@{run}") for stage in ("train", "evaluate")}
    if missing := [f"{stage}@{run}" for stage, entry in entries.items() if entry is None]:
        raise ValueError(f"{folder / 'dvc.lock'}: no entry {' or '.join(missing)}: run `dvc repro` first")
    content = metrics.read_bytes()
    expected = {out["path"]: out["md5"] for out in entries["evaluate"]["outs"]}.get(f"metrics/runs/{run}.json")
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != expected:
        raise ValueError(
            f"{metrics}: not the file that {folder / 'dvc.lock'} describes: run `dvc repro evaluate@{run}`"
        )
    of_run = params["runs"][run]
    return {
        "params": {
            "run": of_run,
            "dataset": params["datasets"].get(of_run["dataset"]),
            "training": params["training"][of_run["task"]],
            "compute": params["compute"],
            "data": params["data"],
        },
        "inputs": {part["path"]: part["md5"] for entry in entries.values() for part in entry["deps"]},
        "training": json.loads((folder / f"models/runs/{run}/run.json").read_text()),
        "metrics": json.loads(content),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--in", dest="folder", type=Path, default=Path())
    parser.add_argument("--command", default="dvc repro")
    given = parser.parse_args()
    try:
        for path in keep(given.name, runs=given.runs, folder=given.folder, command=given.command):
            print(path)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
