"""Keep results in git, with what made them: `python -m tools.keep NAME`, where they were made.

Commit code and params first. It writes results/NAME/<run>.json for each run that was evaluated, and into the folders
comparisons and sorters there what they say; runs may be named, and `--in experiments` takes those of that project.

Seeds that another machine trained are merged: bring its dvc.lock, predictions/ and models/runs/*/run.json in a folder,
with what `python -m tools.keep --machine` prints there as machine.json, and name it with `--with`.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import machine
from pipelines.config import Settings, load
from pipelines.ops import dvc_lock
from pipelines.ops.git import git
from pipelines.stages.compare import compared, statistics_of
from rankops.bootstrap import Statistic, evaluate
from rankops.io.atomic import replaced_file
from rankops.seeding import derived_seed

# What decides about results; all of it must be in the commit that is written down.
COMMITTED = ("src", "pipelines", "params.yaml", "dvc.yaml", "experiments")
ELSEWHERE = ("checks/", "data/", "models/")  # they may have been left on the machine that made the results


@dataclass(frozen=True)
class Project:
    """A folder with the results of a DVC project, and its lock."""

    folder: Path
    lock: dict[str, Any]
    machine: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Project":
        file = folder / "machine.json"
        return cls(
            folder, dvc_lock.stages(folder / "dvc.lock"), json.loads(file.read_text()) if file.is_file() else machine()
        )

    def inputs(self, *stages: str) -> dict[str, Any]:
        """Return what stages were made of: the hash of each file and the value of each param, by place."""
        result: dict[str, Any] = {}
        for stage in stages:
            if stage not in self.lock:
                raise ValueError(f"{self.folder / 'dvc.lock'}: no entry {stage}; run `dvc repro {stage}`")
            entry = self.lock[stage]
            result |= {part["path"]: part["md5"] for part in entry["deps"]}
            values = entry.get("params", {}).get("params.yaml", {})
            result |= {f"params.yaml: {key}": value for key, value in values.items()}
        return result

    def record(self, run: str) -> dict[str, Any]:
        return json.loads((self.folder / f"models/runs/{run}/run.json").read_text())

    def predictions(self, run: str) -> Path:
        return self.folder / f"predictions/{run}.parquet"


def keep(
    name: str,
    *,
    runs: list[str] | None = None,
    folder: Path = Path(),
    others: list[Path] | None = None,
    command: str = "dvc repro",
) -> list[Path]:
    """Write results to results/<name>/ and return the files.

    Args:
        name: folder below results/, such as a scale's name.
        runs: by default all that were evaluated.
        folder: the DVC project that has them, in this checkout.
        others: folders of other machines with other seeds of these runs.
        command: what was run.

    Raises:
        ValueError: code or params are in no commit; results are not those of the lock, the code and the params; or they
            are of other code, data or params than those of the other folders, or than what results/<name>/ has already.
        FileNotFoundError: there are no results.
    """
    if changed := [line[3:] for line in git(".", "status", "--porcelain", "--", *COMMITTED).splitlines()]:
        raise ValueError(f"not in a commit: {', '.join(changed)}. Commit what made the results first")
    params, projects = load(folder / "params.yaml"), [Project.read(one) for one in (folder, *(others or []))]
    runs = runs or [run for run in params.runs if projects[0].predictions(run).is_file()]
    if not runs:
        raise FileNotFoundError(f"{folder / 'predictions'}: no results; run `dvc repro`")
    sorters = [one for one in params.sorters if (folder / f"metrics/sorters/{one}.json").is_file()]
    stages = [f"{stage}@{run}" for run in runs for stage in ("train", "evaluate")]
    if sorters:
        stages += ["benchmark_sorters", *(f"pretrain@{one}" for one in sorters)]
    _refuse_changed(folder, stages)
    kept: dict[str, dict[str, Any]] = {}
    statistics: dict[str, dict[int, Statistic]] = {}
    for run in runs:
        kept[run], statistics[run] = _merged(params, run, projects)
    for key, comparison in params.comparisons.items():
        part = comparison.model_copy(update={"runs": [run for run in comparison.runs if run in kept]})
        if part.runs and part.baseline in kept:
            metrics = compared(part, statistics, params.evaluate)
            kept[f"comparisons/{key}"] = {"params": {"evaluate": params.evaluate.model_dump()}, "metrics": metrics}
    for one in sorters:
        metrics = json.loads((folder / f"metrics/sorters/{one}.json").read_text())
        inputs = projects[0].inputs(f"pretrain@{one}", "benchmark_sorters")
        of_all = ("models/sorters", "params.yaml: sorters")  # which change with every other sorter
        inputs = {place: value for place, value in inputs.items() if place not in of_all}
        kept[f"sorters/{one}"] = {"params": params.sorters[one].model_dump(), "inputs": inputs, "metrics": metrics}
    _refuse_mixture(Path("results") / name, kept)
    made_by = {"commit": git(".", "rev-parse", "HEAD"), "command": command, "machine": projects[0].machine}
    files = [Path("results") / name / f"{key}.json" for key in kept]
    for path, results in zip(files, kept.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            partial.write_text(json.dumps(made_by | results, indent=1) + "\n")
    return files


def _refuse_changed(folder: Path, stages: list[str]) -> None:
    """Refuse results, code, params and data that are not those of the lock; data may be elsewhere."""
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        for name in stages:
            for stage in repo.stage.collect(f"{(folder / 'dvc.yaml').resolve()}:{name}"):
                for part in [*stage.deps, *stage.outs]:
                    if part.def_path.startswith(ELSEWHERE) and not part.exists:
                        continue
                    for place, state in part.status().items():
                        shown = json.dumps(state).strip('"')
                        raise ValueError(
                            f"{name}: {place} is not that of {folder / 'dvc.lock'} ({shown}); run `dvc repro {name}`"
                        )


def _merged(params: Settings, name: str, projects: list[Project]) -> tuple[dict[str, Any], dict[int, Statistic]]:
    """Return what is kept of a run, and its statistics by seed; of all projects that have it."""
    run, have = params.runs[name], [one for one in projects if one.predictions(name).is_file()]
    inputs = _inputs(have[0], name)
    record: dict[str, Any] = have[0].record(name) | {"seeds": [], "validation": {}}
    statistics: dict[int, Statistic] = {}
    for project in have:
        theirs = project.record(name)
        if place := _different(inputs, _inputs(project, name)):
            raise ValueError(f"{project.folder}: {name} was made with another {place} than in {have[0].folder}")
        if theirs["setting"] != record["setting"] or set(theirs["seeds"]) & set(record["seeds"]):
            raise ValueError(
                f"{project.folder}: {name} has the seeds {theirs['seeds']} with the setting {theirs['setting']}, "
                f"expected other seeds than {record['seeds']} with {record['setting']}"
            )
        statistics |= statistics_of(run.task, project.predictions(name), theirs["seeds"])
        record["seeds"] += theirs["seeds"]
        record["validation"] |= theirs["validation"]
    record["best"] = max(record["seeds"], key=lambda seed: record["validation"][str(seed)])
    if len(have) == 1:
        metrics = json.loads((have[0].folder / f"metrics/runs/{name}.json").read_text())
    else:
        draws = derived_seed(params.evaluate.seed, "evaluate")
        metrics = evaluate(statistics, resamples=params.evaluate.resamples, seed=draws)
    return {
        "others": [{"machine": one.machine, "seeds": one.record(name)["seeds"]} for one in have[1:]],
        "params": {
            "run": run.model_dump() | {"seeds": record["seeds"]},
            "dataset": params.datasets[run.dataset].model_dump(),
            "training": params.run_of(name, record["setting"])["training"],
        },
        "inputs": inputs,
        "training": record,
        "metrics": metrics,
    }, statistics


def _inputs(project: Project, run: str) -> dict[str, Any]:
    """Return what a run was made of, but for its seeds."""
    inputs, block = project.inputs(f"train@{run}", f"evaluate@{run}"), f"params.yaml: runs.{run}"
    inputs[block] = {key: value for key, value in inputs[block].items() if key != "seeds"}
    return {place: value for place, value in inputs.items() if place not in (f"models/runs/{run}", f"{block}.seeds")}


def _different(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """Return the first place where two things differ in what went into both."""
    return next((place for place, value in ours.items() if value != theirs.get(place, value)), None)


def _refuse_mixture(folder: Path, kept: dict[str, dict[str, Any]]) -> None:
    """Refuse results that cannot stand beside those of a folder, or that have fewer seeds than those they replace."""
    for path in sorted(folder.rglob("*.json")):
        key, before = path.relative_to(folder).with_suffix("").as_posix(), json.loads(path.read_text())
        if key in kept:
            lost = set(_seeds(before)) - set(_seeds(kept[key]))
            if lost and not _different(before["inputs"], kept[key]["inputs"]):
                raise ValueError(
                    f"{path}: has the seeds {sorted(lost)} too: name the folder with their predictions with --with, or "
                    f"remove {path}"
                )
            continue
        for name, results in kept.items():
            if place := _different(before.get("inputs", {}), results.get("inputs", {})):
                raise ValueError(
                    f"{path}: made with another {place} than {name}, so they cannot stand in one folder: choose another"
                    f" NAME, keep both anew, or remove {path}"
                )


def _seeds(results: dict[str, Any]) -> list[int]:
    return results.get("training", {}).get("seeds", [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="folder below results/")
    parser.add_argument("runs", nargs="*", help="by default all that were evaluated")
    parser.add_argument("--in", dest="folder", type=Path, default=Path(), help="project that has them")
    parser.add_argument("--with", dest="others", type=Path, nargs="+", help="folders with other seeds of these runs")
    parser.add_argument("--command", default="dvc repro", help="what was run")
    parser.add_argument("--machine", action="store_true", help="print what this machine is")
    given = parser.parse_args()
    if given.machine:
        print(json.dumps(machine(), indent=1))
    elif given.name is None:
        parser.error("NAME is missing")
    else:
        for path in keep(given.name, runs=given.runs, folder=given.folder, others=given.others, command=given.command):
            print(path)


if __name__ == "__main__":
    main()
