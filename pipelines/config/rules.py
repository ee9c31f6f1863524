"""Check that the params agree: component names exist, options fit their components, and runs can be trained."""

import inspect
import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from operator import attrgetter
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
    Dataset,
    Model,
    Rival,
    Run,
    Settings,
    check_shapes,
    read,
    typed,
)
from pipelines.rivals import RIVALS
from rankgrad import lookup
from rankgrad.datasets.scenes.base import Scenes
from rankgrad.io.starts import check_fit, with_files
from rankgrad.plain_text import PAIR
from rankgrad.sorters.laplace import Laplace
from rankgrad.tasks import takes
from rankgrad.training.objective import JOINTLY, Objective
from rankgrad.training.optimization import OPTIMIZERS, check_optimizer
from rankgrad.training.options import Component, PhaseOptions, WholePhase

__all__ = ["SORTER_METRICS", "check", "check_values", "judged_tasks"]

SORTER_METRICS = ("negative_l1", "exactly_ordered")  # larger is better
LABELS, WORDS = 10, ["<padding>", "<unknown>", "a"]  # for networks that are built only to check that it works
# Names of the pipeline's own folders and files, which a dataset must not use.
TAKEN = ("raw", "score_vectors", "params", "code", "incoming")


def check(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check them completely; every component is built once, without weights.

    Raises:
        ParamsError: each of its problems has the key, what was found, and what was expected.
    """
    return check_values(read(path), path=path)


def check_values(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Check plain values, as `check` does for a file."""
    settings = check_shapes(values, path=path)
    components, problems, wrong = _Components(settings), [*_unread(values)], set[str]()
    uses: dict[str, set[str]] = {f"runs.{name}": {f"training.{run.task}"} for name, run in settings.runs.items()}
    for location, key, kind, name in _names(settings):
        known = getattr(settings, kind)
        uses.setdefault(location, set()).add(f"{kind}.{name}")
        if name not in (NONE, *known):
            problems.append(unknown(f"{location}.{key}".rstrip("."), name, known, what=f"{kind.removesuffix('s')} "))
            wrong.add(location)

    def ask(location: str, rule: Callable[..., None], *arguments: Any) -> None:
        if wrong & {location, *uses.get(location, ())}:  # it would have the same problems
            return
        try:
            rule(location, *arguments)
        except ParamsError as error:
            problems.extend(error.problems)
            wrong.add(location)
        except lookup.ComponentError as error:  # from a metric in `own`, which several rules check
            problems.append(Problem(error.place, error.reason, error.expected, error.advice))
            wrong.add(location)

    for kind, rule in RULES.items():
        for key in attrgetter(kind)(settings):
            ask(f"{kind}.{key}", rule, components, key)
    if settings.benchmark_sorters:
        ask("gate.judged.sorter", _check_is_judged, settings, "sorter", "")
    for task, dataset in dict.fromkeys((run.task, run.dataset) for run in settings.runs.values()):
        ask(f"gate.judged.{task}", _check_is_judged, settings, task, dataset)
    if problems:
        raise ParamsError(*problems, path=path)
    return settings


def _names(settings: Settings) -> Iterator[tuple[str, str, str, str]]:
    """Yield each name of a block that another one uses: the user and its key, and the kind and name of what it uses."""
    for key, sorter in settings.sorters.items():
        yield f"sorters.{key}", "vectors", "score_vectors", sorter.vectors
    for key, vectors in settings.benchmark_sorters.items():
        yield f"benchmark_sorters.{key}", "", "sorters", key
        yield f"benchmark_sorters.{key}", "", "score_vectors", vectors
    for name, run in settings.runs.items():
        yield f"runs.{name}", "dataset", "datasets", run.dataset
        yield f"runs.{name}", "sorter", "sorters", run.sorter
        yield f"runs.{name}", "start", "runs", settings.start_of(name) or NONE
    for name, rival in settings.rivals.items():
        yield f"rivals.{name}", "dataset", "datasets", rival.dataset
    for key, comparison in settings.comparisons.items():
        for name in comparison.networks:
            yield f"comparisons.{key}", "", "runs", name
        for name in comparison.rivals:
            if name in settings.runs:
                yield f"comparisons.{key}", "rivals", "runs", name
            elif name in settings.rivals:  # others are of another program
                yield f"comparisons.{key}", "rivals", "rivals", name


def _unread(values: Any, location: str = "") -> Iterator[Problem]:
    """Yield values in blocks and lists that no stage can use: NaN, infinite numbers, and dates."""
    if isinstance(values, float) and not math.isfinite(values):
        yield Problem(location, f"is {values}", "a finite number")
    elif isinstance(values, date):
        yield Problem(location, f"is the date {values}, which DVC cannot read", "quotes around it")
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
    """Turn an error of a component or a file into a problem with the setting at `location`."""
    try:
        yield
    except ParamsError:
        raise
    except lookup.ComponentError as error:
        raise _wrong(error.place, error.reason, error.expected, error.advice) from error
    except (ValueError, *errors) as error:
        raise _wrong(location, str(error)) from error


@contextmanager
def _below(location: str) -> Generator[None]:
    """Put the problems of a block, whose keys are relative to it, at `location`."""
    try:
        yield
    except ParamsError as error:
        raise error.within(location) from error


class _Undrawn(TorchFunctionMode):
    """Leave parameters uninitialized, because memory that is never written is never allocated.

    The meta device would also work, but computing on it makes torch import its compiler, which takes seconds. Tensors
    that are not parameters are initialized: ``trunc_normal_`` samples them until all values are within its bounds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if getattr(func, "__name__", "") in ("kaiming_uniform_", "normal_", "uniform_"):
            tensor = options["tensor"] if "tensor" in options else args[0]
            if isinstance(tensor, torch.nn.Parameter):
                return tensor
        return func(*args, **options)


class _Components:
    """The components of the params. Each is built once, without weights, even if several runs name it."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._known: dict[str, Any] = {}

    def once(self, make: Callable[[], Any], *key: Any) -> Any:
        """Call `make`, or return its earlier result for an equal key."""
        text = json.dumps(key, sort_keys=True, default=str)
        if text not in self._known:
            self._known[text] = make()
        return self._known[text]

    def built(self, folder: str, component: Any, location: str, **runtime: Any) -> torch.nn.Module:
        """Return a component built with its options; raise its own error as a problem of the params."""

        def build() -> torch.nn.Module:
            make = _checked(folder, component, location)
            parameters = inspect.signature(make).parameters
            taken = {name: value for name, value in runtime.items() if name in parameters}
            raised = own.raised_by(folder, component.name, location)
            with _at(f"{location}.args", TypeError, RuntimeError, ImportError), raised, _Undrawn():
                return make(**component.args, **taken)

        return self.once(build, folder, component.name, component.args, runtime)

    def sorter(self, key: str) -> torch.nn.Module:
        """Return a sorter of the params, built for the length of its vectors if it takes only one length."""
        sorter = self.settings.sorters[key]
        return self.built("sorters", sorter, f"sorters.{key}", **self.settings.length_of(key))

    def columns(self, dataset: str) -> list[str]:
        """Return the columns of a dataset's tables."""
        return self.once(lambda: self.settings.datasets[dataset].built().schema.names, "columns", dataset)

    def inputs(self, dataset: str) -> list[str]:
        """Return the input types that a dataset's tables have."""
        return [kind for kind in lookup.names("inputs") if kind in self.columns(dataset)]


def _checked(folder: str, component: Any, location: str) -> Callable[..., Any]:
    """Return the component with that name; raise if it does not take these options."""
    with _at(location), own.raised_by(folder, component.name, location):
        own.check_class(folder, component.name, location)
        lookup.check_options(folder, component.name, component.args, where=location)
        make = lookup.find(folder, component.name, where=f"{location}.name")
        kinds = lookup.options(make)
    for option, value in component.args.items():
        typed(kinds[option], value, f"{location}.args.{option}")
    return make


def _check_dataset(location: str, components: _Components, key: str) -> None:
    block = components.settings.datasets[key]
    if key in TAKEN:
        raise _wrong(location, f"the pipeline itself uses data/{key} or checks/{key}", advice="choose another name")
    with _at(location):
        kind = lookup.find("datasets", block.name, where=f"{location}.name")
    if issubclass(kind, Scenes):
        _check_drawn(block, kind, location)
    else:
        _check_read(block, kind, location)


def _check_drawn(block: Dataset, kind: type[Scenes], location: str) -> None:
    name = block.name
    if block.raw not in DIGITS:
        raise _wrong(f"{location}.raw", f"is {block.raw!r}, but {name} generates scenes of digits", " or ".join(DIGITS))
    if block.rows is None:
        raise _wrong(f"{location}.rows", "missing", "how many to generate: {train: .., val: .., test: .., gate: ..}")
    for option in ("size", "folds"):
        if (value := getattr(block, option)) is not None:
            reason = f"is {value}, but {name} generates its images, in any number, by the options in args"
            raise _wrong(f"{location}.{option}", reason, advice="remove it")
    for option in {"rows", "seed"} & block.args.keys():
        raise _wrong(f"{location}.args.{option}", "is not an option of args", f"datasets.<key>.{option}, next to args")
    typed(kind, block.args | block.model_dump(include={"rows", "seed"}), f"{location}.args")


def _check_read(block: Dataset, kind: type[Any], location: str) -> None:
    folders = PurePosixPath(block.raw).parts
    if block.raw != "/".join(folders) or folders[:2] != ("data", "raw") or len(folders) < 3 or ".." in folders:
        expected = f"the plain path of a folder in data/raw, such as data/raw/{block.name}"
        raise _wrong(f"{location}.raw", f"is {block.raw!r}", expected)
    if block.rows is not None:
        reason = f"{block.name} is read from disk, so its files determine the number of rows"
        raise _wrong(f"{location}.rows", reason, advice="remove it")
    dataset = typed(kind, block.args, f"{location}.args")
    if (block.size is None) == dataset.input_type.pictures:
        expected = "null, because it has no images" if block.size else "the number of pixels per side of its images"
        raise _wrong(f"{location}.size", f"is {block.size}", expected)
    if block.folds is not None and not dataset.foldable:
        reason = f"{block.name} is fitted to the training rows of one split, and folds would test on those rows"
        raise _wrong(f"{location}.folds", reason, advice="remove folds")
    if Path(block.raw).is_dir():  # otherwise DVC reports that it is missing
        with _at(location, OSError):
            dataset.check_head(Path(block.raw))


def _check_sorter(location: str, components: _Components, key: str) -> None:
    module, sorter = components.sorter(key), components.settings.sorters[key]
    if sorter.name in lookup.own_files("sorters"):
        own.check_sorter(location, sorter, **components.settings.length_of(key))
    has_weights = any(weight.requires_grad for weight in module.parameters())
    if has_weights != (sorter.training is not None):
        expected = "a block of options, because it has weights" if has_weights else "null, because it has no weights"
        raise _wrong(f"{location}.training", f"is wrong for {sorter.name}", expected)
    if sorter.training is not None:
        if sorter.vectors == NONE:
            raise _wrong(f"{location}.vectors", "is none, but the sorter has weights", "a key of score_vectors")
        _check_optimizer(sorter.training.optimizer, f"{location}.training.optimizer")


def _check_benchmark(location: str, components: _Components, key: str) -> None:
    settings = components.settings
    length = settings.score_vectors[settings.benchmark_sorters[key]].length
    taken = settings.length_of(key).get("length")
    if "length" in takes("sorters", settings.sorters[key].name) and taken != length:
        raise _wrong(location, f"has vectors of {length} scores, but {key} takes {taken}")


def _check_optimizer(optimizer: Component, location: str) -> None:
    if optimizer.name not in OPTIMIZERS:
        raise ParamsError(unknown(f"{location}.name", optimizer.name, OPTIMIZERS))
    options = inspect.signature(getattr(torch.optim, optimizer.name)).parameters
    for name, value in optimizer.args.items():
        usual = options[name].default if name in options else None
        is_number = isinstance(usual, int | float) and not isinstance(usual, bool)
        if is_number and isinstance(value, str | bool):
            raise _wrong(f"{location}.args.{name}", f"is {value!r}", f"a number such as {usual}")
    with _at(f"{location}.args", Exception):  # optimizers raise all kinds of errors for invalid options
        check_optimizer(optimizer)


def _phases(training: Any) -> dict[str, PhaseOptions]:
    return {name: options for name, options in vars(training).items() if isinstance(options, PhaseOptions)}


def _check_optimizers(training: Any, location: str) -> None:
    for phase, options in _phases(training).items():
        _check_optimizer(options.optimizer, f"{location}.{phase}.optimizer")


def _check_training(location: str, components: _Components, name: str) -> None:
    settings = components.settings
    with _at(location):
        task = lookup.find("tasks", name, where=location)
        if name in {run.task for run in settings.runs.values()}:
            own.check_metrics(task)
    _check_optimizers(typed(task.Training, settings.training[name], location), location)


def _check_run(location: str, components: _Components, name: str) -> None:
    """Check a run of the params with each setting of its grid."""
    settings = components.settings
    if name in [f"sorter-{sorter}" for sorter in settings.sorters]:  # MLflow would keep only one of the two
        raise _wrong(location, "a sorter has this name in MLflow and in reports", advice="choose another name")
    for values in settings.runs[name].settings:
        plan = resolve(settings, name, values)
        with _below(location):
            _check_plan(plan, components)
    _check_refit(location, settings, name)
    unjudged = lookup.find("tasks", settings.runs[name].task).unjudged
    for key, values in settings.runs[name].grid.items():
        block, *options = key.split(".")
        if block != "training":
            continue
        place = f"{location}.grid.{key}"
        if options[0] in unjudged:
            raise _wrong(place, "no grid can choose it: it does not change the validation metric")
        if options[-1] == "monitor" or any(isinstance(value, dict) and "monitor" in value for value in values):
            raise _wrong(place, "no grid can choose it: it is the validation metric by which a grid chooses")


def _check_refit(location: str, settings: Settings, name: str) -> None:
    """Check that a run that is refitted on validation rows needs none of them afterwards."""
    run = settings.runs[name]
    dataset = settings.datasets[run.dataset]
    hindrances = {
        f"the gate's scenes of {run.dataset} are drawn from the digits of validation": dataset.is_drawn,
        f"{run.dataset} has folds and no gate split, so no row would be left for monitoring": (
            dataset.folds is not None and "gate" not in dataset.built().splits
        ),
        f"validation rows of {run.dataset} have another target than training rows": (
            dataset.args.get("train_target") is not None
        ),
    }
    for hindrance, is_there in hindrances.items():
        if run.refit and is_there:
            raise _wrong(f"{location}.refit", f"is true, but {hindrance}", "false")
    for earlier in _chain(settings, name)[1:]:
        before = settings.runs[earlier]
        its_data = settings.datasets.get(before.dataset, dataset)
        if before.refit and (its_data.raw, its_data.args.get("file")) == (dataset.raw, dataset.args.get("file")):
            reason = f"begins with {earlier}, which learned validation rows of the data that choose this run's epochs"
            raise _wrong(f"{location}.start", reason, "a run with refit: false")


def _check_plan(plan: RunPlan, components: _Components) -> None:
    """Check a run with one setting of its grid; keys in problems are relative to the run."""
    table = components.settings.datasets[plan.dataset].args
    _check_data_of(plan, components)
    _check_optimizers(plan.training, "training")
    _check_model(plan, components)
    for option, loss in (("loss", plan.loss), ("auxiliary", plan.auxiliary)):
        if loss is not None:
            _check_loss(plan, loss, components, option, table)
    _check_objective(plan, components)
    own.check_columns("", lookup.find("tasks", plan.task), table)
    _check_start(plan, components)


def _check_data_of(plan: RunPlan, components: _Components) -> None:
    """Check that a dataset has the columns that a task needs: its target, and one input type."""
    columns, reads = components.columns(plan.dataset), lookup.find("tasks", plan.task).reads
    missing = [column for column in reads.truth if column not in columns]
    if not missing and not {*reads.inputs} & {*columns}:
        missing = [*reads.inputs]
    if missing:
        reason = f"{plan.dataset} has no column {' or '.join(missing)}, which {plan.task} needs"
        raise _wrong("dataset", reason)


def _check_model(plan: RunPlan, components: _Components) -> None:
    """Check that a network can be built: a backbone for the dataset's inputs, a head, and a backbone for captions."""
    settings = components.settings
    backbone, text = _backbones(plan, components)
    components.built("models.heads", plan.model, "model", features=backbone.size, maps=backbone.maps, outputs=LABELS)
    inputs = components.inputs(plan.dataset)
    kinds = {backbone for kind in inputs for backbone in lookup.find("inputs", kind).backbones}
    if backbone.input not in kinds:
        fitting = []
        for name in lookup.choices("models.backbones"):
            other = lookup.find("models.backbones", name)
            if other.input in kinds and other.tasks is None:
                fitting.append(name)
        reason = f"{plan.model.backbone.name} takes {backbone.input}, but {plan.dataset} has {' or '.join(inputs)}"
        raise _wrong("model.backbone.name", reason, advice=f"try {', '.join(fitting) or 'another dataset'}")
    for option, of_option in (("backbone", backbone), ("text", text)):
        if of_option is not None and of_option.tasks is not None:
            _check_fitted(plan, option, of_option.tasks)
    if getattr(plan.training, "shared", False):
        _check_shared(plan, settings.runs[plan.name].model.text, inputs)
    dataset = settings.datasets[plan.dataset]
    side = dataset.size or dataset.args.get("canvas")
    if backbone.input == "image" and side is not None:
        components.once(lambda: _check_pictures(plan, backbone, side), "pictures", plan.model.backbone, side)
    for phase, options in _phases(plan.training).items():
        if isinstance(options, WholePhase) and options.freeze is not None:
            with _at(f"training.{phase}"):
                backbone.freeze(options.freeze)


def _check_fitted(plan: RunPlan, option: str, tasks: Sequence[str]) -> None:
    """Check a run whose backbone is fitted to its training split when it is built, and supports only some tasks."""
    name = getattr(plan.model, option).name
    if plan.task not in tasks:
        raise _wrong(f"model.{option}.name", f"{name} cannot learn {plan.task}, only {', '.join(tasks)}")
    if plan.model.name != "identity":
        reason = f"is {plan.model.name}, but {name} computes scores itself"
        raise _wrong("model.name", reason, "identity")
    if plan.start is not None:
        reason = f"is {plan.start}, but {name} is fitted to the training split of this run"
        raise _wrong("start", reason, "models/runs/none")


def _check_shared(plan: RunPlan, text: Component | None, inputs: list[str]) -> None:
    """Check that one encoder can read items and captions; `text` is the captions' backbone if the run names one."""
    if inputs != ["text"]:
        reason = f"is true, but items of {plan.dataset} are {' or '.join(inputs)}"
        raise _wrong("training.shared", reason, "text items, because captions are text", "remove it")
    if text is not None:
        reason = f"is {text.name}, but training.shared uses the items' backbone for captions"
        raise _wrong("model.text", reason, advice="remove text or training.shared")


def _backbones(plan: RunPlan, components: _Components) -> tuple[Any, Any]:
    """Return the backbone of the inputs and the one of captions (or None), built without weights."""
    model = plan.model.model_dump(include={"backbone", "text"})
    _checked("models.backbones", plan.model.backbone, "model.backbone")
    if plan.model.text is not None:
        _checked("models.backbones", plan.model.text, "model.text")
    with _at("model.text"):
        lookup.find("tasks", plan.task).accepts(model)
    with _at("start", OSError):  # a run that is not trained yet needs the files of the first in its chain
        files = with_files(model, components.settings.runs[_chain(components.settings, plan.name)[-1]].start)
    taken = {"colors": 3, "features": 1, "outputs": LABELS}

    def built(option: str, component: Component) -> torch.nn.Module:
        reads_pairs = lookup.find("models.backbones", component.name).input == "text_pair"
        more = {"words": [*WORDS, PAIR] if reads_pairs else WORDS, **files[option].get("files", {})}
        return components.built("models.backbones", component, f"model.{option}", **taken | more)

    return built("backbone", plan.model.backbone), plan.model.text and built("text", plan.model.text)


def _check_pictures(plan: RunPlan, backbone: Any, side: int) -> None:
    """Check that the backbone takes an image of the dataset's size."""
    try:
        with torch.inference_mode():
            backbone.eval()(torch.zeros(1, 3, side, side, dtype=torch.uint8))
    except (ValueError, RuntimeError, AssertionError, IndexError) as error:
        reason = f"{plan.model.backbone.name} cannot take the {side} x {side} images of {plan.dataset}: {error}"
        raise _wrong("model.backbone", reason) from error


def _check_objective(plan: RunPlan, components: _Components) -> None:
    """Check that the losses can be built with their sorter."""
    settings, key = components.settings, plan.sorter
    sorter = None if key is None else components.sorter(key)
    if plan.sorter_optimizer is not None and plan.sorter_optimizer.name != JOINTLY:
        _check_optimizer(plan.sorter_optimizer, "sorter_optimizer")
    try:
        Objective(plan.loss, sorter=sorter, sorter_optimizer=plan.sorter_optimizer, auxiliary=plan.auxiliary)
    except lookup.ComponentError as error:
        raise _wrong(error.place, error.reason) from error
    if key is None or "length" not in takes("sorters", settings.sorters[key].name):
        return
    length, batch_size = settings.length_of(key).get("length"), getattr(plan.training, "batch_size", None)
    if batch_size is None:
        reason = f"{key} takes lists of exactly {length} scores, but lists of {plan.task} have other lengths"
        raise _wrong("sorter", reason, "a sorter for any length, such as laplace")
    if batch_size % length:
        reason = f"is {batch_size}, but {key} ranks lists of {length} scores"
        raise _wrong("training.batch_size", reason, f"a multiple of {length}")


def _check_loss(
    plan: RunPlan, loss: Component, components: _Components, location: str, table: Mapping[str, Any]
) -> None:
    """Check that a loss fits the task, and call it once with its options; `table` has the dataset's options."""
    logs = getattr(plan.training, "log_plus", None) is not None
    learns = lookup.find("tasks", plan.task).learns
    function = _checked("losses", loss, location)
    is_own = loss.name in lookup.own_files("losses")
    if is_own:
        own.check_loss(location, loss, lookup.find("tasks", plan.task), table)
    parameters = takes("losses", loss.name)  # the second one names the type of its target
    if parameters[1] not in learns:
        fitting = [name for name in lookup.names("losses") if takes("losses", name)[1] in learns]
        raise _wrong(f"{location}.name", f"{loss.name} is not a loss for {plan.task}", f"one of {', '.join(fitting)}")
    if is_own:
        return
    # Two rows with targets from 0 to 1, or outside that range if logs are standardized.
    scores = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    truth = {"label_ranks": torch.tensor([[2, 1], [0, 1]]), "target": 2 * scores - 1 if logs else scores}
    runtime = {"sorter": Laplace(), "generator": torch.Generator()}
    taken = {name: value for name, value in runtime.items() if name in parameters}
    called = partial(function, scores, truth.get(parameters[1], scores.bool()), **loss.args, **taken)
    try:
        components.once(called, "loss", loss.name, loss.args, learns, logs)
    except (TypeError, ValueError) as error:
        advice = "log_plus is set, so targets are standardized logs" if logs else ""
        raise _wrong(f"{location}.args", str(error), advice=advice) from error


def _check_start(plan: RunPlan, components: _Components) -> None:
    settings = components.settings
    written = settings.runs[plan.name].start
    plain = PurePosixPath(written).as_posix()  # DVC orders stages by exact paths
    if written != plain or plain == "." or not plain.isprintable():
        expected = plain if written != plain else "models/runs/<run>, or a safetensors file"
        raise _wrong("start", f"is {written!r}", f"a plain path: {expected}")
    if plan.start is None:
        task = lookup.find("tasks", plan.task)(plan.training)
        if not task.plan(started=False):
            reason = f"is {NONE}, but all phases ({', '.join(task.blocks())}) have 0 epochs"
            raise _wrong("start", reason, "weights to start from, or at least one epoch")
    elif plan.start.parts[:2] == ("models", "runs"):
        start = plan.start.parts[2]
        folders = ["", *(f"seed{seed}" for seed in settings.runs[start].seeds)]
        if (folder := "/".join(plan.start.parts[3:])) not in folders:
            raise ParamsError(unknown("start", folder, folders[1:], what="model "))
        _check_start_run(plan, start, components, is_shared=bool(folder))
    elif plan.start.exists():
        with _at("start", OSError):
            check_fit(*_backbones(plan, components), plan.start)


def _chain(settings: Settings, name: str) -> list[str]:
    """Return a run, the run that it starts from, and so on; a circle ends with a run that is in it already."""
    chain = [name]
    while chain[-1] not in chain[:-1] and (start := settings.start_of(chain[-1])) in settings.runs:
        chain.append(start)
    return chain


def _check_start_run(plan: RunPlan, start_name: str, components: _Components, *, is_shared: bool) -> None:
    """Check that a run can start from another one, and that the chain of starts ends at random weights or a file."""
    settings = components.settings
    run, start = settings.runs[plan.name], settings.runs[start_name]
    chain = _chain(settings, plan.name)
    if chain[-1] in chain[:-1]:
        expected = "a chain of starts that ends at random weights or a file"
        raise _wrong("start", ", which starts from ".join(chain), expected)
    if len(start.seeds) > 1 and not is_shared and not {*run.seeds} <= {*start.seeds}:
        reason = f"{start_name} has the seeds {start.seeds}, but this run has {run.seeds}"
        advice = (
            f"write models/runs/{start_name}/seed{start.seeds[0]} to share one start, or seeds: {sorted({*run.seeds})} "
            f"in {start_name}"
        )
        raise _wrong("start", reason, "a start with the same seeds, or one start for all seeds", advice)
    try:
        theirs, _ = _backbones(resolve(settings, start_name), components)
    except ParamsError:  # of the other run, which is checked itself
        return
    ours, _ = _backbones(plan, components)
    if _shapes(ours) != _shapes(theirs):
        reason = f"is {_said(plan.model)}, but it starts from {start_name}, which is {_said(start.model)}"
        raise _wrong("model", reason, "the same backbone")


def _shapes(module: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in module.state_dict().items()}


def _said(model: Model) -> str:
    return f"{model.backbone.name} with {dict(model.backbone.args)}"


def _check_rival(location: str, components: _Components, name: str) -> None:
    rival = components.settings.rivals[name]
    if name in components.settings.runs:
        raise _wrong(location, "is also the name of a run, and both would write the same predictions", "another name")
    inputs = components.inputs(rival.dataset)
    takes = RIVALS[rival.name].takes
    if takes.get(rival.task) not in inputs:
        possible = [f"{task} on {input_type}" for task, input_type in sorted(takes.items())]
        found = f"{rival.name} cannot do {rival.task} on {' and '.join(inputs)}"
        raise _wrong(location, found, ", ".join(possible))
    _check_metric(rival.metric, rival.task, f"{location}.metric")


def _check_comparison(location: str, components: _Components, key: str) -> None:
    settings, comparison = components.settings, components.settings.comparisons[key]
    baseline = settings.runs[comparison.baseline]
    if twice := sorted({*comparison.rivals} & {*comparison.networks}):
        raise _wrong(f"{location}.rivals", f"{twice[0]} is among the runs, too", "each run once")
    for kind, names in (("runs", comparison.runs), ("rivals", comparison.rivals)):
        for name in names:
            other = settings.runs.get(name) or settings.rivals.get(name)
            if other is None:
                continue
            if (other.task, _test_data(settings, other)) != (baseline.task, _test_data(settings, baseline)):
                ours, theirs = (f"{run.task} on {run.dataset}" for run in (baseline, other))
                reason = f"{name} is {theirs}, but {comparison.baseline} is {ours}"
                raise _wrong(f"{location}.{kind}", reason, "the same test data")
            # A rival with a single seed is compared with each seed.
            is_paired = isinstance(other, Run) and (kind == "runs" or len(other.seeds) > 1)
            if is_paired and not {*other.seeds} & {*baseline.seeds}:
                reason = f"{name} and {comparison.baseline} have no seed in common, but runs are paired by seed"
                raise _wrong(f"{location}.{kind}", reason)
    _check_metric(comparison.metric, baseline.task, f"{location}.metric")


def _test_data(settings: Settings, run: Run | Rival) -> Any:
    """Return what determines a run's test split; two variants of a dataset may differ only in their training rows."""
    dataset = settings.datasets[run.dataset]
    block = dataset.model_dump(exclude={"rows": {"train"}})
    block["args"] = {option: value for option, value in dataset.args.items() if not option.startswith("train_")}
    return block


def _check_metric(name: str, task: str, location: str) -> None:
    names = [*SORTER_METRICS]
    if task != "sorter":
        names = [metric.name for metric in lookup.find("tasks", task).all_metrics()]
    if name not in names:
        raise ParamsError(unknown(location, name, names))


def judged_tasks() -> list[str]:
    """Return the tasks whose models the gate judges; sorters are one."""
    return ["sorter", *lookup.names("tasks")]


def _check_is_judged(location: str, settings: Settings, task: str, dataset: str) -> None:
    if not {task, f"{task}-{dataset}"} & settings.gate.judged.keys():
        raise _wrong(location, "missing", "the metric by which the gate compares models")


def _check_judged(location: str, components: _Components, key: str) -> None:
    settings = components.settings
    task, hyphen, dataset = key.partition("-")
    if task not in judged_tasks():
        raise ParamsError(unknown(location, task, judged_tasks(), what="task "))
    if hyphen and dataset not in settings.datasets:
        raise ParamsError(unknown(location, dataset, settings.datasets, what="dataset "))
    judged = settings.gate.judged[key]
    if task == "sorter" and judged.slice_tolerance is not None:
        raise _wrong(f"{location}.slice_tolerance", "score vectors have no slices", advice="leave it out")
    if task == "sorter" and judged.newer_rows != "better":
        raise _wrong(f"{location}.newer_rows", "a sorter learns no rows of deliveries", advice="leave it out")
    for metric in (judged.metric, *judged.guarded):
        _check_metric(metric, task, location)


# The rule for each entry of a block of the params, in the order of their messages.
RULES: dict[str, Callable[[str, _Components, str], None]] = {
    "datasets": _check_dataset,
    "sorters": _check_sorter,
    "benchmark_sorters": _check_benchmark,
    "training": _check_training,
    "runs": _check_run,
    "rivals": _check_rival,
    "comparisons": _check_comparison,
    "gate.judged": _check_judged,
}
