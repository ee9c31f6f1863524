"""Registered models: their versions, their files, and the champion.

A version becomes champion in three steps: it is added to the model's list of champions, the alias moves, and the
version is marked. If a process is killed before the alias moves, the last entry has no mark and is ignored.
"""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from pipelines.ops.messages import one_line, without_credentials
from pipelines.tracking.store import answering, connect, refuse_unreachable
from rankgrad.io.registered import download

__all__ = [
    "DECISION", "MADE_BY", "beside", "champions", "chosen_by_person", "has_files", "holder", "model_of",
    "newest_snapshot", "refuse_old", "replace", "set_champion", "version_of", "versions", "weights_of", "with_standing",
]  # fmt: skip

CHAMPIONS = "ranking.champions"  # tag of a model: every version that this project made champion, the latest last
WHY = {  # why a version is champion, for the first line of its description; the gate writes its own reason
    "first": "made champion as the best of the first versions",
    "person": "made champion by a person",
    "rollback": "made champion again by a person",
}
LONGEST = 5000  # most characters of a description in MLflow
STANDING = re.compile(r" \[(?:made champion|rejected)[^\n]*\]$")
DECISION = "gate.decision"  # tag of a version that the gate judged: `promoted` or `rejected`
MADE_BY = "ranking.made_champion_by"  # tag of a version that became champion: `first`, `gate`, `person` or `rollback`


def _or_none(call: Callable[..., Any], *arguments: str) -> Any:
    """Call the store; return None if the requested item does not exist."""
    try:
        return call(*arguments)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def model_of(client: mlflow.MlflowClient, name: str) -> RegisteredModel:
    """Return a registered model, or raise a ValueError that lists the existing ones."""
    model = _or_none(client.get_registered_model, name)
    if model is None:
        names = ", ".join(sorted(model.name for model in client.search_registered_models(max_results=1000)))
        raise ValueError(f"no registered model {name!r}; there are {names or 'none: `make repro` publishes them'}")
    refuse_old(model)
    return model


def refuse_old(model: RegisteredModel) -> None:
    """Raise if a model was registered when this project was called RankOps, since its tags had other names.

    Raises:
        ValueError: the model has such a tag.
    """
    if any(tag.startswith("rankops.") for tag in model.tags):
        raise ValueError(
            f"the registered model {model.name} was made by RankOps, this project's former name: publish to a new "
            "store (set MLFLOW_TRACKING_URI), or set another RANKGRAD_PREFIX"
        )


def holder(model: RegisteredModel, alias: str = "champion") -> str | None:
    """Return the version that has an alias, or None."""
    return str(model.aliases[alias]) if alias in model.aliases else None


def version_of(address: str) -> ModelVersion:
    """Return the version that an address such as `models:/sorter-lstm@champion` or `models:/sorter-lstm/3` names.

    Raises:
        FileNotFoundError: there is no store yet.
        ValueError: the store has no such model, version, or alias.
    """
    client = connect()
    named = re.fullmatch(r"models:/([^/@]+)(?:@(.+)|/(\d+))", address)
    if named is None:
        raise ValueError(f"{address}: expected an address such as models:/<name>@champion or models:/<name>/3")
    name, alias, number = named.groups()
    with answering():
        model, every = model_of(client, name), versions(client, name)
        number = holder(model, alias) if alias else number
        if number not in every:
            missing = f"alias {alias}" if alias else f"version {number}"
            raise ValueError(f"{name} has no {missing}; there are versions {', '.join(every) or 'none'}")
        return client.get_model_version(name, number)


def beside(version: ModelVersion, alias: str) -> str | None:
    """Return the address of the same model's version that has an alias; None if it is this version, or none has it."""
    with answering():
        number = holder(model_of(connect(), version.name), alias)
    return None if number in (None, str(version.version)) else f"models:/{version.name}/{number}"


def versions(client: mlflow.MlflowClient, name: str) -> dict[str, dict[str, str]]:
    """Return the tags of each of a model's versions by its number, the oldest first."""
    of_model = client.search_model_versions(f"name = '{name}'", max_results=10000)
    tags = {str(version.version): version.tags for version in of_model}
    return {number: tags[number] for number in sorted(tags, key=int)}


def newest_snapshot(names: Iterable[str]) -> int:
    """Return the newest data snapshot on which versions of these models were trained and judged, or 0.

    If a retraining fails after it published versions, these are not judged, so the next one uses the same snapshot.
    """
    try:
        client = connect()
    except FileNotFoundError:  # there is no store yet
        return 0
    snapshots = [0]
    with answering():
        for name in names:
            for version in client.search_model_versions(f"name = '{name}'", max_results=10000):
                if version.tags.keys() & {DECISION, MADE_BY}:
                    snapshots.append(int(version.tags.get("snapshot", 0)))
    return max(snapshots)


def champions(client: mlflow.MlflowClient, model: RegisteredModel) -> list[str]:
    """Return every version that this project made champion, the latest last, except one whose alias never moved."""
    result = json.loads(model.tags.get(CHAMPIONS, "[]"))
    if result and result[-1] != holder(model):
        version = _or_none(client.get_model_version, model.name, result[-1])
        if version is not None and MADE_BY not in version.tags:
            result.pop()
    return result


def chosen_by_person(client: mlflow.MlflowClient, model: RegisteredModel) -> bool:
    """Return whether a person chose the champion: in MLflow's UI, or by `rankgrad promote --version` or `rollback`."""
    champion = holder(model)
    if champion is None or champions(client, model)[-1:] != [champion]:
        return champion is not None
    return client.get_model_version(model.name, champion).tags.get(MADE_BY) in ("person", "rollback")


def set_champion(client: mlflow.MlflowClient, name: str, version: str, *, by: str) -> None:
    """Make a version champion; `by` is `first`, `gate`, `person`, or `rollback`."""
    model = model_of(client, name)
    made = champions(client, model)
    if by == "rollback":
        made = made[: len(made) - made[::-1].index(version)]
    else:
        for number in (holder(model), version):  # a person may have chosen the current champion in the UI
            if number is not None and made[-1:] != [number]:
                made.append(number)
    client.set_registered_model_tag(name, CHAMPIONS, json.dumps(made))
    client.set_registered_model_alias(name, "champion", version)
    client.set_model_version_tag(name, version, MADE_BY, by)
    if by in WHY:
        description = client.get_model_version(name, version).description or ""
        client.update_model_version(name, version, description=with_standing(description, WHY[by]))


def with_standing(description: str, standing: str) -> str:
    """Return a description whose first line ends with a version's standing, replacing the previous one.

    >>> with_standing("spearman 0.5 [rejected by the gate: x [1]]\\n\\nTrained by", "made champion by a person")
    'spearman 0.5 [made champion by a person]\\n\\nTrained by'
    """
    first, separator, others = description.partition("\n")
    return f"{STANDING.sub('', first)} [{standing}]{separator}{others}"[:LONGEST]


def replace(client: mlflow.MlflowClient, lost: ModelVersion, version: str) -> None:
    """Replace a version that lost its run or files: move its tags, its entry in the list of champions, and aliases."""
    for tag, value in lost.tags.items():
        if tag.startswith(("gate.", MADE_BY)):
            client.set_model_version_tag(lost.name, version, tag, value)
    model = client.get_registered_model(lost.name)
    made = [
        version if number == str(lost.version) else number for number in json.loads(model.tags.get(CHAMPIONS, "[]"))
    ]
    client.set_registered_model_tag(lost.name, CHAMPIONS, json.dumps(made))
    for alias in model.aliases:
        if holder(model, alias) == str(lost.version):
            client.set_registered_model_alias(lost.name, alias, version)
    client.delete_model_version(lost.name, lost.version)


def has_files(address: str) -> bool:
    """Return whether the store still has the files of `runs:/<id>/<folder>` or `models:/<name>/<version>`."""
    try:
        return bool(mlflow.artifacts.list_artifacts(artifact_uri=address))
    except (MlflowException, OSError) as error:
        refuse_unreachable(error)  # the files may still exist
        return False


def weights_of(address: str, to: Path) -> Path:
    """Copy the weights of a version, such as `models:/sorter-lstm@champion`, and return their folder below `to`.

    Raises:
        FileNotFoundError: there is no store yet.
        ValueError: the store has no such model, version, or alias, or its files are lost or stored elsewhere.
    """
    source = str(version_of(address).source)
    if not source.startswith(("models:/", "runs:/")):
        raise ValueError(
            f"{address}: its files are at {without_credentials(source)}, expected models:/ or runs:/; nothing was "
            "downloaded"
        )
    try:
        return download(address, to)
    except (ValueError, OSError) as error:
        refuse_unreachable(error)
        raise ValueError(one_line(error)) from error
