"""Brings a Prefect server to what `prefect.yaml` says: pools, deployments with their schedules, and the automation."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import httpx
from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.states import StateType
from ruamel.yaml import YAML

from pipelines.ops.messages import in_a_line, without_credentials

__all__ = ["deploy"]

FILE = "prefect.yaml"
POOLS = ("cpu", "gpu")
PROJECT = "RANKOPS_PROJECT"  # where a worker has its checkout
NIGHTLY = "0 3 * * *"  # where RANKOPS_NIGHTLY is not set
ZOMBIES = "flow runs without a heartbeat have crashed"
HEARTBEAT = 30  # seconds; the worker's flows send one so often


def _pools(client: SyncPrefectClient) -> None:
    for name in POOLS:
        try:
            client.read_work_pool(name)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=name, type="process"))


def _ours(client: SyncPrefectClient) -> list[DeploymentResponse]:
    """The deployments that `prefect.yaml` has; a team's server may have others, of the same name too."""
    declared = {(one["name"], one["entrypoint"]) for one in YAML(typ="safe").load(Path(FILE))["deployments"]}
    named = DeploymentFilter(name=DeploymentFilterName(any_=[name for name, _ in declared]))
    found = client.read_deployments(deployment_filter=named)
    return sorted((one for one in found if (one.name, one.entrypoint) in declared), key=lambda one: one.name)


def _trigger(deployments: list[UUID]) -> EventTrigger:
    """Fires where a run of these deployments, and of no others, has not been heard of for three heartbeats."""
    return EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", "prefect.flow-run.Completed", "prefect.flow-run.Failed",
                "prefect.flow-run.Cancelled", "prefect.flow-run.Crashed"},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        # Other runs, a person's or another team's, send theirs less often.
        match_related={
            "prefect.resource.role": "deployment",
            "prefect.resource.id": [f"prefect.deployment.{deployment}" for deployment in deployments],
        },
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=3 * HEARTBEAT),
    )  # fmt: skip


def _automation(deployments: list[UUID]) -> None:
    """A flow run whose process and worker were killed says so within minutes, instead of running for ever."""
    action = ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat: its process was killed.")
    automation = Automation(name=ZOMBIES, trigger=_trigger(deployments), actions=[action])
    try:
        automation.id = Automation.read(name=ZOMBIES).id
    except ValueError:
        automation.create()
    else:
        automation.update()


def _environment() -> dict[str, str]:
    """What the deployments are made with: without RANKOPS_PROJECT, which each worker has for itself."""
    return {"RANKOPS_NIGHTLY": NIGHTLY} | {name: value for name, value in os.environ.items() if name != PROJECT}


@contextmanager
def _told(address: str) -> Iterator[None]:
    """What goes wrong with the server, as an error of one line."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise ConnectionError(
            f"the Prefect server {address} refuses ({in_a_line(error)}); `make server` starts one"
        ) from error


def deploy() -> str:
    """Makes what is missing and updates what is there; returns what to tell.

    Raises:
        ConnectionError: there is no server, or it refuses.
        ValueError: `prefect.yaml` is refused.
    """
    address = os.environ.get("PREFECT_API_URL")
    if not address:
        raise ConnectionError("PREFECT_API_URL is not set: `make deploy` sets it for the server of `make server`")
    shown = without_credentials(address)
    with _told(shown), get_client(sync_client=True) as client:
        client.raise_for_api_version_mismatch()
        _pools(client)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "prefect"), "--no-prompt", "deploy", "--all"],
        capture_output=True, text=True, check=False, env=_environment(),
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"{FILE}: {(done.stdout + done.stderr).strip()}")
    with _told(shown), get_client(sync_client=True) as client:
        deployments = _ours(client)
        _automation([one.id for one in deployments])
    names = ", ".join(one.name for one in deployments)
    return f"{shown} has the pools {', '.join(POOLS)} and the deployments {names}"
