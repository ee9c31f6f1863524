"""What must agree with what in the params: names are components, options fit them, runs can be trained."""

import inspect
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError

from pipelines.config.schema import (
    DRAWN_FROM,
    NONE,
    Component,
    Dataset,
    Model,
    ParamsError,
    Run,
    Settings,
    check_shapes,
    describe,
    others,
    read,
)
from rankgrad import lookup
from rankgrad.datasets.scenes.base import Scenes
from rankgrad.io.starts import check_fit, with_files
from rankgrad.sorters.laplace import Laplace
from rankgrad.tasks import Task
from rankgrad.training.objective import JOINTLY
from rankgrad.training.options import Optimizer, Schedule

__all__ = ["SORTER_METRICS", "check", "check_values"]

SORTER_METRICS = ("negative_l1", "exactly_ordered")  # larger is better
LABELS, WORDS = 10, ["<padding>", "<unknown>", "a"]  # of networks that are built to see whether they can be
OPTIMIZERS = [name for name in torch.optim.__all__ if name[0].isupper() and name != "Optimizer"]
# Folders and files of the pipeline's own, which no dataset may be called.
TAKEN = ("raw", "digits", "score_vectors", "params", "code", "incoming")


def check(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check all that they say; every component is built once, without memory.

    A ParamsError has a line for each thing that is wrong: its place, what was found, and what is possible.
    """
    return check_values(read(path), path=path)


def check_values(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """The same of plain values."""
    settings = check_shapes(values, path=path)
    models = ["sorter", *(run.task for run in settings.runs.values())]
    checks: dict[str, tuple[Callable[[Settings, str, str], Any], Collection[str]]] = {
        "datasets": (_check_dataset, settings.datasets),
        "sorters": (_check_sorter, settings.sorters),
        "training": (_check_training, settings.training),
        "runs": (_check_run, settings.runs),
        "comparisons": (_check_comparison, settings.comparisons),
        "gate.judged": (_check_judged, [*models, *settings.gate.judged]),
    }
    unread = [f"{place}: is {found}" for place, found in _unread(values)]
    problems: dict[str, list[str]] = {"": unread} if unread else {}  # by place
    for block, (check_one, keys) in checks.items():
        for key in keys:
            if block == "runs" and _inherited(settings.runs[key]) & problems.keys():
                continue
            try:
                check_one(settings, key, f"{block}.{key}")
            except ValueError as error:
                problems[f"{block}.{key}"] = str(error).splitlines()
    if problems:
        lines = dict.fromkeys(line for some in problems.values() for line in some)
        raise ParamsError("\n".join(f"{path}: {line}" for line in lines))
    return settings


def _inherited(run: Run) -> set[str]:
    """Return the places whose problems a run has too."""
    return {f"training.{run.task}", f"datasets.{run.dataset}"}


def _unread(values: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield what no stage can take of blocks and lists, by place: numbers that are NaN or infinite, and days."""
    if isinstance(values, float) and not math.isfinite(values):
        yield place, f"{values}, expected a finite number"
    elif isinstance(values, date):
        yield place, f"the day {values}, which DVC does not read: expected quotes around it"
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _unread(value, f"{place}.{key}" if place else str(key))
    elif isinstance(values, list):
        for number, value in enumerate(values):
            yield from _unread(value, f"{place}.{number}")


def _check_known(name: str, known: Collection[str], place: str, what: str = "", hint: str = "") -> None:
    if name not in known:
        raise ValueError(f"{place}: no {what}{name!r}{others(name, known)}{hint}")


_adapter = cache(TypeAdapter)  # which takes milliseconds to make


def _typed(kind: Any, value: Any, place: str) -> Any:
    """Return a value as what it must be; a dataclass refuses unknown keys."""
    try:  # as JSON, of which strictness refuses "9" for a number but takes an object for a dataclass
        return _adapter(kind).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        raise ParamsError("\n".join(describe(error, kind, place))) from error


def _check_options(folder: str, component: Component, place: str) -> Callable[..., Any]:
    """Return the component of that name, which takes these options."""
    lookup.check_options(folder, component.name, component.args, where=place)
    thing = lookup.find(folder, component.name)
    kinds = lookup.options(thing)
    for option, value in component.args.items():
        _typed(kinds[option], value, f"{place}.args.{option}")
    return thing


def _built(folder: str, component: Component, place: str, **runtime: Any) -> torch.nn.Module:
    """Return a component with these options, built without memory: its own error says why it cannot be."""
    thing = _check_options(folder, component, place)
    asked = inspect.signature(thing).parameters
    try:
        with torch.device("meta"):
            return thing(**component.args, **{name: value for name, value in runtime.items() if name in asked})
    except (TypeError, ValueError, RuntimeError, ImportError) as error:
        raise ValueError(f"{place}.args: {error}") from error


def _check_dataset(settings: Settings, key: str, place: str) -> None:
    if key in TAKEN:
        raise ValueError(f"{place}: the pipeline has data/{key} or checks/{key} for itself: choose another name")
    block = settings.datasets[key]
    kind = lookup.find("datasets", block.name, where=f"{place}.name")
    if issubclass(kind, Scenes):
        _check_drawn(block, kind, place)
    else:
        _check_read(block, kind, place)


def _check_drawn(block: Dataset, kind: type[Scenes], place: str) -> None:
    name, asked = block.name, "missing, expected how many to draw: {train: .., val: .., test: .., gate: ..}"
    for key, is_wrong, message in (
        ("raw", not block.is_drawn, f"is {block.raw!r}, but {name} is drawn of digits: expected {DRAWN_FROM}"),
        ("rows", block.rows is None, asked),
        ("size", block.size, f"is {block.size}, but {name} is drawn: args.canvas is its size; leave it out"),
        ("folds", block.folds, f"{name} is drawn, as many rows as are asked for: leave folds out"),
        *((f"args.{key}", key in block.args, "stands beside args, not in it") for key in ("rows", "seed")),
    ):
        if is_wrong:
            raise ValueError(f"{place}.{key}: {message}")
    _typed(kind, block.args | block.model_dump(include={"rows", "seed"}), f"{place}.args")


def _check_read(block: Dataset, kind: type[Any], place: str) -> None:
    parts = PurePosixPath(block.raw).parts
    if block.raw != "/".join(parts) or parts[:2] != ("data", "raw") or len(parts) < 3 or ".." in parts:
        raise ValueError(
            f"{place}.raw: is {block.raw!r}, expected a plain path of a folder below data/raw, such as "
            f"data/raw/{block.name}"
        )
    if block.rows is not None:
        raise ValueError(f"{place}.rows: {block.name} is read from disk, which says how many rows it has: leave it out")
    dataset = _typed(kind, block.args, f"{place}.args")
    if (block.size is None) == bool({"image", "frames"} & set(dataset.schema.names)):
        expected = "null: it has no images" if block.size else "a number of pixels, the side of its images"
        raise ValueError(f"{place}.size: is {block.size}, expected {expected}")
    if block.folds is not None and not dataset.foldable:
        raise ValueError(
            f"{place}.folds: {block.name} is fitted to the training rows of one split, which folds would test: leave "
            "folds out"
        )
    raw = Path(block.raw) / "first" if (Path(block.raw) / "first").is_dir() else Path(block.raw)
    if raw.is_dir():  # else DVC says that it is missing
        try:
            dataset.check_head(raw)
        except (OSError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from error


def _check_sorter(settings: Settings, key: str, place: str) -> None:
    sorter = settings.sorters[key]
    module = _built("sorters", sorter, place, length=settings.score_vectors.length)
    has_weights = any(weight.requires_grad for weight in module.parameters())
    if has_weights != (sorter.training is not None):
        expected = "a block of options: it has weights to train" if has_weights else "null: it has no weights"
        raise ValueError(f"{place}.training: {sorter.name} needs {expected}")
    if sorter.training is not None:
        optimizer = _typed(Optimizer, sorter.training.optimizer, f"{place}.training.optimizer")
        _check_optimizer(optimizer, f"{place}.training.optimizer")
        _typed(Schedule, sorter.training.schedule, f"{place}.training.schedule")


def _check_optimizer(optimizer: Optimizer | Component, place: str) -> None:
    _check_known(optimizer.name, OPTIMIZERS, f"{place}.name")
    kind = getattr(torch.optim, optimizer.name)
    options = inspect.signature(kind).parameters
    for name, value in optimizer.args.items():
        usual = options[name].default if name in options else None
        if isinstance(value, str | bool) and isinstance(usual, int | float) and not isinstance(usual, bool):
            found = f"the text {value!r}" if isinstance(value, str) else value
            raise ValueError(f"{place}.args.{name} is {found}, expected a number such as {usual}")
    weight = torch.ones(1, requires_grad=True)
    try:
        taken = kind([weight], **optimizer.args)
        weight.square().sum().backward()
        taken.step()
    except Exception as error:  # whatever an optimizer makes of odd options
        text = str(error).removeprefix(f"{kind.__name__}.__init__() ")
        raise ValueError(f"{place}.args: {type(error).__name__}: {text}") from error
    if not weight.item() < 1:  # such as maximize, or a rate of 0
        raise ValueError(f"{place}.args: a step of {optimizer.name} with these does not make a loss smaller")


def _check_training(settings: Settings, task: str, place: str, training: dict[str, Any] | None = None) -> None:
    """Check a task's options of training, or those that a run makes of them."""
    kind = lookup.find("tasks", task, where=place)
    options = _typed(kind.Training, settings.training[task] if training is None else training, place)
    for phase in kind.blocks():
        _check_optimizer(getattr(options, phase).optimizer, f"{place}.{phase}.optimizer")


def _check_run(settings: Settings, key: str, place: str) -> None:
    if key in {f"sorter-{sorter}" for sorter in settings.sorters}:  # in MLflow one of them would be lost
        raise ValueError(f"{place}: a sorter is called so in MLflow and in reports: choose another name")
    task = lookup.find("tasks", settings.runs[key].task, where=f"{place}.task")
    for setting in settings.runs[key].settings:
        values = settings.run_of(key, setting)
        run = _typed(Run, values, place)
        _check_training(settings, run.task, f"{place}.training", run.training)
        _check_dataset_of(settings, run, task, f"{place}.dataset")
        _check_positives(settings, run, f"{place}.training.positives")
        _check_model(settings, run, f"{place}.model")
        losses = {"loss": run.loss} | ({} if run.auxiliary.name == NONE else {"auxiliary": run.auxiliary})
        _check_losses(settings, task, losses, run.sorter, run.training, place)
        _check_sorter_optimizer(settings, run, f"{place}.sorter_optimizer")
    _check_start(settings, key, task, place)


def _check_dataset_of(settings: Settings, run: Run, task: type[Task], place: str) -> None:
    _check_known(run.dataset, settings.datasets, place, hint="; each needs a block under datasets")
    if missing := _lacks(settings, run.dataset, task):
        fitting = []
        for name in settings.datasets:
            with suppress(ValueError):  # what is wrong itself is told of by itself
                _check_dataset(settings, name, name)
                fitting += [] if _lacks(settings, name, task) else [name]
        raise ValueError(
            f"{place}: {run.dataset} has no column {' or '.join(missing)}, from which {run.task} learns; "
            f"{', '.join(fitting) or 'none of the datasets'} can be had"
        )


def _check_positives(settings: Settings, run: Run, place: str) -> None:
    """Refuse a threshold of training targets for targets on another scale."""
    if run.training.get("positives") is not None and settings.datasets[run.dataset].args.get("train_target"):
        raise ValueError(
            f"{place}: is {run.training['positives']}, a share of what training rows of {run.dataset} learn from, its "
            "train_target; no threshold of it fits target: leave one of them out"
        )


def _lacks(settings: Settings, dataset: str, task: type[Task]) -> list[str]:
    """Return the columns that a task learns from and a dataset does not have: the truth, and one kind of input."""
    columns = settings.datasets[dataset].built().schema.names
    inputs = [] if any(kind in columns for kind in task.reads.inputs) else [*task.reads.inputs]
    return [column for column in task.reads.truth if column not in columns] or inputs


def _check_model(settings: Settings, run: Run, place: str) -> None:
    """Check that a network can be made: its backbone for the dataset's inputs, its head, and the captions' backbone."""
    backbone, _ = _backbones(settings, run, place)
    _built("models.heads", run.model, place, features=backbone.size, maps=backbone.maps, outputs=LABELS)
    taken = _inputs_of(settings, run.dataset)
    kinds = {lookup.find("inputs", one).backbone for one in taken}
    if backbone.input not in kinds:
        fitting = [
            name for name in lookup.names("models.backbones") if lookup.find("models.backbones", name).input in kinds
        ]
        raise ValueError(
            f"{place}.backbone.name: {run.model.backbone.name} takes {backbone.input}, but {run.dataset} has "
            f"{' or '.join(taken)}; try {', '.join(fitting) or 'another dataset'}"
        )
    _check_pictures(settings.datasets[run.dataset], run, backbone, f"{place}.backbone")
    _check_freezing(run, backbone, place.removesuffix("model") + "training")


def _backbones(settings: Settings, run: Run, place: str) -> tuple[Any, Any]:
    """Return the backbone of the inputs, and that of captions or None, built without memory."""
    start, model = run.start, run.model.model_dump(include={"backbone", "text"})
    for name in model:
        component = model[name] and getattr(run.model, name)
        _ = component and _check_options("models.backbones", component, f"{place}.{name}")
    while start in (runs := _runs(settings)) and runs[start].start != start:
        start = runs[start].start  # a run that is not yet trained starts from the same files
    try:
        files = with_files(model, start)
    except (ValueError, OSError) as error:
        raise ValueError(f"{place.removesuffix('model')}start: {error}") from error
    given = {"colors": 3, "features": 1, "words": WORDS}
    backbone = _built(
        "models.backbones", run.model.backbone, f"{place}.backbone", **given | files["backbone"].get("files", {})
    )
    try:
        lookup.find("tasks", run.task).accepts(model)
    except ValueError as error:
        raise ValueError(f"{place}.{error}") from error
    if run.model.text is None:
        return backbone, None
    files = files["text"].get("files", {})
    return backbone, _built("models.backbones", run.model.text, f"{place}.text", **given | files)


def _runs(settings: Settings) -> dict[str, Run]:
    """Return the runs by what a start calls them."""
    return {f"models/runs/{name}": run for name, run in settings.runs.items()}


def _check_pictures(dataset: Dataset, run: Run, backbone: Any, place: str) -> None:
    """Put one picture of the dataset's size through the backbone, without computing it."""
    side = dataset.size or dataset.args.get("canvas")
    if backbone.input != "image" or side is None:
        return
    try:
        with torch.no_grad(), torch.device("meta"):
            backbone.eval()(torch.empty(1, 3, side, side, dtype=torch.uint8))
    except (ValueError, RuntimeError, AssertionError, IndexError) as error:
        raise ValueError(
            f"{place}: {run.model.backbone.name} takes no images of {side} x {side} pixels, {run.dataset}'s: {error}"
        ) from error


def _check_freezing(run: Run, backbone: Any, place: str) -> None:
    for phase, options in run.training.items():
        if isinstance(options, dict) and options.get("freeze") is not None:
            try:
                backbone.freeze(options["freeze"])
            except ValueError as error:
                raise ValueError(f"{place}.{phase}: {error}") from error


def _inputs_of(settings: Settings, dataset: str) -> list[str]:
    """Return the kinds of input that a dataset's tables have."""
    columns = settings.datasets[dataset].built().schema.names
    return [kind for kind in lookup.names("inputs") if kind in columns]


def _check_losses(
    settings: Settings,
    task: type[Task],
    losses: dict[str, Component],
    sorter: str,
    training: dict[str, Any],
    place: str,
) -> None:
    """Check that the losses are the task's, and that there is a sorter for those that take one, and for none else."""
    batch_size = training.get("batch_size")
    takers = [loss.name for key, loss in losses.items() if _check_loss(task, loss, training, f"{place}.{key}")]
    if sorter == NONE:
        if takers:
            raise ValueError(f"{place}.sorter: {takers[0]} needs one of {', '.join(settings.sorters)}")
        return
    _check_known(sorter, [*settings.sorters, NONE], f"{place}.sorter")
    if not takers:
        raise ValueError(f"{place}.sorter: {losses['loss'].name} takes no sorter, expected {NONE}")
    if "length" not in inspect.signature(lookup.find("sorters", settings.sorters[sorter].name)).parameters:
        return
    length = settings.score_vectors.length
    if batch_size is None:
        raise ValueError(
            f"{place}.sorter: {sorter} takes {length} scores and no other number, but {task.name} ranks others; "
            "expected a sorter of any length, such as laplace"
        )
    if batch_size % length:
        raise ValueError(
            f"{place}: the training's batch_size is {batch_size}, but {sorter} ranks groups of score_vectors.length = "
            f"{length}: expected a multiple of it"
        )


def _check_sorter_optimizer(settings: Settings, run: Run, place: str) -> None:
    if run.sorter_optimizer is None:
        return
    has_weights = run.sorter != NONE and settings.sorters[run.sorter].training is not None
    if not has_weights or "sorter" not in _parameters(run.loss.name):
        raise ValueError(f"{place}: {run.sorter} in {run.loss.name} has nothing to learn: leave it out")
    if run.sorter_optimizer.name != JOINTLY:
        _check_optimizer(run.sorter_optimizer, place)
    elif run.sorter_optimizer.args:
        raise ValueError(f"{place}.args: {JOINTLY} is the network's own optimizer, which has options: leave them out")


def _check_loss(task: type[Task], loss: Component, training: dict[str, Any], place: str) -> bool:
    """Return whether a loss of this task, with these options, takes a sorter."""
    function = _check_options("losses", loss, place)
    truths = task.learns(training)
    fitting = [name for name in lookup.names("losses") if _parameters(name)[1] in truths]
    if loss.name not in fitting:
        raise ValueError(f"{place}.name: {loss.name} is no loss of {task.name}; there are {', '.join(fitting)}")
    scores, parameters = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), _parameters(loss.name)
    logs = training.get("log_plus") is not None  # which are standardized
    truth = {"label_ranks": torch.tensor([[2, 1], [0, 1]]), "target": 2 * scores - 1 if logs else scores}
    runtime = {"sorter": Laplace(), "generator": torch.Generator()}
    given = {name: value for name, value in runtime.items() if name in parameters}
    try:
        function(scores, truth.get(parameters[1], scores.bool()), **loss.args, **given)
    except (TypeError, ValueError) as error:
        hint = " (log_plus is set, and logs are standardized)" if logs else ""
        raise ValueError(f"{place}.args: {error}{hint}") from error
    return "sorter" in parameters


def _parameters(loss: str) -> list[str]:
    """Return the names of a loss's parameters: the second one says what truth it learns from."""
    return list(inspect.signature(lookup.find("losses", loss)).parameters)


def _check_start(settings: Settings, key: str, task: type[Task], place: str) -> None:
    run = settings.runs[key]
    plain = PurePosixPath(run.start).as_posix()  # by which DVC knows what comes first
    if run.start != plain or plain == "." or not plain.isprintable():
        expected = plain if run.start != plain else "models/runs/<run>, or a safetensors file"
        raise ValueError(f"{place}.start: is {run.start!r}, expected a plain path: {expected}")
    folder, _, name = run.start.rpartition("/")
    if name == NONE:
        if not task.plan(settings.training_of(key), started=False):
            raise ValueError(
                f"{place}: the epochs of the training's {', '.join(task.blocks())} are 0, but the run starts from "
                "random weights, which need at least 1: or give it a start"
            )
    elif folder == "models/runs":
        _check_known(name, settings.runs, f"{place}.start", "run ")
        _check_start_run(settings, key, name, place)
    elif Path(run.start).exists():
        try:
            check_fit(*_backbones(settings, run, f"{place}.model"), run.start)
        except (ValueError, OSError) as error:
            raise ValueError(f"{place}.start: {error}") from error


def _check_start_run(settings: Settings, key: str, name: str, place: str) -> None:
    """Check that a run can start from another one, which goes back to random weights or to a file."""
    run, start = settings.runs[key], settings.runs[name]
    chain = [key, name]
    while chain[-1] in settings.runs and chain[-1] not in chain[:-1]:
        chain.append(settings.runs[chain[-1]].start.rpartition("/")[2])
    if chain[-1] in chain[:-1]:
        raise ValueError(
            f"{place}.start: {', which starts from '.join(chain)}: expected a run that goes back to random weights or "
            "to a file"
        )
    drawn = [name for name, dataset in settings.datasets.items() if dataset.is_drawn]
    if start.dataset in drawn and run.dataset not in drawn:
        raise ValueError(
            f"{place}.start: {name} learned on {start.dataset}, gray digits, which are no start for {run.dataset}: "
            "give it a safetensors file of weights (docs/real_data.md)"
        )
    ours = _backbone(run.model, f"{place}.model")
    theirs = _backbone(start.model, f"runs.{name}.model")
    if ours != theirs:
        raise ValueError(f"{place}.model: {ours}, but it starts from {name}, which is {theirs}: expected the same")


def _backbone(model: Model, place: str) -> str:
    """Say which network gives the features, with its options."""
    make = lookup.find("models.backbones", model.backbone.name, where=f"{place}.backbone.name")
    known = inspect.signature(make).parameters
    usual = {
        name: known[name].default for name in lookup.options(make) if known[name].default is not inspect.Parameter.empty
    }
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in (usual | model.backbone.args).items()
    }
    return f"{model.backbone.name} with {options}"


def _check_comparison(settings: Settings, key: str, place: str) -> None:
    comparison = settings.comparisons[key]
    for name in (comparison.baseline, *comparison.runs):
        _check_known(name, settings.runs, place, "run ")
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
    if own := sorted(set(comparison.rivals) & set(settings.runs)):
        raise ValueError(f"{place}.rivals: {own[0]} is a run, expected what another program predicts: put it into runs")
    _check_known(comparison.metric, _metrics(first.task), f"{place}.metric")


def _test_data(settings: Settings, run: Run) -> Any:
    """Return what decides on a run's test split: a variant of a dataset may differ in its training split alone."""
    dataset = settings.datasets.get(run.dataset)
    if dataset is None:
        return run.dataset
    block = dataset.model_dump(exclude={"rows": {"train"}})
    block["args"] = {option: value for option, value in dataset.args.items() if not option.startswith("train_")}
    return block


def _metrics(task: str) -> list[str]:
    return [metric.name for metric in lookup.find("tasks", task).metrics]


def _check_judged(settings: Settings, task: str, place: str) -> None:
    tasks = ["sorter", *lookup.names("tasks")]
    if task not in tasks:
        raise ValueError(f"{place}: no such task{others(task, tasks)}")
    if task not in settings.gate.judged:
        raise ValueError(f"{place}: missing, but every model is judged by a metric")
    judged = settings.gate.judged[task]
    if task == "sorter" and judged.slice_tolerance is not None:
        raise ValueError(f"{place}.slice_tolerance: score vectors have no slices; leave it out")
    for metric in (judged.metric, *judged.guarded):
        _check_known(metric, SORTER_METRICS if task == "sorter" else _metrics(task), place, "metric ")
