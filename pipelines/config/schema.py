"""The shapes of `params.yaml`: strict, frozen, every key known. What the values mean is checked by `rules`."""

import os
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from itertools import product
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)  # fmt: skip
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent

from rankgrad import lookup
from rankgrad.lookup import did_you_mean

__all__ = [
    "Component", "ParamsError", "Run", "Settings", "check_shapes", "describe", "load", "merged", "prefixed", "read",
]  # fmt: skip

# An alias (`*name`) repeats what may hold aliases: some kilobytes can stand for gigabytes. And libyaml, which is in C,
# ends the process where brackets are too deep. The project's own params have 12,000 values, 8 deep.
VALUES, DEPTH = 200_000, 50
SHORT = Repr()  # of what was found, for messages
SHORT.maxstring = SHORT.maxother = 200
NONE = "none"  # marks an unused sorter, start or auxiliary loss
# Of a run, what its loss is, and what reports show of it anyway.
OF_LOSS = ("loss", "sorter", "sorter_optimizer", "auxiliary", "seeds", "grid")
DRAWN_FROM = "data/digits"  # `raw` of datasets that are drawn
# What params were called once, by their place's last key.
RENAMED = {
    "transfer_runs": "runs, each with `start: models/runs/<run>`",
    "sorter_runs": "runs, each with `sorter: <key of sorters>`",
    "synthetic_ranks": "score_vectors",
    "train_processes": "compute.processes",
    "optimiser": "optimizer",
    "beside": "auxiliary",
    "head": "probe",
    "everything": "finetune",
    "fine_tune": "sorter_optimizer",
    "judged_by": "monitor",
    "standardise": "standardize",
    "figure": "metric",
    "real_data": "datasets, each `<any key>: {name: table, raw: data/raw/photos, args: {...}, size: 64, seed: 1}`",
}

T = TypeVar("T")
Count = Annotated[int, Field(gt=0)]
TwoOrMore = Annotated[int, Field(ge=2)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
MOST_SEEDS = 1000


def _plain(name: str) -> str:
    """DVC would take a dot for a level of params, a shell a space for two words, and a slash is a folder."""
    if name == NONE or not re.fullmatch(r"\w[\w-]{,99}", name, re.ASCII):
        raise ValueError(
            f"the name {SHORT.repr(name)} becomes part of commands and files: expected letters, digits, _ and -, at "
            f"most 100, no - at its start, and not {NONE}, which stands for no such thing"
        )
    return name


def _numbered(seeds: Any) -> Any:
    """Return the seeds from 1 on, of how many there are."""
    if type(seeds) is not int:
        return seeds
    if not 0 < seeds <= MOST_SEEDS:
        raise ValueError(f"{seeds} seeds, expected 1 to {MOST_SEEDS}, or a list of them")
    return [*range(1, seeds + 1)]


Name = Annotated[str, AfterValidator(_plain)]
Seeds = Annotated[
    list[Seed], Field(min_length=1), BeforeValidator(_numbered, json_schema_input_type=Count | list[Seed])
]


class ParamsError(ValueError):
    """What is wrong with the params, a line each."""


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Component(Block):
    """A file of a folder of `rankgrad`, by name, and its options."""

    name: str
    args: dict[str, Any] = {}


class Model(Component):
    """A head by its name, on a backbone; `text` is the captions' backbone of retrieval."""

    backbone: Component
    text: Component | None = None

    @model_validator(mode="before")
    @classmethod
    def _on_a_backbone(cls, given: Any) -> Any:
        if isinstance(given, dict) and "backbone" not in given:
            raise ValueError(
                f"{given.get('name')} has no backbone, expected a head on one, such as {{name: linear, backbone: "
                "{name: convnet, args: {channels: [32, 64, 96]}}}, whose features it scores"
            )
        return given


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["no", "bf16", "fp16"]
    compile: bool
    processes: Count = 1
    memory: Annotated[float, Field(gt=0)] = 4.0  # GiB of a split's pictures


class Jobs(Block):
    count: Count
    backend: Literal["loky", "dask"] = "loky"
    address: str | None = None


class Data(Block):
    snapshot: Count
    growth: Annotated[float, Field(gt=0, le=10)]


class Digits(Block):
    source: Literal["subset", "mnist"]


class Rows(Block):
    train: TwoOrMore
    val: TwoOrMore
    test: TwoOrMore


class SceneRows(Rows):
    gate: TwoOrMore


class ScoreVectors(Block):
    length: TwoOrMore
    rows: Rows
    seed: Seed


class Dataset(Component):
    """A dataset: `name` is a file in rankgrad/datasets, and `raw` what it is made of.

    Of drawn data that are the digits, and `rows` says how many; of data read from disk it is a folder below data/raw,
    and `size` the pixels on a side of pictures. With `folds` each of its rows, but for the gate's, is tested once.
    """

    raw: str
    size: Annotated[int, Field(ge=16)] | None = None
    rows: SceneRows | None = None
    folds: Annotated[int, Field(ge=3)] | None = None
    seed: Seed

    @model_validator(mode="before")
    @classmethod
    def _options_in_args(cls, values: Any) -> Any:
        old = [key for key in values if key not in cls.model_fields] if isinstance(values, dict) else []
        if old and not {"raw", "args"} & set(values):
            raise ValueError(
                f"options such as {old[0]} stand in args now: {{name: {values.get('name')}, raw: {DRAWN_FROM}, args: "
                f"{{{', '.join(f'{key}: {values[key]}' for key in old)}}}, rows: ..., seed: ...}}"
            )
        return values

    @property
    def is_drawn(self) -> bool:
        """Whether it is drawn from digits, and not read from disk."""
        return self.raw == DRAWN_FROM

    def built(self) -> Any:
        """Return the object of its class in rankgrad/datasets."""
        drawn = {} if self.rows is None else {"rows": self.rows.model_dump(), "seed": self.seed}
        return lookup.find("datasets", self.name)(**self.args, **drawn)


class SorterTraining(Block):
    vectors: Literal["stored", "fresh"]
    epoch_size: TwoOrMore | None = None
    batch_size: TwoOrMore
    epochs: Count
    patience: Count
    optimizer: dict[str, Any]
    schedule: dict[str, Any]

    @model_validator(mode="after")
    def _whole(self) -> "SorterTraining":
        if (self.epoch_size is None) != (self.vectors == "stored"):
            raise ValueError(
                f"epoch_size is {self.epoch_size} and vectors {self.vectors}: expected a number with fresh vectors, "
                "null with stored ones, of which an epoch has all"
            )
        return self


class Sorter(Component):
    training: SorterTraining | None = None
    seed: Seed = 1


class Auxiliary(Component):
    weight: Annotated[float, Field(gt=0)] = 1.0
    epochs: Count | None = None


class Run(Block):
    task: str
    dataset: Name
    model: Model
    start: str
    loss: Component
    sorter: str
    auxiliary: Auxiliary
    sorter_optimizer: Component | None = None
    training: dict[str, Any] = {}
    seeds: Seeds
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @model_validator(mode="after")
    def _paired(self) -> "Run":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}, expected each seed once")
        return self

    @property
    def settings(self) -> list[dict[str, Any]]:
        """What the grid chooses among: values by dotted places; one empty setting without a grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


class Comparison(Block):
    question: str
    metric: str
    baseline: Name
    runs: Annotated[list[Name], Field(min_length=1)]
    rivals: list[Name] = []  # no runs: predictions/<name>.parquet is of another program


class Resampling(Block):
    resamples: Count
    seed: Seed = 1


class Judged(Block):
    metric: str
    guarded: list[str] = []
    slice_tolerance: Annotated[float, Field(ge=0)] | None = None  # by which `metric` may be worse on a slice


class Gate(Resampling):
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    minimum_gain: Annotated[float, Field(ge=0)]
    tolerance: Annotated[float, Field(ge=0)]
    judged: dict[str, Judged]


class Settings(Block):
    compute: Compute
    jobs: Jobs
    data: Data
    digits: Digits
    score_vectors: ScoreVectors
    datasets: dict[Name, Dataset]
    sorters: dict[Name, Sorter]
    benchmark_sorters: Resampling
    training: dict[str, dict[str, Any]]
    runs: dict[Name, Run]
    comparisons: dict[Name, Comparison]
    evaluate: Resampling
    gate: Gate

    def training_of(self, name: str) -> dict[str, Any]:
        """Return a task's training with what a run says otherwise."""
        return self.run_of(name)["training"]

    def beside_the_loss(self, name: str, baseline: str) -> dict[str, tuple[Any, Any]]:
        """Return in what a run differs from another beside its loss: by place, its value and that of the other."""
        one, other = (
            {"settings": len(self.runs[run].settings)}
            | {place: value for place, value in _places(self.run_of(run)).items() if place.split(".")[0] not in OF_LOSS}
            for run in (name, baseline)
        )
        return {
            place: (one.get(place), other.get(place))
            for place in dict.fromkeys([*one, *other])
            if one.get(place) != other.get(place) and not {place} & {*self.runs[name].grid, *self.runs[baseline].grid}
        }

    def run_of(self, name: str, setting: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a run whose training is merged with its task's, with a setting's values put in.

        A ValueError names the place of a setting that the run does not have.
        """
        run = self.runs[name].model_dump()
        run["training"] = merged(deepcopy(self.training.get(run["task"], {})), run["training"])
        for place, value in (setting or {}).items():
            *parents, last = place.split(".")
            block: Any = run
            for parent in parents:
                block = block.get(parent) if isinstance(block, dict) else None
            if parents[:1] not in (["training"], ["loss"], ["auxiliary"], ["model"], ["sorter_optimizer"]) or (
                not isinstance(block, dict) or (last not in block and parents[-1] != "args") or last == "name"
            ):
                raise ValueError(
                    f"runs.{name}.grid: {place} is no place of a setting; expected one such as "
                    "training.probe.optimizer.args.lr, loss.args.margin or auxiliary.weight"
                )
            block[last] = value
        return run

    def folds_of(self, name: str) -> list[int | None]:
        """Return the folds in which a run is trained, from 1; a single None where its data have none."""
        folds = self.datasets[self.runs[name].dataset].folds
        return [None] if folds is None else [*range(1, folds + 1)]

    def model_of(self, run: Run) -> str:
        """Return the registered name of what a run trains, by its task and its data.

        Versions of one name are compared with each other, which takes the same data.
        """
        return prefixed(f"{run.task}-{run.dataset}")


def refuse_old_variables() -> None:
    """Raise if a variable has a name of the time when this project was called RankOps: it would be ignored silently.

    Raises:
        ValueError: the message names it, and what it is called now.
    """
    for name in sorted(os.environ):
        if name.startswith("RANKOPS_"):
            new = name.replace("RANKOPS_", "RANKGRAD_")
            raise ValueError(f"{name} is called {new} now: unset {name}, and set {new} if it is meant")


def prefixed(name: str) -> str:
    """Return what an experiment or a registered model is called in MLflow: projects that share a server need a prefix.

    Raises:
        ValueError: RANKGRAD_PREFIX is none that MLflow takes.
    """
    refuse_old_variables()
    prefix = os.environ.get("RANKGRAD_PREFIX", "")
    if not re.fullmatch(r"[\w-]{0,40}", prefix, re.ASCII):
        raise ValueError(f"RANKGRAD_PREFIX is {prefix!r}, expected letters, digits, _ and -, 40 at most, such as shop-")
    return prefix + name


def merged(block: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Put nested changes into a block; one that names another thing than was there replaces it, with its options.

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


def _places(block: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by their dotted places.

    >>> _places({"probe": {"epochs": 15, "optimizer": {"name": "SGD"}}})
    {'probe.epochs': 15, 'probe.optimizer.name': 'SGD'}
    """
    places = {}
    for key, value in block.items():
        places |= _places(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return places


def others(name: str, known: Collection[str]) -> str:
    """Return the end of a message about an unknown name: what there is, and which of it is nearest."""
    return f"; there are {', '.join(known)}{did_you_mean(name, known)}" if known else ""


def describe(error: ValidationError, shape: Any, place: str = "") -> list[str]:
    """Return a line for each thing that pydantic finds wrong: its place, what is expected, and what was found."""
    lines = []
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            *parents, key = path
            message = f"is now {RENAMED[key]}" if key in RENAMED else f"unknown key{others(key, _keys(shape, parents))}"
        elif problem["type"] == "missing":
            message = "missing"
        elif problem["type"] != "value_error":
            message += f" (found {SHORT.repr(problem['input'])})"
        where = ".".join(part for part in [place, *path] if part not in ("", "[key]"))
        lines.append(f"{where}: {message}" if where else message)
    return lines


def _keys(shape: Any, place: list[str]) -> list[str]:
    """Return the keys that a shape knows at a place, from its JSON schema."""
    schema = block = TypeAdapter(shape).json_schema()
    for part in [None, *place]:
        if part is not None:
            block = block.get("properties", {}).get(part) or block.get("additionalProperties", {})
        block = next((choice for choice in block.get("anyOf", ()) if "$ref" in choice), block)  # X | None
        block = schema["$defs"][block["$ref"].rpartition("/")[2]] if "$ref" in block else block
    return list(block.get("properties", ()))


def read(path: str | Path, yaml: YAML | None = None) -> dict[str, Any]:
    """Return what a YAML file holds, read as DVC reads it or by another reader; raise a ParamsError if it cannot be."""
    try:
        with Path(path).open("rb") as file:
            problem = _too_large(file)
        values = None if problem else (yaml or YAML(typ="safe")).load(Path(path))
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file") from error
    except OSError as error:  # a folder, or a file of somebody else
        raise ParamsError(f"{path}: cannot be read: {error.strerror}") from error
    except (YAMLError, ValueError) as error:  # the latter of a date that does not exist
        raise ParamsError(f"{path}: not YAML: {error}") from error
    if problem:
        raise ParamsError(f"{path}: {problem}")
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: expected a mapping of names to values, found {type(values).__name__}")
    return values


def _too_large(file: BinaryIO) -> str | None:
    """Return what makes a YAML file too large to be read, see `VALUES`; nothing is built for that."""
    sizes: dict[str, int] = {}  # of what an alias stands for
    unfinished: list[tuple[str | None, int]] = [(None, 0)]  # anchor and size so far, from the outside in

    def add(anchor: str | None, size: int) -> None:
        outer, before = unfinished.pop()
        unfinished.append((outer, before + size))
        if anchor is not None:
            sizes[anchor] = size

    for event in YAML(typ="safe").parse(file):
        match event:
            case CollectionStartEvent():
                unfinished.append((event.anchor, 1))
            case CollectionEndEvent():
                add(*unfinished.pop())
            case ScalarEvent():
                add(event.anchor, 1)
            case AliasEvent():
                if event.anchor in sizes:
                    add(None, sizes[event.anchor])
                elif any(event.anchor == anchor for anchor, _ in unfinished):
                    return f"*{event.anchor} stands within &{event.anchor} itself"
        if len(unfinished) > DEPTH:
            return f"more than {DEPTH} blocks within each other"
        if unfinished[-1][1] > VALUES:
            return f"stands for more than {VALUES} values, aliases written out"
    return None


def check_shapes(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Return settings from plain values, or raise a ParamsError with a line for each thing that is wrong."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ParamsError("\n".join(f"{path}: {line}" for line in describe(error, Settings))) from error


def load(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check their shapes, which is quick; `pipelines.config.rules.check` checks what they mean."""
    refuse_old_variables()
    return check_shapes(read(path), path=path)
