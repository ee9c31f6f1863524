"""Send runs, with seeds as child runs, and versions of their models to MLflow; each is sent once, by its key."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from graphlib import TopologicalSorter
from hashlib import sha256
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import mlflow
import pandas as pd
from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, Metric, Param
from mlflow.entities import Run as Sent
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.tracking.context.registry import resolve_tags
from mlflow.utils import mlflow_tags

from pipelines.config import prefixed
from pipelines.ops.git import git
from pipelines.ops.messages import without_credentials
from pipelines.tracking import live, registry
from pipelines.tracking.card import NUMBER, card, inputs_of, summary
from pipelines.tracking.requirements import copy_own, requirements
from pipelines.tracking.signature import example_of, signature_of
from pipelines.tracking.slices import Slice
from pipelines.tracking.store import answering, connect, experiment_of
from rankgrad import __version__
from rankgrad.io.recipes import recipe_of
from rankgrad.io.results import Row
from rankgrad.io.written import as_json

__all__ = ["Run", "Version", "key_of", "page", "publish", "sent_runs"]

KEY = "ranking.key"  # tag of runs and versions: a hash of what made them
TOOK = "training.seconds"  # tag of a run: from its first start to its end
COMPARED = "ranking.compared"  # tag of a model: hashes of the last sets of versions from which challengers were chosen
SETS = 100  # most such sets
PARENT = mlflow_tags.MLFLOW_PARENT_RUN_ID  # MLflow's UI shows a run with this tag below its parent
FROM = "from"  # tag of runs and versions: the versions from which they start, or whose sorter they use
OF_VERSION = ("dataset", "loss", "sorter", "snapshot", FROM)  # a run's tags that its version gets, too
LAYOUT = "?workflowType=machine_learning"  # otherwise MLflow's UI opens on traces and prompts
SERVED_BY = Path(__file__).parents[1] / "serving" / "served_model.py"


@dataclass(frozen=True)
class Version:
    """A model to register."""

    model: str  # the registered name, such as `sorter-lstm`
    weights: Path  # the model's folder
    quality: float = 0.0  # larger is better; the best of several new versions becomes the challenger
    tags: Mapping[str, str] = field(default_factory=dict)  # in addition to those of its run
    slices: Callable[[], list[Slice]] = list  # returns slices of its test split; called when it is registered
    write: Callable[[Path], None] | None = None  # writes the reference data for the gate and `monitor` to its folder


@dataclass(frozen=True)
class Run:
    """A finished training; its params and tags are flat.

    Only the `value` of a metric is sent. Its interval is in descriptions, since MLflow would draw separate charts.
    """

    name: str
    experiment: str
    key: str  # a hash of what made it; a run with the same key is sent once
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Row] = ()  # undefined ones are not sent, since MLflow's pages break on NaN
    tags: Mapping[str, str] = field(default_factory=dict)
    history: pd.DataFrame | None = None  # a row per epoch, with a column `epoch`
    files: Mapping[str, list[Path]] = field(default_factory=dict)  # by folder in the run's artifacts
    seeds: tuple["Run", ...] = ()  # child runs
    times: tuple[int, int] | None = None  # start and end in milliseconds since 1970; None if unknown
    used: Mapping[str, float] = field(default_factory=dict)  # resources used, such as `cpu_seconds`
    version: Version | None = None


def key_of(*values: Any) -> str:
    """Return a hash of the values that identify a run."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


def publish(runs: list[Run]) -> list[str]:
    """Send what the store lacks or has lost, and register versions. It can be killed at any point and run again.

    A model's version of the highest quality gets the alias `challenger`, once for each new set of versions, so a
    person's later choice is kept. It also gets the alias `champion` if the model never had a champion.

    Returns:
        Names of the runs that were sent or completed.
    """
    client, origin, sent = connect(create=True), _origin(), []
    versions: dict[str, ModelVersion] = {}  # by the folder of their weights
    candidates: dict[str, list[tuple[float, int, str]]] = {}  # quality, number, and key of each version of a model
    for run in _parents_first(runs):
        parents = [versions[path] for path in inputs_of(run.tags) if path in versions]
        run = _with_origin(run, origin, parents)
        with answering(f"while {run.name} was published ({len(sent)} runs were sent); run `make repro` again"):
            experiment = experiment_of(client, run.experiment)
            run_id, changed = _sent(client, experiment, run, parents)
            for seed in run.seeds:
                changed |= _sent(client, experiment, seed, below=run_id)[1]
            if run.version is not None:
                number, is_new = _registered(client, run_id, run, run.version)
                changed |= is_new
                candidates.setdefault(run.version.model, []).append((run.version.quality, int(number), run.key))
                versions |= dict.fromkeys(_folders(run), client.get_model_version(run.version.model, number))
            # End the run only now, so that a killed one is sent again. Registering ended it too, at its own time.
            if changed or client.get_run(run_id).info.status != "FINISHED":
                _end(client, run_id, run)
            live.discard(client, run.name)
        if changed:
            sent.append(run.name)
    for model, versions_of_model in candidates.items():
        with answering(f"while aliases of {model} were set; run `make repro` again"):
            _set_aliases(client, model, versions_of_model)
    return sent


def _origin() -> dict[str, str]:
    """Return tags with the user who publishes, and the commit."""
    tags = resolve_tags()
    try:
        tags["git_dirty"] = str(
            git(".", "status", "--porcelain", "--untracked-files=no", "--", ":!dvc.lock") != ""
        ).lower()
        tags["git_commit"] = tags[mlflow_tags.MLFLOW_GIT_COMMIT] = git(".", "rev-parse", "HEAD")
    except ValueError:
        tags["git_commit"] = "unknown"
    return tags


def _with_origin(run: Run, origin: Mapping[str, str], parents: Sequence[ModelVersion]) -> Run:
    """Return a run and its seeds with tags for the publisher, the stage, and the versions that it was made from."""
    tags = {**origin, mlflow_tags.MLFLOW_SOURCE_NAME: run.tags.get("stage", run.name), **run.tags}
    if parents:
        tags[FROM] = ", ".join(f"models:/{parent.name}/{parent.version}" for parent in parents)
    return replace(run, tags=tags, seeds=tuple(_with_origin(seed, origin, ()) for seed in run.seeds))


def _folders(run: Run) -> list[str]:
    """Return the folders by which other runs refer to a run's model: of its weights, and of all its seeds."""
    if run.version is None:
        return []
    weights = run.version.weights
    return [weights.as_posix(), weights.parent.as_posix()]


def _parents_first(runs: list[Run]) -> list[Run]:
    """Return the runs, each after those whose models it was made from."""
    by_name, made_by = {run.name: run for run in runs}, dict[str, str]()
    for run in runs:
        made_by |= dict.fromkeys(_folders(run), run.name)
    order = TopologicalSorter[str]()
    for run in runs:
        order.add(run.name, *(made_by[path] for path in inputs_of(run.tags) if path in made_by))
    return [by_name[name] for name in order.static_order()]


def _sent(
    client: mlflow.MlflowClient,
    experiment: str,
    run: Run,
    parents: Sequence[ModelVersion] = (),
    below: str | None = None,
) -> tuple[str, bool]:
    """Return a run's id in the store, and whether it was sent because it was missing, unfinished, or lacked files.

    A new run is left unfinished unless it is `below` another run.
    """
    complete = None
    for sent in client.search_runs([experiment], f"tags.`{KEY}` = '{run.key}'"):
        if complete is None and sent.info.status == "FINISHED" and _has_files(sent.info.run_id, run):
            complete = sent
        else:
            client.delete_run(sent.info.run_id)
    if complete is not None:
        if below is not None and complete.data.tags.get(PARENT) != below:
            client.set_tag(complete.info.run_id, PARENT, below)
        return complete.info.run_id, False
    run_id = _create(client, experiment, run, parents, below)
    if below is not None:
        _end(client, run_id, run)
    return run_id, True


def _has_files(run_id: str, run: Run) -> bool:
    return all(registry.has_files(f"runs:/{run_id}/{folder}") for folder in run.files)


def _end(client: mlflow.MlflowClient, run_id: str, run: Run) -> None:
    """Mark a run as finished; if its times are unknown, its duration is 0 rather than the time of sending it."""
    end = run.times[1] if run.times else client.get_run(run_id).info.start_time
    client.set_terminated(run_id, "FINISHED", end_time=end)


def _create(
    client: mlflow.MlflowClient, experiment: str, run: Run, parents: Sequence[ModelVersion], below: str | None
) -> str:
    now = int(time.time() * 1000)
    begin, end = run.times or (now, now)
    took = f"{(end - begin) / 1000:.1f}" if run.times else "unknown: it was not trained here, or before this was kept"
    tags = {**run.tags, TOOK: took, KEY: run.key}
    tags |= {mlflow_tags.MLFLOW_RUN_NOTE: summary(metrics=run.metrics, tags=tags)} if below is None else {PARENT: below}
    run_id = client.create_run(experiment, start_time=begin, run_name=run.name, tags=tags).info.run_id

    # Numbers.
    metrics = [Metric(row.metric, float(row.value), now, 0) for row in run.metrics if not isnan(row.value)]
    metrics += [
        Metric(f"system/{name}", value, now, 0) for name, value in run.used.items()
    ]  # shown apart in MLflow's UI
    metrics += [] if run.history is None else live.epoch_metrics(run.history)
    params = [Param(name, str(value)) for name, value in run.params.items()]
    for start in range(0, max(len(metrics), len(params)), 100):  # one call takes at most 100 params
        client.log_batch(run_id, metrics[start : start + 100], params[start : start + 100], [])

    # Inputs, and output files.
    models = [LoggedModelInput(str(parent.source).removeprefix("models:/")) for parent in parents]
    if (datasets := _datasets(run)) or models:
        client.log_inputs(run_id, datasets, models)
    for folder, files in run.files.items():
        for file in files:
            client.log_artifact(run_id, str(file), folder)
    return run_id


def _datasets(run: Run) -> list[DatasetInput]:
    """Return a run's data files as MLflow datasets, each with its use: train, val, or test."""
    datasets = []
    for name, md5 in inputs_of(run.tags).items():
        path = Path(name)
        if path.parts[0] == "data":
            dataset = Dataset(path.parent.name, md5[:8], "local", json.dumps({"uri": name}))
            datasets.append(DatasetInput(dataset, [InputTag(mlflow_tags.MLFLOW_DATASET_CONTEXT, path.stem)]))
    return datasets


def _registered(client: mlflow.MlflowClient, run_id: str, run: Run, version: Version) -> tuple[str, bool]:
    """Return the number of a run's version, and whether it had to be registered."""
    model = version.model
    versions = client.search_model_versions(f"name = '{model}' and tags.`{KEY}` = '{run.key}'")
    of_run = [str(registered.version) for registered in versions if registered.run_id == run_id]
    complete = [number for number in of_run if registry.has_files(f"models:/{model}/{number}")]
    number = complete[0] if complete else _register(client, run_id, run, version)
    for registered in versions:
        if str(registered.version) != number:  # its run or its files are lost
            registry.replace(client, registered, number)
    return number, not complete


def _made(run: Run, tags: Mapping[str, str], slices: list[Slice]) -> dict[str, Any]:
    """Return the origin and the metrics of a version, for its model.json."""
    metrics = {}
    for row in run.metrics:
        if not isnan(row.value):
            bounds = {} if isnan(row.low) else {"low": row.low, "high": row.high}
            metrics[row.metric] = {"value": row.value, **bounds}
    return {
        "rankgrad": __version__, "commit": tags["git_commit"], "uncommitted_changes": tags.get("git_dirty") == "true",
        "inputs": inputs_of(tags), "from": tags.get(FROM, ""), "metrics": metrics,
        "slices": [asdict(piece) for piece in slices],
    }  # fmt: skip


def _register(client: mlflow.MlflowClient, run_id: str, run: Run, version: Version) -> str:
    version_tags = {name: value for name, value in run.tags.items() if name in OF_VERSION}
    version_tags |= {**version.tags, KEY: run.key, "run": run.name}
    all_tags, slices = {**run.tags, **version_tags}, version.slices()
    text = card(version.model, version.weights, params=run.params, metrics=run.metrics, tags=all_tags, slices=slices)
    with TemporaryDirectory() as scratch:
        weights = Path(scratch) / "weights"  # `rankgrad.sorters.load_sorter` expects this name
        shutil.copytree(version.weights, weights)
        (weights / "card.md").write_text(text + "\n")
        if version.write is not None:
            version.write(weights)
        recipe = recipe_of(weights) | {"made": _made(run, all_tags, slices)}
        (weights / "model.json").write_text(as_json(recipe, indent=2, sort_keys=True) + "\n")
        with mlflow.start_run(run_id=run_id):
            logged = mlflow.pyfunc.log_model(
                name=run.name,
                python_model=str(SERVED_BY),
                artifacts={"weights": str(weights)},
                # The model may run where rankgrad is not installed.
                code_paths=["src/rankgrad", *copy_own(recipe, Path(scratch))],
                signature=signature_of(version.weights),
                input_example=example_of(version.weights),
                # MLflow would take ten seconds to infer them, and would see only what one request imports.
                pip_requirements=requirements(recipe, SERVED_BY),
            )
    try:
        client.create_registered_model(version.model)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        registry.refuse_old(client.get_registered_model(version.model))
    created = client.create_model_version(
        version.model, logged.model_uri, run_id, tags=version_tags, model_id=logged.model_id, description=text
    )
    # Write the card again with the number; a process killed in between leaves a card without it, rather than no card.
    client.update_model_version(version.model, created.version, description=text.replace(NUMBER, str(created.version)))
    return str(created.version)


def _set_aliases(client: mlflow.MlflowClient, name: str, candidates: list[tuple[float, int, str]]) -> None:
    """Set a model's aliases among the versions in dvc.lock, each given by quality, number, and key."""
    model = registry.model_of(client, name)
    _, best, _ = max(candidates)
    # For a known set of versions, the alias stays: a person may have moved it, or a retraining in a clone.
    compared = key_of(*sorted(key for *_, key in candidates))[:16]
    known = [*filter(None, model.tags.get(COMPARED, "").split(","))]
    if compared not in known:
        client.set_registered_model_alias(name, "challenger", str(best))
        known.append(compared)
    if registry.holder(model) is None and not registry.champions(client, model):
        registry.set_champion(client, name, str(best), by="first")
    client.set_registered_model_tag(name, COMPARED, ",".join(known[-SETS:]))


def sent_runs(keys: Mapping[str, str]) -> dict[str, Sent]:
    """Return published runs by name, for `page`; empty if the store has no server to show them.

    Args:
        keys: keys of runs by name, as in reports/published.json.
    """
    client, result = connect(create=True), {}
    if mlflow.get_tracking_uri().startswith("http"):
        with answering():
            own = client.search_experiments(filter_string=f"name LIKE '{prefixed('')}%'")
            experiments = [experiment.experiment_id for experiment in own]
            for name, key in keys.items():
                for run in client.search_runs(experiments, f"tags.`{KEY}` = '{key}'", max_results=1):
                    result[name] = run
    return result


def page(run: Sent, artifact: str | None = None) -> str:
    """Return the address of a run's page, or of one of its artifacts, on the current server."""
    path = f"experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    if artifact is not None:
        path += f"/artifacts/{quote(artifact)}"
    return f"{without_credentials(mlflow.get_tracking_uri()).rstrip('/')}/#/{path}{LAYOUT}"
