"""Brings a Prefect server to what `prefect.yaml` says: pools, deployments with their schedules, and the automation."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.states import StateType

from pipelines.errors import in_a_line, without_credentials

__all__ = ["deploy"]

POOLS = ("cpu", "gpu")
ZOMBIES = "flow runs without a heartbeat have crashed"
HEARTBEAT = 30  # seconds; the worker's flows send one so often


def _pools(client: SyncPrefectClient) -> None:
    for name in POOLS:
        try:
            client.read_work_pool(name)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=name, type="process"))


def _automation() -> None:
    """A flow run whose process and worker were killed says so within minutes, instead of running for ever."""
    trigger = EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", "prefect.flow-run.Completed", "prefect.flow-run.Failed",
                "prefect.flow-run.Cancelled", "prefect.flow-run.Crashed"},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=3 * HEARTBEAT),
    )  # fmt: skip
    action = ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat: its process was killed.")
    automation = Automation(name=ZOMBIES, trigger=trigger, actions=[action])
    try:
        automation.id = Automation.read(name=ZOMBIES).id
    except ValueError:
        automation.create()
    else:
        automation.update()


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
    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
            _pools(client)
        _automation()
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise ConnectionError(
            f"the Prefect server {shown} refuses ({in_a_line(error)}); `make server` starts one"
        ) from error
    done = subprocess.run(
        [str(Path(sys.executable).parent / "prefect"), "--no-prompt", "deploy", "--all"],
        capture_output=True, text=True, check=False, env={**os.environ, "RANKOPS_PROJECT": str(Path.cwd())},
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"prefect.yaml: {(done.stdout + done.stderr).strip()}")
    with get_client(sync_client=True) as client:
        names = sorted(f"{deployment.name}" for deployment in client.read_deployments())
    return f"{shown} has the pools {', '.join(POOLS)} and the deployments {', '.join(names)}"
