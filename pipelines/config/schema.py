"""Reads and checks `params.yaml`: strict, frozen, every key known, every value possible."""

import inspect
import json
import os
import re
import shutil
import sysconfig
import typing
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rankops import lookup

__all__ = ["ParamsError", "Settings", "check", "load", "load_experiments"]

Count = Annotated[int, Field(gt=0)]
Several = Annotated[int, Field(ge=2)]  # an interval and a batch need two
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _plain(name: str) -> str:
    """Of a dot DVC would make a level of params, of a space two words of a command, of a slash a folder."""
    if not re.fullmatch(r"\w[\w-]*", name, re.ASCII):
        raise ValueError(
            f"the name {name!r} becomes part of commands and files: expected letters, digits, _ and - alone, and no - "
            "at its start"
        )
    return name


Name = Annotated[str, AfterValidator(_plain)]

Task = Literal["label_ranking", "memorability", "multilabel", "retrieval"]
# A loss is known by its second argument: what the scores are held against.
KINDS = {"label_ranking": "label_ranks", "memorability": "target", "multilabel": "labels", "retrieval": "positives"}
# By task, the column of a dataset that it learns from.
LEARNED = {"label_ranking": "label_ranks", "memorability": "score", "multilabel": "labels", "retrieval": "captions"}

FOLDS = 5  # of the captions' test images: each is a gallery by itself (`rankops.tasks.retrieval`)

# What models are scored by, larger is better; a sorter's error is negated for that.
_RATES = ("precision", "recall", "accuracy", "exact_match", "f1")
FIGURES = {
    "sorter": ["negative_l1", "exactly_ordered"],
    "label_ranking": [
        *(f"{kind}.{rate}" for kind in ("ranked", "unranked") for rate in _RATES), "ranked.mean_average_precision",
    ],
    "memorability": ["spearman"],
    "multilabel": ["mean_average_precision"],
    "retrieval": [f"{way}.recall_at_{depth}" for way in ("image_to_text", "text_to_image") for depth in (1, 5, 10)],
}  # fmt: skip

Checked = TypeVar("Checked", bound="Block")


class ParamsError(ValueError):
    """What is wrong with the params, a line each."""


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["no", "bf16", "fp16"]
    compile: bool

    @field_validator("compile")
    @classmethod
    def _compiler(cls, value: bool, others: ValidationInfo) -> bool:
        if not value:
            return value
        if others.data.get("device") != "cpu" and torch.cuda.is_available():  # Triton's, not Inductor's
            kind, compilers = "C", [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
            if not (header := Path(sysconfig.get_path("include")) / "Python.h").is_file():
                raise ValueError(
                    f"it needs Python's headers, and there is no {header}: install them, or set it to false"
                )
        else:
            kind, compilers = "C++", [os.environ.get("CXX", "g++")]
        if not any(map(shutil.which, compilers)):
            raise ValueError(
                f"it needs a {kind} compiler, and there is no {' or '.join(compilers)} here: install one, or set it to "
                "false"
            )
        return value


class Data(Block):
    snapshot: Count
    growth: Annotated[float, Field(gt=0, le=10)]


class DigitsParams(Block):
    source: Literal["auto", "mnist", "bundled"]
    seed: Seed


class Rows(Block):
    train: Several
    val: Several
    test: Several


class SceneRows(Rows):
    gate: Several


class ScoreVectors(Block):
    length: Annotated[int, Field(ge=2)]
    rows: Rows
    seed: Seed


class Scenes(Block):
    canvas: Annotated[int, Field(ge=16)]
    rows: SceneRows
    digits_per_image: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(le=10)]]
    scale: tuple[Positive, Positive]
    overlap: Annotated[float, Field(ge=0, le=1)]
    seed: Seed

    def deliveries(self, data: Data) -> dict[str, list[int]]:
        """How many rows of each split came at once: the first, and in each later snapshot new ones for training."""
        rows = self.rows.model_dump()
        new = 2 * max(1, round(rows["train"] * data.growth / 2))  # even: twins of captions come together
        return {
            split: [count, *([new] * (data.snapshot - 1) if split == "train" else [])] for split, count in rows.items()
        }

    @field_validator("digits_per_image", "scale", "distractors", mode="before", check_fields=False)
    @classmethod
    def _pair(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _possible(self) -> "Scenes":
        for name in ("digits_per_image", "scale", "distractors"):
            low, high = getattr(self, name, (0, 0))
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


class Clips(Scenes):
    viewers: Count
    drift: NotNegative
    zoom: Annotated[float, Field(ge=1, allow_inf_nan=False)]


class LongTailedMnist(Scenes):
    most_frequent: Annotated[float, Field(gt=0, lt=1)]
    least_frequent: Annotated[float, Field(gt=0, lt=1)]
    distractors: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(le=10)]]

    @model_validator(mode="after")
    def _falling(self) -> "LongTailedMnist":
        if self.least_frequent > self.most_frequent:
            raise ValueError(
                f"least_frequent is {self.least_frequent} and most_frequent {self.most_frequent}: expected the "
                "former to be the smaller"
            )
        return self


class Captions(Scenes):
    @model_validator(mode="after")
    def _twins(self) -> "Captions":
        if self.digits_per_image[0] < 2:
            raise ValueError(
                f"digits_per_image is {self.digits_per_image}: captions compare digits, expected 2 or more"
            )
        for split, rows in self.rows:
            multiple = 2 * FOLDS if split in ("test", "gate") else 2  # their folds are searched by themselves
            if rows % multiple:
                raise ValueError(
                    f"rows.{split} is {rows}: scenes come in pairs of twins that stay together, expected a multiple of "
                    f"{multiple}"
                )
        return self


class Named(Block):
    name: str
    args: dict[str, Any]


# What torch.optim has for other trainings.
OTHER_OPTIMIZERS = {
    "LBFGS": "asks for the loss several times a step",
    "Muon": "takes matrices alone",
    "SparseAdam": "takes sparse gradients alone",
}


class Steps(Block):
    name: str
    args: dict[str, Any]

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        kind = getattr(torch.optim, value, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)) or kind is torch.optim.Optimizer:
            raise ValueError(f"no {value!r} in torch.optim; try AdamW or SGD")
        if value in OTHER_OPTIMIZERS:
            raise ValueError(f"{value} {OTHER_OPTIMIZERS[value]}, which trainings here do not have; try AdamW or SGD")
        return value

    @model_validator(mode="after")
    def _accepted(self) -> "Steps":
        # By its signature: making one imports torch's compiler, which takes seconds.
        taken = list(inspect.signature(getattr(torch.optim, self.name)).parameters)[1:]
        for argument, value in self.args.items():
            if argument not in taken:
                raise ValueError(f"args.{argument}: torch.optim.{self.name} takes {', '.join(taken)}")
            parts = value if isinstance(value, list) else [value]
            if any(type(part) not in (bool, int, float) for part in parts):
                raise ValueError(
                    f"args.{argument}: is {value!r}, expected a number, true or false, or a list of numbers"
                )
            number = type(value) in (int, float) and 0 <= value < float("inf")
            if argument in ("lr", "weight_decay", "momentum", "eps", "dampening", "alpha") and not number:
                raise ValueError(f"args.{argument}: is {value}, expected a number from 0")
            if argument == "betas" and not (
                isinstance(value, list) and len(value) == 2 and all(0 <= beta < 1 for beta in value)
            ):
                raise ValueError(f"args.betas: is {value}, expected two numbers from 0 and below 1")
        if self.args.get("nesterov") and self.name == "SGD" and not self.args.get("momentum"):
            raise ValueError("args.nesterov: is true without a momentum, expected one above 0, such as 0.9")
        return self


class Optimizer(Steps):
    clip: Positive | None = None


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
    optimizer: Optimizer
    schedule: Schedule


class SorterParams(Training, Named):
    vectors: Literal["stored", "fresh"]
    epoch_size: Annotated[int, Field(ge=2)]
    seed: Seed


Zoom = Annotated[float, Field(ge=1, le=2)]
Rotation = Annotated[float, Field(ge=0, le=45)]  # degrees


class ScorerTraining(Training):
    shift: Annotated[int, Field(ge=0)]
    zoom: Zoom = 1.0
    rotation: Rotation = 0.0
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    judged_by: Literal["accuracy", "exact_match"] = "accuracy"


class ThresholdTraining(Training):
    hidden: Count


class Views(Block):
    count: Annotated[int, Field(ge=1, le=64)]
    shift: Annotated[int, Field(ge=0)]
    zoom: Zoom
    rotation: Rotation


class LabelRankingTraining(Block):
    scorer: ScorerTraining
    thresholds: ThresholdTraining
    views: Views | None = None


class Step(Block):
    epochs: Annotated[int, Field(ge=0)]  # 0 leaves the step out
    patience: Count
    optimizer: Optimizer
    schedule: Schedule


class WholeStep(Step):
    shift: Annotated[int, Field(ge=0)]


class TwoSteps(Block):
    batch_size: Annotated[int, Field(ge=2)]
    head: Step
    everything: WholeStep

    @model_validator(mode="after")
    def _something(self) -> "TwoSteps":
        if not self.head.epochs and not self.everything.epochs:
            raise ValueError("head.epochs and everything.epochs are both 0, expected at least one epoch")
        return self


class RetrievalTraining(TwoSteps):
    least_count: Count


class TrainingByTask(Block):
    label_ranking: LabelRankingTraining
    memorability: TwoSteps
    multilabel: TwoSteps
    retrieval: RetrievalTraining


class Run(Block):
    task: Task
    dataset: str
    model: Named
    loss: Named
    seed: Seed


class TransferRun(Run):
    start: str

    @model_validator(mode="after")
    def _transfers(self) -> "TransferRun":
        if self.task == "label_ranking":
            raise ValueError("label ranking starts from random weights: put the run under runs, without start")
        return self


class SorterInLoop(Block):
    name: str
    fine_tune: Steps | None


class Beside(Named):
    weight: Positive
    epochs: Count | None


class SorterRun(TransferRun):
    sorter: SorterInLoop
    beside: Beside


class RealData(Block):
    size: Annotated[int, Field(ge=16)]
    args: dict[str, Any]
    seed: Seed


class BenchmarkSorters(Block):
    untrained: dict[Name, Named]
    resamples: Count


class Method(Block):
    """A loss in a comparison, and what is tried for it: `grid` maps dotted places in the rest to values.

    `viewers` draws the training clips' scores anew, for so many viewers; `sorter_args` are of a sorter that needs no
    training; `baseline` is what this method is compared with, if not with the comparison's; `fresh` draws new scenes
    for each epoch of a label ranker.
    """

    loss: Named
    sorter: str | None
    beside: Beside | None
    fine_tune: Steps | None
    viewers: Count | None = None
    sorter_args: dict[str, Any] | None = None
    baseline: str | None = None
    fresh: bool = False
    grid: dict[str, list[Any]]


class Comparison(Block):
    """Losses of one task; label rankers start from random weights, the others from those of a run.

    `shown` are figures that are tested beside the one that decides; `together` is how many trainings run at once, each
    with its share of compute.threads.
    """

    task: Task
    dataset: str
    model: Named
    start: str | None = None
    figure: str
    shown: list[str] = []
    together: Count
    settings_each: Count
    seeds: Several
    baseline: str
    training: LabelRankingTraining | RetrievalTraining | TwoSteps
    methods: dict[Name, Method]

    @model_validator(mode="after")
    def _fair(self) -> "Comparison":
        alone = self.task == "label_ranking"
        if (self.start is None) != alone or (not alone and self.shown):
            raise ValueError(
                f"start is {self.start}, shown {self.shown}: label ranking has no start, and it alone has shown"
            )
        for name, method in self.methods.items():
            if (method.viewers or method.fine_tune) if alone else method.fresh:
                raise ValueError(f"methods.{name}: fresh is of label ranking, viewers and fine_tune are of other tasks")
            if (method.baseline or self.baseline) not in self.methods:
                raise ValueError(
                    f"methods.{name}: no baseline {method.baseline or self.baseline!r}; there are "
                    f"{', '.join(self.methods)}"
                )
            count = len(
                {json.dumps(self.tried(name, setting), sort_keys=True, default=str) for setting in self.settings(name)}
            )
            if count != self.settings_each:
                raise ValueError(
                    f"methods.{name}.grid has {count} different settings, expected settings_each = "
                    f"{self.settings_each}: every loss gets the same budget"
                )
        return self

    def settings(self, method: str) -> list[dict[str, Any]]:
        """What is tried of a method: values by dotted places."""
        grid = self.methods[method].grid
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def tried(self, method: str, setting: dict[str, Any]) -> dict[str, Any]:
        """A method's loss, the loss beside it, fine-tuning and training, with a setting's values put in.

        Label rankers have a `model` too: they start from random weights, so each may have a network of its own.

        Raises:
            ValueError: there is no such place, or one lies within another.
        """
        for place, other in permutations(setting, 2):
            if place.startswith(f"{other}."):
                raise ValueError(f"methods.{method}.grid: {place} lies within {other}, which is there too")
        options = self.methods[method].model_dump()
        result = {name: options[name] for name in ("loss", "beside", "fine_tune")}
        result["training"] = self.training.model_dump()
        if self.task == "label_ranking":
            result["model"] = self.model.model_dump()
        for place, value in setting.items():
            *parents, last = place.split(".")
            block = result
            for parent in parents:
                block = block.get(parent) if isinstance(block, dict) else None
            if not isinstance(block, dict) or last not in block:
                raise ValueError(f"methods.{method}.grid: there is no {place} in the method or in training")
            block[last] = value
        return result


class PrecisionMethod(Block):
    loss: Named
    sorter: str | None
    optimizer: Optimizer


class SyntheticPrecision(Block):
    rows: Annotated[int, Field(ge=4)]
    features: Count
    hidden: Count
    layers: Count
    positive: Annotated[float, Field(gt=0, lt=1)]
    flipped: list[Annotated[float, Field(ge=0, lt=0.5)]]
    batch_size: Several
    epochs: Count
    seeds: Count
    methods: dict[Name, PrecisionMethod]

    @model_validator(mode="after")
    def _whole_batch(self) -> "SyntheticPrecision":
        if self.batch_size > self.rows // 2:
            raise ValueError(f"batch_size is {self.batch_size}, expected at most half of rows = {self.rows}")
        return self


class ScoreSweep(Block):
    steps: Several
    seed: Seed


class LabelRankingFigures(Block):
    frames: Several
    calibration_rows: Several
    digits_per_image: Annotated[list[Annotated[int, Field(ge=2, le=10)]], Field(min_length=1)]
    rows: Several
    overlap: Annotated[float, Field(ge=0, le=1)]
    seed: Seed


class Finding(Block):
    """A question that pairs of methods of a comparison answer: of each pair, what the second gains over the first.

    `contrasts` are two such pairs each: whether the second one's gain is another than the first one's.
    """

    asks: str
    comparison: str
    pairs: Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    contrasts: list[Annotated[list[str], Field(min_length=4, max_length=4)]] = []


class Experiments(Block):
    comparisons: dict[str, Comparison]
    findings: dict[str, Finding]
    synthetic_precision: SyntheticPrecision
    sorter_depth: list[Count]
    score_sweep: ScoreSweep
    label_ranking_figures: LabelRankingFigures

    @model_validator(mode="after")
    def _compared(self) -> "Experiments":
        for name, finding in self.findings.items():
            if finding.comparison not in self.comparisons:
                raise ValueError(
                    f"findings.{name}.comparison: no comparison {finding.comparison!r}; there are "
                    f"{', '.join(self.comparisons)}"
                )
            methods = self.comparisons[finding.comparison].methods
            for place in ("pairs", "contrasts"):
                for one in {method for several in getattr(finding, place) for method in several}:
                    if one not in methods:
                        raise ValueError(
                            f"findings.{name}.{place}: {finding.comparison} has no method {one!r}; there are "
                            f"{', '.join(methods)}"
                        )
        return self


class Evaluate(Block):
    resamples: Count
    seed: Seed


class Judged(Block):
    figure: str
    guarded: list[str]


class Gate(Block):
    resamples: Count
    seed: Seed
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    minimum_gain: NotNegative
    tolerance: NotNegative
    judged: dict[str, Judged]

    @model_validator(mode="after")
    def _known(self) -> "Gate":
        for task, judged in self.judged.items():
            if task not in FIGURES:
                raise ValueError(f"judged.{task}: there is no such task; there are {', '.join(FIGURES)}")
            for figure in (judged.figure, *judged.guarded):
                if figure not in FIGURES[task]:
                    raise ValueError(f"judged.{task}: no figure {figure!r}; there are {', '.join(FIGURES[task])}")
        if missing := [task for task in FIGURES if task not in self.judged]:
            raise ValueError(f"judged has no block for {', '.join(missing)}: every model is judged by a figure")
        return self


class Settings(Block):
    compute: Compute
    train_processes: Count
    data: Data
    digits: DigitsParams
    score_vectors: ScoreVectors
    ranked_mnist: Scenes
    clips: Clips
    long_tailed_mnist: LongTailedMnist
    captions: Captions
    sorters: dict[Name, SorterParams]
    benchmark_sorters: BenchmarkSorters
    real_data: dict[str, RealData]
    training: TrainingByTask
    runs: dict[Name, Run]
    transfer_runs: dict[Name, TransferRun]
    sorter_runs: dict[Name, SorterRun]
    evaluate: Evaluate
    gate: Gate

    @property
    def all_runs(self) -> dict[str, Run]:
        """Every run, whatever it needs."""
        return self.runs | self.transfer_runs | self.sorter_runs

    def stages_of(self, run: str) -> tuple[str, str]:
        """The names in dvc.yaml of the stages that train and evaluate a run; its group of runs decides on them."""
        group = "" if run in self.runs else "_transfer" if run in self.transfer_runs else "_with_sorter"
        return f"train{group}@{run}", f"evaluate{group}@{run}"

    @model_validator(mode="after")
    def _names_and_options(self) -> "Settings":
        for key, sorter in self.sorters.items():
            _check_made("sorters", sorter, f"sorters.{key}", length=self.score_vectors.length)
        for key, sorter in self.benchmark_sorters.untrained.items():
            place = f"benchmark_sorters.untrained.{key}"
            if key in self.sorters:
                raise ValueError(f"{place}: this name is taken by sorters.{key}")
            if list(_check_made("sorters", sorter, place, length=self.score_vectors.length).parameters()):
                raise ValueError(f"{place}: {sorter.name} has weights to train: give it a block under sorters")
        for key, block in self.real_data.items():
            _check_adapter(key, block)
        blocks = {"runs": self.runs, "transfer_runs": self.transfer_runs, "sorter_runs": self.sorter_runs}
        for block, runs in blocks.items():
            for key, run in runs.items():
                if sum(key in others for others in blocks.values()) > 1:
                    raise ValueError(f"{block}.{key}: this name is taken by another run")
                self._check_run(f"{block}.{key}", key, run)
        for block, runs in blocks.items():
            for key, run in runs.items():
                if isinstance(run, TransferRun):  # once the run that it starts from is known to be one
                    self._check_start(f"{block}.{key}", run)
        return self

    def _check_data_and_model(self, place: str, run: Run) -> None:
        made_here = {name for name in Settings.model_fields if hasattr(getattr(self, name), "canvas")}
        if run.dataset not in made_here | set(self.real_data):
            raise ValueError(
                f"{place}.dataset: no {run.dataset!r}; there are {', '.join(sorted(made_here | set(self.real_data)))} "
                "(a dataset that is read from disk needs a block under real_data)"
            )
        if not _teaches(run.dataset, run.task):
            fitting = [name for name in sorted(made_here | set(self.real_data)) if _teaches(name, run.task)]
            raise ValueError(
                f"{place}.dataset: {run.dataset} has no column {LEARNED[run.task]}, from which {run.task} learns; "
                f"{', '.join(fitting)} can be had"
            )
        model = _check_made("models", run.model, f"{place}.model", outputs=10, features=1, words=10)
        needed = "embedding_size" if run.task == "label_ranking" else "embed"
        if not hasattr(model, needed) or hasattr(model, "encode_text") != (run.task == "retrieval"):
            fitting = "dual_encoder" if run.task == "retrieval" else "convnet"
            raise ValueError(
                f"{place}.model.name: {run.model.name} does not embed images for {run.task}; try {fitting}"
            )

    def _check_run(self, place: str, key: str, run: Run) -> None:
        if not key.startswith(f"{run.task}-{run.loss.name}"):
            raise ValueError(
                f"{place}: its name should begin with {run.task}-{run.loss.name}, its task and loss "
                "(then, if need be, -<sorter> and -seed<k>)"
            )
        self._check_data_and_model(place, run)
        beside = [(run.beside, f"{place}.beside")] if isinstance(run, SorterRun) else []
        for loss, where in [(run.loss, f"{place}.loss"), *beside]:
            takes_sorter = _check_loss(run.task, loss, where)
            if takes_sorter and run.task == "label_ranking":
                raise ValueError(
                    f"{where}.name: {loss.name} needs a sorter, and label rankers have one in comparisons alone: "
                    "comparisons.label_ranking of experiments/params.yaml"
                )
            if takes_sorter and not isinstance(run, SorterRun):
                raise ValueError(f"{where}.name: {loss.name} needs a sorter: put the run under sorter_runs")
            if loss is run.loss and not takes_sorter and isinstance(run, SorterRun):
                raise ValueError(f"{where}.name: {loss.name} takes no sorter: put the run under runs or transfer_runs")
        from_random = not isinstance(run, TransferRun) and run.task != "label_ranking"
        if from_random and not getattr(self.training, run.task).everything.epochs:
            raise ValueError(
                f"training.{run.task}.everything.epochs is 0, but {place} starts from random weights, without a first "
                "step: expected at least 1"
            )
        if isinstance(run, SorterRun):
            if run.sorter.name not in self.sorters:
                raise ValueError(
                    f"{place}.sorter.name: no sorter {run.sorter.name!r} is pretrained; there are "
                    f"{', '.join(self.sorters)}"
                )
            if (file := self.sorters[run.sorter.name].name) != run.sorter.name:
                raise ValueError(
                    f"{place}.sorter.name: {run.sorter.name} is a sorter {file}; runs take one whose key is its "
                    f"name too, by which dvc.yaml finds its code: call the block sorters.{file}"
                )
            batch_size, length = getattr(self.training, run.task).batch_size, self.length_of(run.sorter.name)
            if length is not None and batch_size % length:
                raise ValueError(
                    f"training.{run.task}.batch_size is {batch_size}, but {place} ranks groups of "
                    f"score_vectors.length = {length}, the sorter's: expected a multiple of {length}"
                )

    def model_of(self, run: Run) -> str:
        """The registered name of what a run trains: its task's, and of data read from disk theirs too.

        Versions of one name are compared with each other, which takes the same data.
        """
        return f"{run.task}-{run.dataset}" if run.dataset in self.real_data else run.task

    def length_of(self, sorter: str) -> int | None:
        """How many scores a pretrained sorter takes, or None for any number."""
        takes = inspect.signature(lookup.find("sorters", self.sorters[sorter].name)).parameters
        return self.score_vectors.length if "length" in takes else None

    def _check_start(self, place: str, run: TransferRun) -> None:
        folder, _, name = run.start.rpartition("/")
        if run.start != PurePosixPath(run.start).as_posix():  # by which DVC knows what comes first
            raise ValueError(
                f"{place}.start: is {run.start!r}, expected a plain path: {PurePosixPath(run.start).as_posix()}"
            )
        if folder == "models/runs" and name not in self.all_runs:
            raise ValueError(f"{place}.start: no run {name!r}; there are {', '.join(self.all_runs)}")
        before = [name]
        while folder == "models/runs" and isinstance(earlier := self.all_runs.get(before[-1]), TransferRun):
            before.append(earlier.start.rpartition("/")[2])
            if before[-1] in before[:-1]:
                raise ValueError(
                    f"{place}.start: {', which starts from '.join(before)}: expected a run that goes back to random "
                    "weights or to a file"
                )
        if folder == "models/runs":
            if run.dataset in self.real_data and self.all_runs[name].dataset not in self.real_data:
                raise ValueError(
                    f"{place}.start: {name} learned on {self.all_runs[name].dataset}, gray digits, which are no start "
                    f"for {run.dataset}: give it a safetensors file of weights (docs/real_data.md)"
                )
            found, expected = (_backbone(model) for model in (run.model, self.all_runs[name].model))
            if found != expected:
                told = [which if channels is None else f"{which} with channels {channels}"
                        for which, channels in (found, expected)]  # fmt: skip
                raise ValueError(
                    f"{place}.model: {told[0]}, but it starts from {name}, which is {told[1]}: expected the same"
                )


def _teaches(dataset: str, task: str) -> bool:
    """Whether the tables of a dataset have what a task learns from."""
    return LEARNED[task] in lookup.module("datasets", dataset).SCHEMA.names


def _backbone(model: Named) -> tuple[str, Any]:
    """Which network gives the feature maps, and its channels."""
    options = inspect.signature(lookup.find("models", model.name)).parameters
    name = model.args.get("backbone", options["backbone"].default) if "backbone" in options else model.name
    own = inspect.signature(lookup.find("models", name)).parameters.get("channels")
    given = model.args.get("channels")
    return name, list(own.default if given is None else given) if own else None


def _check_loss(task: str, loss: Named, place: str) -> bool:
    """That it is a loss of this task, with these options; whether it takes a sorter."""
    function, kind = _check_options("losses", loss, place), KINDS[task]
    taken = list(inspect.signature(function).parameters)
    if taken[1] != kind:
        fitting = [name for name in lookup.names("losses")
                   if list(inspect.signature(lookup.find("losses", name)).parameters)[1] == kind]  # fmt: skip
        raise ValueError(f"{place}.name: {loss.name} is no loss of {task}; there are {', '.join(fitting)}")
    _check_called(kind, function, loss.args, place)
    return "sorter" in taken


def _check_called(kind: str, loss: Callable[..., Any], args: dict[str, Any], place: str) -> None:
    """That a loss with these values can be called; its options are checked when it is."""
    examples = {
        "label_ranks": torch.tensor([[2, 1], [0, 1]]), "target": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
        "labels": torch.eye(2, dtype=torch.bool), "positives": torch.eye(2, dtype=torch.bool),
    }  # fmt: skip
    runtime = {"sorter": lambda scores: scores.argsort(-1).argsort(-1) + 1.0, "generator": torch.Generator()}
    taken = {name: value for name, value in runtime.items() if name in inspect.signature(loss).parameters}
    try:
        loss(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), examples[kind], **args, **taken)
    except ValueError as error:
        raise ValueError(f"{place}.args: {error}") from error


def _check_adapter(name: str, block: RealData) -> None:
    """That there is an adapter of this name, and that it takes these options."""
    place = f"real_data.{name}"
    module = lookup.module("datasets", name, where=place)
    if not hasattr(module, "LAYOUT"):
        raise ValueError(f"{place}: {name} is made here, not read from disk: it has a block of its own")
    taken, hints = lookup.options(module.check), typing.get_type_hints(module.check)
    for option, value in block.args.items():
        if option not in taken:
            raise ValueError(f"{place}.args.{option}: unknown option; {name} takes {', '.join(taken) or 'no options'}")
        _check_type(hints[option], value, f"{place}.args.{option}")


def _check_type(kind: Any, value: Any, place: str) -> Any:
    """The value, as what it must be."""
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, (place, *problem['loc'])))}: {_said(problem)}") from error


def _said(problem: Any) -> str:
    """What pydantic finds wrong, and with what."""
    if problem["type"] == "missing":
        return "missing"
    message = problem["msg"].removeprefix("Value error, ")
    return message if problem["type"] == "value_error" else f"{message} (found {problem['input']!r})"


def _check_options(folder: str, named: Named, place: str) -> Callable[..., Any]:
    """The thing of that name, which takes these options and their types."""
    lookup.check_options(folder, named.name, named.args, where=place)
    thing = lookup.find(folder, named.name)
    hints = typing.get_type_hints(thing.__init__ if isinstance(thing, type) else thing)
    for option, value in named.args.items():
        if option not in hints:
            raise ValueError(
                f"{place}.args.{option}: {named.name} gives this option no type: write {option}: float = ..."
            )
        _check_type(hints[option], value, f"{place}.args.{option}")
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


def check(values: Any, *, path: str | Path = "params.yaml", model: type[Checked] = Settings) -> Checked:
    """Checked settings from plain values, of the whole pipeline or of another `model`.

    Raises:
        ParamsError: a line for each thing that is wrong: its place, what is expected, and what was found.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            place = ".".join(str(part) for part in problem["loc"] if part != "[key]")  # pydantic's, of a wrong one
            if problem["type"] == "extra_forbidden":
                elsewhere = {"start": "transfer_runs", "sorter": "sorter_runs", "beside": "sorter_runs"}
                hint = elsewhere.get(str(problem["loc"][-1]), "") if str(problem["loc"][0]).endswith("runs") else ""
                lines.append(
                    f"{place}: unknown key; {_neighbors(model, problem['loc'])}"
                    + (f"; runs with it stand under {hint}" if hint else "")
                )
            else:
                lines.append(f"{place}: {_said(problem)}" if place else _said(problem))
        raise ParamsError("\n".join(f"{path}: {line}" for line in lines)) from error


def _neighbors(model: type[Block], place: tuple[int | str, ...]) -> str:
    """The keys that are known where an unknown one stands."""
    block: Any = model
    for part in place[:-1]:
        if isinstance(block, type) and issubclass(block, BaseModel):
            block = block.model_fields[str(part)].annotation if str(part) in block.model_fields else None
        elif getattr(block, "__origin__", None) is dict:
            block = block.__args__[1]
    if isinstance(block, type) and issubclass(block, BaseModel):
        return f"there are {', '.join(block.model_fields)}"
    return "look for a typing error"


def _read(path: Path) -> Any:
    try:
        return YAML(typ="safe").load(path)  # YAML 1.2, as DVC reads it
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file; run from the project's top folder") from error
    except (YAMLError, ValueError) as error:  # the latter of a day that there is not
        raise ParamsError(f"{path}: not YAML: {error}") from error


def load(path: str | Path = "params.yaml") -> Settings:
    """Reads and checks the params.

    Raises:
        ParamsError: the file is missing, not YAML, or says something impossible.
    """
    return check(_read(Path(path)), path=path)


def load_experiments(params: Settings, path: str | Path = "experiments/params.yaml") -> Experiments:
    """Reads and checks the params of the experiments, against those of the pipeline whose data and sorters they use.

    Raises:
        ParamsError: the file is missing, not YAML, or says something impossible.
    """
    experiments = check(_read(Path(path)), path=path, model=Experiments)
    try:
        for name, plan in experiments.comparisons.items():
            _check_comparison(params, f"comparisons.{name}", plan)
        for name, method in experiments.synthetic_precision.methods.items():
            place = f"synthetic_precision.methods.{name}"
            _check_sorter(params, place, method.sorter, experiments.synthetic_precision.batch_size)
            _check_options("losses", method.loss, f"{place}.loss")
    except ValueError as error:
        raise ParamsError(f"{path}: {error}") from error
    return experiments


def _check_sorter(params: Settings, place: str, name: str | None, batch_size: int) -> None:
    if name is None or name in params.benchmark_sorters.untrained:
        return
    if name not in params.sorters:
        known = [*params.sorters, *params.benchmark_sorters.untrained]
        raise ValueError(f"{place}.sorter: no sorter {name!r}; there are {', '.join(known)}")
    length = params.length_of(name)
    if length is not None and batch_size % length:
        raise ValueError(
            f"{place}: batches of {batch_size} do not make groups of score_vectors.length = {length}, the sorter's"
        )


def _check_sorter_args(params: Settings, place: str, method: Method) -> None:
    if method.sorter_args is None:
        return
    given = params.benchmark_sorters.untrained.get(method.sorter or "")
    if given is None:
        raise ValueError(f"{place}.sorter_args: {method.sorter} is no sorter of benchmark_sorters.untrained")
    _check_made("sorters", Named(name=given.name, args=given.args | method.sorter_args), f"{place}.sorter")


def _check_comparison(params: Settings, place: str, plan: Comparison) -> None:
    """Every setting of every method is a run that could stand in params.yaml, or a label ranker with more options."""
    for figure in (plan.figure, *plan.shown):
        if figure not in FIGURES[plan.task]:
            raise ValueError(f"{place}.figure: no {figure!r} of {plan.task}; there are {', '.join(FIGURES[plan.task])}")
    if plan.task == "label_ranking":
        _check_label_rankers(params, place, plan)
        return
    base = {
        "task": plan.task,
        "dataset": plan.dataset,
        "model": plan.model.model_dump(),
        "start": plan.start,
        "seed": 1,
    }
    kind = type(getattr(params.training, plan.task))
    for name, method in plan.methods.items():
        here = f"{place}.methods.{name}"
        _check_sorter_args(params, here, method)
        for setting in plan.settings(name):
            tried = plan.tried(name, setting)
            training = _check_type(kind, tried["training"], f"{here}.training")
            _check_sorter(params, here, method.sorter, training.batch_size)
            run: Run = _check_type(TransferRun, base | {"loss": tried["loss"]}, here)
            if method.sorter is not None:
                beside = tried["beside"] or tried["loss"] | {"weight": 1.0, "epochs": None}
                pretrained = method.sorter if method.sorter in params.sorters else next(iter(params.sorters))
                sorter = {"name": pretrained, "fine_tune": tried["fine_tune"]}
                run = _check_type(SorterRun, base | {"loss": tried["loss"], "sorter": sorter, "beside": beside}, here)
            elif tried["beside"] is not None:
                beside = _check_type(Beside, tried["beside"], f"{here}.beside")
                alone = run.model_copy(update={"loss": Named(name=beside.name, args=beside.args)})
                params._check_run(f"{here}.beside", f"{plan.task}-{beside.name}", alone)
            params._check_run(here, f"{plan.task}-{run.loss.name}", run)
            params._check_start(here, run)


def _check_label_rankers(params: Settings, place: str, plan: Comparison) -> None:
    judging = ("ranked.exact_match", "ranked.accuracy")
    if plan.figure not in judging:
        raise ValueError(f"{place}.figure: {plan.figure} is not measured on validation; {' or '.join(judging)} is")
    for name, method in plan.methods.items():
        here = f"{place}.methods.{name}"
        if method.fresh and plan.dataset != "ranked_mnist":
            raise ValueError(f"{here}.fresh: {plan.dataset} cannot be drawn anew; ranked_mnist can")
        if method.sorter in params.sorters:
            raise ValueError(
                f"{here}.sorter: {method.sorter} is pretrained; expected one that needs no training, of "
                f"{', '.join(params.benchmark_sorters.untrained)}"
            )
        _check_sorter(params, here, method.sorter, 1)
        _check_sorter_args(params, here, method)
        for setting in plan.settings(name):
            tried = plan.tried(name, setting)
            parts = {"task": plan.task, "dataset": plan.dataset, "seed": 1}
            run = _check_type(Run, parts | {part: tried[part] for part in ("model", "loss")}, here)
            _check_type(LabelRankingTraining, tried["training"], f"{here}.training")
            losses = {"loss": run.loss}
            if tried["beside"] is not None:
                losses["beside"] = _check_type(Beside, tried["beside"], f"{here}.beside")
            takers = [_check_loss(plan.task, loss, f"{here}.{part}") for part, loss in losses.items()]
            if any(takers) != (method.sorter is not None):
                known = [*params.sorters, *params.benchmark_sorters.untrained]
                raise ValueError(
                    f"{here}.sorter is {method.sorter}: expected one for a loss that takes one, such as "
                    f"{', '.join(known)}, and null for others"
                )
            params._check_data_and_model(here, run)
