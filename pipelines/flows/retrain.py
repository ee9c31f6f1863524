"""The flow that retrains: a task for each stage of DVC's graph, in a clone; then published and judged by the gate."""

import base64
import json
import re
from pathlib import Path
from typing import Annotated

from prefect import flow
from prefect.artifacts import create_image_artifact, create_markdown_artifact
from prefect.logging import get_run_logger
from prefect.states import State
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.config import Settings
from pipelines.flows import retraining
from pipelines.flows.changes import Change
from pipelines.flows.processes import Commands
from pipelines.flows.promote import judge, outcome, show
from pipelines.flows.retraining import Request, retrain_in_clone
from pipelines.flows.run_stages import Took, run_stages
from pipelines.flows.tasks import retried
from pipelines.reporting.results import cell, markdown
from pipelines.tracking.gate import Decision
from pipelines.tracking.upload import page, sent_runs
from rankgrad.io import results

__all__ = ["retrain"]

MOST_STAGES = 64  # that may run at once
# A line, which goes into the commit in the end: git takes none with a NUL, and no word of many kilobytes.
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
    """Retrain what the data, the params or the code of the present commit of this folder have changed.

    In a clone, whose params and `dvc.lock` become a branch `retrain/<time>`: the project's checkout stays as it is.
    The results of a killed retraining are in DVC's run cache, and its checkpoints are resumed. One at a time.

    Stages run side by side: on the CPU as many as there are cores for `compute.threads` each; if there are GPUs,
    trainings and evaluations run on these, one on each.

    Args:
        reason: why, for the run's name and the commit.
        advance: take the next snapshot of the data.
        only: runs of params.yaml to train, publish and judge, such as label_ranking-rlsep; None for all.
        set: changed params of this retraining only, such as runs.label_ranking-rlsep.loss.args.pairs=10.
        push: a git remote that gets the branch, after DVC's default remote has got data and models; None for neither.

    Returns:
        Completed, or Promoted, which is a kind of it, with what was promoted; Failed if a model could not be judged,
        which takes nothing from the others.
    """
    commands = Commands(lambda line: get_run_logger().info(line))
    request = Request(reason, advance, only or [], set or [], push or None)  # empty if `make deploy` was given none
    took: dict[str, Took] = {}

    def train(folder: Path, params: Settings) -> None:
        took.update(run_stages(folder, params, commands, request.targets))
        if request.only:
            publish(folder, commands, request.only)

    def judged(folder: Path, params: Settings, models: list[str] | None) -> list[Decision]:
        decisions = judge(params, folder, models)
        show(decisions)
        _show_results(folder, params, took)
        return decisions

    decisions, branch = retrain_in_clone(Path.cwd(), request, commands, train=train, judge=judged)
    return outcome(decisions, branch)


def _show_results(folder: Path, params: Settings, took: dict[str, Took]) -> None:
    """Show the results with links to MLflow, and examples of what was trained, on the run's page."""
    sent = sent_runs(json.loads((folder / "reports/published.json").read_text()))
    measured, rows = results.read(folder / "metrics/runs"), []
    for name in measured.runs:
        run_options = params.runs[name]
        metric, title, data = params.gate.judged[run_options.task].metric, name, run_options.dataset
        if run := sent.get(name):
            title = f"[{name}]({page(run)})"
            data = f"[{data}]({page(run, f'data/{data}.html')})"  # what was expected of the data, and found
        rows.append([title, metric, cell(*measured.row(name, metric).interval, digits=4), data])
    table_of_results = markdown(["run", "metric on the test split", "mean over seeds (95%)", "data"], rows)
    create_markdown_artifact(key="results", markdown=table_of_results, description="Results of all runs")
    changed = {stage for stage, cost in took.items() if cost.how != "unchanged"}
    sheets = [folder / f"reports/figures/{name}-examples.png" for name in params.runs if f"evaluate@{name}" in changed]
    for sheet in filter(Path.is_file, sheets):
        picture, key = base64.b64encode(sheet.read_bytes()).decode(), re.sub("[^a-z0-9]+", "-", sheet.stem.lower())
        create_image_artifact(key=key, image_url=f"data:image/png;base64,{picture}", description=sheet.stem)
