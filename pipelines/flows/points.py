"""The points of a sweep: which there are, and how one runs as a DVC experiment in a folder of its own."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout
from ruamel.yaml import YAML

from pipelines.config.schema import ParamsError, Settings, SorterRun, check, load
from pipelines.flows.graph import stages
from pipelines.flows.processes import Commands
from pipelines.flows.worktree import share_dvc_settings
from pipelines.ops import dvc_lock as lock_file
from pipelines.ops.git import git
from pipelines.ops.gpus import gpus, on_one
from pipelines.reporting.histories import history_of_run
from pipelines.reporting.results import figures
from rankops.io.atomic import remove_folder

__all__ = ["Checkout", "Point", "Result", "at_death", "points", "run_point", "snapshot"]

SCRATCH = Path(".dvc/tmp/sweeps")  # where DVC's own temporary experiments are too: git and DVC ignore it
USED = ".used"  # after a folder's name: a lock that is held while a point works in it


@dataclass(frozen=True)
class Point:
    """One combination of a run, a seed and values.

    Attributes:
        name: of the DVC experiment; the same for the same params.
        run, seed: which run, trained from which seed.
        task: of the run.
        changes: by the names that the user gave.
        settings: what that changes in params.yaml, by dotted key.
    """

    name: str
    run: str
    seed: int
    task: str
    changes: dict[str, Any]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Checkout:
    """What all points of a sweep start from.

    Attributes:
        project: the folder of the project.
        head: the commit that the experiments belong to.
        tree: git's hash of all its files as they were when the sweep began, uncommitted changes included.
        code: git's hashes of those that decide on results.
    """

    project: Path
    head: str
    tree: str
    code: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a point gave.

    Attributes:
        point: which.
        entries: what dvc.lock says of its two stages, its training and its evaluation.
        metrics: the text of its metrics/runs/<run>.json.
        figures: the same, flat.
        history: one row an epoch.
    """

    point: Point
    entries: list[dict[str, Any]]
    metrics: str
    figures: dict[str, float]
    history: pd.DataFrame


def points(runs: list[str], changes: dict[str, list[Any]], seeds: list[int] | None = None) -> list[Point]:
    """Every combination, checked before any of them runs.

    Args:
        runs: names of runs in params.yaml; as each has its task and loss, this is how losses are compared.
        changes: values to try, by key: a dotted one of params.yaml, or one within the block of a run, such as
            `loss.args.pairs`. What stands in one run's or task's block concerns the points of that alone.
        seeds: of the runs; None for each run's own.

    Raises:
        ParamsError: params.yaml is faulty, there is no such run or key, or a combination is impossible.
    """
    settings, values = load(), YAML(typ="safe").load(Path("params.yaml"))
    for kind, given in {"runs": runs, "seeds": seeds or [], **changes}.items():
        if twice := [value for number, value in enumerate(given) if value in given[:number]]:
            raise ParamsError(f"sweep: {kind} has {twice[0]!r} twice")
    if not runs:
        raise ParamsError(f"sweep: no run is named; params.yaml has {', '.join(settings.all_runs)}")
    if empty := [key for key, given in changes.items() if not given]:
        raise ParamsError(f"sweep: {empty[0]} has no value to try")
    if seeds == []:
        raise ParamsError("sweep: no seed; leave seeds out to have each run's own")
    if unknown := [run for run in runs if run not in settings.all_runs]:
        raise ParamsError(f"sweep: no run {unknown[0]!r} in params.yaml; there are {', '.join(settings.all_runs)}")
    found, useful = {}, set()
    for run in runs:
        block = next(name for name in ("runs", "transfer_runs", "sorter_runs") if run in values[name])
        full = {key: key if key.split(".")[0] in values else f"{block}.{run}.{key}" for key in changes}
        own = {key: full[key] for key in changes if _concerns(full[key], run, settings)}
        useful |= set(own)
        for seed, *chosen in product(seeds or [values[block][run]["seed"]], *(changes[key] for key in own)):
            by_key = dict(zip(own.values(), chosen, strict=True))
            if f"{block}.{run}.seed" in by_key:
                raise ParamsError("sweep: seed is no key to change; give seeds (--seeds)")
            by_key[f"{block}.{run}.seed"] = seed
            changed = deepcopy(values)
            for key, value in by_key.items():
                _set(changed, key, value)
            given = dict(zip(own, chosen, strict=True))
            told = ", ".join(
                f"{key}={json.dumps(value, default=str)}" for key, value in {**given, f"{run}.seed": seed}.items()
            )
            check(changed, path=f"params.yaml with {told}")
            digest = sha256(json.dumps([run, changed], sort_keys=True, default=str).encode()).hexdigest()[:8]
            name = f"{run}-seed{seed}-{digest}"
            task = settings.all_runs[run].task
            found[name] = Point(name=name, run=run, seed=seed, task=task, changes=given, settings=by_key)
    if idle := [key for key in changes if key not in useful]:
        raise ParamsError(f"sweep: {idle[0]} concerns none of {', '.join(runs)}")
    return list(found.values())


def _concerns(key: str, run: str, settings: Settings) -> bool:
    """Whether a run, or one whose weights it starts from, has to do with a key of params.yaml."""
    lineage = {}
    while run in settings.all_runs and run not in lineage:
        lineage[run] = settings.all_runs[run]
        run = str(getattr(lineage[run], "start", "")).removeprefix("models/runs/")
    block, _, rest = key.partition(".")
    named = rest.split(".")[0]
    if block in ("runs", "transfer_runs", "sorter_runs"):
        return named in lineage or named not in settings.all_runs  # an unknown one is told as such
    if block == "training":
        return named in {one.task for one in lineage.values()} or not hasattr(settings.training, named)
    if block == "sorters":
        sorters = {one.sorter.name for one in lineage.values() if isinstance(one, SorterRun)}
        return named in sorters or named not in settings.sorters
    return True


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    """Puts a value at a dotted key.

    Raises:
        ParamsError: a part of the key, but for the last one, which `check` judges, is not there.
    """
    block, *parents, last = [values, *key.split(".")]
    for number, part in enumerate(parents):
        if not isinstance(block, dict) or part not in block:
            there = ", ".join(map(str, block)) if isinstance(block, dict) else f"the value {block!r}"
            place = ".".join(parents[:number]) or "params.yaml"
            raise ParamsError(f"sweep: no {part!r} for {key}; {place} has {there}")
        block = block[part]
    if not isinstance(block, dict):
        raise ParamsError(f"sweep: no {last!r} for {key}; {'.'.join(parents)} is the value {block!r}")
    block[last] = value


def snapshot(project: Path) -> Checkout:
    """The project's files as git knows them now, and where DVC keeps the others; changes nothing in it."""
    index = project / git(project, "rev-parse", "--git-path", "index")
    with tempfile.TemporaryDirectory() as scratch:
        own = Path(scratch) / "index"  # so that what is staged stays as it is
        shutil.copyfile(index, own)
        own_index = {"GIT_INDEX_FILE": str(own)}
        git(project, "add", "--all", environment=own_index)
        tree = git(project, "write-tree", environment=own_index)
    return Checkout(
        project=project,
        head=git(project, "rev-parse", "HEAD"),
        tree=tree,
        code=tuple(git(project, "rev-parse", f"{tree}:{part}") for part in ("dvc.yaml", "pipelines", "src")),
    )


def at_death(command: str, *words: str) -> subprocess.Popen:
    """A shell that runs a command (with `words` as $1, $2, ...) when this process dies, however that happens.

    It waits for the end of its input, whose other end this process alone holds, and may close before.
    """
    command = f"cat >/dev/null; {command}"
    return subprocess.Popen(["sh", "-c", command, "sh", *words], stdin=subprocess.PIPE, start_new_session=True)


@contextmanager
def _own_folder(checkout: Checkout, name: str) -> Iterator[Path]:
    """A clone of the project as it was, with the same DVC cache and raw data; gone at the end, whatever that is.

    A clone, and no git worktree: those share refs/exps/exec, where DVC notes which experiment runs, so that two at
    once take each other's for their own. And not `dvc exp run --temp`, which writes each point's params into the
    project's own params.yaml for a moment, leaves raw data behind, and its folder when it is killed.
    """
    parent = checkout.project / SCRATCH
    parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    used = FileLock(f"{folder}{USED}")
    used.acquire()
    # What is killed with this process may still write for a moment.
    remover = at_death(
        'for pause in 0 0.1 1 5; do sleep $pause; rm -rf "$1" "$2" && break; done', str(folder), used.lock_file
    )
    try:
        # Its objects are those of the project, which therefore has no second copy of them.
        git(checkout.project, "clone", "--quiet", "--shared", "--no-checkout", str(checkout.project), str(folder))
        for key, other in (("user.name", "rankops sweep"), ("user.email", "sweep@localhost")):  # a clone has not these
            git(folder, "config", key, git(checkout.project, "config", "--default", other, "--get", key))
        git(folder, "update-ref", "--no-deref", "HEAD", checkout.head)
        git(folder, "read-tree", "--reset", "-u", checkout.tree)
        ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "data/raw")
        for path in filter(None, git(checkout.project, *ignored).split("\0")):
            link = folder / path.rstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(checkout.project / path.rstrip("/"))
        share_dvc_settings(checkout.project, folder, site_cache_dir=str(folder / ".dvc/tmp/site"))  # gone with it
        yield folder
    finally:
        remover.stdin.close()
        remover.wait()
        used.release()


def _remove_abandoned(parent: Path) -> None:
    """Takes away what sweeps left that died with all their processes, as in a power cut."""
    for lock in parent.glob(f"*{USED}"):
        with suppress(Timeout), FileLock(lock, timeout=0):  # the system lets go of it when its process dies
            shutil.rmtree(str(lock).removesuffix(USED), ignore_errors=True)
            lock.unlink(missing_ok=True)


def _upstream(folder: Path, stage: str) -> list[str]:
    """The stages that one needs, and those that these need."""
    graph, found = stages(folder), {stage}
    for name in reversed(graph):
        found |= set(graph[name]) if name in found else set()
    return sorted(found - {stage})


def _one_at_a_time(lock: Path, *command: str) -> list[str]:
    """A command that waits for others with the same lock, which the kernel lets go when it dies."""
    return ["flock", "--no-fork", str(lock), *command] if shutil.which("flock") else list(command)


def run_point(point: Point, checkout: Checkout, commands: Commands) -> Result:
    """Trains and evaluates a point, or finds in DVC's cache what that gave; a DVC experiment of the project keeps it.

    A training that was killed goes on from its last whole epoch, because its state is kept in the project.

    Args:
        point: which.
        checkout: what it starts from.
        commands: that run it, so that they can be stopped.

    Raises:
        ValueError: git failed.
        CommandFailed: a stage failed; its output, which is on the log, says why.
    """
    code = sha256(repr(checkout.code).encode()).hexdigest()[:8]  # what another code began is not this one's to remove
    states = checkout.project / ".checkpoints/sweeps" / f"{point.name}-{code}"
    states.mkdir(parents=True, exist_ok=True)
    with _own_folder(checkout, point.name) as folder:
        (folder / ".checkpoints").symlink_to(states)
        yaml = YAML()  # keeps comments and order
        yaml.preserve_quotes = True
        yaml.width = 120
        values = yaml.load(folder / "params.yaml")
        for key, value in point.settings.items():
            _set(values, key, value)
        yaml.dump(values, folder / "params.yaml")
        settings = load(folder / "params.yaml")
        train, evaluate = settings.stages_of(point.run)
        dvc = ("dvc", "--wait-for-lock")
        # Points of the same data make it once: the first does, the others find it in the cache.
        shared = settings.model_dump_json(exclude={"runs", "transfer_runs", "sorter_runs", "training", "evaluate"})
        lock = folder.parent / f"data-{sha256(shared.encode()).hexdigest()[:8]}.lock"
        made = _one_at_a_time(lock, *dvc, "repro", *_upstream(folder, train))
        commands.run(made, folder=folder)
        # One training a GPU; one in several processes takes all that there are.
        names = gpus(settings.compute) if settings.train_processes == 1 else []
        lock = folder.parent / f"{point.name}.lock"  # another sweep may have this point too
        trained = _one_at_a_time(lock, *dvc, "exp", "run", "--name", point.name, evaluate)
        with on_one(names) as environment:
            commands.run(trained, folder=folder, environment=environment)
        experiment = f"refs/exps/{checkout.head[:2]}/{checkout.head[2:]}/{point.name}"
        git(folder, "push", "--quiet", "--force", "origin", f"{experiment}:{experiment}")
        locked = lock_file.stages(folder / "dvc.lock")
        metrics, model = folder / f"metrics/runs/{point.run}.json", folder / "models/runs" / point.run
        history = history_of_run(model)
        result = Result(
            point=point,
            entries=[locked[train], locked[evaluate]],
            metrics=metrics.read_text(),
            figures=figures(metrics),
            history=history,
        )
    remove_folder(states)
    return result
