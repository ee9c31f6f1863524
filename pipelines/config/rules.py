"""What must agree with what in the params: names are components, options fit them, runs can be trained."""

import inspect
import json
import typing
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError

from pipelines.config.schema import NONE, Component, ParamsError, Run, Settings, check_shapes, describe, read
from rankops import lookup
from rankops.datasets.scenes.base import Scenes
from rankops.models.perceptron import Perceptron
from rankops.tasks.base import Task
from rankops.training.options import Optimizer, Schedule

__all__ = ["SORTER_METRICS", "check", "check_values"]

SORTER_METRICS = ("negative_l1", "exactly_ordered")  # larger is better
LABELS, WORDS = 10, ["<padding>", "<unknown>", "a"]  # of networks that are built to see whether they can be


def check(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check all that they say; every component is built once, without memory.

    Raises:
        ParamsError: a line for each thing that is wrong: its place, what was found, and what is possible.
    """
    return check_values(read(path), path=path)


def check_values(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """The same of plain values."""
    settings = check_shapes(values, path=path)
    lines = list(_problems(settings, path))
    for key, run in settings.runs.items():  # which inherit their task's mistakes
        shared, own = f"{path}: training.{run.task}.", f"{path}: runs.{key}.training."
        inherited = {line.replace(shared, own, 1) for line in lines if line.startswith(shared)}
        lines = [line for line in lines if line not in inherited]
    if lines:
        raise ParamsError("\n".join(dict.fromkeys(lines)))
    return settings


def _problems(settings: Settings, path: str | Path) -> Iterator[str]:
    """Yield a line for each thing that is wrong."""
    parts: list[Callable[[], Any]] = [
        *(lambda key=key: _check_dataset(settings, key) for key in settings.datasets),
        *(lambda key=key: _check_adapter(settings, key) for key in settings.real_data),
        *(lambda key=key: _check_sorter(settings, key) for key in settings.sorters),
        *(
            lambda task=task: _check_task(task, settings.training[task], f"training.{task}")
            for task in settings.training
        ),
        *(lambda key=key: _check_run(settings, key) for key in settings.runs),
        *(lambda key=key: _check_comparison(settings, key) for key in settings.comparisons),
        lambda: _check_gate(settings),
        lambda: _check_figures(settings),
    ]
    for part in parts:
        try:
            part()
        except ParamsError as error:
            yield from (f"{path}: {line}" for line in str(error).splitlines())
        except ValueError as error:
            yield f"{path}: {error}"


_adapter = cache(TypeAdapter)  # which takes milliseconds to make


def _typed(kind: Any, value: Any, place: str) -> Any:
    """Return a value as what it must be; a dataclass refuses unknown keys."""
    try:  # as JSON, of which strictness refuses "9" for a number but takes an object for a dataclass
        return _adapter(kind).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        lines = describe(error, path="", place=place, shape=kind)
        raise ParamsError("\n".join(line.removeprefix(": ") for line in lines)) from error


def _check_options(folder: str, component: Component, place: str) -> Callable[..., Any]:
    """Return the component of that name, which takes these options."""
    lookup.check_options(folder, component.name, component.args, where=place)
    thing = lookup.find(folder, component.name)
    hints = typing.get_type_hints(thing.__init__ if isinstance(thing, type) else thing)
    for option, value in component.args.items():
        if option in hints:
            _typed(hints[option], value, f"{place}.args.{option}")
    return thing


def _built(folder: str, component: Component, place: str, **runtime: Any) -> torch.nn.Module:
    """Return a component with these options, built without memory: its own error says why it cannot be."""
    thing = _check_options(folder, component, place)
    asked = inspect.signature(thing).parameters
    try:
        with torch.device("meta"):
            return thing(**component.args, **{name: value for name, value in runtime.items() if name in asked})
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{place}.args: {error}") from error


def _check_dataset(settings: Settings, key: str) -> None:
    block, place = settings.datasets[key], f"datasets.{key}"
    kind = lookup.find("datasets", block.name, where=f"{place}.name")
    if not isinstance(kind, type) or not issubclass(kind, Scenes):
        raise ValueError(f"{place}.name: {block.name} is not drawn here; expected a file of rankops/datasets/scenes")
    _typed(kind, block.model_dump(exclude={"name"}), place)


def _check_adapter(settings: Settings, key: str) -> None:
    from rankops.datasets.public.reading import PublicDataset  # which imports pandas

    block, place = settings.real_data[key], f"real_data.{key}"
    kind = lookup.find("datasets", key, where=place)
    if not isinstance(kind, type) or not issubclass(kind, PublicDataset):
        raise ValueError(f"{place}: {key} is drawn here, not read from disk: give it a block under datasets")
    if (block.size is None) == bool({"image", "frames"} & set(kind.schema.names)):
        expected = "null: it has no images" if block.size else "a number of pixels, the side of its images"
        raise ValueError(f"{place}.size: is {block.size}, expected {expected}")
    _typed(kind, block.args, f"{place}.args")


def _check_sorter(settings: Settings, key: str) -> None:
    sorter, place = settings.sorters[key], f"sorters.{key}"
    module = _built("sorters", sorter, place, length=settings.score_vectors.length)
    has_weights = any(True for _ in module.parameters())
    if has_weights != (sorter.training is not None):
        expected = "a block of options: it has weights to train" if has_weights else "null: it has no weights"
        raise ValueError(f"{place}.training: {sorter.name} needs {expected}")
    if sorter.training is not None:
        _check_phase(sorter.training.model_dump(), f"{place}.training")


def _check_phase(block: dict[str, Any], place: str) -> None:
    """Check the optimizer and the schedule of a phase, or of every phase within a block."""
    if "optimizer" in block:
        _check_optimizer(block["optimizer"], f"{place}.optimizer")
        _typed(Schedule, block.get("schedule"), f"{place}.schedule")
    for key, value in block.items():
        if isinstance(value, dict) and key not in ("optimizer", "schedule"):
            _check_phase(value, f"{place}.{key}")


def _check_optimizer(block: dict[str, Any], place: str) -> None:
    optimizer = _typed(Optimizer, block, place)
    kind = getattr(torch.optim, optimizer.name, None)
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        hint = lookup.did_you_mean(optimizer.name, torch.optim.__all__) or "; try AdamW or SGD"
        raise ValueError(f"{place}.name: no {optimizer.name!r} in torch.optim{hint}")
    options = inspect.signature(kind).parameters
    for name, value in optimizer.args.items():
        if isinstance(value, str) and name in options and isinstance(options[name].default, int | float):
            raise ValueError(
                f"{place}.args.{name} is the text {value!r}, expected a number such as {options[name].default}"
            )
    try:
        kind([torch.zeros(1, requires_grad=True)], **optimizer.args)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{place}.args: {str(error).removeprefix(f'{kind.__name__}.__init__() ')}") from error


def _check_task(task: str, training: dict[str, Any], place: str) -> type[Task]:
    """Return the class of a task whose training options these are."""
    kind = lookup.find("tasks", task, where=place if place.startswith("training") else f"{place}.task")
    _check_phase(training, place)
    _typed(kind.Training, training, place)
    return kind


def _check_run(settings: Settings, key: str) -> None:
    place = f"runs.{key}"
    lookup.find("tasks", settings.runs[key].task, where=f"{place}.task")
    for setting in settings.runs[key].settings:
        values = settings.run_of(key, setting)
        run = _typed(Run, values, place)
        task = _check_task(run.task, values["training"], f"{place}.training")
        _check_dataset_of(settings, run, task, place)
        _check_model(run, task, place)
        _check_losses(settings, run, task, values["training"], place)
    _check_start(settings, key)


def _check_dataset_of(settings: Settings, run: Run, task: type[Task], place: str) -> None:
    if run.dataset not in settings.all_datasets:
        raise ValueError(
            f"{place}.dataset: no {run.dataset!r}; there are {', '.join(settings.all_datasets)} (data read from "
            "disk needs a block under real_data)"
        )
    fitting = [name for name in settings.all_datasets if not _lacks(settings, name, task)]
    if missing := _lacks(settings, run.dataset, task):
        raise ValueError(
            f"{place}.dataset: {run.dataset} has no column {' or '.join(missing)}, from which {run.task} learns; "
            f"{', '.join(fitting) or 'none of the datasets'} can be had"
        )


def _lacks(settings: Settings, dataset: str, task: type[Task]) -> list[str]:
    """Return the columns that a task learns from and a dataset does not have."""
    name = settings.datasets[dataset].name if dataset in settings.datasets else dataset
    columns = lookup.find("datasets", name).schema.names
    return [column for column in task.learns_from if column not in columns]


def _check_model(run: Run, task: type[Task], place: str) -> None:
    model = _built("models", run.model, f"{place}.model", outputs=LABELS, features=1, words=WORDS)
    if run.task == "query_ranking":
        if not isinstance(model, Perceptron):
            raise ValueError(f"{place}.model.name: {run.model.name} does not score documents; try perceptron")
        return
    needed = "embedding_size" if run.task == "label_ranking" else "embed"
    if not hasattr(model, needed) or hasattr(model, "encode_text") != (run.task == "retrieval"):
        fitting = "dual_encoder" if run.task == "retrieval" else "convnet"
        raise ValueError(f"{place}.model.name: {run.model.name} does not embed images for {run.task}; try {fitting}")


def _check_losses(settings: Settings, run: Run, task: type[Task], training: dict[str, Any], place: str) -> None:
    if run.sorter != NONE and run.sorter not in settings.sorters:
        raise ValueError(
            f"{place}.sorter: no {run.sorter!r} under sorters; there are {', '.join(settings.sorters)}, {NONE}"
            f"{lookup.did_you_mean(run.sorter, settings.sorters)}"
        )
    takes = _check_loss(task, run.loss, f"{place}.loss")
    takes_too = run.auxiliary.name != NONE and _check_loss(task, run.auxiliary, f"{place}.auxiliary")
    if (takes or takes_too) and run.sorter == NONE:
        name = (run.loss if takes else run.auxiliary).name
        raise ValueError(f"{place}.sorter: {name} needs one of {', '.join(settings.sorters)}")
    if run.sorter == NONE:
        if run.sorter_optimizer is not None:
            raise ValueError(f"{place}.sorter_optimizer: there is no sorter to go on learning: leave it out")
        return
    if not (takes or takes_too):
        raise ValueError(f"{place}.sorter: {run.loss.name} takes no sorter, expected {NONE}")
    sorter = settings.sorters[run.sorter]
    if run.sorter_optimizer is not None:
        if sorter.training is None or not takes:
            raise ValueError(
                f"{place}.sorter_optimizer: {run.sorter} in {run.loss.name} has nothing to learn: leave it out"
            )
        _check_optimizer(run.sorter_optimizer.model_dump(), f"{place}.sorter_optimizer")
    if "length" not in inspect.signature(lookup.find("sorters", sorter.name)).parameters:
        return
    length, batch_size = settings.score_vectors.length, training.get("batch_size")
    if batch_size is None:
        raise ValueError(
            f"{place}.sorter: {run.sorter} takes {length} scores and no other number, but {run.task} ranks others; "
            "expected a sorter of any length, such as laplace"
        )
    if batch_size % length:
        raise ValueError(
            f"{place}: the training's batch_size is {batch_size}, but {run.sorter} ranks groups of score_vectors."
            f"length = {length}: expected a multiple of it"
        )


def _check_loss(task: type[Task], loss: Component, place: str) -> bool:
    """Return whether a loss of this task, with these options, takes a sorter."""
    function = _check_options("losses", loss, place)
    parameters = list(inspect.signature(function).parameters)
    if parameters[1] not in task.truth or loss.name == NONE:
        fitting = [
            name
            for name in lookup.names("losses")
            if name != NONE and list(inspect.signature(lookup.find("losses", name)).parameters)[1] in task.truth
        ]
        raise ValueError(f"{place}.name: {loss.name} is no loss of {task.name}; there are {', '.join(fitting)}")
    truth = {
        "label_ranks": torch.tensor([[2, 1], [0, 1]]),
        "target": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
    }.get(parameters[1], torch.eye(2, dtype=torch.bool))
    runtime = {"sorter": lambda scores, **_: scores.argsort(-1).argsort(-1) + 1.0, "generator": torch.Generator()}
    try:
        function(
            torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
            truth,
            **loss.args,
            **{name: value for name, value in runtime.items() if name in parameters},
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}.args: {error}") from error
    return "sorter" in parameters


def _check_start(settings: Settings, key: str) -> None:
    place, run = f"runs.{key}", settings.runs[key]
    if run.start != PurePosixPath(run.start).as_posix():  # by which DVC knows what comes first
        expected = PurePosixPath(run.start).as_posix()
        raise ValueError(f"{place}.start: is {run.start!r}, expected a plain path: {expected}")
    folder, _, name = run.start.rpartition("/")
    task = lookup.find("tasks", run.task)
    training = settings.training_of(key)
    alone = [phase for phase in task.phases if phase not in task.needs_start]
    if name == NONE and not any(training[phase]["epochs"] for phase in alone):
        raise ValueError(
            f"{place}: the training's {', '.join(alone)}.epochs is 0, but the run starts from random weights, which "
            "need at least 1: or give it a start"
        )
    if folder != "models/runs" or name == NONE:
        return
    if name not in settings.runs:
        hint = lookup.did_you_mean(name, settings.runs)
        raise ValueError(f"{place}.start: no run {name!r}; there are {', '.join(settings.runs)}, {NONE}{hint}")
    chain = [key]
    while chain[-1] in settings.runs:
        chain.append(settings.runs[chain[-1]].start.rpartition("/")[2])
        if chain[-1] in chain[:-1]:
            raise ValueError(
                f"{place}.start: {', which starts from '.join(chain)}: expected a run that goes back to random weights "
                "or to a file"
            )
    start = settings.runs[name]
    if run.dataset in settings.real_data and start.dataset not in settings.real_data:
        raise ValueError(
            f"{place}.start: {name} learned on {start.dataset}, gray digits, which are no start for {run.dataset}: "
            "give it a safetensors file of weights (docs/real_data.md)"
        )
    ours, theirs = _backbone(run.model), _backbone(start.model)
    if ours != theirs:
        shown = [
            which if channels is None else f"{which} with channels {channels}" for which, channels in (ours, theirs)
        ]
        raise ValueError(
            f"{place}.model: {shown[0]}, but it starts from {name}, which is {shown[1]}: expected the same"
        )


def _backbone(model: Component) -> tuple[str, Any]:
    """Return which network gives the feature maps, and its channels."""
    options = inspect.signature(lookup.find("models", model.name)).parameters
    name = model.args.get("backbone", options["backbone"].default) if "backbone" in options else model.name
    own = inspect.signature(lookup.find("models", name)).parameters.get("channels")
    given = model.args.get("channels")
    channels = own.default if own and given is None else given
    return name, list(channels) if own and isinstance(channels, (list, tuple)) else channels


def _check_comparison(settings: Settings, key: str) -> None:
    place, comparison = f"comparisons.{key}", settings.comparisons[key]
    for name in (comparison.baseline, *comparison.runs):
        if name not in settings.runs:
            raise ValueError(f"{place}: no run {name!r}; there are {', '.join(settings.runs)}")
    first = settings.runs[comparison.baseline]
    for name in comparison.runs:
        run = settings.runs[name]
        if (run.task, _test_data(settings, run)) != (first.task, _test_data(settings, first)):
            raise ValueError(
                f"{place}.runs: {name} is of {run.task} on {run.dataset}, {comparison.baseline} of {first.task} on "
                f"{first.dataset}: expected the same test data"
            )
        if not set(run.seeds) & set(first.seeds):
            raise ValueError(f"{place}.runs: {name} and {comparison.baseline} have no seed in common, which pairs them")
    metrics = [metric.name for metric in lookup.find("tasks", first.task).metrics]
    if comparison.metric not in metrics:
        known = f"{', '.join(metrics)}{lookup.did_you_mean(comparison.metric, metrics)}"
        raise ValueError(f"{place}.metric: no {comparison.metric!r} of {first.task}; there are {known}")


def _test_data(settings: Settings, run: Run) -> Any:
    """Return what decides on a run's test split: a variant of a dataset may differ in its training split alone."""
    if run.dataset not in settings.datasets:
        return run.dataset
    block = settings.datasets[run.dataset].model_dump()
    block["rows"] = {split: rows for split, rows in block["rows"].items() if split != "train"}
    return {option: value for option, value in block.items() if not option.startswith("train_")}


def _check_gate(settings: Settings) -> None:
    known = {"sorter": list(SORTER_METRICS)}
    known |= {task: [m.name for m in lookup.find("tasks", task).metrics] for task in lookup.names("tasks")}
    for task, judged in settings.gate.judged.items():
        if task not in known:
            raise ValueError(f"gate.judged.{task}: no such task; there are {', '.join(known)}")
        for metric in (judged.metric, *judged.guarded):
            if metric not in known[task]:
                hint = lookup.did_you_mean(metric, known[task])
                raise ValueError(f"gate.judged.{task}: no metric {metric!r}; there are {', '.join(known[task])}{hint}")
    used = {"sorter", *(run.task for run in settings.runs.values())}
    if missing := sorted(used - set(settings.gate.judged)):
        raise ValueError(f"gate.judged: no block for {', '.join(missing)}: every model is judged by a metric")


def _check_figures(settings: Settings) -> None:
    """Check the blocks that experiments/params.yaml alone has."""
    if (plan := settings.synthetic_precision) is not None:
        task = lookup.find("tasks", "multilabel")
        for name, method in plan.methods.items():
            place = f"synthetic_precision.methods.{name}"
            takes = _check_loss(task, method.loss, f"{place}.loss")
            if method.sorter not in ([*settings.sorters] if takes else [NONE]):
                expected = f"one of {', '.join(settings.sorters)}" if takes else NONE
                raise ValueError(f"{place}.sorter: is {method.sorter!r}, {method.loss.name} needs {expected}")
            _check_optimizer(method.optimizer.model_dump(), f"{place}.optimizer")
            length = settings.score_vectors.length
            if takes and plan.batch_size % length:
                raise ValueError(
                    f"synthetic_precision.batch_size is {plan.batch_size}, expected a multiple of score_vectors.length "
                    f"= {length}"
                )
    if (figures := settings.label_ranking_figures) is not None:
        rankers = [name for name, run in settings.runs.items() if run.task == "label_ranking"]
        scenes = [name for name, block in settings.datasets.items() if block.name == "ranked_mnist"]
        for key, names, known in (("runs", figures.runs, rankers), ("datasets", figures.datasets, scenes)):
            if unknown := [name for name in names if name not in known]:
                raise ValueError(f"label_ranking_figures.{key}: no {unknown[0]!r}; there are {', '.join(known)}")
