"""The types of `params.yaml`: strict, frozen, and without unknown keys. `rules` checks what the values mean."""

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
from rankgrad.datasets.files.folds import REGISTERED
from rankgrad.training.options import Auxiliary, Component, Imitation

__all__ = ["JUDGED", "MONITORED", "Model", "Run", "Settings", "check_shapes", "load", "prefixed", "read", "typed"]

T = TypeVar("T")
NONE = "none"  # marks an unused sorter, start, or auxiliary loss
DIGITS = ("data/raw/subset", "data/raw/mnist")  # `raw` of datasets with generated scenes
Count = Annotated[int, Field(gt=0)]
TwoOrMore = Annotated[int, Field(ge=2)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
MOST_SEEDS = 1000
JUDGED = 30  # fewest rows or groups for the gate; with fewer, the bootstrap finds differences where there are none
MONITORED = 20  # fewest rows, of training, test, or a new file, for a test of drift


def _plain(name: str) -> str:
    """Raise unless a name is safe: DVC splits params at dots, a shell splits at spaces, and a slash makes a folder."""
    if name == NONE or not re.fullmatch(r"\w[\w-]{,99}", name, re.ASCII):
        raise ValueError(
            f"the name is {SHORT.repr(name)}, expected at most 100 letters, digits, _ and -, not starting with - and "
            f"not {NONE}, because commands and file names contain it"
        )
    return name


def _numbered(seeds: Any) -> Any:
    """Return the seeds 1 to n for a number n."""
    if type(seeds) is not int:
        return seeds
    if not 0 < seeds <= MOST_SEEDS:
        raise ValueError(f"seeds is {seeds}, expected a number from 1 to {MOST_SEEDS}, or a list of seeds")
    return [*range(1, seeds + 1)]


Name = Annotated[str, AfterValidator(_plain)]
Seeds = Annotated[
    list[Seed], Field(min_length=1), BeforeValidator(_numbered, json_schema_input_type=Count | list[Seed])
]


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Named(Block):
    """A component: the name of its file in `rankgrad`, and its options."""

    name: str
    args: dict[str, Any] = {}


class Model(Named):
    """The name of a head, and its backbone; `text` is the backbone for captions in retrieval."""

    backbone: Component
    text: Component | None = None


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["no", "bf16", "fp16"]
    compile: bool
    processes: Count = 1
    memory: Annotated[float, Field(gt=0)] = 4.0  # GiB for the decoded images of a split


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
    """A dataset: `name` is a file in rankgrad/datasets, and `raw` the folder with its raw data.

    `rows` is the number of scenes to generate in each split. For images on disk, `size` is the number of pixels per
    side. With `folds`, each row outside the gate split is tested once.
    """

    raw: str
    size: Annotated[int, Field(ge=16)] | None = None
    rows: SceneRows | None = None
    folds: Annotated[int, Field(ge=3)] | None = None
    seed: Seed

    @property
    def is_drawn(self) -> bool:
        """Whether its scenes are generated from digits, not read from disk."""
        return self.rows is not None

    @property
    def fold_numbers(self) -> list[int | None]:
        """The folds in which a run is tested, from 1; a single None where there are none."""
        return [None] if self.folds is None else [*range(1, self.folds + 1)]

    @property
    def trained_folds(self) -> list[int | None]:
        """The folds of all models of a seed: first the model to register, then the one that each fold tests."""
        return [None] if self.folds is None else [REGISTERED, *self.fold_numbers]

    def built(self) -> Any:
        """Return an instance of its class in rankgrad/datasets."""
        drawn = {} if self.rows is None else {"rows": self.rows.model_dump(), "seed": self.seed}
        return lookup.find("datasets", self.name)(**self.args, **drawn)


class Sorter(Named):
    """A sorter. `vectors` is a key of `score_vectors` if it has weights or takes vectors of one length, else none."""

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
    refit: bool = False  # train once more, on validation rows too, with the setting and the epochs that they chose
    seeds: Seeds
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @model_validator(mode="after")
    def _paired(self) -> "Run":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}, expected each seed once")
        return self

    @property
    def settings(self) -> list[dict[str, Any]]:
        """The settings of the grid: values by dotted keys. Without a grid, one empty setting."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


class Rival(Block):
    """A baseline of search to compare runs with, see pipelines/rivals.py."""

    name: Literal["bm25", "lsa", "word_map"]
    task: str
    dataset: Name
    metric: str  # by which its setting is chosen on validation


class Comparison(Block):
    question: str
    metric: str
    baseline: Name
    runs: Annotated[list[Name], Field(min_length=1)]
    rivals: list[Name] = []  # runs, keys of `rivals`, or names of predictions/<name>.parquet from another program

    @property
    def networks(self) -> list[str]:
        """The baseline and the other runs."""
        return [self.baseline, *self.runs]

    @property
    def names(self) -> list[str]:
        """All that is compared."""
        return [*self.networks, *self.rivals]


class Resampling(Block):
    resamples: Count
    seed: Seed = 1


class Judged(Block):
    metric: str
    guarded: list[str] = []
    slice_tolerance: Annotated[float, Field(ge=0)] | None = None  # how much worse `metric` may be on a slice
    newer_rows: Literal["better", "no_worse"] = "better"  # what the champion's run must be after it learned newer rows


class Gate(Resampling):
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    minimum_gain: Annotated[float, Field(ge=0)]
    tolerance: Annotated[float, Field(ge=0)]
    judged: dict[str, Judged]  # by task, or by task and dataset, such as query_ranking-shop


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
        """Return the `length` of the vectors that a sorter takes; empty if it takes any length."""
        vectors = self.sorters[sorter].vectors
        return {} if vectors == NONE else {"length": self.score_vectors[vectors].length}

    def start_of(self, name: str) -> str | None:
        """Return the name of the run whose weights a run starts from; None for random weights or a file."""
        start = re.match(r"models/runs/([^/]+)", self.runs[name].start)
        return start[1] if start and start[1] != NONE else None

    def run_before(self, name: str) -> Run | None:
        """Return the run whose weights a run starts from; None for random weights or a file."""
        return self.runs.get(self.start_of(name) or NONE)

    def judged_of(self, task: str, dataset: str = "") -> Judged:
        """Return by which metrics models of a task and a dataset are judged: the dataset's own, else the task's.

        Raises:
            ValueError: the gate has no entry for either.
        """
        judged = self.gate.judged.get(f"{task}-{dataset}") or self.gate.judged.get(task)
        if judged is None:
            raise ValueError(f"gate.judged.{task}: missing, expected the metric by which the gate compares models")
        return judged

    def metric_of(self, name: str) -> str:
        """Return the metric that sums up a run: that of its first comparison, else of its model in the gate."""
        for comparison in self.comparisons.values():
            if name in comparison.names:
                return comparison.metric
        return self.judged_of(self.runs[name].task, self.runs[name].dataset).metric

    def model_of(self, run: Run) -> str:
        """Return the name under which a run's model is registered: its task and its dataset.

        Versions of one name are compared with each other, so they must share the dataset.
        """
        return prefixed(f"{run.task}-{run.dataset}")


def refuse_old_variables() -> None:
    """Raise if an environment variable has its old name, from when this project was called RankOps.

    Raises:
        ValueError: the variable would be ignored; the message has the old and the new name.
    """
    for name in sorted(os.environ):
        if name.startswith("RANKOPS_"):
            new = name.replace("RANKOPS_", "RANKGRAD_")
            raise ValueError(f"{name} was renamed to {new}: unset {name}, and set {new} if you need it")


def prefixed(name: str) -> str:
    """Return the MLflow name of an experiment or registered model: RANKGRAD_PREFIX, then `name`.

    Projects that share a server need different prefixes.

    Raises:
        ValueError: MLflow does not allow the value of RANKGRAD_PREFIX.
    """
    refuse_old_variables()
    prefix = os.environ.get("RANKGRAD_PREFIX", "")
    if not re.fullmatch(r"[\w-]{0,40}", prefix, re.ASCII):
        raise ValueError(f"RANKGRAD_PREFIX is {prefix!r}, expected at most 40 letters, digits, _ and -, such as shop-")
    return prefix + name


def read(path: str | Path, yaml: YAML | None = None) -> dict[str, Any]:
    """Return the values in a YAML file, read like DVC does unless `yaml` is another reader.

    Raises:
        ParamsError: the file cannot be read, or does not hold a mapping.
    """
    try:
        values = (yaml or YAML(typ="safe")).load(Path(path))
    except FileNotFoundError as error:
        raise ParamsError(Problem("", "no such file"), path=path) from error
    except OSError as error:  # a folder, or a file without read permission
        raise ParamsError(Problem("", f"cannot be read: {error.strerror}"), path=path) from error
    except (YAMLError, ValueError, RecursionError) as error:  # a date that does not exist, brackets nested too deep
        raise ParamsError(Problem("", f"not YAML: {error}"), path=path) from error
    if not isinstance(values, dict):
        raise ParamsError(
            Problem("", f"is {'empty' if values is None else type(values).__name__}", "a mapping of names to values"),
            path=path,
        )
    return values


_adapter = cache(TypeAdapter)  # creating one takes milliseconds


def typed(shape: type[T], values: Any, place: str = "") -> T:
    """Return plain values as an instance of `shape`, a dataclass or a model.

    Raises:
        ParamsError: a key is missing or unknown, or a value has the wrong type or is out of range.
    """
    try:  # as JSON: its strict mode rejects "9" for a number, but accepts an object for a dataclass
        return _adapter(shape).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise ParamsError(*described(error, shape)).within(place) from error


def check_shapes(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Return settings from plain values; raise a ParamsError with one line per problem."""
    try:
        return typed(Settings, values)
    except ParamsError as error:
        raise ParamsError(*error.problems, path=path) from error


def load(path: str | Path = "params.yaml") -> Settings:
    """Read the params and check their types, which is quick; `pipelines.config.rules.check` checks what they mean."""
    refuse_old_variables()
    return check_shapes(read(path), path=path)
