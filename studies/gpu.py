"""What a lent GPU does for the two papers, most for least first: `python -m studies.gpu` goes on where it was.

It needs rankgrad with its extra `tasks`, and MNIST. Estimates for one H100, from studies/made/subset_224 and full_224:
table_1 has 90 trainings of 13 seconds of the GPU each, own_protocol 9 of up to two minutes, table_2 9 of a minute;
sodeep takes its share whole, timings a minute. So 15 minutes are for a part: give what is kept to the next machine, or
choose `--pieces`. Each has its share of the minutes; a training that is not over then goes on in the next call, on the
same machine.

Here, in the root of the repository that the tool `device` sends, with the code in a commit:

    echo /.gpu/ >> .git/info/exclude
    mkdir -p .gpu/mnist .gpu/kept
    find "$RANKGRAD_MNIST_ROOT" -name '*-ubyte.gz' -exec cp {} .gpu/mnist ';'
    git rev-parse HEAD > .gpu/kept/commit

There, by `run` with `carry` [".gpu/mnist", ".gpu/kept"], `timeout_s` 560, without `kind`, and this as its command; to
choose, with `--pieces own_protocol`, say, at its end:

    cp .gpu/kept/* $OUT; export PYTHONPATH=src OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1; nvidia-smi -L;
    python3 -m studies.gpu --out $OUT --scratch .gpu/scratch --mnist .gpu/mnist --commit $(cat $OUT/commit)

A table a piece comes back, with made_by.json: copy them from `files_at` to .gpu/kept before the next call. Scratch,
with scenes, predictions and unfinished trainings, stays on the machine while it is held.

torchsort and LapSum (github.com/gmum/LapSum, its folder lapsum) are timed where they can be imported. Both are built:
carry their sources, unpacked, as .gpu/src/torchsort and .gpu/src/lapsum, and put before the rest of the command
`python3 -m pip install -q --no-index --no-deps --no-build-isolation --target .gpu/site .gpu/src/*;`, with
PYTHONPATH=.gpu/site:src. That takes minutes: a call of its own, with `--pieces timings`.

A table is the results.csv of a study, and made_by.json has what `studies.kept.write` wants beside it, a
block a piece: here, `python -m studies.gpu --keep .gpu/kept` writes them to studies/made/, see `PIECES` for the names.
"""

import argparse
import inspect
import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import pairwise, product
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from pipelines.config.schema import typed
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes import layout, mnist
from rankgrad.datasets.scenes.digits import DIGITS_OF, Digits
from rankgrad.datasets.scenes.digits import splits as digits_by_split
from rankgrad.datasets.scenes.rlsep import SCALES, calibration_recipes
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import evaluate, interval
from rankgrad.inputs.image import of_tensor
from rankgrad.io import results
from rankgrad.io.atomic import remove_folder, replaced_file
from rankgrad.io.checkpoints import build
from rankgrad.io.parquet import matrix
from rankgrad.io.results import Row
from rankgrad.metrics.spearman import spearman
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import derived_seed, generator
from rankgrad.sorters import _quality as measures
from rankgrad.sorters import load_sorter
from rankgrad.tasks.label_ranking import LabelRanking
from rankgrad.training.device import find_device
from rankgrad.training.loop import fit, train
from rankgrad.training.objective import Objective
from rankgrad.training.options import Component, Imitation
from rankgrad.training.phase import Batch, Phase
from studies import kept
from studies.times.peers import isotonic_ranks, neural_sort, soft_sort

# --- What is done. ---

SPLITS = ("train", "val", "test", "calibration")  # calibration: digits of exactly four scales
LOSSES: dict[str, dict[str, Any]] = {"rlsep": {"pairs": None}, "lsep": {"pairs": None}, "multilabel_cross_entropy": {}}
MODEL = {
    "name": "two_layer",
    "args": {},
    "backbone": {"name": "torchvision", "args": {"network": "mobilenet_v3_small"}},
}
RESAMPLES, BINS, CURVE = 1000, 60, 25  # of intervals; of histograms; a value of the validation every so many epochs
LENGTH, PAPERS_VECTORS = 100, 40_000_000  # SoDeep's
KERNELS = [2, 3, 5, 7, 10, 7, 5, 68]
LENGTHS, BATCHES = (100, 1_000, 10_000, 100_000), (1, 64)
LONGEST = 20.0  # milliseconds after which no longer lists are timed: of all pairs, ten times as long takes 2 seconds


class Job(NamedTuple):
    """A run of a piece with a seed; None for what has no seed, which of a ranker is the summary of its seeds."""

    piece: str
    run: str
    seed: int | None

    @property
    def name(self) -> str:
        return self.run if self.seed is None else f"{self.run}, seed {self.seed}"


@dataclass(frozen=True)
class Piece:
    """A part of the work: its study below studies/made/, its share of the time, and how it is run on a GPU.

    Attributes:
        processes: trainings side by side on one GPU: each alone would leave it idle between small operations.
        seconds: that must be left for a job to be begun, so many being side by side.
    """

    study: str
    share: float
    processes: int
    seconds: float
    about: str


PIECES = {
    "table_1": Piece("subset_224", 0.45, 6, 90, "RLSEP's Table 1, our recipe: 5,000 images, 30 seeds of three losses"),
    "own_protocol": Piece("own_protocol_224", 0.2, 3, 60, "RLSEP by its own protocol: SGD, 300 epochs, scenes in turn"),
    "table_2": Piece("full_224", 0.15, 3, 100, "RLSEP's Table 2: 60,000 images, three seeds of three losses"),
    "sodeep": Piece("sodeep_gpu", 0.12, 2, 30, "SoDeep's LSTM and CNN on fresh vectors, as long as the share lasts"),
    "timings": Piece("timings_cuda", 0.08, 1, 5, "milliseconds and memory of sorters and losses, and of others'"),
}  # fmt: skip
CODE = ("studies/gpu.py", "studies/times/peers.py", "studies/kept.py", "src/rankgrad/io/results.py")
SUMMARY = 40.0  # seconds kept for intervals, at the end


def phase_of(epochs: int, batch: int, patience: int, optimizer: dict[str, Any], schedule: dict[str, Any]) -> dict:
    options = {"epochs": epochs, "patience": patience, "batch_size": batch}
    return options | {"optimizer": optimizer, "schedule": schedule}


def adamw(rate: float, **args: float) -> dict[str, Any]:
    return {"name": "AdamW", "args": {"lr": rate, **args}}


@cache
def params_of(piece: str, *, toy: bool) -> dict[str, Any]:
    """Return `runs` and `datasets` of a piece, in the form of params.yaml; everything small for a trial."""
    if piece == "timings":
        options = {"lengths": (20, 50) if toy else LENGTHS, "batches": (1, 2) if toy else BATCHES}
        return {"runs": dict.fromkeys(OPERATORS, options)}
    return {"runs": _sorters(toy=toy)} if piece == "sodeep" else _label_rankers(piece, toy=toy)


def _sorters(*, toy: bool) -> dict[str, Any]:
    """Return the runs of SoDeep's Table 1."""
    training = {"batch_size": 512, "epoch_size": 25_600, "schedule": {"name": "cosine", "warm_up_epochs": 1}}
    training |= {"optimizer": {"name": "Adam", "args": {"lr": 1e-3}}}
    training |= {"batch_size": 16, "epoch_size": 32} if toy else {}
    lstm = {"hidden": 8 if toy else 512, "layers": 2, "projection": "full"}
    cnn = {"channels": 4 if toy else 64, "kernels": KERNELS}
    return {"lstm": {"args": lstm, "training": training}, "cnn-unpadded": {"args": cnn, "training": training}}


def _label_rankers(piece: str, *, toy: bool) -> dict[str, Any]:
    """Return the runs and the dataset of one of RLSEP's tables."""
    cosine = {"name": "cosine"}
    if piece == "own_protocol":
        own = {"name": "SGD", "args": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-5}}
        phase = phase_of(1 if toy else 300, 16 if toy else 64, 20, own, {"name": "constant"})
        training, name, seeds = {"scorer": phase | {"shift": 0}, "thresholds": phase}, "own_protocol-{}", range(1, 4)
    else:
        epochs, batch, rate, warm_up, last = (30, 64, 3e-3, 2, 30) if piece == "table_1" else (25, 256, 4e-3, 1, 10)
        epochs, last, batch = (1, 1, 16) if toy else (epochs, last, batch)
        scorer = phase_of(
            epochs, batch, epochs, adamw(rate, weight_decay=1e-2), cosine | {"warm_up_epochs": min(warm_up, epochs)}
        )
        training = {"scorer": scorer | {"shift": 2 if toy else 14}}
        training |= {"thresholds": phase_of(last, batch, last, adamw(1e-3), cosine)}
        name, seeds = "label_ranking-{}-shifted", range(1, 31 if piece == "table_1" else 4)
    training["thresholds"] |= {"hidden": 128}
    key = "ranked_mnist-in_turn" if piece == "own_protocol" else "ranked_mnist"
    rows = {"train": 60_000, "val": 2000} if piece == "table_2" else {"train": 5000, "val": 1000}
    rows = {"train": 32, "val": 16, "test": 24, "gate": 2} if toy else rows | {"test": 10_000, "gate": 2}
    args = {"canvas": 32 if toy else 224, "digits_per_image": [3, 6], "scale": [1.0, 4.0], "overlap": 0.0}
    args |= {"arrangement": "in_turn"} if piece == "own_protocol" else {}
    run = {
        "task": "label_ranking",
        "dataset": key,
        "model": MODEL,
        "training": training,
        "seeds": [*seeds][: 1 if toy else None],
    }
    runs = {name.format(loss): run | {"loss": {"name": loss, "args": given}} for loss, given in LOSSES.items()}
    return {"runs": runs, "datasets": {key: {"name": "ranked_mnist", "rows": rows, "seed": 1, "args": args}}}


def jobs_of(piece: str, *, toy: bool) -> list[Job]:
    """Return the jobs of a piece, all losses of a seed before the next seed."""
    runs = params_of(piece, toy=toy)["runs"]
    seeds = next(iter(runs.values())).get("seeds", [None])
    return [Job(piece, run, seed) for seed, run in product(seeds, runs)]


# --- How. ---


class OutOfTimeError(Exception):
    """A job is not over when its time is."""


@dataclass(frozen=True)
class Settings:
    """What all jobs are told."""

    out: Path
    scratch: Path
    mnist: Path
    device: str
    toy: bool

    @property
    def precision(self) -> str:
        return "bf16" if self.device == "cuda" else "no"

    def run(self, job: Job) -> dict[str, Any]:
        return params_of(job.piece, toy=self.toy)["runs"][job.run]

    def folder(self, kind: str, job: Job) -> Path:
        return self.scratch / kind / job.piece / f"{job.run}-{job.seed}"


@dataclass(frozen=True)
class Clock:
    """When a job must end, and the process that it ends with."""

    until: float
    parent: int | None = None

    def check(self) -> None:
        if time.time() > self.until or (self.parent is not None and os.getppid() != self.parent):
            raise OutOfTimeError


# Scenes: drawn once, where the GPU is, and read by each process to the GPU.


def scene_file(settings: Settings, piece: str, split: str) -> Path:
    return settings.scratch / "scenes" / f"{piece}-{split}.pt"


def draw_scenes(settings: Settings, piece: str) -> None:
    """Draw what is missing of a piece's scenes: those of the pipeline's stage, up to rounding."""
    missing = [split for split in SPLITS if not scene_file(settings, piece, split).is_file()]
    if not missing:
        return
    digits = {split: one for split, one in every_digit(settings).items()}
    device = find_device(settings.device)
    block = next(iter(params_of(piece, toy=settings.toy)["datasets"].values()))
    dataset = RankedMnist(rows=block["rows"], seed=block["seed"], **block["args"])
    for split in missing:
        own = digits["test" if split == "calibration" else DIGITS_OF[split]]
        there = Digits(own.glyph.to(device), own.images.to(device), own.labels.to(device))
        rows = (16 if settings.toy else 2000) if split == "calibration" else block["rows"][split]
        draws, parts = generator(block["seed"], dataset.name, split), []
        for start, count in layout.pieces(rows, pixels=dataset.canvas**2, most=dataset.piece):
            if split == "calibration":
                recipe = calibration_recipes(own, count, canvas=dataset.canvas, generator=draws)
            else:
                recipe = dataset.draw(own, range(start, start + count), draws)
            images = dataset.pictures({name: values.to(device) for name, values in recipe.items()}, there).cpu()
            parts.append({"images": images, "label_ranks": recipe["label_ranks"], "size": recipe["size"]})
        with replaced_file(scene_file(settings, piece, split)) as partial_file:
            torch.save({name: torch.cat([part[name] for part in parts]) for name in parts[0]}, partial_file)


@cache
def every_digit(settings: Settings) -> dict[str, Digits]:
    if settings.toy:
        return digits_by_split("subset", "data/raw/subset")
    if not (settings.scratch / "mnist" / next(iter(mnist.FILES))).is_file():
        mnist.copy(settings.mnist, settings.scratch / "mnist")
    return digits_by_split("mnist", settings.scratch / "mnist")


@cache
def scenes(settings: Settings, piece: str, split: str) -> tuple[Split, Tensor]:
    """Return a split on the device, and the sizes of its digits."""
    device = find_device(settings.device)
    kept = torch.load(scene_file(settings, piece, split), weights_only=True)
    return Split(of_tensor(kept["images"].to(device)), kept["label_ranks"]), kept["size"]


# Jobs: each yields rows whenever it has some.


def rank(job: Job, settings: Settings, clock: Clock) -> Iterator[list[Row]]:
    """Train a label ranker, test it, and measure its scores by the sizes of digits."""
    if job.seed is None:
        yield summary(job, settings)
        return
    run = settings.run(job)
    task_of = lookup.find("tasks", run["task"])
    task = task_of(typed(task_of.Training, run["training"]))
    (training, _), (val, _), (test, size), (calibration, scales) = (
        scenes(settings, job.piece, split) for split in SPLITS
    )
    network = task.build(run["model"], training, seed=job.seed)
    objective = Objective(Component(**run["loss"]), device=find_device(settings.device))
    row = partial(Row, job.run, seed=job.seed)
    options = {"device": settings.device, "precision": settings.precision, "checkpoint": settings.folder("epochs", job)}
    epochs: Counter[str] = Counter()
    best = -math.inf
    for phase, epoch in train(
        task, network, training, val, objective=objective, seed=job.seed, name=job.name, **options
    ):
        epochs[phase] += 1
        if phase == "scorer":
            best = max(best, epoch.value)
            if not epochs[phase] % CURVE:
                yield [row(f"validation after {epochs[phase]} epochs", epoch.value)]
        clock.check()
    table = task.predict(network, test)
    with replaced_file(settings.folder("predictions", job)) as partial_file:
        pq.write_table(table, partial_file)
    statistic = task.statistic(table)
    values = dict(zip(statistic.names, statistic.of_rows(np.arange(statistic.examples)), strict=True))
    values |= {f"epochs.{phase}": count for phase, count in epochs.items()} | {"validation": best}
    values |= correlations(matrix(table, "scores", path="predictions"), size)
    values |= calibrated(task.scores(network, calibration.inputs)[0], scales)
    yield [row(metric, float(value)) for metric, value in values.items()]
    remove_folder(settings.folder("epochs", job))


def correlations(scores: Tensor, size: Tensor) -> dict[str, float]:
    """Return how scores of present digits go with their sizes (n, K), over all images."""
    there = size > 0
    both = torch.stack([scores[there].double(), size[there].double()])
    return {"size.spearman": spearman(*both).item(), "size.pearson": torch.corrcoef(both)[0, 1].item()}


def calibrated(scores: Tensor, size: Tensor) -> dict[str, float]:
    """Return what RLSEP's Fig. 3 shows: scores by true scale, and how much those of neighbors overlap.

    Args:
        scores, size: (n, K), of scenes of four digits of exactly the four scales; size 0 = absent.
    """
    smallest_first = size.argsort(1)
    by_scale = scores.gather(1, smallest_first).double().numpy()
    absent = size.shape[1] - len(SCALES)
    groups = {"absent": by_scale[:, :absent].ravel()}
    groups |= {f"scale_{scale:g}": by_scale[:, absent + place] for place, scale in enumerate(sorted(SCALES))}
    edges = np.linspace(by_scale.min(), by_scale.max(), BINS + 1)
    shares = {name: np.histogram(values, edges)[0] / len(values) for name, values in groups.items()}
    found = {f"calibration.{name}.mean": values.mean() for name, values in groups.items()}
    found |= {f"calibration.{name}.deviation": values.std() for name, values in groups.items()}
    names = list(groups)
    for lower, upper in pairwise(names):
        found[f"calibration.overlap of {lower} and {upper}"] = np.minimum(shares[lower], shares[upper]).sum()
    ordered = (np.diff(by_scale[:, absent:], axis=1) > 0).all(1)
    return {name: float(value) for name, value in found.items()} | {"calibration.exactly_ordered": ordered.mean()}


def summary(job: Job, settings: Settings) -> list[Row]:
    """Return the means over all seeds of a run, of test metrics with an interval if all predictions are still here."""
    rows = [row for row in kept_rows(settings.out, job.piece) if row.run == job.run and row.seed is not None]
    means: dict[str, list[float]] = {}
    seeds = sorted({row.seed for row in rows if row.metric == LabelRanking.metrics[0].name})
    for row in rows:
        if row.seed in seeds:
            means.setdefault(row.metric, []).append(row.value)
    found = {metric: Row(job.run, metric, fmean(some)) for metric, some in means.items() if len(some) == len(seeds)}
    tables = {seed: settings.folder("predictions", job._replace(seed=seed)) for seed in seeds}
    if seeds and all(path.is_file() for path in tables.values()):
        statistics = {seed: LabelRanking().statistic(pq.read_table(path)) for seed, path in tables.items()}
        draws = derived_seed(1, "evaluate")
        resamples = 20 if settings.toy else RESAMPLES
        of_run = evaluate(job.run, statistics, resamples=resamples, seed=draws)
        found |= {row.metric: row for row in of_run if row.seed is None}
    return list(found.values())


class Fresh(Phase):
    """Score vectors, drawn anew for each batch, whose ranks a sorter learns by its own loss; validated by L1."""

    monitor, lower_is_better = "l1", True

    def __init__(self, sorter: Any, val: Tensor, *, rows: int):
        self.module, self.val, self.rows = sorter, val, rows

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        scores = score_vectors.draw(len(rows), self.val.shape[1], generator)[0].to(self.val.device)
        return Batch((scores, exact_ranks(scores)), ())

    def outputs(self, module: Any, *inputs: Tensor) -> Tensor:
        return module.imitation_loss(*inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        return outputs[0]

    def validate(self, module: Any) -> dict[str, float]:
        return {"l1": errors(module, self.val).mean().item()}


@torch.no_grad()
def errors(sorter: nn.Module, scores: Tensor) -> Tensor:
    """Return L1 / d of each vector."""
    found = torch.cat([sorter(part) for part in scores.split(2048)])
    return (found - exact_ranks(scores)).abs().double().mean(1) / scores.shape[1]


def imitate(job: Job, settings: Settings, clock: Clock) -> Iterator[list[Row]]:
    """Train a sorter for as many epochs as there is time for, and measure it on test vectors every so often."""
    run, device, seed = settings.run(job), find_device(settings.device), 1
    training, folder = run["training"], settings.folder("epochs", job)
    val, test = (
        score_vectors.draw(rows, LENGTH, generator(1, "score_vectors", split))[0].to(device)
        for split, rows in (("val", 64 if settings.toy else 2000), ("test", 128 if settings.toy else 10_000))
    )

    def phase() -> Fresh:
        sorter = build("sorters", job.run.split("-")[0], run["args"], seed=seed, length=LENGTH)
        return Fresh(sorter.to(device), val, rows=training["epoch_size"])

    def epochs_of(phase: Fresh, count: int, **how: Any) -> Iterator[Any]:
        values = training | {"vectors": "fresh", "epochs": count, "patience": count}
        phase.options = typed(Imitation, values)
        phase.batch_size = phase.options.batch_size
        return fit(phase, seed=seed, device=settings.device, precision="no", name=job.name, **how)

    plan = folder / "epochs.json"
    if not plan.is_file():  # the learning rate falls to 0 at the last epoch, so their number must be known
        ended = [time.time() for _ in epochs_of(phase(), 2)]
        seconds, most = ended[1] - ended[0], PAPERS_VECTORS // training["epoch_size"]
        count = 2 if settings.toy else max(2, min(most, int(0.9 * (clock.until - time.time()) / seconds)))
        with replaced_file(plan) as partial_file:
            partial_file.write_text(json.dumps(count))
    count = json.loads(plan.read_text())
    learned = phase()
    for epoch in epochs_of(learned, count, checkpoint=folder):
        if epoch.number % max(1, count // 20) == 0:
            learned.module.eval()
            vectors = epoch.number * training["epoch_size"]
            yield [Row(job.run, f"l1 after {vectors:,} vectors", errors(learned.module, test).mean().item())]
        clock.check()
    sorter, of_vector = learned.module, errors(learned.module, test).cpu().numpy()
    l1 = interval(of_vector, resamples=20 if settings.toy else RESAMPLES, seed=derived_seed(0, "benchmark_sorters"))
    health = measures.gradient_health(sorter, test[: 2 if settings.toy else 40])
    values = {
        "exact_ranks": measures.accuracy(sorter, test[:2048])["exact_ranks"],
        "gradient.vanishing": health["vanishing"],
        "gradient.wrong_signs_of_others": health["wrong_signs_of_others"],
        "parameters": sum(parameter.numel() for parameter in sorter.parameters()),
        "vectors": count * training["epoch_size"],
    }
    yield [Row(job.run, "l1", *l1), *(Row(job.run, name, float(value)) for name, value in values.items())]
    remove_folder(folder)


# Timings: from scores (batch, n) to a tensor, forward and backward.

Call = Callable[[Tensor], Tensor]
TRUTHS = {  # what a loss compares with: so many grades, or real numbers
    "spearman": None, "kendall": None, "ranknet": None, "list_mle": None, "listnet": None, "ndcg": 5, "lambdarank": 5,
    "expected_reciprocal_rank": 5, "average_precision": 2, "rlsep": 5, "lsep": 5, "pairwise_logistic": 5,
    "plackett_luce": 5,
}  # fmt: skip


def our_sorter(name: str, device: torch.device, _: tuple[int, int], **args: float) -> Call:
    if name == "comparator":
        return load_sorter(name, device=device)
    return build("sorters", name, args, seed=0).to(device)


def our_loss(name: str, device: torch.device, shape: tuple[int, int]) -> Call:
    draws, grades, loss = torch.Generator().manual_seed(1), TRUTHS[name], lookup.find("losses", name)
    drawn = torch.randn(shape, generator=draws) if grades is None else torch.randint(grades, shape, generator=draws)
    truth = list(inspect.signature(loss).parameters)[1]
    return partial(loss, **{truth: drawn.to(device)}, check_finite=device.type == "cpu")


def of_lapsum(_: torch.device, __: tuple[int, int]) -> Call:
    ranked = import_module("lapsum.rank").soft_rank
    return lambda scores: ranked(scores, 0.1)


def of_torchsort(_: torch.device, __: tuple[int, int], *, kind: str) -> Call:
    import_module("torchsort")
    return partial(isotonic_ranks, kind=kind, strength=0.1)


OPERATORS: dict[str, Callable[[torch.device, tuple[int, int]], Call]] = {
    "laplace 0.2": partial(our_sorter, "laplace", softness=0.2),
    "LapSum 0.1": of_lapsum,
    "torchsort l2 0.1": partial(of_torchsort, kind="l2"),
    "torchsort kl 0.1": partial(of_torchsort, kind="kl"),
    "straight_through 0.2": partial(our_sorter, "straight_through", gradient_softness=0.2),
    "comparator": partial(our_sorter, "comparator"),
    "logistic 1/35": partial(our_sorter, "logistic", softness=1 / 35),
    "handcrafted 10": partial(our_sorter, "handcrafted", steepness=10.0),
    **{f"losses.{name}": partial(our_loss, name) for name in TRUTHS},
    "NeuralSort 0.1": lambda _, __: partial(neural_sort, temperature=0.1),
    "SoftSort 0.01": lambda _, __: partial(soft_sort, temperature=0.01),
}


def measure(job: Job, settings: Settings, clock: Clock) -> Iterator[list[Row]]:
    """Time an operator; it is left out where it is not installed, and lists where it took too long or too much."""
    device, row = find_device(settings.device), partial(Row, job.run)
    for batch in settings.run(job)["batches"]:
        for length in settings.run(job)["lengths"]:
            clock.check()
            shown = f"n = {length:,}, batch {batch}"
            try:
                call = OPERATORS[job.run](device, (batch, length))
            except ImportError as error:
                print(f"{job.run} left out: {error}", flush=True)
                yield [row("installed", 0.0)]
                return
            try:
                found = cost(
                    call, torch.randn(batch, length, generator=torch.Generator().manual_seed(length)).to(device)
                )
            except (torch.OutOfMemoryError, RuntimeError) as error:
                print(f"{job.run}, {shown} left out: {error}", flush=True)
                yield [row(f"left out, {shown}", 1.0)]
                torch.cuda.empty_cache()
                break
            yield [row(f"{kind}, {shown}", value) for kind, value in found.items()]
            if found["ms"] > LONGEST:
                break


def cost(call: Call, scores: Tensor) -> dict[str, float]:
    """Return medians of forward, and of forward and backward together; and on a GPU the most memory at once."""
    scores.requires_grad_()

    def step(backward: bool) -> float:
        scores.grad = None
        synchronize(scores.device)
        begun = time.perf_counter()
        value = call(scores)
        if backward:
            (value if value.dim() == 0 else value.square().mean()).backward()
        synchronize(scores.device)
        return 1e3 * (time.perf_counter() - begun)

    found = {}
    for name, backward in (("forward ms", False), ("ms", True)):
        step(backward)
        times = [step(backward)]  # the second is warm
        while len(times) < 30 and sum(times) < 300:
            times.append(step(backward))
        found[name] = median(times)
    if scores.is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(True)
        found["MB"] = (torch.cuda.max_memory_allocated() - before) / 1e6
    return found


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# --- Jobs side by side, within the time, each result kept as it is made. ---

Said = list[Row] | float | str  # rows; at last the seconds that it took, or why it is not done
WORK = {"table_1": rank, "own_protocol": rank, "table_2": rank, "sodeep": imitate, "timings": measure}


def done(job: Job, settings: Settings, clock: Clock) -> Iterator[Said]:
    begun = time.time()
    try:
        yield from WORK[job.piece](job, settings, clock)
        yield time.time() - begun
    except OutOfTimeError:
        yield "is not over: it goes on in the next call"
    except Exception as error:  # the others go on
        traceback.print_exc()
        yield f"failed: {error}"


def serve(connection: Connection, settings: Settings) -> None:
    """Do jobs in a process of its own, until there are none or the process that gives them is gone."""
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    parent = os.getppid()
    with suppress(EOFError, ConnectionError):
        while (given := connection.recv()) is not None:
            job, until = given
            for said in done(job, settings, Clock(until, parent)):
                connection.send((job, said))


def all_done(jobs: list[Job], settings: Settings, until: float, least: float, count: int) -> Iterator[tuple[Job, Said]]:
    """Yield what jobs say, so many side by side; one at a time on a CPU, in this process.

    Args:
        jobs: in order.
        until: when they must end.
        least: seconds that must be left to begin one; what the longest one took, if that is more.
        count: of processes.
    """
    waiting, longest = list(jobs), least

    def following() -> Job | None:
        return waiting.pop(0) if waiting and time.time() + longest <= until else None

    if settings.device == "cpu" and count == 1:
        while (job := following()) is not None:
            yield from ((job, said) for said in done(job, settings, Clock(until)))
        return
    context, workers = multiprocessing.get_context("spawn"), dict[Any, Any]()
    try:
        for job in iter(lambda: following() if len(workers) < count else None, None):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, settings), daemon=True)
            process.start()
            theirs.close()
            ours.send((job, until))
            workers[ours] = process
        while workers and time.time() < until + SUMMARY / 2:  # an epoch may be under way
            for connection in wait(list(workers), timeout=1.0):
                try:
                    job, said = connection.recv()
                except EOFError:
                    print(f"a process of {workers.pop(connection).name} ended: the machine may lack memory", flush=True)
                    continue
                yield job, said
                if isinstance(said, list):
                    continue
                longest = max(longest, said) if isinstance(said, float) else longest
                following_job = following()
                connection.send(None if following_job is None else (following_job, until))
                if following_job is None:
                    workers.pop(connection).join()
    finally:
        for process in workers.values():
            process.terminate()


def kept_rows(out: Path, piece: str) -> list[Row]:
    path = out / f"{piece}.csv"
    return results.read(path).rows if path.is_file() else []


def put(out: Path, piece: str, rows: list[Row]) -> None:
    """Add rows to the table of a piece, in place of those of the same numbers, whole or not at all."""
    by_place = {(row.run, row.metric, row.seed): row for row in [*kept_rows(out, piece), *rows]}
    with replaced_file(out / f"{piece}.csv") as partial_file:
        results.write(partial_file, by_place.values())


def read_made_by(out: Path) -> dict[str, Any]:
    path = out / "made_by.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def put_made_by(out: Path, made_by: dict[str, Any]) -> None:
    with replaced_file(out / "made_by.json") as partial_file:
        partial_file.write_text(json.dumps(made_by, indent=1) + "\n")


def started(settings: Settings, pieces: list[str], commit: str) -> dict[str, Any]:
    """Return what made_by.json says of all pieces, with those that begin.

    Raises:
        ValueError: one was begun by other code or settings.
    """
    made_by = read_made_by(settings.out)
    machine = kept.machine()
    for piece in pieces:
        params = json.loads(json.dumps(params_of(piece, toy=settings.toy)))
        fixed = {
            "commit": commit,
            "params": params | {"compute": {"precision": settings.precision, "device": settings.device}},
        }
        about = made_by.setdefault(piece, fixed | {"command": f"python -m studies.gpu --pieces {piece}", "jobs": {}})
        for key, value in fixed.items():
            if about[key] != value:
                raise ValueError(f"{settings.out}: {piece} was made with another {key}: choose another --out")
        about |= {"machine": machine, "hashes": {}}
    return made_by


def at_once(settings: Settings, processes: int | None, on_gpu: int) -> int:
    """Return how many trainings run side by side: those asked for, else one on a processor, several on a GPU."""
    return processes or (1 if settings.device == "cpu" else on_gpu)


def done_of(
    piece: str, missing: list[Job], settings: Settings, until: float, processes: int | None
) -> Iterator[tuple[Job, Said]]:
    """Do the missing jobs of a piece, and yield what they say; nothing if its time is over."""
    least = 0.0 if settings.toy else PIECES[piece].seconds
    if not missing or time.time() + least > until:
        return
    if WORK[piece] is rank:
        draw_scenes(settings, piece)
    yield from all_done(missing, settings, until, least, at_once(settings, processes, PIECES[piece].processes))


def work(settings: Settings, pieces: list[str], deadline: float, commit: str, processes: int | None = None) -> int:
    """Do what is missing of pieces until the deadline, and return how many jobs are not done."""
    made_by, gpu = started(settings, pieces, commit), kept.machine()["gpu"]
    summary_time = 0.0 if settings.toy else SUMMARY
    start, end, shares = time.time(), deadline - summary_time, sum(PIECES[piece].share for piece in pieces)
    share, ranked = 0.0, []

    def record(job: Job, said: Said) -> None:
        if isinstance(said, list):
            put(settings.out, job.piece, said)
        elif isinstance(said, float) and not (job.seed is None and job.piece in ranked):
            made_by[job.piece]["jobs"][job.name] = {"seconds": round(said, 1), "gpu": gpu}
            put_made_by(settings.out, made_by)
        if not isinstance(said, list):
            shown = f"took {said:.1f} s" if isinstance(said, float) else said
            print(f"{time.time() - start:6.1f} s  {job.piece}: {job.name} {shown}", flush=True)

    for piece in pieces:
        share += PIECES[piece].share / shares
        until = start + share * (end - start)
        missing = [job for job in jobs_of(piece, toy=settings.toy) if job.name not in made_by[piece]["jobs"]]
        if WORK[piece] is rank:
            ranked.append(piece)
        print(f"{time.time() - start:6.1f} s  {piece}: {len(missing)} jobs, {PIECES[piece].about}", flush=True)
        for job, said in done_of(piece, missing, settings, until, processes):
            record(job, said)
    runs = [
        (piece, run) for piece in ranked for run in dict.fromkeys(row.run for row in kept_rows(settings.out, piece))
    ]
    summaries = [Job(piece, run, None) for piece, run in runs]
    for job, said in all_done(summaries, settings, deadline, 0.0, at_once(settings, processes, 9)):
        record(job, said)
    return sum(job.name not in made_by[piece]["jobs"] for piece in pieces for job in jobs_of(piece, toy=settings.toy))


def keep(out: Path) -> None:
    """Write studies/made/<study> of each piece that has a table."""
    for piece, about in read_made_by(out).items():
        if rows := kept_rows(out, piece):
            print(kept.write(PIECES[piece].study, rows, about))


def commit_of(given: str | None, *, toy: bool) -> str:
    """Return the commit of the code.

    Raises:
        ValueError: git does not know it and it was not given, or the code is in none.
    """
    if given or not shutil.which("git"):
        found = given or ""
    else:
        head, changed = ("rev-parse", "HEAD"), ("status", "--porcelain", "--", "src", *CODE)
        found, changes = (
            subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.strip()
            for words in (head, changed)
        )
        if changes and not toy:
            raise ValueError(f"not in a commit: {changes}. Commit what makes the results first")
    if not found:
        raise ValueError("git knows no commit of the code here: name it, --commit HASH")
    return found


def main(arguments: list[str] | None = None) -> None:
    begun_at = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pieces", nargs="+", choices=PIECES, default=list(PIECES), metavar="PIECE", help=", ".join(PIECES)
    )
    parser.add_argument("--minutes", type=float, default=8.8, help="stop before so many")
    parser.add_argument(
        "--out", type=Path, default=Path(".gpu/kept"), help="folder of the tables; goes on with those there"
    )
    parser.add_argument("--scratch", type=Path, help="of scenes and unfinished trainings; by default in OUT")
    parser.add_argument("--mnist", type=Path, default=os.environ.get("RANKGRAD_MNIST_ROOT", "data/raw/mnist"))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--processes", type=int, help="trainings side by side")
    parser.add_argument("--commit", help="of the code, where git does not know it")
    parser.add_argument("--toy", action="store_true", help="tiny sizes, a trial")
    parser.add_argument("--list", action="store_true", help="say what there is to do, and what is done")
    parser.add_argument("--keep", type=Path, metavar="OUT", help="write studies/made/ from such a folder")
    given = parser.parse_args(arguments)
    if given.keep:
        keep(given.keep)
        return
    pieces = [piece for piece in PIECES if piece in given.pieces]
    if given.list:
        made_by = read_made_by(given.out)
        for piece in pieces:
            jobs, there = jobs_of(piece, toy=given.toy), made_by.get(piece, {}).get("jobs", {})
            print(f"{piece}: {len(there)} of {len(jobs)} jobs done; {PIECES[piece].about}")
        return
    device = find_device(given.device).type
    scratch = given.scratch or given.out / "scratch"
    settings = Settings(given.out.absolute(), scratch.absolute(), Path(given.mnist), device, given.toy)
    left = work(
        settings, pieces, begun_at + 60 * given.minutes, commit_of(given.commit, toy=given.toy), given.processes
    )
    print(f"{time.time() - begun_at:6.1f} s  {left} jobs are left" if left else "all is done", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
