"""Keep results in git, with what made them: `python -m studies.keep STUDY [NAME ...]`, where they were made.

Commit code and params first. It writes studies/made/STUDY/ whole: runs that were evaluated, with their comparisons,
sorters, and what studies/ measures besides. A name may be a pattern, such as '*-kanji'; by default all are kept.
`--in studies` takes those of that project.
"""

import argparse
import fnmatch
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pipelines.config import Settings, load
from pipelines.config.plan import run_of
from pipelines.ops import dvc_lock
from pipelines.ops.git import git
from pipelines.reporting.results import read_run
from pipelines.stages.compare import compared, statistics_of
from rankgrad.evaluation import Statistic, evaluate
from rankgrad.io import results
from rankgrad.io.results import Row, minus
from rankgrad.seeding import derived_seed
from studies.kept import machine, write

# What decides about results; all of it must be in the commit that is written down.
COMMITTED = ("src", "pipelines", "params.yaml", "dvc.yaml", "studies", ":!studies/made")
ELSEWHERE = ("checks/", "data/", "models/")  # they may have been left on the machine that made the results
CODE = "checks/code"  # whose files say more than their hash
KINDS = {
    "runs": "metrics/runs/*.csv",
    "predictions": "predictions/*.parquet",
    "sorters": "metrics/sorters/*.csv",
    "measured": "metrics/measured/*.csv",
}


def keep(study: str, *names: str, folder: Path = Path(), command: str = "dvc repro") -> Path:
    """Write studies/made/<study>/ and return it.

    Args:
        study: its name.
        names: of runs, rivals, sorters and other measurements, or patterns of names; by default all that there are.
        folder: the DVC project that has them, in this checkout.
        command: what was run.

    Raises:
        ValueError: code or params are in no commit, or results are not those of the lock, the code and the params.
        FileNotFoundError: there are no results of a name.
    """
    if changed := [
        line[3:] for line in git(".", "status", "--porcelain", "--", *COMMITTED, ":!studies/made").splitlines()
    ]:
        raise ValueError(f"not in a commit: {', '.join(changed)}. Commit what made the results first")
    params = load(folder / "params.yaml")
    found = _found(folder, names or ("*",))
    runs = [run for run in params.runs if run in found["runs"]]
    sorters = [one for one in params.sorters if one in found["sorters"]]
    stages = [f"{stage}@{run}" for run in runs for stage in ("train", "evaluate")]
    if sorters:
        stages += [f"{stage}@{one}" for stage in ("benchmark_sorters", "pretrain") for one in sorters]
    rivals = [path for name, path in found["predictions"].items() if name not in params.runs]
    _refuse_changed(folder, stages, [*found["measured"].values(), *rivals])
    rows = [
        *chain.from_iterable(_of_run(folder, run) for run in runs),
        *_compared(params, found["predictions"]),
        *chain.from_iterable(results.read(found["sorters"][one]).rows for one in sorters),
        *chain.from_iterable(results.read(path).rows for path in found["measured"].values()),
    ]
    made_by = {
        "commit": git(".", "rev-parse", "HEAD"),
        "command": command,
        "machine": machine(),
        "params": _params_of(params, runs, sorters),
        "hashes": _hashes(folder, stages),
        "code": _code(folder, stages),
    }
    return write(study, rows, made_by)


def _found(folder: Path, patterns: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Return the files of each kind by name, of which some pattern holds."""
    every = {kind: {path.stem: path for path in sorted(folder.glob(files))} for kind, files in KINDS.items()}
    kept: set[str] = set()
    for pattern in patterns:
        some = fnmatch.filter(chain.from_iterable(every.values()), pattern)
        if not some:
            raise FileNotFoundError(f"{folder}: no results of {pattern}; run `dvc repro`")
        kept.update(some)
    return {kind: {name: path for name, path in files.items() if name in kept} for kind, files in every.items()}


def _params_of(params: Settings, runs: list[str], sorters: list[str]) -> dict[str, Any]:
    datasets = sorted({params.runs[run].dataset for run in runs})
    return {
        "runs": {run: run_of(params, run) for run in runs},
        "datasets": {key: params.datasets[key].model_dump() for key in datasets},
        "sorters": {one: params.sorters[one].model_dump() for one in sorters},
        "evaluate": params.evaluate.model_dump(),
        "compute": params.compute.model_dump(),
    }


def _of_run(folder: Path, run: str) -> list[Row]:
    """Return the metrics of a run, and what was chosen by which validation."""
    trained = read_run(folder / "models/runs" / run)
    rows = results.read(folder / f"metrics/runs/{run}.csv").rows
    for seed, value in trained["validation"].items():
        rows.append(Row(run, "validation", value, seed=int(seed), split="val"))
    for one in trained["tried"]:
        metric = "validation with " + ", ".join(f"{place} = {value}" for place, value in one["setting"].items())
        rows += [Row(run, metric, value, seed=int(seed), split="val") for seed, value in one["validation"].items()]
    for one in trained.get("folds", [trained | {"fold": None}]):
        numbers = {place: value for place, value in one["setting"].items() if isinstance(value, int | float)}
        rows += [Row(run, f"setting.{place}", value, fold=one["fold"]) for place, value in numbers.items()]
    return rows


def _compared(params: Settings, predictions: Mapping[str, Path]) -> list[Row]:
    """Return what the comparisons say of runs and rivals that have predictions, and the metrics of the rivals."""
    rows: list[Row] = []
    measured: set[str] = set()  # rivals, which several comparisons may name
    known: dict[tuple[str, str], dict[int, Statistic]] = {}  # of the last comparison, by task and run
    for comparison in params.comparisons.values():
        kept = {part: [one for one in getattr(comparison, part) if one in predictions] for part in ("runs", "rivals")}
        if comparison.baseline not in predictions or not any(kept.values()):
            continue
        task, part = params.runs[comparison.baseline].task, comparison.model_copy(update=kept)
        names = (comparison.baseline, *part.runs, *part.rivals)
        statistics = {name: known.get((task, name)) or statistics_of(task, predictions[name]) for name in names}
        known = {(task, name): one for name, one in statistics.items()}
        difference = minus(comparison.metric, comparison.baseline)
        rows += [row for row in compared(part, statistics, params.evaluate) if row.metric.endswith(difference)]
        draws = derived_seed(params.evaluate.seed, "evaluate")
        for name in (one for one in part.rivals if one not in measured):
            measured.add(name)
            rows += evaluate(name, statistics[name], resamples=params.evaluate.resamples, seed=draws)
    return rows


def _refuse_changed(folder: Path, stages: list[str], others: list[Path]) -> None:
    """Refuse results, code, params and data that are not those of the lock; data may be elsewhere.

    Args:
        folder: the DVC project.
        stages: names of its own.
        others: outputs of stages of studies/figures and the like.
    """
    from dvc.exceptions import OutputNotFoundError
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        checked = [
            (name, stage) for name in stages for stage in repo.stage.collect(f"{folder.resolve() / 'dvc.yaml'}:{name}")
        ]
        for path in others:
            try:
                stage = repo.find_outs_by_path(str(path.resolve()))[0].stage
            except OutputNotFoundError as error:
                raise ValueError(f"{path}: no stage makes it: remove it, or write one") from error
            checked.append((stage.addressing, stage))
        for name, stage in checked:
            for part in [*stage.deps, *stage.outs]:
                if part.def_path.startswith(ELSEWHERE) and not part.exists:
                    continue
                for place, state in part.status().items():
                    shown = json.dumps(state).strip('"')
                    raise ValueError(f"{name}: {place} is not that of the lock ({shown}); run `dvc repro {name}`")


def _hashes(folder: Path, stages: list[str]) -> dict[str, str]:
    """Return the hash of each file that went into stages and that none of them made."""
    lock = dvc_lock.stages(folder / "dvc.lock")
    if missing := [stage for stage in stages if stage not in lock]:
        raise ValueError(f"{folder / 'dvc.lock'}: no entry {missing[0]}; run `dvc repro {missing[0]}`")
    made = {part["path"] for stage in stages for part in lock[stage]["outs"]}
    parts = {part["path"]: part["md5"] for stage in stages for part in lock[stage]["deps"]}
    return {path: parts[path] for path in sorted(parts) if path not in made and not path.startswith(CODE)}


def _code(folder: Path, stages: list[str]) -> dict[str, str]:
    """Return the digest of each file of code behind stages, and the version of each package, see `pipelines.code`."""
    code: dict[str, str] = {}
    for stage in stages:
        path = folder / CODE / f"{stage}.txt"
        for line in path.read_text().splitlines() if path.is_file() else ():
            first, last = line.split()
            code |= {last: first} if last.endswith(".py") else {first: last}
    return dict(sorted(code.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="folder below studies/made/")
    parser.add_argument("names", nargs="*", help="of what is kept, or patterns; by default all")
    parser.add_argument("--in", dest="folder", type=Path, default=Path(), help="project that has them")
    parser.add_argument("--command", default="dvc repro", help="what was run")
    given = parser.parse_args()
    print(keep(given.study, *given.names, folder=given.folder, command=given.command))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
