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

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]  # it is run by its path, in images too

from rankgrad.io.addresses import without_credentials  # noqa: E402
from rankgrad.io.written import printable  # noqa: E402

ALERTS = "rankgrad: alerts"
# States that end a run: three of Prefect's, and those of pipelines/flows.
STATES = ("Failed", "Crashed", "Cancelled", "NotJudged", "Drifted", "Promoted")
ONCE = timedelta(minutes=5)  # a run may be marked Crashed by its worker and by the automation of missed heartbeats
# As Slack, Mattermost and Teams take it, to whom a column called <!channel> would call everybody. A run that never
# started has a name of Prefect's, which says nothing.
PAYLOAD = """{"text": {{ (
    flow_run.name ~ " (" ~ flow.name ~ "/" ~ deployment.name ~ "): " ~ flow_run.state.name ~ "\\n"
    ~ (flow_run.state.message or "") ~ "\\n"
    ~ (flow_run | ui_url or "")
) | trim | replace("&", "&amp;") | replace("<", "&lt;") | replace(">", "&gt;") | tojson }}}"""

PATIENCE = 60  # seconds
PORTS = f" {os.environ.get('RANKGRAD_PORTS', '')}".rstrip()  # that `make deploy` was given, for other commands of make

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _end(message: str) -> NoReturn:
    """Ends with a message, on a line; addresses in it may have a password, and a server may have said anything."""
    message = printable(" ".join(message.split()))
    sys.exit(without_credentials(message))


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        _end(f"{name} is not set: see .env.example")
    return value


@contextmanager
def _prefect() -> Generator[None]:
    """Ends with a message if the Prefect server is not named, does not answer or refuses."""
    import httpx
    from prefect.exceptions import PrefectException

    address = _setting("PREFECT_API_URL")  # without it Prefect starts a server, which ends with this process
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, PrefectException, RuntimeError) as error:
        reason = type(error).__name__ if isinstance(error, httpx.InvalidURL) else error  # may have part of a password
        _end(f"the Prefect server {address} does not do it: {reason}")


@app.command()
def buckets(names: Annotated[list[str], typer.Argument(help="buckets to make where they are missing")]) -> None:
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
            typer.echo(f"bucket {name}: {'was there' if name in present else 'made'}")
    except (BotoCoreError, ClientError, ValueError) as error:  # the last of an address that is none
        _end(f"the S3 store {endpoint} does not do it: {error}")


@app.command()
def user(name: Annotated[str, typer.Argument(help="of MLflow; not an administrator")]) -> None:
    """Makes a user of MLflow; the runs and models that they publish are theirs to change."""
    import requests

    address = _setting("MLFLOW_TRACKING_URI").rstrip("/")
    administrator = (_setting("MLFLOW_TRACKING_USERNAME"), _setting("MLFLOW_TRACKING_PASSWORD"))
    new = {"username": name, "password": _setting("MLFLOW_NEW_PASSWORD")}
    try:  # by its bytes, as requests takes no other letters of a password than Latin ones
        secrets = tuple(secret.encode() for secret in administrator)
        # Followed, a POST becomes a GET, which makes nobody.
        answer = requests.post(
            f"{address}/api/2.0/mlflow/users/create", json=new, auth=secrets, timeout=20, allow_redirects=False
        )
    except requests.RequestException as error:
        _end(f"MLflow at {address} does not answer: {type(error).__name__}")
    if answer.status_code == 401:
        _end(f"MLflow at {address} refuses the administrator: look at MLFLOW_TRACKING_USERNAME and _PASSWORD")
    if not answer.ok and "RESOURCE_ALREADY_EXISTS" in answer.text:
        typer.echo(f"user {name}: was there; the password stays as it was")
        return
    if not _is_user(answer, name):
        _end(f"MLflow at {address} does not make the user {name}: {answer.status_code} {answer.text[:300]}")
    typer.echo(f"user {name}: made")


def _is_user(answer: Any, name: str) -> bool:
    """Whether MLflow answered that it has made a user: a page of a proxy, which wants a login, is an answer too."""
    try:
        return bool(answer.ok and answer.json()["user"]["username"] == name)
    except (ValueError, KeyError, TypeError):
        return False


@app.command()
def pool() -> None:
    """Prints the work pool that a worker polls; one that has just been started is waited for."""
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
            f"no worker polls a work pool. Start one: make up{PORTS}. Or say which it will be: "
            f"make deploy POOL=gpu{PORTS}"
        )
    if len(ready) > 1:
        _end(f"workers poll the work pools {', '.join(ready)}. Say which: make deploy POOL={ready[0]}{PORTS}")
    typer.echo(ready[0])


def webhook(address: str) -> Any:
    """Returns the block that alerts go through: unlike those of notifications, it shows its address in no error or log.

    Who knows the address may post there.
    """
    from prefect.blocks.webhook import Webhook

    return Webhook.model_validate({"url": address, "headers": {"Content-Type": "application/json"}})


@app.command()
def alerts() -> None:
    """Has Prefect tell a webhook what people want to know: failures, drift, promotions, runs that were not to be."""
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
    # The server keeps to itself what the webhook answers, so it is asked here. It follows no redirect, nor does this.
    try:
        answer = requests.post(
            address, json={"text": "Alerts of RankGrad come here."}, timeout=20, allow_redirects=False
        )
    except (requests.RequestException, ValueError) as error:
        _end(f"alerts are made, but the webhook of RANKGRAD_ALERTS_URL does not answer here: {type(error).__name__}")
    if not answer.ok or answer.is_redirect:
        _end(
            f"alerts are made, but the webhook of RANKGRAD_ALERTS_URL answers {answer.status_code}: correct the address"
        )


if __name__ == "__main__":
    app()
