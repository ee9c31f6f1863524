"""Connect to the MLflow store, and turn its errors into one line."""

import logging
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

# MLflow reads these when it is imported: send no telemetry, and report an unreachable server within seconds.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

import mlflow
import requests
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from pipelines.config import prefixed
from pipelines.ops.messages import first_line, without_credentials
from pipelines.tracking import database
from pipelines.tracking.database import file_of

__all__ = [
    "DEFAULT_STORE", "CredentialsRefused", "ServerUnreachable", "address_of_store", "answering", "connect",
    "experiment", "experiment_of", "refuse_unreachable",
]  # fmt: skip

FULL = "No space left on device"
DEFAULT_STORE = "sqlite:///mlflow.db"
ABOUT = (  # the description of an experiment
    "[Best first](#/experiments/{number}/runs?orderByKey=metrics.%60judged%60&orderByAsc=false). "
    "The trainings of `{name}`, each with its seeds below it; of one name the newest is the present one. Metrics are "
    "means over seeds on the test split; a run's description has their intervals, data and parents. `epoch/` holds the "
    "curves on validation: of a run the mean over its seeds."
)
# A host may be named node-403.
REFUSED = re.compile(r"error code 40[13]\b|UNAUTHENTICATED|PERMISSION_DENIED")


class ServerUnreachable(ValueError):
    """The store does not answer or fails; try again later."""

    exit_status = os.EX_TEMPFAIL  # the exit status of a stage that raises it


class CredentialsRefused(ValueError):
    """The store refuses the user, the password, or the request; trying again does not help."""


def address_of_store() -> str:
    """Return the address of the store: `MLFLOW_TRACKING_URI`, by default SQLite in this folder.

    DVC runs an experiment's stages in a temporary copy of the checkout; they use the store of the original checkout.
    """
    address = os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE
    file = file_of(address, Path(os.environ["DVC_ROOT"]) if experiment() else Path.cwd())
    return address if file is None else f"sqlite:///{file}"


def experiment() -> str | None:
    """Return the name of this process's DVC experiment if it runs in a temporary copy of the checkout, else None."""
    root = os.environ.get("DVC_ROOT")
    return os.environ.get("DVC_EXP_NAME") if root and Path(root).resolve() != Path.cwd() else None


def connect(*, create: bool = False) -> mlflow.MlflowClient:
    """Connect to the store of `address_of_store`.

    Args:
        create: create the SQLite store if it does not exist, instead of raising FileNotFoundError.

    Raises:
        FileNotFoundError: there is no store yet, or it was copied without its files.
        CredentialsRefused: the store refuses the user or the password.
        ServerUnreachable: the store does not answer or fails.
    """
    address = address_of_store()
    file = file_of(address)
    # These log every table migration, and every retry with the address and its token.
    for name in ("mlflow", "alembic", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        if file is not None:
            _prepare(file, create=create)
        mlflow.set_tracking_uri(address)
        client = mlflow.MlflowClient()
        client.search_experiments(max_results=1)
    except FileNotFoundError:
        raise
    except Exception as error:  # database drivers and HTTP clients each have their own exceptions
        if REFUSED.search(str(error)):
            raise _refused(error) from error
        if file is None:
            todo = "Start it, check MLFLOW_TRACKING_URI, or unset that for the store of this folder; then try again"
        elif "locked" in str(error):
            todo = "Another process has locked it: wait for that process or end it, then try again"
        elif isinstance(error, TimeoutError) or "mlflow db upgrade" in str(error):  # the error says what to do
            todo = "Then try again"
        else:
            todo = "Restore it from a copy, or move it away: `make repro` publishes to a new one"
        raise ServerUnreachable(
            f"the MLflow store {without_credentials(address)} does not answer: {first_line(error)}. {todo}"
        ) from error
    return client


def _prepare(file: Path, *, create: bool) -> None:
    """Create an SQLite store if there is none, and raise if it was moved."""
    if not database.has_contents(file):
        if not create:  # reading would create an empty one
            raise FileNotFoundError(
                f"{file}: {'empty' if file.is_file() else 'no such file'}, so nothing is registered; run `make repro` "
                "first, set MLFLOW_TRACKING_URI, or name a folder such as models/runs/label_ranking-rlsep"
            )
        database.make(file)
    database.refuse_moved(file)


def experiment_of(client: mlflow.MlflowClient, name: str) -> str:
    """Return the id of an experiment of this project; create or restore the experiment if there is none."""
    name = prefixed(name)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # Keep files next to the database, even if another folder, such as a worktree, publishes.
        file = file_of(mlflow.get_tracking_uri())
        location = (file.parent / database.FILES / name).as_uri() if file else None
        # Some versions of MLflow choose an experiment's view by its kind, others by the address.
        tags = {"mlflow.experimentKind": "custom_model_development"}
        number = client.create_experiment(name, artifact_location=location, tags=tags)
        client.set_experiment_tag(number, MLFLOW_RUN_NOTE, ABOUT.format(name=name, number=number))
        return number
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


@contextmanager
def answering(doing: str = "") -> Generator[None]:
    """Turn MLflow's errors into one-line errors: a ValueError if the store lacks something, or those above.

    Args:
        doing: what was being done, for the message.
    """
    try:
        yield
    except (MlflowException, requests.RequestException) as error:
        if REFUSED.search(f"{getattr(error, 'error_code', '')} {error}"):
            raise _refused(error) from error
        if getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
            raise ValueError(first_line(error)) from error
        reason = first_line(error)
        if any(FULL in str(cause) for cause in _causes(error)):  # MLflow's own message does not give this reason
            reason = f"{FULL}, for TMPDIR or for the store's files"
        raise ServerUnreachable(f"the MLflow store failed{f' {doing}' if doing else ''}: {reason}") from error


def _refused(error: Exception) -> CredentialsRefused:
    return CredentialsRefused(
        f"the MLflow store {without_credentials(mlflow.get_tracking_uri())} refuses the credentials: "
        f"{first_line(error)}. Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD of a user who may do this"
    )


def refuse_unreachable(error: BaseException) -> None:
    """Raise ServerUnreachable if an error, or one of its causes, is about the server or the connection."""
    for cause in _causes(error):
        if isinstance(cause, requests.HTTPError) and (cause.response is None or cause.response.status_code < 500):
            return  # the server answered
        if isinstance(cause, (requests.RequestException, ConnectionError, TimeoutError)):
            raise ServerUnreachable(f"the MLflow store failed: {first_line(error)}") from error


def _causes(error: BaseException | None) -> Generator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
