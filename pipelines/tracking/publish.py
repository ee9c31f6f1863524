"""MLflow: the pipeline's only module that imports it. Runs and versions are sent once, keyed by what made them."""

import json
import logging
import math
import os
import platform
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
import requests
from mlflow.entities import Metric, Param, ViewType
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import Array

from pipelines.ops.git import git
from pipelines.ops.messages import in_a_line, on_one_line, without_credentials
from rankops.sorters.load import download

__all__ = [
    "CHAMPION", "DEFAULT_STORE", "MADE_BY", "CredentialsRefused", "Finished", "LiveRuns", "Registry",
    "ServerUnreachable", "Version", "key_of", "publish", "publish_sweep", "run_addresses", "store", "weights_of",
]  # fmt: skip

DEFAULT_STORE = "sqlite:///mlflow.db"
KEY = "rankops.key"
CHAMPION = "rankops.champion"  # which version this project made champion: another one there was a person's choice
HISTORY = "rankops.champions"  # all that were, as JSON, the present one last
MADE_BY = "rankops.made_champion_by"  # on a version: `first`, `gate`, `person` or `rollback`
LIVE = "rankops.live"  # on a run that shows a training while it goes on: which attempt
WATCHED = "rankops.watched"  # on such a run: in which folder of which machine
MOVING = "rankops.moving"  # a promotion that is going on


def key_of(*parts: Any) -> str:
    """A hash of what makes a run another one: by it a run that was sent is known again."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class ServerUnreachable(ValueError):
    """The store that MLFLOW_TRACKING_URI names does not answer."""


class CredentialsRefused(ServerUnreachable):
    """It answers, and refuses the user or the password: asking again does not help."""


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
        ServerUnreachable: it does not answer.
        CredentialsRefused: it refuses the user or the password.
    """
    address = os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE
    # It tells of each migration of its tables, and asks for examples of models that have a signature.
    for talkative in ("mlflow", "alembic"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*input example was not provided.*")
    mlflow.set_tracking_uri(address)
    try:
        client = mlflow.MlflowClient()
        client.search_experiments(max_results=1)
    except Exception as error:  # database drivers and HTTP clients each have their own
        if re.search(
            r"error code 40[13]\b|UNAUTHENTICATED|PERMISSION_DENIED", str(error)
        ):  # a host may be named node-403
            raise CredentialsRefused(
                f"the MLflow store {without_credentials(address)} refuses the credentials: "
                f"{in_a_line(error)}. Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, and try again"
            ) from error
        raise ServerUnreachable(
            f"the MLflow store {without_credentials(address)} does not answer: "
            f"{in_a_line(error)}. Start it, see that MLFLOW_TRACKING_URI names it, or unset that for "
            "the store of this folder; then try again"
        ) from error
    yield client


def weights_of(address: str, to: Path) -> Path:
    """The folder within `to` that has a copy of the weights of a version, such as `models:/label_ranking@champion`.

    Raises:
        ServerUnreachable: see `store`.
        FileNotFoundError: there is no store here yet.
        ValueError: the store has no such model, version or alias, or has lost its files.
    """
    here = Path(DEFAULT_STORE.removeprefix("sqlite:///"))
    if not os.environ.get("MLFLOW_TRACKING_URI") and not here.is_file():  # to look would make an empty one
        raise FileNotFoundError(
            f"{here.resolve()}: no such file, so nothing is registered; run `make repro` first, "
            "set MLFLOW_TRACKING_URI, or name a folder such as models/runs/label_ranking-rlsep"
        )
    with store():
        try:
            return download(address, to)
        except (ValueError, OSError) as error:
            raise ValueError(on_one_line(error)) from error


def _by_git(*words: str) -> str:
    try:
        return git(".", *words)
    except ValueError:
        return "unknown"


def _experiment(client: mlflow.MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        # A database's files stand beside it, whichever folder (a worktree, say) publishes.
        database = re.fullmatch(r"sqlite:///(/.+)", mlflow.get_tracking_uri())
        place = (Path(database[1]).parent / "mlruns" / name).as_uri() if database else None
        return client.create_experiment(name, artifact_location=place)
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
            f"{in_a_line(error)}. Nothing is lost: run `make repro` again"
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
            if client.get_registered_model(one.version.model).tags.get(CHAMPION) == str(lost.version):
                client.set_registered_model_tag(one.version.model, CHAMPION, number)
            client.delete_model_version(one.version.model, lost.version)
    if client.get_run(run_id).info.status != "FINISHED":
        client.set_terminated(run_id, "FINISHED")
    return number, was_sent


def _files_at(address: str) -> bool:
    """Whether the store still has the files of a run's folder or of a version.

    Raises:
        ServerUnreachable: it does not say: what could not be asked for is not lost.
    """
    try:
        return bool(mlflow.artifacts.list_artifacts(artifact_uri=address))
    except (MlflowException, OSError) as error:
        if _connection_was_lost(error):
            raise ServerUnreachable(
                f"the MLflow store failed: {in_a_line(error)}. Nothing is lost: run `make repro` again"
            ) from error
        return False


def _send(client: mlflow.MlflowClient, experiment: str, one: Finished) -> str:
    tags = dict(one.tags) | {
        KEY: one.key,
        "git_commit": _by_git("rev-parse", "HEAD"),
        "git_dirty": str(_by_git("status", "--porcelain", "--untracked-files=no", "--", ":!dvc.lock") != "").lower(),
    }
    # A run that showed this training while it went on is completed; its epochs are there already.
    run_id, shown = _live_run(client, experiment, one)
    if run_id is None:
        run_id = client.create_run(experiment, run_name=one.name, tags=tags).info.run_id
    else:
        for name, value in tags.items():
            client.set_tag(run_id, name, value)
    now = int(time.time() * 1000)
    metrics = [Metric(name, float(value), now, 0) for name, value in one.metrics.items()]
    for row in one.history.to_dict("records"):
        epoch = int(row.pop("epoch"))
        if epoch in shown:  # which epoch is the best is known when all are done
            row = {name: value for name, value in row.items() if name == "best"}
        metrics += [Metric(f"epoch.{name}", float(value), now + epoch, epoch) for name, value in row.items()]
    params = [Param(name, str(value)) for name, value in one.params.items()]
    for start in range(0, max(len(metrics), len(params)), 100):  # what one call may hold
        client.log_batch(run_id, metrics[start : start + 100], params[start : start + 100], [])
    _send_files(client, run_id, one)
    return run_id


def _live_run(client: mlflow.MlflowClient, experiment: str, one: Finished) -> tuple[str | None, set[int]]:
    """The run that showed this training while it went on, if one did, and the epochs that it has."""
    expected = dict(zip(one.history["epoch"].astype(int), one.history.get("loss", []), strict=False))
    for run in client.search_runs([experiment], f"attributes.run_name = '{one.name}' and tags.`{LIVE}` != ''"):
        if KEY in run.data.tags:
            continue
        losses = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, "epoch.loss")}
        same = (math.isclose(expected.get(step, math.nan), loss, rel_tol=1e-6) for step, loss in losses.items())
        if losses and all(same):
            return run.info.run_id, set(losses)
    return None, set()


def _send_files(client: mlflow.MlflowClient, run_id: str, one: Finished) -> None:
    for folder, files in one.files.items():
        for file in files:
            client.log_artifact(run_id, str(file), folder)


def _register(client: mlflow.MlflowClient, run_id: str, one: Finished) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch) / "weights"  # the name by which rankops.sorters.registry finds it
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
            Registry(client).set_champion(model, best, by="first")
        client.set_registered_model_tag(model, "rankops.first_champion", best)
    client.set_registered_model_tag(model, "rankops.compared", compared)


class _InOneLine:
    """A client whose errors are ValueErrors of one line; that something is not there stays MLflow's own error."""

    def __init__(self, client: mlflow.MlflowClient):
        self._client = client

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._client, name)

        def told(*args: Any, **options: Any) -> Any:
            try:
                return called(*args, **options)
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                    raise
                said = in_a_line(error)
                if re.search(r"\b40[13]\b|PERMISSION_DENIED|UNAUTHENTICATED", f"{error.error_code} {said}"):
                    raise ValueError(f"the MLflow store does not let this user do that: {said}") from error
                raise ServerUnreachable(f"the MLflow store failed: {said}") from error

        return told


def _connection_was_lost(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, is of a server or the way to it, not of what the server was asked."""
    while error is not None:
        if isinstance(error, requests.HTTPError):
            return error.response is not None and error.response.status_code >= 500
        if isinstance(error, MlflowException) and error.error_code in (
            "TEMPORARILY_UNAVAILABLE",
            "REQUEST_LIMIT_EXCEEDED",
        ):
            return True
        if isinstance(error, (requests.RequestException, ConnectionError, TimeoutError)):
            return True
        error = error.__cause__ or error.__context__
    return False


class Registry:
    """Registered models, in the words of the gate; every error is a ValueError of one line."""

    def __init__(self, client: mlflow.MlflowClient):
        self._client = _InOneLine(client)

    def weights(self, model: str, version: str, to: Path) -> Path:
        """The folder within `to` that has a copy of a version's weights.

        Raises:
            ServerUnreachable: the connection was lost, or the server failed.
            ValueError: the store has lost the version's files, or does not give them.
        """
        try:
            return download(f"models:/{model}/{version}", to)
        except (ValueError, OSError) as error:
            if _connection_was_lost(error):
                raise ServerUnreachable(f"the MLflow store failed: {in_a_line(error)}") from error
            raise ValueError(
                f"{model} version {version}: its files cannot be fetched ({on_one_line(error)})"
            ) from error

    def models(self) -> list[str]:
        """Names of all registered models."""
        return sorted(model.name for model in self._client.search_registered_models(max_results=1000))

    def _model(self, model: str) -> Any:
        try:
            found = self._client.get_registered_model(model)
        except MlflowException as error:
            there = ", ".join(self.models()) or "none: `make repro` publishes them"
            raise ValueError(f"no registered model {model!r}; there are {there}") from error
        if MOVING in found.tags:  # killed between two calls
            move = json.loads(found.tags[MOVING])
            before, champion = move.pop("before", None), found.aliases.get("champion")
            if champion is None or str(champion) in (move["version"], before):
                self._move(model, **move)
            else:  # a person has chosen since
                self._client.delete_registered_model_tag(model, MOVING)
            found = self._client.get_registered_model(model)
        return found

    def aliases(self, model: str) -> dict[str, str]:
        """Which version each alias stands for."""
        return {alias: str(version) for alias, version in self._model(model).aliases.items()}

    def versions(self, model: str) -> list[str]:
        """Numbers of all versions, the oldest first."""
        self._model(model)
        found = self._client.search_model_versions(f"name = '{model}'", max_results=10000)
        return [str(number) for number in sorted(int(version.version) for version in found)]

    def tag(self, model: str, name: str) -> str | None:
        """A registered model's tag."""
        return self._model(model).tags.get(name)

    def champions(self, model: str) -> list[str]:
        """All versions that this project made champion, the present one last."""
        return json.loads(self.tag(model, HISTORY) or "[]")

    def version_tags(self, model: str, version: str) -> dict[str, str]:
        """All tags of a version."""
        return dict(self._client.get_model_version(model, version).tags)

    def tag_version(self, model: str, version: str, tags: Mapping[str, str]) -> None:
        """Adds tags to a version."""
        for name, value in tags.items():
            self._client.set_model_version_tag(model, version, name, value)

    def description(self, model: str, version: str) -> str:
        """A version's description, which may be empty."""
        return self._client.get_model_version(model, version).description or ""

    def describe(self, model: str, version: str, text: str) -> None:
        """Sets a version's description, in Markdown."""
        self._client.update_model_version(model, version, description=text)

    def _run(self, model: str, version: str) -> Any:
        run_id = self._client.get_model_version(model, version).run_id
        try:
            return self._client.get_run(run_id) if run_id else None
        except MlflowException:  # deleted for good
            return None

    def run_params(self, model: str, version: str) -> dict[str, str]:
        """Params of the run that made a version; none if there is no such run."""
        run = self._run(model, version)
        return dict(run.data.params) if run else {}

    def run_tags(self, model: str, version: str) -> dict[str, str]:
        """Tags of the run that made a version; none if there is no such run."""
        run = self._run(model, version)
        return dict(run.data.tags) if run else {}

    def run_page(self, model: str, version: str) -> str | None:
        """Where MLflow shows the run that made a version, from any of its pages on; None if there is no such run."""
        run = self._run(model, version)
        return run and f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"

    def set_champion(self, model: str, version: str, *, by: str, instead_of: str | None = None) -> None:
        """Moves `champion`, whole even if killed in between: what is begun is finished by the next call.

        Args:
            by: `first`, `gate`, `person` or `rollback`.
            instead_of: the champion that is to be replaced; None for any.

        Raises:
            ValueError: another one is champion by now; nothing is moved.
        """
        held = self._model(model)
        before, history = held.aliases.get("champion"), json.loads(held.tags.get(HISTORY, "[]"))
        if instead_of is not None and str(before) != instead_of:
            raise ValueError(
                f"{model}: version {before} was made champion while {version} was judged against {instead_of}; "
                "nothing was moved: try again"
            )
        if by == "rollback":
            while history and history[-1] != version:
                history.pop()
        else:
            for one in (before, version):
                if one is not None and history[-1:] != [str(one)]:
                    history.append(str(one))
        move = {"version": version, "by": by, "history": history}
        self._client.set_registered_model_tag(model, MOVING, json.dumps(move | {"before": before and str(before)}))
        self._move(model, **move)

    def _move(self, model: str, version: str, by: str, history: list[str]) -> None:
        self._client.set_registered_model_alias(model, "champion", version)
        self._client.set_registered_model_tag(model, CHAMPION, version)
        self._client.set_registered_model_tag(model, HISTORY, json.dumps(history))
        self._client.set_model_version_tag(model, version, MADE_BY, by)
        self._client.delete_registered_model_tag(model, MOVING)


def run_addresses(client: mlflow.MlflowClient, keys: Mapping[str, str]) -> dict[str, str]:
    """Where a browser shows published runs; empty for a store that no server shows.

    Args:
        keys: of runs, by name, as in reports/published.json.
    """
    server = mlflow.get_tracking_uri()
    if not server.startswith("http"):
        return {}
    everywhere = [experiment.experiment_id for experiment in client.search_experiments()]
    found = {}
    for name, key in keys.items():
        for run in client.search_runs(everywhere, f"tags.`{KEY}` = '{key}'", max_results=1):
            found[name] = f"{without_credentials(server)}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    return found


def publish_sweep(client: mlflow.MlflowClient, sweep: Finished, points: list[Finished], *, of: int) -> list[str]:
    """Sends a sweep as a run, and points of it as its child runs; what the store has of them already is left alone.

    Args:
        sweep: of all points so far; its files are sent again whenever their number has grown.
        points: new ones; all of them where `of` is their number, and then those of an earlier attempt, which had other
            code or data, go.
        of: how many the sweep will have.

    Returns:
        Names of the runs that were sent or completed.

    Raises:
        ServerUnreachable: the store failed in between.
    """
    sent = publish(client, [sweep])
    try:
        experiment = _experiment(client, sweep.experiment)
        (parent,) = client.search_runs([experiment], f"tags.`{KEY}` = '{sweep.key}'", max_results=1)
        tag = {"mlflow.parentRunId": parent.info.run_id}
        sent += publish(client, [replace(point, tags=dict(point.tags) | tag) for point in points])
        children = client.search_runs(
            [experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'", max_results=50000
        )
        if len(points) == of:
            keys = {point.key for point in points}
            for child in [child for child in children if child.data.tags.get(KEY) not in keys]:
                client.delete_run(child.info.run_id)
                children.remove(child)
        there = f"{len(children)} of {of}"
        if parent.data.tags.get("points") != there:
            _send_files(client, parent.info.run_id, sweep)
            client.set_tag(parent.info.run_id, "points", there)
    except MlflowException as error:
        raise ServerUnreachable(f"the MLflow store failed while publishing the sweep: {in_a_line(error)}") from error
    return sent


class LiveRuns:
    """Runs of trainings that go on: opened early, sent an epoch at a time, completed by `publish`."""

    def __init__(self, client: mlflow.MlflowClient, folder: Path):
        """Runs of one folder of one machine: those of others in the same store are left alone.

        Args:
            client: of the store.
            folder: in which the trainings go on.
        """
        self._client = client
        self._place = sha256(f"{platform.node()}:{folder.resolve()}".encode()).hexdigest()[:16]
        self._runs: dict[str, str] = {}  # by key
        self._sent: dict[str, int] = {}

    def send(self, name: str, experiment: str, key: str, epochs: list[dict[str, float]]) -> None:
        """The epochs that the store has not.

        Args:
            name, experiment: of the run.
            key: of the attempt: the same when a killed training goes on.
            epochs: a row each, with a column `epoch`.

        Raises:
            ServerUnreachable: the store does not take them.
        """
        try:
            if key not in self._runs:
                place = _experiment(self._client, experiment)
                found = self._client.search_runs(
                    [place],
                    f"tags.`{LIVE}` = '{key}' and tags.`{WATCHED}` = '{self._place}' and attributes.status = 'RUNNING'",
                )
                if found:
                    run = found[0].info.run_id
                    self._sent[key] = len(self._client.get_metric_history(run, "epoch.loss"))
                else:
                    run = self._client.create_run(
                        place, run_name=name, tags={LIVE: key, WATCHED: self._place}
                    ).info.run_id
                    self._sent[key] = 0
                self._runs[key] = run
            now = int(time.time() * 1000)
            for row in epochs[self._sent[key] :]:
                metrics = [
                    Metric(f"epoch.{figure}", float(value), now, int(row["epoch"]))
                    for figure, value in row.items() if figure != "epoch"
                ]  # fmt: skip
                self._client.log_batch(self._runs[key], metrics, [], [])
                self._sent[key] += 1
        except Exception as error:  # database drivers and HTTP clients each have their own
            raise ServerUnreachable(f"the MLflow store: {in_a_line(error)}") from error

    def close(self, going: set[str]) -> None:
        """Marks as killed what was begun in this folder, no training goes on with, and nothing has completed.

        Args:
            going: keys of attempts that have a checkpoint still.

        Raises:
            ServerUnreachable: the store does not answer.
        """
        try:
            places = [experiment.experiment_id for experiment in self._client.search_experiments()]
            for run in self._client.search_runs(
                places, f"attributes.status = 'RUNNING' and tags.`{WATCHED}` = '{self._place}'"
            ):
                if run.data.tags[LIVE] not in going and KEY not in run.data.tags:
                    self._client.set_terminated(run.info.run_id, "KILLED")
        except Exception as error:
            raise ServerUnreachable(f"the MLflow store: {in_a_line(error)}") from error
