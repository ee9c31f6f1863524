"""Keep results and their origin in git: `python -m studies.keep STUDY [NAME ...]`, run where they were made.

Commit code and params first. It replaces studies/made/STUDY/ with the evaluated runs, their comparisons, sorters, and
other measurements of studies/. A name may be a pattern, such as '*-kanji'; by default, all are kept. With
`--in studies`, it takes them from that project.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pipelines.config import Settings, load
from pipelines.config.plan import run_of
from pipelines.ops import dvc_lock
from pipelines.ops.git import git
from pipelines.reporting.results import read_run
from pipelines.stages.compare import compared, read_statistics
from rankgrad.evaluation import Statistic, evaluate
from rankgrad.io import results
from rankgrad.io.results import Row, minus
from rankgrad.seeding import derived_seed
from studies.kept import machine, write

# Files that affect results; all of them must be in the recorded commit.
COMMITTED = ("src", "pipelines", "params.yaml", "dvc.yaml", "studies", ":!studies/made")
ELSEWHERE = ("checks/", "data/", "models/")  # these may only be on the machine that made the results
CODE = "checks/code"  # the content of its files is recorded, not only their hash
FILES = {
    "runs": "metrics/runs/*.csv",
    "predictions": "predictions/*.parquet",
    "sorters": "metrics/sorters/*.csv",
    "measured": "metrics/measured/*.csv",
}


def files_of(folder: Path, patterns: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Return the files of a project whose name matches one of the patterns, by use and name, see `FILES`.

    Raises:
        FileNotFoundError: a pattern matches nothing.
    """
    unmatched = {*patterns}
    files: dict[str, dict[str, Path]] = {}
    for use, place in FILES.items():
        files[use] = {}
        for path in sorted(folder.glob(place)):
            matching = {pattern for pattern in patterns if fnmatch(path.stem, pattern)}
            unmatched -= matching
            if matching:
                files[use][path.stem] = path
    if unmatched:
        raise FileNotFoundError(f"{folder}: no results of {min(unmatched)}; run `dvc repro`")
    return files


def keep(study: str, *names: str, folder: Path = Path(), command: str = "dvc repro") -> Path:
    """Write studies/made/<study>/ and return it.

    Args:
        study: the name of the study.
        names: names or patterns of runs, rivals, sorters, and other measurements; by default, all.
        folder: the DVC project with the results, in this checkout.
        command: the command that made them.

    Raises:
        ValueError: code or params are not committed, or results do not match the lock, the code and the params.
        FileNotFoundError: a name has no results.
    """
    changed = git(".", "status", "--porcelain", "--", *COMMITTED).splitlines()
    if changed:
        paths = ", ".join(line[3:] for line in changed)
        raise ValueError(f"not committed; to keep results, first commit: {paths}")
    params = load(folder / "params.yaml")
    files = files_of(folder, names or ("*",))
    runs = [run for run in params.runs if run in files["runs"]]
    sorters = [sorter for sorter in params.sorters if sorter in files["sorters"]]
    stages = []
    for run in runs:
        stages += [f"train@{run}", f"evaluate@{run}"]
    for sorter in sorters:
        stages += [f"benchmark_sorters@{sorter}", f"pretrain@{sorter}"]
    rivals = [path for name, path in files["predictions"].items() if name not in params.runs]
    _refuse_changed(folder, stages, [*files["measured"].values(), *rivals])

    rows = []
    for run in runs:
        rows += _of_run(folder, run)
    rows += _compared(params, files["predictions"])
    for path in [*(files["sorters"][sorter] for sorter in sorters), *files["measured"].values()]:
        rows += results.read(path).rows
    made_by = {
        "commit": git(".", "rev-parse", "HEAD"),
        "command": command,
        "machine": machine(),
        "params": _params_of(params, runs, sorters),
        "hashes": _hashes(folder, stages),
        "code": _code(folder, stages),
    }
    return write(study, rows, made_by)


def _params_of(params: Settings, runs: list[str], sorters: list[str]) -> dict[str, Any]:
    datasets = sorted({params.runs[run].dataset for run in runs})
    return {
        "runs": {run: run_of(params, run) for run in runs},
        "datasets": {key: params.datasets[key].model_dump() for key in datasets},
        "sorters": {sorter: params.sorters[sorter].model_dump() for sorter in sorters},
        "evaluate": params.evaluate.model_dump(),
        "compute": params.compute.model_dump(),
    }


def _of_run(folder: Path, run: str) -> list[Row]:
    """Return the metrics of a run, its chosen settings, and their validation metrics."""
    trained = read_run(folder / "models/runs" / run)
    rows = results.read(folder / f"metrics/runs/{run}.csv").rows
    rows += _validation(run, "validation", trained["validation"])
    for trial in trained["tried"]:
        setting = ", ".join(f"{option} = {value}" for option, value in trial["setting"].items())
        rows += _validation(run, f"validation with {setting}", trial["validation"])
    for fold in trained.get("folds", [trained | {"fold": None}]):
        for option, value in fold["setting"].items():
            if isinstance(value, int | float):
                rows.append(Row(run, f"setting.{option}", float(value), fold=fold["fold"]))
    return rows


def _validation(run: str, metric: str, by_seed: Mapping[str, float]) -> list[Row]:
    return [Row(run, metric, value, seed=int(seed), split="val") for seed, value in by_seed.items()]


def _compared(params: Settings, predictions: Mapping[str, Path]) -> list[Row]:
    """Return the comparisons of runs and rivals that have predictions, and the metrics of the rivals."""
    rows: list[Row] = []
    measured = {*params.runs}  # several comparisons may name a rival, which may be a run
    statistics: dict[str, dict[int, Statistic]] = {}
    for comparison in params.comparisons.values():
        runs = [run for run in comparison.runs if run in predictions]
        rivals = [rival for rival in comparison.rivals if rival in predictions]
        if comparison.baseline not in predictions or not runs + rivals:
            continue
        kept = comparison.model_copy(update={"runs": runs, "rivals": rivals})
        statistics = read_statistics(params, kept, predictions, statistics)
        difference = minus(comparison.metric, comparison.baseline)
        rows += [row for row in compared(kept, statistics, params.evaluate) if row.metric.endswith(difference)]
        draws = derived_seed(params.evaluate.seed, "evaluate")
        for rival in rivals:
            if rival not in measured:
                measured.add(rival)
                rows += evaluate(rival, statistics[rival], resamples=params.evaluate.resamples, seed=draws)
    return rows


def _refuse_changed(folder: Path, stages: list[str], outputs: list[Path]) -> None:
    """Raise if results, code, params, or data differ from the lock; data may be missing here.

    Args:
        folder: the DVC project.
        stages: names of its stages.
        outputs: outputs of other stages, such as those of studies/figures.
    """
    from dvc.exceptions import OutputNotFoundError
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        checked = []
        for name in stages:
            checked += [(name, stage) for stage in repo.stage.collect(f"{folder.resolve() / 'dvc.yaml'}:{name}")]
        for path in outputs:
            try:
                stage = repo.find_outs_by_path(str(path.resolve()))[0].stage
            except OutputNotFoundError as error:
                raise ValueError(f"{path}: no stage makes it: remove it, or add a stage for it") from error
            checked.append((stage.addressing, stage))
        for name, stage in checked:
            for file in [*stage.deps, *stage.outs]:
                if file.def_path.startswith(ELSEWHERE) and not file.exists:
                    continue
                for path, state in file.status().items():
                    difference = json.dumps(state).strip('"')
                    raise ValueError(f"{name}: {path} differs from the lock ({difference}); run `dvc repro {name}`")


def _hashes(folder: Path, stages: list[str]) -> dict[str, str]:
    """Return the hash of each file that stages read and none of them made."""
    lock = dvc_lock.stages(folder / "dvc.lock")
    hashes, made = {}, set()
    for stage in stages:
        if stage not in lock:
            raise ValueError(f"{folder / 'dvc.lock'}: no entry for {stage}; run `dvc repro {stage}`")
        hashes |= {file["path"]: file["md5"] for file in lock[stage]["deps"]}
        made.update(file["path"] for file in lock[stage]["outs"])
    return {path: hashes[path] for path in sorted(hashes) if path not in made and not path.startswith(CODE)}


def _code(folder: Path, stages: list[str]) -> dict[str, str]:
    """Return the digest of each code file behind stages, and the version of each package, see `pipelines.code`."""
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
    options = parser.parse_args()
    print(keep(options.study, *options.names, folder=options.folder, command=options.command))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
