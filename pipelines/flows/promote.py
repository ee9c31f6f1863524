"""The flow that promotes: the gate, with its decisions on the run's page."""

from pathlib import Path

import torch
from dvc.config import Config
from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed, State

from pipelines.config.schema import Settings, load
from pipelines.flows.processes import CommandFailed, Commands, TransientFailure, retried
from pipelines.tracking.gate import Decision, decide_all, known
from pipelines.tracking.publish import CredentialsRefused, Registry, ServerUnreachable, store

__all__ = ["NOT_JUDGED", "judge", "outcome", "promote", "show"]

NOT_JUDGED = "NotJudged"  # the state of a run that came to its end, but for models that could not be judged


@retried
def judge(params: Settings, folder: Path, models: list[str] | None = None, over_person: bool = False) -> list[Decision]:
    """The gate's decisions.

    Args:
        params: with the gate's block.
        folder: the checkout whose data the models are judged on.
        models: registered names; None for every one that the params have.
        over_person: see `pipelines.tracking.gate.decide`.

    Raises:
        TransientFailure: MLflow's store failed.
        CredentialsRefused: see `pipelines.tracking.publish.store`.
    """
    torch.set_num_threads(params.compute.threads)
    try:
        with store() as client:
            decisions = decide_all(
                Registry(client), models or known(params), params, folder=folder, over_person=over_person
            )
    except CredentialsRefused:
        raise
    except ServerUnreachable as error:
        raise TransientFailure(str(error)) from error
    for one in decisions:
        log = get_run_logger().error if one.failed else get_run_logger().info
        log("%s: %s; %s", one.model, "promoted" if one.promoted else "stays", one.reason)
    return decisions


def outcome(decisions: list[Decision], *done: str) -> State:
    """Completed, with what was done and the versions that became champion; Failed if a model could not be judged."""
    champions = ", ".join(f"{one.model} {one.challenger}" for one in decisions if one.promoted)
    said = "; ".join([*done, f"promoted: {champions or 'none'}"])
    if failed := [one.model for one in decisions if one.failed]:
        return Failed(name=NOT_JUDGED, message=f"{said}; not judged: {', '.join(failed)}")
    return Completed(message=said)


def show(decisions: list[Decision]) -> None:
    """A table of decisions on the page of the flow run that calls this (of what a task makes, that shows nothing)."""
    table = [
        {
            "model": one.model,
            "challenger": one.challenger,
            "champion before": one.champion,
            "promoted": one.promoted,
            "why": one.reason,
        }
        for one in decisions
    ]
    create_table_artifact(key="gate", table=table, description="What the gate decided")


def _bring(params: Settings, folder: Path) -> None:
    """Brings datasets that the checkout lacks out of DVC's cache or default remote: retrainings make them elsewhere."""
    datasets = sorted({run.dataset for run in params.all_runs.values()})
    missing = [f"data/{name}" for name in datasets if not (folder / "data" / name).is_dir()]
    if not missing:
        return
    bring = "pull" if Config(str(folder / ".dvc")).get("core", {}).get("remote") else "checkout"
    try:
        Commands().run(["dvc", bring, *missing], folder=folder)
    except CommandFailed as error:  # sorters need none, and of what does, the gate says which files are not there
        get_run_logger().warning("%s", error)


@flow(name="promote", validate_parameters=True)
def promote(models: list[str] | None = None, over_person: bool = False, project: str = ".") -> State:
    """Lets the gate decide whether challengers become champions, as `rankops promote` does.

    Args:
        models: registered names; None for all of the params.
        over_person: replace champions that a person set.
        project: the checkout whose data they are judged on.

    Returns:
        Completed, with what was promoted; Failed if a model could not be judged.
    """
    folder = Path(project)
    params = load(folder / "params.yaml")
    _bring(params, folder)
    decisions = judge(params, folder, models, over_person)
    show(decisions)
    return outcome(decisions)
