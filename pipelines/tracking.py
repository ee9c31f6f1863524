"""MLflow: the pipeline's only module that imports it. Runs and versions are sent once, keyed by what made them."""

import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before the import, which reads them: no telemetry, and an unreachable server is told within seconds.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import mlflow
import numpy as np
import pandas as pd
from mlflow.entities import Metric, Param, ViewType
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import Array

__all__ = ["DEFAULT_STORE", "Finished", "ServerUnreachable", "Version", "publish", "store"]

DEFAULT_STORE = "sqlite:///mlflow.db"
KEY = "rankops.key"


class ServerUnreachable(ValueError):
    """The store that MLFLOW_TRACKING_URI names does not answer."""


@dataclass(frozen=True)
class Version:
    """What is registered of a run.

    Attributes:
        model: registered name, such as `sorter-lstm`.
        script: code that serves it, in pipelines/serving.
        weights: folder that `rankops` loads it from.
        signature: of its input and output.
        requirements: packages that serving needs.
    """

    model: str
    script: Path
    weights: Path
    signature: ModelSignature
    requirements: list[str]


@dataclass(frozen=True)
class Finished:
    """A finished training, with all that MLflow should know of it.

    Attributes:
        name: of the run.
        experiment: it goes to.
        key: a hash of what made it; the same key is published once.
        params, metrics, tags: flat.
        history: one row an epoch, with a column `epoch`.
        files: to keep beside it, by folder in the run's artifacts.
        version: what is registered of it; None for a run without a model of its own.
        quality: on the validation split, larger is better: decides which of several new versions is the challenger.
    """

    name: str
    experiment: str
    key: str
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    history: pd.DataFrame
    files: Mapping[str, list[Path]]
    version: Version | None
    quality: float = field(default=0.0)


def sorter_signature(length: int) -> ModelSignature:
    """Scores (n, d) in, ranks (n, d) out; any n."""
    tensor = Schema([TensorSpec(np.dtype(np.float32), (-1, length))])
    return ModelSignature(inputs=tensor, outputs=tensor)


def task_signature(task: str) -> ModelSignature:
    """What the served model of a task takes, any number of rows.

    A column `image` of encoded images for label ranking and multi-label; a column `frames` of lists of them for
    memorability; `image` and `caption` for retrieval, of which each row has one.
    """
    image = ColSpec(DataType.binary, "image")
    columns = {
        "memorability": [ColSpec(Array(DataType.binary), "frames")],
        "retrieval": [
            ColSpec(DataType.binary, "image", required=False), ColSpec(DataType.string, "caption", required=False)
        ],
    }  # fmt: skip
    return ModelSignature(inputs=Schema(columns.get(task, [image])))


def requirements(*packages: str) -> list[str]:
    """The packages at the versions installed here; asking MLflow to find them out takes ten seconds."""
    return [f"{package}=={version(package).split('+')[0]}" for package in packages]


@contextmanager
def store() -> Iterator[mlflow.MlflowClient]:
    """The store: `MLFLOW_TRACKING_URI`, or SQLite in this folder.

    Raises:
        ServerUnreachable: it does not answer, or refuses the credentials.
    """
    address = os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE
    # It tells of each migration of its tables, and asks for examples of models that have a signature.
    for talkative in ("mlflow", "alembic"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*input example was not provided.*")
    mlflow.set_tracking_uri(address)
    mlflow.set_registry_uri(os.environ.get("MLFLOW_REGISTRY_URI") or address)
    try:
        client = mlflow.MlflowClient()
        client.search_experiments(max_results=1)
    except Exception as error:  # database drivers and HTTP clients each have their own
        raise ServerUnreachable(
            f"the MLflow store {_without_credentials(address)} does not answer: "
            f"{_without_credentials(str(error).splitlines()[0])}. Nothing is lost: start it, or unset "
            "MLFLOW_TRACKING_URI, and run `make repro` again"
        ) from error
    yield client


def _without_credentials(text: str) -> str:
    """An address, or a text with addresses in it, without the user and password of any."""
    return re.sub(r"://[^/@\s]+@", "://", text)


def _git(*words: str) -> str:
    result = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "unknown"


def _experiment(client: mlflow.MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.create_experiment(name)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def publish(client: mlflow.MlflowClient, finished: list[Finished]) -> list[str]:
    """Sends what the store does not have, or has lost, and registers versions; killed anywhere, it can be run again.

    Of the versions of `finished`, the best on validation gets the alias `challenger`, once for each new set of them, so
    that a person's later move stays; it also gets `champion` where the model never had one.

    Returns:
        Names of the runs that were sent or completed.

    Raises:
        ServerUnreachable: the store failed in between.
    """
    sent, versions = [], {}
    try:
        for one in finished:
            version, was_sent = _published(client, one)
            if one.version is not None:
                versions.setdefault(one.version.model, []).append((one.quality, int(version), one.key))
            sent += [one.name] if was_sent else []
        for model, candidates in versions.items():
            _set_aliases(client, model, candidates)
    except MlflowException as error:
        raise ServerUnreachable(
            f"the MLflow store failed while publishing, {len(sent)} runs were sent: "
            f"{_without_credentials(str(error).splitlines()[0])}. Nothing is lost: run `make repro` again"
        ) from error
    return sent


def _published(client: mlflow.MlflowClient, one: Finished) -> tuple[str | None, bool]:
    """The number of a training's version, if it has one, and whether anything had to be sent for it."""
    experiment = _experiment(client, one.experiment)
    found = client.search_runs([experiment], f"tags.`{KEY}` = '{one.key}'", run_view_type=ViewType.ALL)
    complete = next((run for run in found if run.info.status == "FINISHED"), None)
    for run in found:
        if run is not complete and run.info.lifecycle_stage == "active":
            client.delete_run(run.info.run_id)
    was_sent = False
    if complete is None:
        run_id, was_sent = _send(client, experiment, one), True
    else:
        run_id = complete.info.run_id
        if complete.info.lifecycle_stage == "deleted":
            client.restore_run(run_id)
            was_sent = True
        if not _files_at(f"runs:/{run_id}/plots"):
            _send_files(client, run_id, one)
            was_sent = True
    if one.version is None:
        if client.get_run(run_id).info.status != "FINISHED":
            client.set_terminated(run_id, "FINISHED")
        return None, was_sent
    made = client.search_model_versions(f"name = '{one.version.model}' and tags.`{KEY}` = '{one.key}'")
    whole = [
        version
        for version in made
        if version.run_id == run_id and _files_at(f"models:/{version.name}/{version.version}")
    ]
    if whole:
        number = str(whole[0].version)
    else:
        number, was_sent = _register(client, run_id, one), True
    held = client.get_registered_model(one.version.model).aliases
    for lost in made:
        if str(lost.version) != number:  # its run or its files are gone
            for alias in [alias for alias, version in held.items() if str(version) == str(lost.version)]:
                client.set_registered_model_alias(one.version.model, alias, number)
            client.delete_model_version(one.version.model, lost.version)
    if client.get_run(run_id).info.status != "FINISHED":
        client.set_terminated(run_id, "FINISHED")
    return number, was_sent


def _files_at(address: str) -> bool:
    """Whether the store still has the files of a run's folder or of a version."""
    try:
        return bool(mlflow.artifacts.list_artifacts(artifact_uri=address))
    except (MlflowException, OSError):
        return False


def _send(client: mlflow.MlflowClient, experiment: str, one: Finished) -> str:
    tags = dict(one.tags) | {
        KEY: one.key,
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": str(_git("status", "--porcelain", "--untracked-files=no") != "").lower(),
    }
    run_id = client.create_run(experiment, run_name=one.name, tags=tags).info.run_id
    now = int(time.time() * 1000)
    metrics = [Metric(name, float(value), now, 0) for name, value in one.metrics.items()]
    for row in one.history.to_dict("records"):
        epoch = int(row["epoch"])
        metrics += [
            Metric(f"epoch.{name}", float(value), now + epoch, epoch) for name, value in row.items() if name != "epoch"
        ]
    params = [Param(name, str(value)) for name, value in one.params.items()]
    for start in range(0, max(len(metrics), len(params)), 100):  # what one call may hold
        client.log_batch(run_id, metrics[start : start + 100], params[start : start + 100], [])
    _send_files(client, run_id, one)
    return run_id


def _send_files(client: mlflow.MlflowClient, run_id: str, one: Finished) -> None:
    for folder, files in one.files.items():
        for file in files:
            client.log_artifact(run_id, str(file), folder)


def _register(client: mlflow.MlflowClient, run_id: str, one: Finished) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch) / "weights"  # the name by which rankops.registry finds it
        shutil.copytree(one.version.weights, weights)
        with mlflow.start_run(run_id=run_id):
            logged = mlflow.pyfunc.log_model(
                name="model",
                python_model=str(one.version.script),
                artifacts={"weights": str(weights)},
                code_paths=["src/rankops"],  # the model runs where rankops is not installed
                signature=one.version.signature,
                pip_requirements=one.version.requirements,
            )
    try:
        client.create_registered_model(one.version.model)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {name: str(value) for name, value in one.tags.items()} | {KEY: one.key, "run": one.name}
    made = client.create_model_version(
        one.version.model, logged.model_uri, run_id, tags=tags, model_id=logged.model_id,
        description=f"{one.name}: {json.dumps({name: round(value, 4) for name, value in one.metrics.items()})}"[:4000],
    )  # fmt: skip
    return str(made.version)


def _set_aliases(client: mlflow.MlflowClient, model: str, candidates: list[tuple[float, int, str]]) -> None:
    """`candidates`: quality, version and key of each version that this state of the pipeline has."""
    held = client.get_registered_model(model)
    best = str(max(candidates)[1])
    # Which versions were compared: as long as these are the same, aliases are a person's to move.
    compared = sha256(json.dumps(sorted(key for _, _, key in candidates)).encode()).hexdigest()[:16]
    if held.tags.get("rankops.compared") != compared:
        client.set_registered_model_alias(model, "challenger", best)
    if "rankops.first_champion" not in held.tags:
        if "champion" not in held.aliases:
            client.set_registered_model_alias(model, "champion", best)
        client.set_registered_model_tag(model, "rankops.first_champion", best)
    client.set_registered_model_tag(model, "rankops.compared", compared)
