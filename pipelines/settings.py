"""Reads and checks `params.yaml`: strict, frozen, every key known, every value possible."""

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rankops import by_name

__all__ = ["ParamsError", "Settings", "check", "load"]

Count = Annotated[int, Field(gt=0)]
Several = Annotated[int, Field(ge=2)]  # an interval and a batch need two
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ParamsError(ValueError):
    """What is wrong with the params, a line each."""


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["no", "bf16", "fp16"]


class DigitsParams(Block):
    source: Literal["auto", "mnist", "bundled"]
    seed: Seed


class Rows(Block):
    train: Several
    val: Several
    test: Several


class SyntheticRanks(Block):
    length: Annotated[int, Field(ge=2)]
    rows: Rows
    seed: Seed


class RankedMnist(Block):
    canvas: Annotated[int, Field(ge=16)]
    rows: Rows
    digits_per_image: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(le=10)]]
    scale: tuple[Positive, Positive]
    overlap: Annotated[float, Field(ge=0, le=1)]
    seed: Seed

    @field_validator("digits_per_image", "scale", mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _possible(self) -> "RankedMnist":
        for name in ("digits_per_image", "scale"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} is {low} to {high}, expected the smaller one first")
        if self.scale[1] > 8:
            raise ValueError(
                f"scale goes up to {self.scale[1]}: such a digit has {self.canvas / 8 * self.scale[1]:g} px on a "
                f"canvas of {self.canvas}; at most 8 fits (a digit of scale s has canvas / 8 * s px)"
            )
        if self.canvas / 8 * self.scale[0] < 2:
            raise ValueError(
                f"canvas is {self.canvas}: a digit of scale {self.scale[0]} would have "
                f"{self.canvas / 8 * self.scale[0]:g} px, expected at least 2: a larger canvas or scale"
            )
        least = self.digits_per_image[0] * (self.scale[0] / 8) ** 2
        if least > 1 and self.overlap == 0:
            raise ValueError(
                f"canvas too small: {self.digits_per_image[0]} digits of scale {self.scale[0]} cover "
                f"{least:.0%} of it; fewer or smaller digits, or some overlap"
            )
        return self


class Named(Block):
    name: str
    args: dict[str, Any]


class Optimiser(Block):
    name: str
    args: dict[str, float | int | bool | list[float]]
    clip: Positive | None = None

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        kind = getattr(torch.optim, value, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise ValueError(f"no {value!r} in torch.optim; try AdamW or SGD")
        return value

    @model_validator(mode="after")
    def _accepted(self) -> "Optimiser":
        # By its signature: making one imports torch's compiler, which takes seconds.
        taken = list(inspect.signature(getattr(torch.optim, self.name)).parameters)[1:]
        for argument, value in self.args.items():
            if argument not in taken:
                raise ValueError(f"args.{argument}: torch.optim.{self.name} takes {', '.join(taken)}")
            number = type(value) in (int, float) and 0 <= value < float("inf")
            if argument in ("lr", "weight_decay", "momentum", "eps", "dampening", "alpha") and not number:
                raise ValueError(f"args.{argument}: is {value}, expected a number from 0")
            if argument == "betas" and not (
                isinstance(value, list) and len(value) == 2 and all(0 <= beta < 1 for beta in value)
            ):
                raise ValueError(f"args.betas: is {value}, expected two numbers from 0 and below 1")
        return self


class Schedule(Block):
    name: Literal["constant", "cosine", "step"]
    warm_up_epochs: NotNegative = 0.0
    factor: Positive | None = None
    every_epochs: Positive | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Schedule":
        given = (self.factor is not None, self.every_epochs is not None)
        if given != (self.name == "step",) * 2:
            raise ValueError("factor and every_epochs go with the schedule step, both of them")
        return self


class Training(Block):
    batch_size: Annotated[int, Field(ge=2)]
    epochs: Count
    patience: Count
    optimiser: Optimiser
    schedule: Schedule


class SorterParams(Training, Named):
    vectors: Literal["stored", "fresh"]
    epoch_size: Annotated[int, Field(ge=2)]
    seed: Seed


class ScorerTraining(Training):
    shift: Annotated[int, Field(ge=0)]


class ThresholdTraining(Training):
    hidden: Count


class LabelRankingTraining(Block):
    scorer: ScorerTraining
    thresholds: ThresholdTraining


class TrainingByTask(Block):
    label_ranking: LabelRankingTraining


class Run(Block):
    task: Literal["label_ranking"]
    dataset: Literal["ranked_mnist"]
    model: Named
    loss: Named
    seed: Seed


class BenchmarkSorters(Block):
    untrained: dict[str, Named]
    resamples: Count


class Evaluate(Block):
    resamples: Count
    seed: Seed


class Settings(Block):
    compute: Compute
    digits: DigitsParams
    synthetic_ranks: SyntheticRanks
    ranked_mnist: RankedMnist
    sorters: dict[str, SorterParams]
    benchmark_sorters: BenchmarkSorters
    training: TrainingByTask
    runs: dict[str, Run]
    evaluate: Evaluate

    @model_validator(mode="after")
    def _names_and_options(self) -> "Settings":
        for key, sorter in self.sorters.items():
            _check_made("sorters", sorter, f"sorters.{key}", length=self.synthetic_ranks.length)
        for key, sorter in self.benchmark_sorters.untrained.items():
            place = f"benchmark_sorters.untrained.{key}"
            if key in self.sorters:
                raise ValueError(f"{place}: this name is taken by sorters.{key}")
            if list(_check_made("sorters", sorter, place, length=self.synthetic_ranks.length).parameters()):
                raise ValueError(f"{place}: {sorter.name} has weights to train: give it a block under sorters")
        for key, run in self.runs.items():
            if not key.startswith(f"{run.task}-{run.loss.name}"):
                raise ValueError(
                    f"runs.{key}: its name should begin with {run.task}-{run.loss.name}, its task and loss "
                    "(then, if need be, -<sorter> and -seed<k>)"
                )
            model = _check_made("models", run.model, f"runs.{key}.model", outputs=10, features=1)
            if not hasattr(model, "embed"):
                raise ValueError(f"runs.{key}.model.name: {run.model.name} does not embed images; try convnet")
            _check_options("losses", run.loss, f"runs.{key}.loss")
            pairs = run.loss.args.get("pairs")
            if pairs is not None and (type(pairs) is not int or pairs < 1):
                raise ValueError(f"runs.{key}.loss.args.pairs: is {pairs!r}, expected a whole number above 0, or null")
        return self


def _check_options(folder: str, named: Named, place: str) -> Callable[..., Any]:
    """The thing of that name, which takes these options and their types."""
    by_name.check_options(folder, named.name, named.args, where=place)
    thing = by_name.find(folder, named.name)
    hints = typing.get_type_hints(thing.__init__ if isinstance(thing, type) else thing)
    for option, value in named.args.items():
        try:
            TypeAdapter(hints[option]).validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ValueError(f"{place}.args.{option}: {problem['msg']} (found {problem['input']!r})") from error
    return thing


def _check_made(folder: str, named: Named, place: str, **runtime: int) -> torch.nn.Module:
    """One of that name with these options, made without memory, to see that it can be."""
    thing = _check_options(folder, named, place)
    taken = {name: value for name, value in runtime.items() if name in inspect.signature(thing).parameters}
    try:
        with torch.device("meta"):
            return thing(**named.args, **taken)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{place}.args: {error}") from error


def check(values: Any, *, path: str | Path = "params.yaml") -> Settings:
    """Checked settings from plain values.

    Raises:
        ParamsError: a line for each thing that is wrong: its place, what is expected, and what was found.
    """
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            place = ".".join(str(part) for part in problem["loc"])
            if problem["type"] == "extra_forbidden":
                lines.append(f"{place}: unknown key; {_neighbours(problem['loc'])}")
            elif problem["type"] == "missing":
                lines.append(f"{place}: missing")
            else:
                message = problem["msg"].removeprefix("Value error, ")
                found = "" if problem["type"] == "value_error" else f" (found {problem['input']!r})"
                lines.append(f"{place}: {message}{found}" if place else f"{message}{found}")
        raise ParamsError("\n".join(f"{path}: {line}" for line in lines)) from error


def _neighbours(place: tuple[int | str, ...]) -> str:
    """The keys that are known where an unknown one stands."""
    block: Any = Settings
    for part in place[:-1]:
        if isinstance(block, type) and issubclass(block, BaseModel):
            block = block.model_fields[str(part)].annotation if str(part) in block.model_fields else None
        elif getattr(block, "__origin__", None) is dict:
            block = block.__args__[1]
    if isinstance(block, type) and issubclass(block, BaseModel):
        return f"there are {', '.join(block.model_fields)}"
    return "look for a typing error"


def load(path: str | Path = "params.yaml") -> Settings:
    """Reads and checks the params.

    Raises:
        ParamsError: the file is missing, not YAML, or says something impossible.
    """
    path = Path(path)
    try:
        values = YAML(typ="safe").load(path)  # YAML 1.2, as DVC reads it
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file; run from the project's top folder") from error
    except YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from error
    return check(values, path=path)
