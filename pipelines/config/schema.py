"""The shapes of `params.yaml`: strict, frozen, every key known. What the values mean is checked by `rules`."""

import json
import os
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

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

from pipelines.config.errors import SHORT, ParamsError, Problem, described
from rankgrad import lookup
from rankgrad.training.options import Auxiliary, Component, Imitation

__all__ = ["Model", "Run", "Settings", "check_shapes", "load", "prefixed", "read", "typed"]

T = TypeVar("T")
NONE = "none"  # marks an unused sorter, start or auxiliary loss
DIGITS = ("data/raw/subset", "data/raw/mnist")  # `raw` of datasets that are drawn
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


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Named(Block):
    """A file of a folder of `rankgrad`, by name, and its options."""

    name: str
    args: dict[str, Any] = {}


class Model(Named):
    """A head by its name, on a backbone; `text` is the captions' backbone of retrieval."""

    backbone: Component
    text: Component | None = None

    @model_validator(mode="before")
    @classmethod
    def _on_a_backbone(cls, values: Any) -> Any:
        if isinstance(values, dict) and "backbone" not in values:
            raise ValueError(
                f"{values.get('name')} has no backbone, expected a head on one, such as {{name: linear, backbone: "
                "{name: convnet, args: {channels: [32, 64, 96]}}}, whose features it scores"
            )
        return values


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


class Dataset(Named):
    """A dataset: `name` is a file in rankgrad/datasets, and `raw` what it is made of.

    `rows` says how many scenes of digits to draw. Of data that are read from disk, `size` is the pixels on a side of
    pictures. With `folds` each row, except the gate's, is tested once.
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
                f"options such as {old[0]} stand in args now: {{name: {values.get('name')}, raw: {DIGITS[0]}, args: "
                f"{{{', '.join(f'{key}: {values[key]}' for key in old)}}}, rows: ..., seed: ...}}"
            )
        return values

    @property
    def is_drawn(self) -> bool:
        """Whether it is drawn from digits, and not read from disk."""
        return self.rows is not None

    @property
    def fold_numbers(self) -> list[int | None]:
        """The folds in which a run is trained and tested, from 1; a single None where there are none."""
        return [None] if self.folds is None else [*range(1, self.folds + 1)]

    def built(self) -> Any:
        """Return the object of its class in rankgrad/datasets."""
        drawn = {} if self.rows is None else {"rows": self.rows.model_dump(), "seed": self.seed}
        return lookup.find("datasets", self.name)(**self.args, **drawn)


class Sorter(Named):
    """A sorter; `vectors` is a key of `score_vectors`, of one that learns or takes vectors of one length, else none."""

    vectors: str
    training: Imitation | None = None
    seed: Seed = 1


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


class Rival(Block):
    """A simple model that runs are compared with; `name` is one of pipelines/rivals.py."""

    name: str
    task: str
    dataset: Name


class Comparison(Block):
    question: str
    metric: str
    baseline: Name
    runs: Annotated[list[Name], Field(min_length=1)]
    rivals: list[Name] = []  # of the block `rivals`, or predictions/<name>.parquet of another program


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
    datasets: dict[Name, Dataset]
    score_vectors: dict[Name, ScoreVectors] = {}
    sorters: dict[Name, Sorter]
    benchmark_sorters: dict[Name, Name] = {}
    training: dict[str, dict[str, Any]]
    runs: dict[Name, Run]
    rivals: dict[Name, Rival] = {}
    comparisons: dict[Name, Comparison]
    evaluate: Resampling
    gate: Gate

    def length_of(self, sorter: str) -> dict[str, int]:
        """Return the `length` of the vectors that a sorter takes; empty for one that takes any."""
        vectors = self.sorters[sorter].vectors
        return {} if vectors == NONE else {"length": self.score_vectors[vectors].length}

    def run_before(self, name: str) -> Run | None:
        """Return the run from which a run starts, if it does not start from random weights or a file."""
        start = re.match(r"models/runs/([^/]+)", self.runs[name].start)
        return self.runs.get(start[1]) if start else None

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


def read(path: str | Path, yaml: YAML | None = None) -> dict[str, Any]:
    """Return what a YAML file holds, read as DVC reads it or by another reader; raise a ParamsError if it cannot be."""
    try:
        values = (yaml or YAML(typ="safe")).load(Path(path))
    except FileNotFoundError as error:
        raise ParamsError(Problem("", "no such file"), path=path) from error
    except OSError as error:  # a folder, or a file of somebody else
        raise ParamsError(Problem("", f"cannot be read: {error.strerror}"), path=path) from error
    except (YAMLError, ValueError, RecursionError) as error:  # of a date that does not exist, of brackets too deep
        raise ParamsError(Problem("", f"not YAML: {error}"), path=path) from error
    if not isinstance(values, dict):
        raise ParamsError(
            Problem("", f"is {'empty' if values is None else type(values).__name__}", "a mapping of names to values"),
            path=path,
        )
    return values


_adapter = cache(TypeAdapter)  # which takes milliseconds to make


def typed(shape: type[T], values: Any, place: str = "") -> T:
    """Return plain values as what they must be, a dataclass or a model.

    Raises:
        ParamsError: a key is missing or unknown, or a value is of another type or out of its range.
    """
    try:  # as JSON, of which strictness refuses "9" for a number but takes an object for a dataclass
        return _adapter(shape).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise ParamsError(*described(error, shape)).within(place) from error


def check_shapes(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Return settings from plain values, or raise a ParamsError with a line for each thing that is wrong."""
    try:
        return typed(Settings, values)
    except ParamsError as error:
        raise ParamsError(*error.problems, path=path) from error


def load(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check their shapes, which is quick; `pipelines.config.rules.check` checks what they mean."""
    refuse_old_variables()
    return check_shapes(read(path), path=path)
