"""The flow that retrains: DVC's graph, a task a stage, in a worktree of its own; then published and judged."""

import base64
import json
import os
import queue
import re
import sys
import threading
from pathlib import Path
from typing import Annotated

from prefect import flow
from prefect.artifacts import create_image_artifact, create_markdown_artifact
from prefect.logging import get_run_logger
from prefect.runtime import task_run
from prefect.states import State
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.config.schema import Compute, Settings, load
from pipelines.flows.graph import stages
from pipelines.flows.processes import CommandFailed, Commands, retried
from pipelines.flows.promote import judge, outcome, show
from pipelines.flows.worktree import Worktree, opened
from pipelines.ops import dvc_lock
from pipelines.ops.gpus import gpus
from pipelines.reporting.results import figures
from pipelines.tracking.live import watch
from pipelines.tracking.publish import DEFAULT_STORE, run_addresses, store
from rankops.datasets.scenes import mnist

__all__ = ["retrain"]

REPRO = ["dvc", "--wait-for-lock", "repro"]
FETCH = [sys.executable, "-m", "pipelines.cli.app", "fetch"]
MEND = [sys.executable, "-m", "pipelines.cli.app", "mend"]  # of the worktree; the script `rankops` is the checkout's
MOST_STAGES = 64  # tasks that may wait at once; how many work is decided by the slots


def _slots(workers: int | None, compute: Compute) -> list[dict[str, str]]:
    """What each of the stages that run at once gets: a GPU where they are to use some, else a share of the cores."""
    names = gpus(compute)
    count = workers or len(names) or max(1, (os.cpu_count() or 1) // compute.threads)
    return [{"CUDA_VISIBLE_DEVICES": names[number % len(names)]} if names else {} for number in range(count)]


@retried(task_run_name="{stage}")
def run_stage(stage: str, folder: Path, commands: Commands, slots: queue.Queue, environment: dict[str, str]) -> None:
    """One stage by DVC, which decides whether there is anything to do; on a slot of its own."""
    slot = slots.get()
    try:
        if task_run.run_count > 1:  # dvc may have been killed with its stage, in the middle of a write
            commands.run(MEND, folder=folder, environment=environment)
        commands.run([*REPRO, "--single-item", stage], folder=folder, environment=environment | slot)
    finally:
        slots.put(slot)


@retried
def publish(folder: Path, commands: Commands, environment: dict[str, str]) -> None:
    """What MLflow lacks, once more: its state is not DVC's to know."""
    commands.run([sys.executable, "-m", "pipelines.stages.publish"], folder=folder, environment=environment)


def _fetch(commands: Commands, folder: Path, environment: dict[str, str]) -> None:
    """What DVC's remote has of this commit and of earlier stages, so that a new machine trains only what is new."""
    try:
        commands.run(["dvc", "fetch", "--run-cache"], folder=folder, environment=environment)
    except CommandFailed as error:
        get_run_logger().warning("what DVC's remote lacks is made again: %s", str(error).splitlines()[-1])


def _shown(params: Settings, folder: Path) -> None:
    """On the run's page: figures with links to MLflow, and the sheet of examples."""
    with store() as client:
        links = run_addresses(client, json.loads((folder / "reports/published.json").read_text()))
    rows = []
    for name in params.all_runs:
        found = figures(folder / f"metrics/runs/{name}.json")
        judged = params.gate.judged[params.all_runs[name].task].figure
        shown = f"{found[judged]:.4f} ({found[f'{judged}.low']:.4f} to {found[f'{judged}.high']:.4f})"
        linked = f"[{name}]({links[name]})" if name in links else name
        rows.append(f"| {linked} | {judged} | {shown} |")
    create_markdown_artifact(
        key="figures", markdown="| run | figure on the test split | value (95 %) |\n|---|---|---|\n" + "\n".join(rows),
        description="Figures of all runs",
    )  # fmt: skip
    for sheet in sorted((folder / "reports/figures").glob("label_ranking-*-examples.png"))[-1:]:
        picture = base64.b64encode(sheet.read_bytes()).decode()
        create_image_artifact(key="examples", image_url=f"data:image/png;base64,{picture}", description=sheet.stem)


@flow(
    name="retrain", flow_run_name="retrain: {reason}", task_runner=ThreadPoolTaskRunner(max_workers=MOST_STAGES),
    validate_parameters=True,
)  # fmt: skip
def retrain(
    reason: str = "by hand",
    advance: bool = True,
    workers: Annotated[int, Field(ge=1)] | None = None,
    gate: bool = True,
    push: str | None = None,
    project: str = ".",
) -> State:
    """Retrains everything that the data, the params or the code of the present commit have changed.

    In a worktree with a branch `retrain/<date>` of its own, to which params and `dvc.lock` are committed: main and its
    checkout stay as they are. What a killed retraining left is gone on with. One at a time for each checkout.

    Args:
        reason: why; it stands in the run's name and in the commit.
        advance: take the next snapshot of the data; else only what has changed is trained.
        workers: stages that run at once; by default as many as there are GPUs, or cores for `compute.threads` each.
        gate: let the gate promote what is better.
        push: a git remote that gets the branch, after DVC's default remote has got data and models; None for neither.
        project: the checkout.

    Returns:
        Completed, with what was promoted; Failed if a model could not be judged, which takes nothing from the rest.
    """
    logger = get_run_logger()
    if load(Path(project) / "params.yaml").digits.source != "bundled":
        # As `make repro` does; the worktree is handed what is there.
        Commands().run(FETCH, folder=Path(project), environment={"PYTHONPATH": "src"})
    with opened(project, advance=advance, remote=push) as worktree:
        logger.info(
            "%s %s, snapshot %d", "goes on with" if worktree.resumed else "works on", worktree.branch, worktree.snapshot
        )
        commands = Commands()
        try:
            return _retrained(worktree, commands, reason=reason, workers=workers, gate=gate, push=push)
        except BaseException:  # a cancelled run too: nothing may outlive it
            commands.stop()
            raise


def _refuse_other_digits(folder: Path, params: Settings) -> None:
    """Refuses to train everything anew on bundled digits only because MNIST, which the champions saw, is not here."""
    raw = folder / "data/raw/mnist"
    if params.digits.source != "auto" or mnist.is_there(raw):
        return
    entry = dvc_lock.stages(folder / "dvc.lock").get("digits", {})
    before = next((dep.get("nfiles", 0) for dep in entry.get("deps", ()) if dep["path"] == "data/raw/mnist"), 0)
    here = sum(path.is_file() for path in raw.rglob("*"))
    if before > here:
        raise ValueError(
            f"data/raw/mnist has {here} files, and what dvc.lock tells of was made with {before}, so with MNIST: all "
            "would be trained anew on other digits. Bring it: RANKOPS_MNIST_ROOT=<folder of its files> rankops fetch; "
            "or, if that is meant, commit `digits.source: bundled` in params.yaml"
        )


def _of_project(address: str, project: Path) -> str:
    """An MLflow store's address from any folder: what it says of a file is of the project's.

    >>> _of_project("sqlite:///mlflow.db", Path("/project")), _of_project("sqlite:////other.db", Path("/project"))
    ('sqlite:////project/mlflow.db', 'sqlite:////other.db')
    """
    return re.sub(r"^(sqlite:///)(?!/)(\./)?", rf"\g<1>{project}/", address)


def _retrained(
    worktree: Worktree, commands: Commands, *, reason: str, workers: int | None, gate: bool, push: str | None
) -> State:
    folder, logger = worktree.folder, get_run_logger()
    environment = {
        "PYTHONPATH": "src",  # the worktree's own
        # Not the worktree's own: it is removed.
        "MLFLOW_TRACKING_URI": _of_project(os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE, worktree.project),
    }
    os.environ["MLFLOW_TRACKING_URI"] = environment["MLFLOW_TRACKING_URI"]
    params = load(folder / "params.yaml")
    commands.run(MEND, folder=folder, environment=environment)
    _refuse_other_digits(folder, params)
    if push is not None:
        _fetch(commands, folder, environment)
    slots: queue.Queue = queue.Queue()
    for slot in _slots(workers, params.compute):
        slots.put(slot)
    futures = {}
    for stage, needs in stages(folder).items():
        futures[stage] = run_stage.submit(
            stage, folder, commands, slots, environment, wait_for=[futures[need] for need in needs]
        )
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(params, folder / ".checkpoints", ended), daemon=True)
    watching.start()
    failed = []
    for stage, future in futures.items():
        future.wait()
        if future.state.is_failed() or future.state.is_crashed():
            failed.append(f"{stage}: {future.state.message}")
    ended.set()
    watching.join(timeout=60)
    if failed:
        raise CommandFailed("these stages failed; what is done is kept for the next retraining:\n" + "\n".join(failed))
    again = commands.run(REPRO, folder=folder, environment=environment)
    if "Running stage" in again:
        logger.warning("the closing `dvc repro` found something to do, which no task had done")
    publish(folder, commands, environment)
    decisions = judge(params, folder) if gate else []
    show(decisions)
    _shown(params, folder)
    commit = worktree.commit(f"Retrain: snapshot {worktree.snapshot} ({reason})")
    if push is not None and worktree.is_new():
        worktree.share(push, commands, environment)
        logger.info("pushed %s to %s, data and models to DVC's remote", worktree.branch, push)
    worktree.remove()
    return outcome(decisions, f"{worktree.branch} at {commit[:10]}")
