"""What must agree with what in the params: names are components, options fit them, runs can be trained."""

import inspect
import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pipelines.config import own
from pipelines.config.errors import ParamsError, Problem, unknown
from pipelines.config.plan import RunPlan, resolve
from pipelines.config.schema import (
    DIGITS,
    NONE,
    Comparison,
    Dataset,
    Model,
    Rival,
    Run,
    Settings,
    Sorter,
    check_shapes,
    read,
    typed,
)
from pipelines.rivals import RIVALS
from rankgrad import lookup
from rankgrad.datasets.scenes.base import Scenes
from rankgrad.io.starts import check_fit, with_files
from rankgrad.sorters.laplace import Laplace
from rankgrad.training.objective import JOINTLY, Objective
from rankgrad.training.optimization import OPTIMIZERS, check_optimizer
from rankgrad.training.options import Component, PhaseOptions, WholePhase

__all__ = ["SORTER_METRICS", "check", "check_values"]

SORTER_METRICS = ("negative_l1", "exactly_ordered")  # larger is better
LABELS, WORDS = 10, ["<padding>", "<unknown>", "a"]  # of networks that are built to see whether they can be
# Folders and files of the pipeline's own, which no dataset may be called.
TAKEN = ("raw", "score_vectors", "params", "code", "incoming")


def check(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check all that they say; every component is built once, without weights.

    Raises:
        ParamsError: its problems have the place of each, what was found, and what is possible.
    """
    return check_values(read(path), path=path)


def check_values(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Check plain values as `check` does those of a file."""
    settings = check_shapes(values, path=path)
    components, problems, wrong = _Components(settings), [*_unread(values)], set[str]()

    def ask(location: str, rule: Callable[..., None], *arguments: Any) -> None:
        try:
            rule(location, *arguments)
        except ParamsError as error:
            problems.extend(error.problems)
            wrong.add(location)
        except lookup.ComponentError as error:  # of a metric in `own`, which several rules ask about
            problems.append(Problem(error.place, error.reason, error.expected, error.advice))
            wrong.add(location)

    for key, dataset in settings.datasets.items():
        ask(f"datasets.{key}", _check_dataset, key, dataset)
    for key in settings.sorters:
        ask(f"sorters.{key}", _check_sorter, settings, key, components)
    for key, vectors in settings.benchmark_sorters.items():
        if f"sorters.{key}" not in wrong:
            ask(f"benchmark_sorters.{key}", _check_benchmark, settings, key, vectors)
    for task in settings.training:
        ask(f"training.{task}", _check_training, settings, task)
    for name, run in settings.runs.items():
        if not wrong & {f"training.{run.task}", f"datasets.{run.dataset}"}:  # it would have the same problems
            ask(f"runs.{name}", _check_run, settings, name, components)
    for name, rival in settings.rivals.items():
        if f"datasets.{rival.dataset}" not in wrong:
            ask(f"rivals.{name}", _check_rival, settings, name, rival, components)
    for key, comparison in settings.comparisons.items():
        ask(f"comparisons.{key}", _check_comparison, settings, comparison)
    models = [*(["sorter"] if settings.benchmark_sorters else []), *(run.task for run in settings.runs.values())]
    for task in dict.fromkeys([*models, *settings.gate.judged]):
        ask(f"gate.judged.{task}", _check_judged, settings, task)
    if problems:
        raise ParamsError(*problems, path=path)
    return settings


def _unread(values: Any, location: str = "") -> Iterator[Problem]:
    """Yield what no stage can take of blocks and lists: numbers that are NaN or infinite, and days."""
    if isinstance(values, float) and not math.isfinite(values):
        yield Problem(location, f"is {values}", "a finite number")
    elif isinstance(values, date):
        yield Problem(location, f"is the day {values}, which DVC does not read", "quotes around it")
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _unread(value, f"{location}.{key}" if location else str(key))
    elif isinstance(values, list):
        for number, value in enumerate(values):
            yield from _unread(value, f"{location}.{number}")


def _wrong(location: str, reason: str, expected: str = "", advice: str = "") -> ParamsError:
    return ParamsError(Problem(location, reason, expected, advice))


@contextmanager
def _at(location: str, *errors: type[Exception]) -> Generator[None]:
    """Turn what a component or a file says into a problem of this place."""
    try:
        yield
    except ParamsError:
        raise
    except lookup.ComponentError as error:
        raise _wrong(error.place, error.reason, error.expected, error.advice) from error
    except (ValueError, *errors) as error:
        raise _wrong(location, str(error)) from error


class _Undrawn(TorchFunctionMode):
    """Draw no weights: memory that nobody writes is not taken.

    The meta device would do, but to compute anything on it torch imports its compiler, which takes seconds.
    What is no parameter is drawn: ``trunc_normal_`` draws new tensors until all their values are within its bounds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if getattr(func, "__name__", "") in ("kaiming_uniform_", "normal_", "uniform_"):
            tensor = options["tensor"] if "tensor" in options else args[0]
            if isinstance(tensor, torch.nn.Parameter):
                return tensor
        return func(*args, **options)


class _Components:
    """The components of the params, each built once, without weights, however many runs name it."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._known: dict[str, Any] = {}

    def once(self, make: Callable[[], Any], *key: Any) -> Any:
        """Return what was made of equal values, or make it."""
        text = json.dumps(key, sort_keys=True, default=str)
        if text not in self._known:
            self._known[text] = make()
        return self._known[text]

    def built(self, folder: str, component: Any, location: str, **runtime: Any) -> torch.nn.Module:
        """Return a component with its options; its own error says why it cannot be."""

        def build() -> torch.nn.Module:
            make = _checked(folder, component, location)
            parameters = inspect.signature(make).parameters
            taken = {name: value for name, value in runtime.items() if name in parameters}
            raised = own.raised_by(folder, component.name, location)
            with _at(f"{location}.args", TypeError, RuntimeError, ImportError), raised, _Undrawn():
                return make(**component.args, **taken)

        return self.once(build, folder, component.name, component.args, runtime)

    def sorter(self, key: str) -> torch.nn.Module:
        """Return a sorter of the params, for vectors of its length if it takes no others."""
        location, sorter = f"sorters.{key}", self.settings.sorters[key]
        if sorter.vectors not in (NONE, *self.settings.score_vectors):
            raise ParamsError(unknown(f"{location}.vectors", sorter.vectors, [*self.settings.score_vectors, NONE]))
        return self.built("sorters", sorter, location, **self.settings.length_of(key))

    def columns(self, dataset: str) -> list[str]:
        """Return the columns of a dataset's tables."""
        return self.once(lambda: self.settings.datasets[dataset].built().schema.names, "columns", dataset)

    def inputs(self, dataset: str) -> list[str]:
        """Return the kinds of input that a dataset's tables have."""
        return [kind for kind in lookup.names("inputs") if kind in self.columns(dataset)]

    def lacks(self, dataset: str, task: str) -> list[str]:
        """Return the columns that a task learns from and a dataset does not have: its truth, and one kind of input."""
        reads, columns = lookup.find("tasks", task).reads, self.columns(dataset)
        inputs = [] if any(kind in columns for kind in reads.inputs) else [*reads.inputs]
        return [column for column in reads.truth if column not in columns] or inputs


def _checked(folder: str, component: Any, location: str) -> Callable[..., Any]:
    """Return the component of that name, which takes these options."""
    with _at(location), own.raised_by(folder, component.name, location):
        own.check_class(folder, component.name, location)
        lookup.check_options(folder, component.name, component.args, where=location)
        make = lookup.find(folder, component.name, where=f"{location}.name")
        kinds = lookup.options(make)
    for option, value in component.args.items():
        typed(kinds[option], value, f"{location}.args.{option}")
    return make


def _check_dataset(location: str, key: str, block: Dataset) -> None:
    if key in TAKEN:
        raise _wrong(location, f"the pipeline has data/{key} or checks/{key} for itself", advice="choose another name")
    with _at(location):
        kind = lookup.find("datasets", block.name, where=f"{location}.name")
    if issubclass(kind, Scenes):
        _check_drawn(block, kind, location)
    else:
        _check_read(block, kind, location)


def _check_drawn(block: Dataset, kind: type[Scenes], location: str) -> None:
    name = block.name
    if block.raw not in DIGITS:
        raise _wrong(f"{location}.raw", f"is {block.raw!r}, but {name} is drawn of digits", " or ".join(DIGITS))
    if block.rows is None:
        raise _wrong(f"{location}.rows", "missing", "how many to draw: {train: .., val: .., test: .., gate: ..}")
    if block.size:
        raise _wrong(
            f"{location}.size", f"is {block.size}, but {name} is drawn: args.canvas is its size", advice="leave it out"
        )
    if block.folds:
        raise _wrong(f"{location}.folds", f"{name} is drawn, as many rows as are asked for", advice="leave folds out")
    for option in {"rows", "seed"} & block.args.keys():
        raise _wrong(f"{location}.args.{option}", "stands beside args, not in it")
    typed(kind, block.args | block.model_dump(include={"rows", "seed"}), f"{location}.args")


def _check_read(block: Dataset, kind: type[Any], location: str) -> None:
    folders = PurePosixPath(block.raw).parts
    if block.raw != "/".join(folders) or folders[:2] != ("data", "raw") or len(folders) < 3 or ".." in folders:
        expected = f"a plain path of a folder below data/raw, such as data/raw/{block.name}"
        raise _wrong(f"{location}.raw", f"is {block.raw!r}", expected)
    if block.rows is not None:
        reason = f"{block.name} is read from disk, which says how many rows it has"
        raise _wrong(f"{location}.rows", reason, advice="leave it out")
    dataset = typed(kind, block.args, f"{location}.args")
    if (block.size is None) == dataset.input_type.pictures:
        expected = "null: it has no images" if block.size else "a number of pixels, the side of its images"
        raise _wrong(f"{location}.size", f"is {block.size}", expected)
    if block.folds is not None and not dataset.foldable:
        reason = f"{block.name} is fitted to the training rows of one split, which folds would test"
        raise _wrong(f"{location}.folds", reason, advice="leave folds out")
    if Path(block.raw).is_dir():  # else DVC says that it is missing
        with _at(location, OSError):
            dataset.check_head(Path(block.raw))


def _check_sorter(location: str, settings: Settings, key: str, components: _Components) -> None:
    module, sorter = components.sorter(key), settings.sorters[key]
    if sorter.name in lookup.own_files("sorters"):
        own.check_sorter(location, sorter.name, sorter.args, **settings.length_of(key))
    has_weights = any(weight.requires_grad for weight in module.parameters())
    if has_weights != (sorter.training is not None):
        expected = "a block of options: it has weights to train" if has_weights else "null: it has no weights"
        raise _wrong(f"{location}.training", f"is that of {sorter.name}", expected)
    if sorter.training is not None:
        if sorter.vectors == NONE:
            raise _wrong(f"{location}.vectors", "is none, but it learns", "a key of score_vectors")
        _check_optimizer(sorter.training.optimizer, f"{location}.training.optimizer")


def _check_benchmark(location: str, settings: Settings, key: str, vectors: str) -> None:
    if key not in settings.sorters:
        raise ParamsError(unknown(location, key, settings.sorters, what="sorter "))
    if vectors not in settings.score_vectors:
        raise ParamsError(unknown(location, vectors, settings.score_vectors))
    length, takes = settings.score_vectors[vectors].length, settings.length_of(key).get("length")
    if _takes_one_length(settings.sorters[key]) and takes != length:
        raise _wrong(location, f"has vectors of {length} scores, but {key} takes {takes}")


def _takes_one_length(sorter: Sorter) -> bool:
    return "length" in inspect.signature(lookup.find("sorters", sorter.name)).parameters


def _check_optimizer(optimizer: Component, location: str) -> None:
    if optimizer.name not in OPTIMIZERS:
        raise ParamsError(unknown(f"{location}.name", optimizer.name, OPTIMIZERS))
    options = inspect.signature(getattr(torch.optim, optimizer.name)).parameters
    for name, value in optimizer.args.items():
        usual = options[name].default if name in options else None
        is_number = isinstance(usual, int | float) and not isinstance(usual, bool)
        if is_number and isinstance(value, str | bool):
            raise _wrong(f"{location}.args.{name}", f"is {value!r}", f"a number such as {usual}")
    with _at(f"{location}.args", Exception):  # whatever an optimizer makes of odd options
        check_optimizer(optimizer)


def _phases(training: Any) -> dict[str, PhaseOptions]:
    return {name: options for name, options in vars(training).items() if isinstance(options, PhaseOptions)}


def _check_training(location: str, settings: Settings, name: str) -> None:
    with _at(location):
        task = lookup.find("tasks", name, where=location)
        if name in {run.task for run in settings.runs.values()}:
            own.check_metrics(task)
    training = typed(task.Training, settings.training[name], location)
    for phase, options in _phases(training).items():
        _check_optimizer(options.optimizer, f"{location}.{phase}.optimizer")


def _check_run(location: str, settings: Settings, name: str, components: _Components) -> None:
    if name in {f"sorter-{sorter}" for sorter in settings.sorters}:  # in MLflow one of them would be lost
        raise _wrong(location, "a sorter is called so in MLflow and in reports", advice="choose another name")
    for setting in settings.runs[name].settings:
        plan = resolve(settings, name, setting)
        _check_data_of(settings, plan, components)
        for phase, options in _phases(plan.training).items():
            _check_optimizer(options.optimizer, f"{location}.training.{phase}.optimizer")
        _check_model(settings, plan, components)
        _check_objective(settings, plan, components)
        own.check_columns(location, lookup.find("tasks", plan.task), settings.datasets[plan.dataset].args)
        _check_start(settings, plan, components)


def _check_data_of(settings: Settings, plan: RunPlan, components: _Components) -> None:
    location, key = f"runs.{plan.name}", plan.dataset
    if key not in settings.datasets:
        advice = "each needs a block under datasets"
        raise ParamsError(unknown(f"{location}.dataset", key, settings.datasets, advice=advice))
    if missing := components.lacks(key, plan.task):
        fitting = []
        for other in settings.datasets:
            with suppress(ValueError):  # what is wrong with it is a problem of its own
                fitting += [] if components.lacks(other, plan.task) else [other]
        reason = f"{key} has no column {' or '.join(missing)}, from which {plan.task} learns"
        raise _wrong(f"{location}.dataset", reason, f"one of {', '.join(fitting)}" if fitting else "")
    share = getattr(plan.training, "positives", None)
    if share is not None and settings.datasets[key].args.get("train_target"):
        reason = (
            f"is {share}, a share of what training rows of {key} learn from, its train_target; no threshold of it fits "
            "target"
        )
        raise _wrong(f"{location}.training.positives", reason, advice="leave one of them out")
    if share is not None and settings.datasets[key].args.get("within"):
        reason = f"is {share}, a share of all targets, but {key} compares rows of one group only (`within`)"
        raise _wrong(f"{location}.training.positives", reason, advice="leave one of them out")


def _check_model(settings: Settings, plan: RunPlan, components: _Components) -> None:
    """Check that a network can be made: its backbone for the dataset's inputs, its head, and the captions' backbone."""
    location = f"runs.{plan.name}.model"
    backbone, _ = _backbones(settings, plan, components)
    components.built("models.heads", plan.model, location, features=backbone.size, maps=backbone.maps, outputs=LABELS)
    inputs = components.inputs(plan.dataset)
    kinds = {backbone for kind in inputs for backbone in lookup.find("inputs", kind).backbones}
    if backbone.input not in kinds:
        names = lookup.choices("models.backbones")
        fitting = [name for name in names if lookup.find("models.backbones", name).input in kinds]
        reason = f"{plan.model.backbone.name} takes {backbone.input}, but {plan.dataset} has {' or '.join(inputs)}"
        raise _wrong(f"{location}.backbone.name", reason, advice=f"try {', '.join(fitting) or 'another dataset'}")
    if getattr(plan.training, "shared", False):
        _check_shared(plan, settings.runs[plan.name].model.text, inputs)
    dataset = settings.datasets[plan.dataset]
    side = dataset.size or dataset.args.get("canvas")
    if backbone.input == "image" and side is not None:
        components.once(lambda: _check_pictures(plan, backbone, side), "pictures", plan.model.backbone, side)
    for phase, options in _phases(plan.training).items():
        if isinstance(options, WholePhase) and options.freeze is not None:
            with _at(f"runs.{plan.name}.training.{phase}"):
                backbone.freeze(options.freeze)


def _check_shared(plan: RunPlan, text: Component | None, inputs: list[str]) -> None:
    """Check that items and captions can be read by one encoder; `text` is that of captions, if the run names one."""
    location = f"runs.{plan.name}"
    if inputs != ["text"]:
        reason = f"is true, but items of {plan.dataset} are {' or '.join(inputs)}"
        raise _wrong(f"{location}.training.shared", reason, "text, as captions are", "leave it out")
    if text is not None:
        reason = f"is {text.name}, but training.shared lets the items' backbone read captions"
        raise _wrong(f"{location}.model.text", reason, advice="leave one of them out")


def _backbones(settings: Settings, plan: RunPlan, components: _Components) -> tuple[Any, Any]:
    """Return the backbone of the inputs, and that of captions or None, built without weights."""
    location, model = f"runs.{plan.name}", plan.model.model_dump(include={"backbone", "text"})
    _checked("models.backbones", plan.model.backbone, f"{location}.model.backbone")
    if plan.model.text is not None:
        _checked("models.backbones", plan.model.text, f"{location}.model.text")
    with _at(f"{location}.model.text"):
        lookup.find("tasks", plan.task).accepts(model)
    name, seen = plan.name, set[str]()  # a run that is not yet trained starts from the same files
    while name not in seen and settings.run_before(name) is not None:
        seen.add(name)
        name = Path(settings.runs[name].start).parts[2]
    with _at(f"{location}.start", OSError):
        files = with_files(model, settings.runs[name].start)
    taken = {"colors": 3, "features": 1, "words": WORDS}

    def built(option: str, component: Component) -> torch.nn.Module:
        more = files[option].get("files", {})
        return components.built("models.backbones", component, f"{location}.model.{option}", **taken | more)

    return built("backbone", plan.model.backbone), plan.model.text and built("text", plan.model.text)


def _check_pictures(plan: RunPlan, backbone: Any, side: int) -> None:
    """Put one picture of the dataset's size through the backbone, whatever its weights are."""
    try:
        with torch.inference_mode():
            backbone.eval()(torch.zeros(1, 3, side, side, dtype=torch.uint8))
    except (ValueError, RuntimeError, AssertionError, IndexError) as error:
        reason = f"{plan.model.backbone.name} takes no images of {side} x {side} pixels, {plan.dataset}'s: {error}"
        raise _wrong(f"runs.{plan.name}.model.backbone", reason) from error


def _check_objective(settings: Settings, plan: RunPlan, components: _Components) -> None:
    """Check that the losses are the task's, by building them with their sorter."""
    location, key = f"runs.{plan.name}", plan.sorter
    for option, loss in (("loss", plan.loss), ("auxiliary", plan.auxiliary)):
        if loss is not None:
            table = settings.datasets[plan.dataset].args
            _check_loss(plan, loss, components, f"{location}.{option}", table)
    if key is not None and key not in settings.sorters:
        raise ParamsError(unknown(f"{location}.sorter", key, [*settings.sorters, NONE]))
    sorter = None if key is None else components.sorter(key)
    if plan.sorter_optimizer is not None and plan.sorter_optimizer.name != JOINTLY:
        _check_optimizer(plan.sorter_optimizer, f"{location}.sorter_optimizer")
    try:
        Objective(plan.loss, sorter=sorter, sorter_optimizer=plan.sorter_optimizer, auxiliary=plan.auxiliary)
    except lookup.ComponentError as error:
        raise _wrong(f"{location}.{error.place}", error.reason) from error
    if key is None or not _takes_one_length(settings.sorters[key]):
        return
    length, batch_size = settings.length_of(key).get("length"), getattr(plan.training, "batch_size", None)
    if batch_size is None:
        reason = f"{key} takes {length} scores and no other number, but {plan.task} ranks others"
        raise _wrong(f"{location}.sorter", reason, "a sorter of any length, such as laplace")
    if batch_size % length:
        reason = f"is {batch_size}, but {key} ranks groups of its length, {length}"
        raise _wrong(f"{location}.training.batch_size", reason, "a multiple of it")


def _check_loss(
    plan: RunPlan, loss: Component, components: _Components, location: str, table: Mapping[str, Any]
) -> None:
    """Check that a loss is one of the task, and call it once with its options; `table` is those of the dataset."""
    logs = getattr(plan.training, "log_plus", None) is not None
    learns = lookup.find("tasks", plan.task)(plan.training).learns()
    function = _checked("losses", loss, location)
    is_own = loss.name in lookup.own_files("losses")
    if is_own:
        own.check_loss(location, loss.name, loss.args, lookup.find("tasks", plan.task), table)
    parameters = _parameters(loss.name)
    if parameters[1] not in learns:
        fitting = [name for name in lookup.names("losses") if _parameters(name)[1] in learns]
        raise _wrong(f"{location}.name", f"{loss.name} is no loss of {plan.task}", f"one of {', '.join(fitting)}")
    if is_own:
        return
    # Two rows, whose targets are in 0 to 1, or beyond where logs are standardized.
    scores = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    truth = {"label_ranks": torch.tensor([[2, 1], [0, 1]]), "target": 2 * scores - 1 if logs else scores}
    runtime = {"sorter": Laplace(), "generator": torch.Generator()}
    taken = {name: value for name, value in runtime.items() if name in parameters}
    called = partial(function, scores, truth.get(parameters[1], scores.bool()), **loss.args, **taken)
    try:
        components.once(called, "loss", loss.name, loss.args, learns, logs)
    except (TypeError, ValueError) as error:
        advice = "log_plus is set, and logs are standardized" if logs else ""
        raise _wrong(f"{location}.args", str(error), advice=advice) from error


def _parameters(loss: str) -> list[str]:
    """Return the names of a loss's parameters: the second one says what truth it learns from."""
    return list(inspect.signature(lookup.find("losses", loss)).parameters)


def _check_start(settings: Settings, plan: RunPlan, components: _Components) -> None:
    location, written = f"runs.{plan.name}.start", settings.runs[plan.name].start
    plain = PurePosixPath(written).as_posix()  # by which DVC knows what comes first
    if written != plain or plain == "." or not plain.isprintable():
        expected = plain if written != plain else "models/runs/<run>, or a safetensors file"
        raise _wrong(location, f"is {written!r}", f"a plain path: {expected}")
    if plan.start is None:
        task = lookup.find("tasks", plan.task)(plan.training)
        if not task.plan(started=False):
            reason = f"is {NONE}, but the epochs of the training's {', '.join(task.blocks())} are 0"
            raise _wrong(location, reason, "a start, or an epoch at least")
    elif plan.start.parts[:2] == ("models", "runs"):
        start = plan.start.parts[2]
        if start not in settings.runs:
            raise ParamsError(unknown(location, start, settings.runs, what="run "))
        folders = ["", *(f"seed{seed}" for seed in settings.runs[start].seeds)]
        if (folder := "/".join(plan.start.parts[3:])) not in folders:
            raise ParamsError(unknown(location, folder, folders[1:], what="model "))
        _check_start_run(settings, plan.name, start, components, is_shared=bool(folder))
    elif plan.start.exists():
        with _at(location, OSError):
            check_fit(*_backbones(settings, plan, components), plan.start)


def _check_start_run(
    settings: Settings, name: str, start_name: str, components: _Components, *, is_shared: bool
) -> None:
    """Check that a run can start from another one, which goes back to random weights or to a file."""
    location, run, start = f"runs.{name}.start", settings.runs[name], settings.runs[start_name]
    chain = [name, start_name]
    while chain[-1] in settings.runs and chain[-1] not in chain[:-1]:
        chain.append(settings.runs[chain[-1]].start.removeprefix("models/runs/").partition("/")[0])
    if chain[-1] in chain[:-1]:
        expected = "a run that goes back to random weights or to a file"
        raise _wrong(location, ", which starts from ".join(chain), expected)
    if len(start.seeds) > 1 and not is_shared and not {*run.seeds} <= {*start.seeds}:
        reason = f"{start_name} has the seeds {start.seeds}, this run {run.seeds}"
        advice = (
            f"write models/runs/{start_name}/seed{start.seeds[0]}, or seeds: {sorted({*run.seeds})} in {start_name}"
        )
        raise _wrong(location, reason, "a start of each of these, or one that all share", advice)
    drawn = [key for key, dataset in settings.datasets.items() if dataset.is_drawn]
    if start.dataset in drawn and run.dataset not in drawn:
        reason = f"{start_name} learned on {start.dataset}, gray digits, which are no start for {run.dataset}"
        raise _wrong(location, reason, advice="give it a safetensors file of weights (docs/real_data.md)")
    ours, theirs = (_backbones(settings, resolve(settings, run), components)[0] for run in (name, start_name))
    if _shapes(ours) != _shapes(theirs):
        reason = f"{_said(run.model)}, but it starts from {start_name}, which is {_said(start.model)}"
        raise _wrong(f"runs.{name}.model", reason, "the same")


def _shapes(module: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in module.state_dict().items()}


def _said(model: Model) -> str:
    return f"{model.backbone.name} with {dict(model.backbone.args)}"


def _check_rival(location: str, settings: Settings, name: str, rival: Rival, components: _Components) -> None:
    if name in settings.runs:
        raise _wrong(location, "is the name of a run too, and both write predictions", "another name")
    if rival.name not in RIVALS:
        raise ParamsError(unknown(f"{location}.name", rival.name, RIVALS, what="rival "))
    if rival.dataset not in settings.datasets:
        raise ParamsError(unknown(f"{location}.dataset", rival.dataset, settings.datasets, what="dataset "))
    inputs, takes = components.inputs(rival.dataset), RIVALS[rival.name].takes
    if not any((rival.task, input_type) in takes for input_type in inputs):
        possible = [f"{task} on {input_type}" for task, input_type in sorted(takes)]
        raise _wrong(location, f"{rival.name} on {' and '.join(inputs)} for {rival.task}", ", ".join(possible))


def _check_comparison(location: str, settings: Settings, comparison: Comparison) -> None:
    for name in (comparison.baseline, *comparison.runs):
        if name not in settings.runs:
            raise ParamsError(unknown(location, name, settings.runs, what="run "))
    first = settings.runs[comparison.baseline]
    for name in comparison.runs:
        run = settings.runs[name]
        if (run.task, _test_data(settings, run)) != (first.task, _test_data(settings, first)):
            reason = (
                f"{name} is of {run.task} on {run.dataset}, {comparison.baseline} of {first.task} on {first.dataset}"
            )
            raise _wrong(f"{location}.runs", reason, "the same test data")
        if not set(run.seeds) & set(first.seeds):
            reason = f"{name} and {comparison.baseline} have no seed in common, which pairs them"
            raise _wrong(f"{location}.runs", reason)
    if no_rivals := sorted(set(comparison.rivals) & set(settings.runs)):
        reason = f"{no_rivals[0]} is a run"
        raise _wrong(f"{location}.rivals", reason, "what another program predicts", "put it into runs")
    for name in comparison.rivals:
        rival = settings.rivals.get(name)
        if rival is not None and (rival.task, rival.dataset) != (first.task, first.dataset):
            reason = f"{name} is of {rival.task} on {rival.dataset}, the baseline of {first.task} on {first.dataset}"
            raise _wrong(f"{location}.rivals", reason, "the same test data")
    _check_metric(comparison.metric, _metrics(first.task), f"{location}.metric", what="")


def _test_data(settings: Settings, run: Run) -> Any:
    """Return what decides on a run's test split: a variant of a dataset may differ in its training split alone."""
    dataset = settings.datasets.get(run.dataset)
    if dataset is None:
        return run.dataset
    block = dataset.model_dump(exclude={"rows": {"train"}})
    block["args"] = {option: value for option, value in dataset.args.items() if not option.startswith("train_")}
    return block


def _metrics(task: str) -> list[str]:
    return [metric.name for metric in lookup.find("tasks", task).all_metrics()]


def _check_metric(name: str, names: list[str] | tuple[str, ...], location: str, *, what: str = "metric ") -> None:
    if name not in names:
        raise ParamsError(unknown(location, name, names, what=what))


def _check_judged(location: str, settings: Settings, task: str) -> None:
    tasks = ["sorter", *lookup.names("tasks")]
    if task not in tasks:
        raise ParamsError(unknown(location, task, tasks, what="task "))
    if task not in settings.gate.judged:
        raise _wrong(location, "missing", "the metric by which every model is judged")
    judged = settings.gate.judged[task]
    if task == "sorter" and judged.slice_tolerance is not None:
        raise _wrong(f"{location}.slice_tolerance", "score vectors have no slices", advice="leave it out")
    for metric in (judged.metric, *judged.guarded):
        _check_metric(metric, SORTER_METRICS if task == "sorter" else _metrics(task), location)
