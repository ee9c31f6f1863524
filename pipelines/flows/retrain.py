"""The flow that retrains: a task for each stage of DVC's graph, in a clone; then published and judged by the gate."""

import base64
import json
import os
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import torch
from prefect import flow
from prefect.artifacts import create_image_artifact, create_markdown_artifact
from prefect.futures import PrefectFuture, as_completed
from prefect.logging import get_run_logger
from prefect.runtime import task_run
from prefect.states import State
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.config import Settings, load
from pipelines.flows.checkout import commit, fresh_checkout, is_new, share
from pipelines.flows.graph import LAST, stages
from pipelines.flows.processes import CommandFailed, Commands, retried
from pipelines.flows.promote import judge, outcome, show
from pipelines.ops.git import git
from pipelines.reporting.results import markdown, read_runs
from pipelines.tracking.live import watch
from pipelines.tracking.publish import addresses
from pipelines.tracking.store import address_of_store

__all__ = ["retrain"]

REPRO = ("dvc", "--wait-for-lock", "repro")
MOST_STAGES = 64  # that may run at once
# A line, which goes into the commit in the end: git takes none with a NUL, and no word of many kilobytes.
Reason = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _slots(workers: int | None, params: Settings) -> list[dict[str, str]]:
    """Return what each of the stages that run at once gets: one of the GPUs, or a share of the cores."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.cuda.device_count()))))
    gpus = [name for name in names.split(",") if name] if params.compute.device != "cpu" else []
    count = workers or len(gpus) or max(1, (os.cpu_count() or 1) // params.compute.threads)
    return [{"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {} for number in range(count)]


@retried(task_run_name="{stage}")
def run_stage(stage: str, folder: Path, commands: Commands, slot: dict[str, str]) -> None:
    """Have DVC run a stage, if there is anything to do, on a slot of its own."""
    if task_run.run_count > 1:  # a killed dvc may have left half-written files
        commands.run(sys.executable, "-m", "pipelines.ops.dvc_repair", folder=folder)
    commands.run(*REPRO, "--single-item", stage, folder=folder, **slot)


@retried
def publish(folder: Path, commands: Commands) -> None:
    """Send what MLflow lacks, even if the stage had nothing to do: MLflow's state is not DVC's to know."""
    commands.run(sys.executable, "-m", "pipelines.stages", "publish", folder=folder)


@flow(  # ty: ignore[no-matching-overload]
    name="retrain",
    flow_run_name="retrain: {reason}",
    task_runner=ThreadPoolTaskRunner(max_workers=MOST_STAGES),
)
def retrain(
    reason: Reason = "by hand",
    advance: bool = True,
    workers: Annotated[int, Field(ge=1, le=MOST_STAGES)] | None = None,
    gate: bool = True,
    push: str | None = None,
) -> State:
    """Retrain what the data, the params or the code of the present commit of this folder have changed.

    In a clone, whose params and `dvc.lock` become a branch `retrain/<time>`: the project's checkout stays as it is.
    What a killed retraining finished is in DVC's run cache, and its checkpoints are resumed. One at a time.

    Args:
        reason: why, for the run's name and the commit.
        advance: take the next snapshot of the data.
        workers: stages that run at once; by default as many as GPUs, or cores for `compute.threads` each.
        gate: let the gate promote what is better.
        push: a git remote that gets the branch, after DVC's default remote has got data and models; None for neither.

    Returns:
        Completed, or Promoted, which is a kind of it, with what was promoted; Failed if a model could not be judged,
        which takes nothing from the others.
    """
    root, commands = Path.cwd(), Commands()
    # For all commands: the code of the folder that they run in, and the project's store, as the clone is removed.
    os.environ |= {"PYTHONPATH": "src", "MLFLOW_TRACKING_URI": address_of_store()}
    if changed := git(root, "status", "--porcelain", "--untracked-files=no"):
        get_run_logger().warning("not committed, so no part of this retraining:\n%s", changed)
    try:
        commands.run("rankops", "fetch", folder=root)
        with fresh_checkout(root, advance=advance, remote=push) as (folder, snapshot):
            params = load(folder / "params.yaml")
            if push is not None:
                with suppress(CommandFailed):  # what DVC's remote lacks is made again
                    commands.run("dvc", "fetch", "--run-cache", folder=folder)
            _run_stages(folder, params, commands, workers)
            publish(folder, commands)
            decisions = judge(params, folder) if gate else []
            show(decisions)
            _show_results(folder, params)
            commit(folder, f"Retrain: snapshot {snapshot} ({reason})")
            branch = "nothing new"
            if is_new(root, folder):
                if push is not None:  # first: a branch whose data nobody has helps nobody
                    commands.run("dvc", "push", "--run-cache", folder=folder)
                branch = share(root, folder, remote=push)
            return outcome(decisions, branch)
    except BaseException:  # a cancelled run too: nothing may outlive it
        commands.stop()
        raise


def _run_stages(folder: Path, params: Settings, commands: Commands, workers: int | None) -> None:
    """Run each stage as soon as those that it needs are done and a slot is free, with epochs shown in MLflow."""
    free, waiting = _slots(workers, params), stages(folder)
    futures: dict[str, PrefectFuture] = {}
    at_work: dict[PrefectFuture, tuple[str, dict[str, str]]] = {}
    done: set[str] = set()
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(params, folder / ".checkpoints", ended), daemon=True)
    watching.start()
    while True:
        # A stage that waits for a slot is no task yet: the page shows what a task takes.
        for stage in [stage for stage, needs in waiting.items() if done.issuperset(needs)][: len(free)]:
            slot, needs = free.pop(), [futures[need] for need in waiting.pop(stage)]
            futures[stage] = run_stage.submit(stage, folder, commands, slot, wait_for=needs)
            at_work[futures[stage]] = stage, slot
        if not at_work:
            break
        future = next(as_completed([*at_work]))
        future.wait()  # until then its state may be an earlier one
        stage, slot = at_work.pop(future)
        free.append(slot)
        if future.state.is_completed():
            done.add(stage)
    ended.set()
    watching.join(timeout=60)
    states = {stage: future.state for stage, future in futures.items()}
    failed = [f"{stage}: {state.message}" for stage, state in states.items() if state.is_failed() or state.is_crashed()]
    if failed:
        raise CommandFailed("stages failed; the next retraining keeps what is done:\n" + "\n".join(failed))
    commands.run(*REPRO, LAST, folder=folder)  # a no-op, unless a task missed something


def _show_results(folder: Path, params: Settings) -> None:
    """Show the results with links to MLflow, and each label ranker's sheet of examples, on the run's page."""
    links = addresses(json.loads((folder / "reports/published.json").read_text()))
    table = read_runs(folder / "metrics/runs")
    rows = []
    for row in table[table["seed"].isna()].itertuples():
        if row.metric == params.gate.judged[params.runs[row.run].task].metric:
            name = f"[{row.run}]({links[row.run]})" if row.run in links else row.run
            data = params.runs[row.run].dataset
            if row.run in links:  # the page of what was expected of the data, and found
                data = f"[{data}]({links[row.run]}/artifactPath/data/{data}.html)"
            rows.append([name, row.metric, f"{row.value:.4f} ({row.low:.4f} to {row.high:.4f})", data])
    shown = markdown(["run", "metric on the test split", "mean over seeds (95 %)", "data"], rows)
    create_markdown_artifact(key="results", markdown=shown, description="Results of all runs")
    for sheet in sorted((folder / "reports/figures").glob("*-examples.png")):
        picture, key = base64.b64encode(sheet.read_bytes()).decode(), re.sub("[^a-z0-9]+", "-", sheet.stem.lower())
        create_image_artifact(key=key, image_url=f"data:image/png;base64,{picture}", description=sheet.stem)
