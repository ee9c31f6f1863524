"""Registered models: their versions, their files, and who is champion.

A version becomes champion in three steps: it is added to the model's list of champions, the alias moves, the version is
marked as moved. A process killed before the alias moves leaves a last entry without a mark, which counts for nothing.
"""

import json
from pathlib import Path

import mlflow
from mlflow.entities import Run
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from pipelines.ops.messages import in_a_line, on_one_line
from pipelines.tracking.store import ServerUnreachable, answering, connect, is_unreachable
from rankops.sorters.registry import download

__all__ = [
    "champions", "chosen_by_person", "files_of", "holder", "made_from", "model_of", "replace", "run_of", "set_champion",
    "versions", "weights_of",
]  # fmt: skip

CHAMPIONS = "rankops.champions"  # on a model: every version that this project made champion, the latest last
MADE_BY = "rankops.made_champion_by"  # on a version that became champion: `first`, `gate`, `person` or `rollback`


def model_of(client: mlflow.MlflowClient, name: str) -> RegisteredModel:
    """Return a registered model.

    Raises:
        ValueError: there is none of this name.
    """
    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        known = ", ".join(sorted(model.name for model in client.search_registered_models(max_results=1000)))
        raise ValueError(
            f"no registered model {name!r}; there are {known or 'none: `make repro` publishes them'}"
        ) from error


def holder(model: RegisteredModel, alias: str = "champion") -> str | None:
    """Return the version that has an alias."""
    version = model.aliases.get(alias)
    return None if version is None else str(version)


def versions(client: mlflow.MlflowClient, name: str) -> list[str]:
    """Return the numbers of a model's versions, the oldest first."""
    every = client.search_model_versions(f"name = '{name}'", max_results=10000)
    return [str(number) for number in sorted(int(version.version) for version in every)]


def run_of(client: mlflow.MlflowClient, version: ModelVersion) -> Run | None:
    """Return the run that made a version; None if there was none or it was deleted for good."""
    try:
        return client.get_run(version.run_id) if version.run_id else None
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _tags(client: mlflow.MlflowClient, name: str, version: str) -> dict[str, str] | None:
    """Return a version's tags; None if it was deleted."""
    try:
        return dict(client.get_model_version(name, version).tags)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def champions(client: mlflow.MlflowClient, model: RegisteredModel) -> list[str]:
    """Return every version that this project made champion, the latest last; not one whose alias was never moved."""
    result = json.loads(model.tags.get(CHAMPIONS, "[]"))
    if result and result[-1] != holder(model):
        tags = _tags(client, model.name, result[-1])
        if tags is not None and MADE_BY not in tags:
            result.pop()
    return result


def chosen_by_person(client: mlflow.MlflowClient, model: RegisteredModel) -> bool:
    """Check whether a person chose the champion: in MLflow's UI, by `rankops promote --version`, by `rankops rollback`."""
    champion = holder(model)
    if champions(client, model)[-1:] != [champion]:
        return True
    return (_tags(client, model.name, champion) or {}).get(MADE_BY) in ("person", "rollback")


def set_champion(client: mlflow.MlflowClient, name: str, version: str, *, by: str) -> None:
    """Make a version champion.

    Args:
        client: of the store.
        name: of the model.
        version: its number.
        by: `first`, `gate`, `person` or `rollback`.
    """
    model = model_of(client, name)
    made = champions(client, model)
    if by == "rollback":
        made = made[: len(made) - made[::-1].index(version)]
    else:
        for one in (holder(model), version):  # the first of them may be a person's choice in the UI
            if one is not None and made[-1:] != [one]:
                made.append(one)
    client.set_registered_model_tag(name, CHAMPIONS, json.dumps(made))
    client.set_registered_model_alias(name, "champion", version)
    client.set_model_version_tag(name, version, MADE_BY, by)


def replace(client: mlflow.MlflowClient, lost: ModelVersion, version: str) -> None:
    """Put a version in the place of one that has lost its run or its files: aliases, list of champions and tags."""
    for tag, value in lost.tags.items():
        if tag.startswith(("gate.", MADE_BY)):
            client.set_model_version_tag(lost.name, version, tag, value)
    model = client.get_registered_model(lost.name)
    made = [version if one == str(lost.version) else one for one in json.loads(model.tags.get(CHAMPIONS, "[]"))]
    client.set_registered_model_tag(lost.name, CHAMPIONS, json.dumps(made))
    for alias, number in model.aliases.items():
        if str(number) == str(lost.version):
            client.set_registered_model_alias(lost.name, alias, version)
    client.delete_model_version(lost.name, lost.version)


def files_of(address: str) -> bool:
    """Check whether the store still has the files of `runs:/<id>/<folder>` or `models:/<name>/<version>`.

    Raises:
        ServerUnreachable: the store does not say; what could not be asked for is not lost.
    """
    try:
        return bool(mlflow.artifacts.list_artifacts(artifact_uri=address))
    except (MlflowException, OSError) as error:
        if is_unreachable(error):
            raise ServerUnreachable(f"the MLflow store failed: {in_a_line(error)}") from error
        return False


def weights_of(address: str, to: Path) -> Path:
    """Copy the weights of a version, such as `models:/label_ranking@champion`, and return their folder below `to`.

    Raises:
        ServerUnreachable, CredentialsRefused, FileNotFoundError: see `pipelines.tracking.store.connect`.
        ValueError: the store has no such model, version or alias, or has lost its files.
    """
    connect()
    try:
        return download(address, to)
    except (ValueError, OSError) as error:
        if is_unreachable(error):
            raise ServerUnreachable(f"the MLflow store failed: {in_a_line(error)}") from error
        raise ValueError(on_one_line(error)) from error


def made_from(name: str, version: str) -> dict[str, str]:
    """Return the tags of the run that made a version, `input.<path>` among them; none if there is no such run."""
    client = connect()
    with answering():
        run = run_of(client, client.get_model_version(name, version))
    return dict(run.data.tags) if run else {}
