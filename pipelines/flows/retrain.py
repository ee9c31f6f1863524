"""The flow that retrains in a clone, with one task per DVC stage, then publishes and lets the gate decide."""

import json
from pathlib import Path
from typing import Annotated

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.logging import get_run_logger
from prefect.states import State
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.config import Settings
from pipelines.flows import retraining
from pipelines.flows.changes import Change
from pipelines.flows.promote import judge, outcome, show
from pipelines.flows.retraining import Request, retrain_in_clone
from pipelines.flows.run_stages import run_stages
from pipelines.flows.tasks import retried
from pipelines.ops.processes import Commands
from pipelines.reporting.results import cell, markdown
from pipelines.tracking.gate import Decision
from pipelines.tracking.upload import page, sent_runs
from rankgrad.io import results

__all__ = ["retrain"]

MOST_STAGES = 64  # that may run in parallel
# A line for the commit message: git does not accept NUL characters or words of many kilobytes.
Reason = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]


publish = retried(retraining.publish, task_run_name="publish")


@flow(  # ty: ignore[no-matching-overload]
    name="retrain",
    flow_run_name="retrain: {reason}",
    task_runner=ThreadPoolTaskRunner(max_workers=MOST_STAGES),
)
def retrain(
    reason: Reason = "by hand",
    advance: bool = True,
    only: Annotated[list[str], Field(min_length=1)] | None = None,
    set: list[Change] | None = None,
    push: str | None = None,
) -> State:
    """Retrain everything that changed with the data, the params, or the code of this folder's current commit.

    Work happens in a clone, so the project's checkout does not change; params and `dvc.lock` become a branch
    `retrain/<time>`. After a killed retraining, finished stages come from DVC's run cache, and checkpoints are resumed.
    Only one retraining runs at a time.

    Stages run in parallel: on the CPU, as many as the cores allow with `compute.threads` each; if there are GPUs,
    trainings and evaluations run on them, one per GPU.

    Args:
        reason: reason, for the run's name and the commit.
        advance: use the next snapshot of the data.
        only: runs in params.yaml to train, publish, and put to the gate, such as label_ranking-rlsep; None for all.
        set: changed settings for this retraining, such as runs.label_ranking-rlsep.loss.args.pairs=10.
        push: a git remote to push the branch to, after pushing data and models to DVC's default remote; None to push
            nothing.

    Returns:
        Completed, or Promoted (a form of Completed), with the new champions; Failed if the gate could not compare a
        model, which does not affect the other models.
    """
    commands = Commands(lambda line: get_run_logger().info(line))
    request = Request(reason, advance, only or [], set or [], push or None)  # empty if `make deploy` did not set it

    def train(folder: Path, params: Settings) -> None:
        run_stages(folder, params, commands, request.targets)
        if request.only:
            publish(folder, commands, request.only)

    def judged(models: list[str] | None, params: Settings, *, folder: Path) -> list[Decision]:
        decisions = judge(models, params, folder)
        show(decisions)
        _show_results(folder, params)
        return decisions

    decisions, branch = retrain_in_clone(Path.cwd(), request, commands, train=train, judge=judged)
    return outcome(decisions, branch)


def _show_results(folder: Path, params: Settings) -> None:
    """Show the results with links to MLflow on the run's page."""
    sent = sent_runs(json.loads((folder / "reports/published.json").read_text()))
    measured, rows = results.read(folder / "metrics/runs"), []
    for name in measured.runs:
        run_options = params.runs[name]
        title, data = name, run_options.dataset
        metric = params.judged_of(run_options.task, data).metric
        if run := sent.get(name):
            title = f"[{name}]({page(run)})"
            data = f"[{data}]({page(run, f'data/{data}.html')})"  # the page of the data's expectations
        rows.append([title, metric, cell(*measured.row(name, metric).interval, digits=4), data])
    table_of_results = markdown(["run", "metric on the test split", "mean over seeds (95%)", "data"], rows)
    create_markdown_artifact(key="results", markdown=table_of_results, description="Results of all runs")
