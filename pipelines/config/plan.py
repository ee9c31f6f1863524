"""Plans of runs: the params of a run, merged and typed once, for checks and for every stage."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.config.errors import ParamsError, Problem
from pipelines.config.schema import NONE, Model, Run, Settings, typed
from rankgrad import lookup
from rankgrad.training.options import Auxiliary, Component

__all__ = ["RunPlan", "differences", "flat_of", "merged", "modules_of", "resolve", "run_of"]

SETTINGS = ("training", "loss", "auxiliary", "model", "sorter_optimizer")  # blocks of a run that a grid may change
# Keys of a run that define its loss, and keys that reports show anyway.
OF_LOSS = ("loss", "sorter", "sorter_optimizer", "auxiliary", "seeds", "grid")


@dataclass(frozen=True)
class RunPlan:
    """A run with one setting of its grid: all that is needed to train, evaluate, and publish it.

    Attributes:
        name: name of the run.
        task: name of its task.
        dataset: key of its dataset in the params.
        model: head and backbones; the task's default where the params name none.
        start: folder of another run, files with weights, or None for random weights.
        loss: loss by name, with its options.
        sorter: key of its sorter in the params, or None.
        sorter_optimizer: optimizer of a sorter that keeps training, or None.
        auxiliary: second loss to add, or None.
        training: the task's `Training`.
        seeds: the seeds to train.
        components: modules that the run uses, including defaults.
    """

    name: str
    task: str
    dataset: str
    model: Model
    start: Path | None
    loss: Component
    sorter: str | None
    sorter_optimizer: Component | None
    auxiliary: Auxiliary | None
    training: Any
    seeds: tuple[int, ...]
    components: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """Return all values that affect the training, as plain values."""
        values = {key: value for key, value in vars(self).items() if key not in ("seeds", "components")}
        typed_values = {key: asdict(value) for key, value in values.items() if hasattr(value, "__dataclass_fields__")}
        return values | typed_values | {"model": self.model.model_dump(), "start": self.start and str(self.start)}


def resolve(settings: Settings, name: str, setting: Mapping[str, Any] | None = None) -> RunPlan:
    """Return the plan of a run: its task's training, the run's own changes, and those of a setting of its grid.

    Raises:
        ParamsError: an option does not exist, or a value is not allowed.
    """
    place = f"runs.{name}"
    try:
        task = lookup.find("tasks", settings.runs[name].task, where=f"{place}.task")
    except lookup.ComponentError as error:
        raise ParamsError(Problem(error.place, error.reason)) from error
    values = run_of(settings, name, setting)
    training = typed(task.Training, values["training"], f"{place}.training")
    run = typed(Run, values, place)
    model = run.model if run.model.text else run.model.model_copy(update={"text": task.text})
    return RunPlan(
        name=name,
        task=run.task,
        dataset=run.dataset,
        model=model,
        start=None if Path(run.start).name == NONE else Path(run.start),
        loss=run.loss,
        sorter=None if run.sorter == NONE else run.sorter,
        sorter_optimizer=run.sorter_optimizer,
        auxiliary=None if run.auxiliary.name == NONE else run.auxiliary,
        training=training,
        seeds=tuple(run.seeds),
        components=tuple(sorted(modules_of(settings, run.model_copy(update={"model": model})).values())),
    )


def modules_of(settings: Settings, run: Run) -> dict[str, str]:
    """Return the modules of the components that a run names, by their role in it."""
    named = {
        "task": ("tasks", run.task),
        "head": ("models.heads", run.model.name),
        "backbone": ("models.backbones", run.model.backbone.name),
        "loss": ("losses", run.loss.name),
    }
    if run.model.text is not None:
        named["text"] = ("models.backbones", run.model.text.name)
    if run.auxiliary.name != NONE:
        named["auxiliary"] = ("losses", run.auxiliary.name)
    if run.sorter in settings.sorters:
        named["sorter"] = ("sorters", settings.sorters[run.sorter].name)
    return {use: f"rankgrad.{folder}.{name}" for use, (folder, name) in named.items()}


def run_of(settings: Settings, name: str, setting: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the plain values of a run, with its training merged into its task's and a grid setting applied.

    Raises:
        ParamsError: the setting changes an option that the run does not have.
    """
    run = settings.runs[name].model_dump()
    run["training"] = merged(deepcopy(settings.training.get(run["task"], {})), run["training"])
    for key, value in (setting or {}).items():
        *parents, last = key.split(".")
        block: Any = run
        for parent in parents:
            block = block.get(parent) if isinstance(block, dict) else None
        is_option = isinstance(block, dict) and (last in block or parents[-1] == "args") and last != "name"
        if not is_option or parents[0] not in SETTINGS:
            expected = "an option such as training.probe.optimizer.args.lr, loss.args.margin, or auxiliary.weight"
            raise ParamsError(Problem(f"runs.{name}.grid.{key}", "is not an option of this run", expected))
        block[last] = value
    return run


def differences(settings: Settings, name: str, baseline: str) -> dict[str, tuple[Any, Any]]:
    """Return the settings, other than the loss, in which a run differs from another, with both values."""
    values = []
    for run in (name, baseline):
        flat = {key: value for key, value in flat_of(run_of(settings, run)).items() if key.split(".")[0] not in OF_LOSS}
        values.append({"settings": len(settings.runs[run].settings)} | flat)
    ours, theirs = values
    chosen = {*settings.runs[name].grid, *settings.runs[baseline].grid}
    result = {}
    for key in dict.fromkeys([*ours, *theirs]):
        if ours.get(key) != theirs.get(key) and key not in chosen:
            result[key] = (ours.get(key), theirs.get(key))
    return result


def flat_of(block: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values under dotted keys.

    >>> flat_of({"probe": {"epochs": 15, "optimizer": {"name": "SGD"}}})
    {'probe.epochs': 15, 'probe.optimizer.name': 'SGD'}
    """
    flat = {}
    for key, value in block.items():
        flat |= flat_of(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def merged(block: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested changes into a block. A block with another `name` is replaced whole, including its options.

    >>> optimizer = {"name": "AdamW", "args": {"lr": 0.01, "weight_decay": 0.1}}
    >>> merged({"optimizer": deepcopy(optimizer)}, {"optimizer": {"args": {"lr": 0.03}}})
    {'optimizer': {'name': 'AdamW', 'args': {'lr': 0.03, 'weight_decay': 0.1}}}
    >>> merged({"optimizer": deepcopy(optimizer)}, {"optimizer": {"name": "SGD", "args": {"lr": 0.03}}})
    {'optimizer': {'name': 'SGD', 'args': {'lr': 0.03}}}
    """
    for key, value in changes.items():
        before = block.get(key)
        if isinstance(value, Mapping) and isinstance(before, dict) and value.get("name") in (None, before.get("name")):
            merged(before, value)
        else:
            block[key] = deepcopy(value)
    return block
