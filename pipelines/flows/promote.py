"""The gate as a step of a flow, with its decisions on the run's page."""

from pathlib import Path

import torch
from prefect.artifacts import create_markdown_artifact
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed, State

from pipelines.config import Settings
from pipelines.flows.tasks import retried
from pipelines.ops.messages import as_markdown
from pipelines.ops.processes import TransientFailure
from pipelines.reporting.results import markdown
from pipelines.tracking.gate import Decision, decide_all
from pipelines.tracking.store import ServerUnreachable

__all__ = ["NOT_JUDGED", "PROMOTED", "judge", "outcome", "show"]

# States of runs, used by alerts: the gate could not compare some models; there is a new champion.
NOT_JUDGED, PROMOTED = "NotJudged", "Promoted"


@retried(task_run_name="gate")
def judge(models: list[str] | None, params: Settings, folder: Path) -> list[Decision]:
    """Return the gate's decisions, see `pipelines.tracking.gate.decide_all`.

    Raises:
        TransientFailure: MLflow's store failed.
        CredentialsRefused: MLflow's store rejected the credentials.
    """
    torch.set_num_threads(params.compute.threads)
    try:
        decisions = decide_all(models, params, folder=folder)
    except ServerUnreachable as error:
        raise TransientFailure(str(error)) from error
    for decision in decisions:
        log = get_run_logger().error if decision.failed else get_run_logger().info
        log("%s: %s; %s", decision.model, decision.state, decision.reason)
    return decisions


def outcome(decisions: list[Decision], *done: str) -> State:
    """Return Completed (named Promoted if there are new champions) with a message, or the failure NotJudged."""
    champions = ", ".join(f"{decision.model} {decision.challenger}" for decision in decisions if decision.promoted)
    message = "; ".join([*done, f"promoted: {champions or 'none'}"])
    if failed := [decision.model for decision in decisions if decision.failed]:
        return Failed(name=NOT_JUDGED, message=f"{message}; not judged: {', '.join(failed)}")
    return Completed(name=PROMOTED if champions else None, message=message)


def show(decisions: list[Decision]) -> None:
    """Show decisions as a table on the page of the calling flow run (it shows nothing if called from a task)."""
    columns = [
        "model",
        "challenger",
        "champion",
        "promoted",
        "reason",
    ]  # in Markdown, because tables truncate long cells
    rows = []
    for decision in decisions:
        rows.append([as_markdown(str(getattr(decision, name))) for name in columns])
    create_markdown_artifact(key="gate", markdown=markdown(columns, rows), description="What the gate decided")
