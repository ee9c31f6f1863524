"""Create what a team's servers need before the first run: S3 buckets, an MLflow user for the workers, and alerts.

    python deploy/prepare.py buckets mlflow dvc     # AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
    python deploy/prepare.py user worker            # MLFLOW_TRACKING_URI, _USERNAME, _PASSWORD (an administrator's),
                                                    # and the new user's password in MLFLOW_NEW_PASSWORD
    python deploy/prepare.py pool                   # PREFECT_API_URL
    python deploy/prepare.py alerts                 # PREFECT_API_URL, and a webhook in RANKGRAD_ALERTS_URL

Existing items do not change, except alerts, which are created again. So all commands can run at every start.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]  # this file is run by its path, also in images

from rankgrad.io.addresses import without_credentials  # noqa: E402
from rankgrad.io.written import printable  # noqa: E402

ALERTS = "rankgrad: alerts"
# Final states of a run that cause an alert: three of Prefect's, and those of pipelines/flows.
STATES = ("Failed", "Crashed", "Cancelled", "NotJudged", "Drifted", "Promoted")
ONCE = timedelta(minutes=5)  # a run may be marked Crashed by both its worker and the automation for missed heartbeats
# The JSON that Slack, Mattermost, and Teams accept. < and > are escaped, or a column called <!channel> would notify
# everybody. Flow and deployment are included, since a run that never started only has a random name.
PAYLOAD = """{"text": {{ (
    flow_run.name ~ " (" ~ flow.name ~ "/" ~ deployment.name ~ "): " ~ flow_run.state.name ~ "\\n"
    ~ (flow_run.state.message or "") ~ "\\n"
    ~ (flow_run | ui_url or "")
) | trim | replace("&", "&amp;") | replace("<", "&lt;") | replace(">", "&gt;") | tojson }}}"""

PATIENCE = 60  # seconds
PORTS = f" {os.environ.get('RANKGRAD_PORTS', '')}".rstrip()  # the ports given to `make deploy`, for commands to suggest

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _end(message: str) -> NoReturn:
    """Exit with a message on one line, without passwords in addresses and without unprintable characters."""
    message = printable(" ".join(message.split()))
    sys.exit(without_credentials(message))


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        _end(f"{name} is not set; see .env.example")
    return value


@contextmanager
def _prefect() -> Generator[None]:
    """Exit with a message if the Prefect server is not configured, does not answer, or refuses."""
    import httpx
    from prefect.exceptions import PrefectException

    address = _setting("PREFECT_API_URL")  # without it, Prefect would start a server that ends with this process
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, PrefectException, RuntimeError) as error:
        # The message of InvalidURL may contain part of a password.
        reason = type(error).__name__ if isinstance(error, httpx.InvalidURL) else error
        _end(f"the request to the Prefect server {address} failed: {reason}")


@app.command()
def buckets(names: Annotated[list[str], typer.Argument(help="buckets to create if they are missing")]) -> None:
    """Create S3 buckets."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    endpoint = _setting("AWS_ENDPOINT_URL_S3")
    quick = Config(connect_timeout=5, retries={"max_attempts": 5, "mode": "standard"})
    try:
        client = boto3.client("s3", config=quick)
        present = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
        for name in names:
            if name not in present:
                client.create_bucket(Bucket=name)
            typer.echo(f"bucket {name}: {'exists' if name in present else 'created'}")
    except (BotoCoreError, ClientError, ValueError) as error:  # ValueError: the address is invalid
        _end(f"the request to the S3 store {endpoint} failed: {error}")


@app.command()
def user(name: Annotated[str, typer.Argument(help="name of the new MLflow user, who is not an administrator")]) -> None:
    """Create an MLflow user, who may change the runs and models that they publish."""
    import requests

    address = _setting("MLFLOW_TRACKING_URI").rstrip("/")
    administrator = (_setting("MLFLOW_TRACKING_USERNAME"), _setting("MLFLOW_TRACKING_PASSWORD"))
    new = {"username": name, "password": _setting("MLFLOW_NEW_PASSWORD")}
    try:
        secrets = tuple(secret.encode() for secret in administrator)  # as text, requests would accept only Latin-1
        # Follow no redirects: they would turn the POST into a GET, which creates no user.
        answer = requests.post(
            f"{address}/api/2.0/mlflow/users/create", json=new, auth=secrets, timeout=20, allow_redirects=False
        )
    except requests.RequestException as error:
        _end(f"MLflow at {address} does not answer: {type(error).__name__}")
    if answer.status_code == 401:
        _end(f"MLflow at {address} refuses the administrator: check MLFLOW_TRACKING_USERNAME and _PASSWORD")
    if not answer.ok and "RESOURCE_ALREADY_EXISTS" in answer.text:
        typer.echo(f"user {name}: exists; the password was not changed")
        return
    if not _is_user(answer, name):
        _end(f"MLflow at {address} did not create the user {name}: {answer.status_code} {answer.text[:300]}")
    typer.echo(f"user {name}: created")


def _is_user(answer: Any, name: str) -> bool:
    """Return whether MLflow confirmed the new user; the answer could also be a proxy's login page."""
    try:
        return bool(answer.ok and answer.json()["user"]["username"] == name)
    except (ValueError, KeyError, TypeError):
        return False


@app.command()
def pool() -> None:
    """Print the work pool that a worker polls; wait up to a minute for a worker that has just started."""
    from prefect import get_client

    ready: list[str] = []
    with _prefect(), get_client(sync_client=True) as client:
        for look in range(PATIENCE):
            if ready := [work_pool.name for work_pool in client.read_work_pools() if work_pool.status == "READY"]:
                break
            if look == 0:
                typer.echo("no worker polls a work pool; waiting for one", err=True)
            time.sleep(1)
    if not ready:
        _end(
            f"no worker polls a work pool. Start a worker: make up{PORTS}. Or name the pool that one will poll: "
            f"make deploy POOL=gpu{PORTS}"
        )
    if len(ready) > 1:
        _end(f"workers poll the work pools {', '.join(ready)}. Name one: make deploy POOL={ready[0]}{PORTS}")
    typer.echo(ready[0])


def webhook(address: str) -> Any:
    """Return the block that sends alerts; unlike notification blocks, it hides its address in errors and logs.

    The address is a secret: whoever knows it can post there.
    """
    from prefect.blocks.webhook import Webhook

    return Webhook.model_validate({"url": address, "headers": {"Content-Type": "application/json"}})


@app.command()
def alerts() -> None:
    """Have Prefect send failures, drift, promotions, and models that could not be judged to a webhook."""
    import requests
    from prefect.automations import Automation
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    address = _setting("RANKGRAD_ALERTS_URL")
    with _prefect():
        block = webhook(address).save("rankgrad-alerts", overwrite=True)
        tag = {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.rankgrad"}
        automation = Automation(
            name=ALERTS,
            trigger=EventTrigger(
                posture=Posture.Reactive,
                threshold=1,
                within=ONCE,
                for_each={"prefect.resource.id"},
                expect={f"prefect.flow-run.{state}" for state in STATES},
                match_related=ResourceSpecification(tag),
            ),
            actions=[CallWebhook(block_document_id=block, payload=PAYLOAD)],
        )
        with suppress(ValueError):  # there is none yet
            Automation.read(name=ALERTS).delete()
        automation.create()
        typer.echo(f"{ALERTS}: {', '.join(STATES)}")
    # The server does not report the webhook's answers, so test it here; like the server, follow no redirects.
    try:
        answer = requests.post(
            address, json={"text": "Alerts of RankGrad come here."}, timeout=20, allow_redirects=False
        )
    except (requests.RequestException, ValueError) as error:
        _end(f"alerts are set up, but the webhook in RANKGRAD_ALERTS_URL does not answer: {type(error).__name__}")
    if not answer.ok or answer.is_redirect:
        _end(
            f"alerts are set up, but the webhook in RANKGRAD_ALERTS_URL answers {answer.status_code}: correct the "
            "address"
        )


if __name__ == "__main__":
    app()
