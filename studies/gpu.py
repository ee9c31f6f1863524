"""Run the papers' GPU work, the most useful per minute first: `python -m studies.gpu` resumes where it stopped.

It needs rankgrad with its extra `tasks`, and MNIST. Estimates for one H100, from studies/made/subset_224 and full_224:
table_1 has 90 trainings of 13 seconds each, own_protocol 9 of up to two minutes, and table_2 9 of a minute; sodeep uses
all of its share, and timings take a minute. 15 minutes are therefore enough for a part: carry the kept results to the
next machine, or choose `--pieces`. Each piece has a share of the time; an unfinished training continues in the next
call on the same machine.

Here, in the root of the repository that the tool `device` sends, with the code in a commit:

    echo /.gpu/ >> .git/info/exclude
    mkdir -p .gpu/mnist .gpu/kept
    find "$RANKGRAD_MNIST_ROOT" -name '*-ubyte.gz' -exec cp {} .gpu/mnist ';'
    git rev-parse HEAD > .gpu/kept/commit

There, by `run` with `carry` [".gpu/mnist", ".gpu/kept"], `timeout_s` 560, without `kind`, and this command; to choose
pieces, add, for example, `--pieces own_protocol`:

    cp .gpu/kept/* $OUT; export PYTHONPATH=src OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1; nvidia-smi -L;
    python3 -m studies.gpu --out $OUT --scratch .gpu/scratch --mnist .gpu/mnist --commit $(cat $OUT/commit)

One table per piece comes back, with made_by.json: copy them from `files_at` to .gpu/kept before the next call. The
scratch folder, with scenes, predictions, and unfinished trainings, stays on the machine while it is held.

torchsort and LapSum (github.com/gmum/LapSum, its folder lapsum) are timed if they can be imported. Both must be built:
carry their unpacked sources as .gpu/src/torchsort and .gpu/src/lapsum, and prepend
`python3 -m pip install -q --no-index --no-deps --no-build-isolation --target .gpu/site .gpu/src/*;` to the command,
with PYTHONPATH=.gpu/site:src. That takes minutes, so use a separate call with `--pieces timings`.

A table is the results.csv of a study, and made_by.json has the other arguments of `studies.kept.write`, one block per
piece. Here, `python -m studies.gpu --keep .gpu/kept` writes them to studies/made/; `PIECES` has the names.
"""

import argparse
import json
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch
from ruamel.yaml import YAML
from torch import Tensor, nn

from pipelines.config.schema import typed
from pipelines.stages.pretrain import ImitationPhase
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes import layout, mnist
from rankgrad.datasets.scenes.digits import DIGITS_OF, Digits
from rankgrad.datasets.scenes.digits import splits as digits_by_split
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
from rankgrad.tasks.label_ranking import LabelRanking
from rankgrad.training.device import find_device
from rankgrad.training.loop import fit, train
from rankgrad.training.objective import Objective
from rankgrad.training.options import Component, Imitation
from studies import calibration, kept
from studies.figures.rlsep_scenes import calibration_recipes
from studies.times.cuda import LONGEST, OPERATORS, cost, operator

FILE = Path(__file__).with_suffix(".yaml")
SPLITS = ("train", "val", "test", "calibration")  # calibration has digits of exactly four scales
RESAMPLES, CURVE = 1000, 25  # resamples for intervals; epochs between validation values in a curve
LENGTH, PAPERS_VECTORS = 100, 40_000_000  # SoDeep's
CODE = ("src", "studies/*.py", "studies/gpu.yaml", "studies/times")
SUMMARY = 40.0  # seconds reserved for intervals at the end


class Job(NamedTuple):
    """A run of a piece with a seed; for a ranker, the seed None stands for the summary over seeds."""

    piece: str
    run: str
    seed: int | None

    @property
    def name(self) -> str:
        return self.run if self.seed is None else f"{self.run}, seed {self.seed}"


@dataclass(frozen=True)
class Piece:
    """A part of the work.

    Attributes:
        study: its name below studies/made/.
        about: a description.
        share: the fraction of the time.
        processes: the number of trainings side by side on one GPU.
        seconds: the time that must be left to start a job.
        runs, datasets: blocks in the form of params.yaml.
        seeds: the seeds of each run; empty if it has none.
    """

    study: str
    about: str
    share: float
    processes: int
    seconds: float
    runs: dict[str, Any]
    datasets: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()

    def jobs(self, name: str) -> list[Job]:
        """Return its jobs, all runs of a seed before the next seed."""
        jobs = []
        for seed in self.seeds or (None,):
            jobs += [Job(name, run, seed) for run in self.runs]
        return jobs


@cache
def pieces_of(*, toy: bool) -> dict[str, Piece]:
    """Return the pieces in gpu.yaml by name; for a trial, everything is small."""
    content = YAML(typ="safe").load(FILE)
    if toy:
        content = replaced(content, content["toy"])
    pieces = {}
    for name, block in content["pieces"].items():
        seeds = tuple(range(1, block.pop("seeds", 0) + 1))
        if name == "timings":
            block["runs"] = dict.fromkeys(OPERATORS, content["timings"])
        if "run" in block:
            run, title = block.pop("run") | {"seeds": list(seeds)}, block.pop("losses")
            losses = {loss: {"name": loss, "args": args} for loss, args in content["losses"].items()}
            block["runs"] = {title.format(loss): run | {"loss": component} for loss, component in losses.items()}
        pieces[name] = Piece(**block, seeds=seeds)
    return pieces


def replaced(value: Any, options: dict[str, Any]) -> Any:
    """Return nested options, with new values wherever these names occur."""
    if isinstance(value, dict):
        return {key: options.get(key, replaced(inner, options)) for key, inner in value.items()}
    return value


PIECES = pieces_of(toy=False)


class OutOfTimeError(Exception):
    """The time is over before a job is."""


@dataclass(frozen=True)
class Settings:
    """Settings that all jobs share."""

    out: Path
    scratch: Path
    mnist: Path
    device: str
    toy: bool

    @property
    def precision(self) -> str:
        return "bf16" if self.device == "cuda" else "no"

    @property
    def resamples(self) -> int:
        return 20 if self.toy else RESAMPLES

    def piece(self, name: str) -> Piece:
        return pieces_of(toy=self.toy)[name]

    def run(self, job: Job) -> dict[str, Any]:
        return self.piece(job.piece).runs[job.run]

    def folder(self, use: str, job: Job) -> Path:
        return self.scratch / use / job.piece / f"{job.run}-{job.seed}"


def check_time(until: float) -> None:
    if time.time() > until:
        raise OutOfTimeError


# --- Scenes: drawn once on the machine with the GPU; each process loads them onto the GPU. ---


def scene_file(settings: Settings, piece: str, split: str) -> Path:
    return settings.scratch / "scenes" / f"{piece}-{split}.pt"


def draw_scenes(settings: Settings, piece: str) -> None:
    """Draw the missing scenes of a piece; they equal those of the pipeline's stage up to rounding."""
    missing = [split for split in SPLITS if not scene_file(settings, piece, split).is_file()]
    (block,) = settings.piece(piece).datasets.values()
    dataset = RankedMnist(rows=block["rows"], seed=block["seed"], **block["args"])
    for split in missing:
        digits = every_digit(settings)["test" if split == "calibration" else DIGITS_OF[split]]
        rows = (16 if settings.toy else 2000) if split == "calibration" else block["rows"][split]
        scenes = drawn_scenes(dataset, digits, split, rows, find_device(settings.device))
        with replaced_file(scene_file(settings, piece, split)) as partial_file:
            torch.save(scenes, partial_file)


def drawn_scenes(dataset: RankedMnist, digits: Digits, split: str, rows: int, device: torch.device) -> list[Tensor]:
    """Return images, label ranks, and sizes of a split; images are drawn on the device."""
    on_device = Digits(digits.glyph.to(device), digits.images.to(device), digits.labels.to(device))
    draws = generator(dataset.seed, dataset.name, split)
    pieces = []
    for start, count in layout.pieces(rows, pixels=dataset.canvas**2, most=dataset.piece):
        if split == "calibration":
            recipe = calibration_recipes(digits, count, canvas=dataset.canvas, generator=draws)
        else:
            recipe = dataset.draw(digits, range(start, start + count), draws)
        moved = {name: values.to(device) for name, values in recipe.items()}
        pieces.append((dataset.pictures(moved, on_device).cpu(), recipe["label_ranks"], recipe["size"]))
    return [torch.cat(values) for values in zip(*pieces, strict=True)]


@cache
def every_digit(settings: Settings) -> dict[str, Digits]:
    if settings.toy:
        return digits_by_split("subset", "data/raw/subset")
    folder = settings.scratch / "mnist"
    if not (folder / next(iter(mnist.FILES))).is_file():
        mnist.copy(settings.mnist, folder)
    return digits_by_split("mnist", folder)


@cache
def scenes(settings: Settings, piece: str, split: str) -> tuple[Split, Tensor]:
    """Return a split on the device, and the sizes of its digits."""
    images, label_ranks, size = torch.load(scene_file(settings, piece, split), weights_only=True)
    return Split(of_tensor(images.to(find_device(settings.device))), label_ranks), size


# --- Jobs: each returns its rows, or raises when its time is over. ---


def rank(job: Job, settings: Settings, until: float) -> list[Row]:
    """Train a label ranker, test it, and measure how its scores depend on the sizes of digits."""
    if job.seed is None:
        return summary(job, settings)
    run = settings.run(job)
    task_of = lookup.find("tasks", run["task"])
    task = task_of(typed(task_of.Training, run["training"]))
    (training, _), (val, _), (test, size), (steps, scales) = (scenes(settings, job.piece, split) for split in SPLITS)
    network = task.build(run["model"], training, seed=job.seed)
    epochs = train(
        task,
        network,
        training,
        val,
        objective=Objective(Component(**run["loss"]), device=find_device(settings.device)),
        seed=job.seed,
        name=job.name,
        device=settings.device,
        precision=settings.precision,
        checkpoint=settings.folder("epochs", job),
    )
    reached = defaultdict(list)  # the values on validation of each phase
    for phase, epoch in epochs:
        reached[phase].append(epoch.value)
        check_time(until)
    table = task.predict(network, test)
    with replaced_file(settings.folder("predictions", job)) as partial_file:
        pq.write_table(table, partial_file)

    statistic = task.statistic(table)
    values: dict[str, Any] = dict(zip(statistic.names, statistic.of_all(), strict=True))
    validation = reached["scorer"]
    values |= {"epochs": {phase: len(epochs) for phase, epochs in reached.items()}, "validation": max(validation)}
    for number in range(CURVE, len(validation) + 1, CURVE):
        values[f"validation after {number} epochs"] = validation[number - 1]
    values["size"] = correlations(matrix(table, "scores", path="predictions"), size)
    values["calibration"] = calibrated(task.scores(network, steps.inputs)[0], scales)
    remove_folder(settings.folder("epochs", job))
    return [row._replace(seed=job.seed) for row in results.rows_of(job.run, values)]


def correlations(scores: Tensor, size: Tensor) -> dict[str, float]:
    """Return the correlations of scores of present digits with their sizes (n, K), over all images."""
    pair = torch.stack([scores[size > 0].double(), size[size > 0].double()])
    return {"spearman": spearman(*pair).item(), "pearson": torch.corrcoef(pair)[0, 1].item()}


def calibrated(scores: Tensor, size: Tensor) -> dict[str, Any]:
    """Return scores by true scale and the overlap of neighboring scales, see `studies.calibration.groups_of`."""
    groups = calibration.groups_of(scores, size)
    ordered = calibration.exactly_ordered(groups).mean()
    return calibration.moments(groups) | calibration.overlaps(groups) | {"exactly_ordered": ordered}


def summary(job: Job, settings: Settings) -> list[Row]:
    """Return the means over all seeds of a run; test metrics get an interval if all predictions are still here."""
    table = results.Results(job.piece, kept_rows(settings.out, job.piece))
    seeds = list(table.by_seed(job.run, LabelRanking.metrics[0].name))
    rows = {}
    for metric in dict.fromkeys(row.metric for row in table.rows if row.run == job.run):
        values = table.by_seed(job.run, metric)
        if len(values) == len(seeds):
            rows[metric] = Row(job.run, metric, fmean(values.values()))
    tables = {seed: settings.folder("predictions", job._replace(seed=seed)) for seed in seeds}
    if seeds and all(path.is_file() for path in tables.values()):
        statistics = {seed: LabelRanking().statistic(pq.read_table(path)) for seed, path in tables.items()}
        bounded = evaluate(job.run, statistics, resamples=settings.resamples, seed=derived_seed(1, "evaluate"))
        rows |= {row.metric: row for row in bounded if row.seed is None}
    return list(rows.values())


@torch.no_grad()
def errors(sorter: nn.Module, scores: Tensor) -> Tensor:
    """Return L1 / d for each vector."""
    ranks = torch.cat([sorter(piece) for piece in scores.split(2048)])
    return (ranks - exact_ranks(scores)).abs().double().mean(1) / scores.shape[1]


def imitate(job: Job, settings: Settings, until: float) -> list[Row]:
    """Train a sorter for as many epochs as time allows, and measure it on test vectors."""
    run, device, seed = settings.run(job), find_device(settings.device), 1
    folder, size = settings.folder("epochs", job), run["training"]["epoch_size"]
    splits = [drawn_vectors(split, run["vectors"][split], device) for split in ("train", "val")]
    test, _ = drawn_vectors("test", 128 if settings.toy else 10_000, device)

    def phase(epochs: int) -> ImitationPhase:
        sorter = build("sorters", job.run.split("-")[0], run["args"], seed=seed, length=LENGTH).to(device)
        options = typed(Imitation, run["training"] | {"epochs": epochs, "patience": epochs})
        return ImitationPhase(sorter, *splits, options)

    fitted = partial(fit, seed=seed, device=settings.device, precision="no", name=job.name)
    plan = folder / "epochs.json"
    if not plan.is_file():  # the learning rate falls to 0 at the last epoch, so their number must be known
        ended = [time.time() for _ in fitted(phase(2))]
        possible = int(0.9 * (until - time.time()) / (ended[1] - ended[0]))
        with replaced_file(plan) as partial_file:
            partial_file.write_text(json.dumps(2 if settings.toy else max(2, min(PAPERS_VECTORS // size, possible))))
    count = json.loads(plan.read_text())
    learned, curve = phase(count), {}
    for epoch in fitted(learned, checkpoint=folder):
        if epoch.number % max(1, count // 20) == 0:
            curve[f"validation l1 after {epoch.number * size:,} vectors"] = epoch.value
        check_time(until)
    remove_folder(folder)

    sorter, of_vector = learned.module, errors(learned.module, test).cpu().numpy()
    l1 = interval(of_vector, resamples=settings.resamples, seed=derived_seed(0, "benchmark_sorters"))
    health = measures.gradient_health(sorter, test[: 2 if settings.toy else 40])
    values = curve | {
        "exact_ranks": measures.accuracy(sorter, test[:2048])["exact_ranks"],
        "gradient.vanishing": health["vanishing"],
        "gradient.wrong_signs_of_others": health["wrong_signs_of_others"],
        "parameters": sum(parameter.numel() for parameter in sorter.parameters()),
        "vectors": count * size,
    }
    return [*results.rows_of(job.run, {"l1": l1, **values})]


def drawn_vectors(split: str, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the score vectors of a split, and their exact ranks."""
    scores = score_vectors.draw(rows, LENGTH, generator(1, "score_vectors", split))[0].to(device)
    return scores, exact_ranks(scores)


def measure(job: Job, settings: Settings, until: float) -> list[Row]:
    """Time an operator; skip it if it is not installed, and skip lists that need too much time or memory."""
    device, row, rows = find_device(settings.device), partial(Row, job.run), []
    for batch in settings.run(job)["batches"]:
        for length in settings.run(job)["lengths"]:
            check_time(until)
            shown = f"n = {length:,}, batch {batch}"
            scores = torch.randn(batch, length, generator=torch.Generator().manual_seed(length)).to(device)
            try:
                measured = cost(operator(job.run, (batch, length), device), scores)
            except ImportError as error:
                print(f"{job.run} left out: {error}", flush=True)
                return [row("installed", 0.0)]
            except RuntimeError as error:  # such as out of memory
                print(f"{job.run}, {shown} left out: {error}", flush=True)
                rows.append(row(f"left out, {shown}", 1.0))
                torch.cuda.empty_cache()
                break
            rows += [row(f"{column}, {shown}", value) for column, value in measured.items()]
            if measured["ms"] > LONGEST:
                break
    return rows


# --- Run jobs side by side within the time, and keep each result as soon as it is there. ---

WORK: dict[str, Callable[[Job, Settings, float], list[Row]]] = {
    "table_1": rank, "own_protocol": rank, "table_2": rank, "sodeep": imitate, "timings": measure,
}  # fmt: skip


def is_summary(job: Job) -> bool:
    return job.seed is None and WORK[job.piece] is rank


@dataclass(frozen=True)
class Done:
    """The result of a job: its rows and seconds, or the reason why it was not done."""

    rows: list[Row]
    seconds: float
    reason: str = ""


def done(job: Job, settings: Settings, until: float) -> Done:
    """Do a job if there is time to start it; if it fails, the others continue."""
    begun = time.time()
    if begun + (0 if is_summary(job) else settings.piece(job.piece).seconds) > until:
        return Done([], 0.0, "is not begun: its time is over")
    try:
        rows = WORK[job.piece](job, settings, until)
    except OutOfTimeError:
        return Done([], 0.0, "is not over: it goes on in the next call")
    except Exception as error:
        traceback.print_exc()
        return Done([], 0.0, f"failed: {error}")
    return Done(rows, time.time() - begun)


def start_worker() -> None:
    """Prepare a worker process; it ends when its parent ends."""
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def all_done(jobs: list[Job], settings: Settings, until: float, processes: int) -> Iterator[tuple[Job, Done]]:
    """Do several jobs side by side and yield their results; a single one at a time runs in this process."""
    if processes == 1 and settings.device == "cpu":
        for job in jobs:
            yield job, done(job, settings, until)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=start_worker) as pool:
        futures = {pool.submit(done, job, settings, until): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                yield futures[future], Done([], 0.0, "failed: its process ended, the machine may lack memory")


def kept_rows(out: Path, piece: str) -> list[Row]:
    path = out / f"{piece}.csv"
    return results.read(path).rows if path.is_file() else []


def put(out: Path, piece: str, rows: list[Row]) -> None:
    """Add rows to the table of a piece atomically, replacing rows with the same key."""
    by_key = {row.key: row for row in [*kept_rows(out, piece), *rows]}
    with replaced_file(out / f"{piece}.csv") as partial_file:
        results.write(partial_file, by_key.values())


def read_made_by(out: Path) -> dict[str, Any]:
    path = out / "made_by.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def put_made_by(out: Path, made_by: dict[str, Any]) -> None:
    with replaced_file(out / "made_by.json") as partial_file:
        partial_file.write_text(json.dumps(made_by, indent=1) + "\n")


def started(settings: Settings, names: list[str], commit: str) -> dict[str, Any]:
    """Return the contents of made_by.json, with an entry for each piece that starts.

    Raises:
        ValueError: a piece was started with other code or settings.
    """
    made_by = read_made_by(settings.out)
    for name in names:
        piece = settings.piece(name)
        compute = {"precision": settings.precision, "device": settings.device}
        params = json.loads(json.dumps({"runs": piece.runs, "datasets": piece.datasets, "compute": compute}))
        command = f"python -m studies.gpu --pieces {name}"
        about = made_by.setdefault(name, {"commit": commit, "params": params, "command": command, "jobs": {}})
        for key, value in (("commit", commit), ("params", params)):
            if about[key] != value:
                raise ValueError(f"{settings.out}: {name} was made with another {key}: choose another --out")
        about |= {"machine": kept.machine(), "hashes": {}}
    return made_by


def work(settings: Settings, names: list[str], deadline: float, commit: str, processes: int | None = None) -> int:
    """Do the missing jobs of pieces until the deadline, and return how many remain."""
    made_by, gpu = started(settings, names, commit), kept.machine()["gpu"]
    start = time.time()
    end = deadline if settings.toy else deadline - SUMMARY
    shares, share = sum(PIECES[name].share for name in names), 0.0

    def report(line: str) -> None:
        print(f"{time.time() - start:6.1f} s  {line}", flush=True)

    def run_all(jobs: list[Job], until: float, side_by_side: int) -> None:
        count = processes or (1 if settings.device == "cpu" else side_by_side)
        for job, result in all_done(jobs, settings, until, count):
            report(f"{job.piece}: {job.name} {result.reason or f'took {result.seconds:.1f} s'}")
            if result.rows:
                put(settings.out, job.piece, result.rows)
            if not result.reason and not is_summary(job):
                made_by[job.piece]["jobs"][job.name] = {"seconds": round(result.seconds, 1), "gpu": gpu}
                put_made_by(settings.out, made_by)

    def missing(name: str) -> list[Job]:
        return [job for job in settings.piece(name).jobs(name) if job.name not in made_by[name]["jobs"]]

    # Each piece has its share of the time, plus what earlier pieces left over.
    for name in names:
        share += PIECES[name].share / shares
        jobs = missing(name)
        report(f"{name}: {len(jobs)} jobs, {PIECES[name].about}")
        if jobs and WORK[name] is rank:
            draw_scenes(settings, name)
        run_all(jobs, start + share * (end - start), PIECES[name].processes)

    # Summarize all rankers that have results over their seeds.
    summaries = []
    for name in names:
        if WORK[name] is rank:
            runs = dict.fromkeys(row.run for row in kept_rows(settings.out, name))
            summaries += [Job(name, run, None) for run in runs]
    run_all(summaries, deadline, 9)
    return sum(len(missing(name)) for name in names)


def keep(out: Path) -> None:
    """Write studies/made/<study> for each piece that has a table."""
    for piece, about in read_made_by(out).items():
        if rows := kept_rows(out, piece):
            print(kept.write(PIECES[piece].study, rows, about))


def parsed(arguments: list[str] | None) -> argparse.Namespace:
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
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    begun, options = time.time(), parsed(arguments)
    if options.keep:
        keep(options.keep)
        return
    names = [name for name in PIECES if name in options.pieces]
    if options.list:
        made_by = read_made_by(options.out)
        for name in names:
            jobs = pieces_of(toy=options.toy)[name].jobs(name)
            finished = made_by.get(name, {}).get("jobs", {})
            print(f"{name}: {len(finished)} of {len(jobs)} jobs done; {PIECES[name].about}")
        return
    scratch = options.scratch or options.out / "scratch"
    device = find_device(options.device).type
    settings = Settings(options.out.absolute(), scratch.absolute(), Path(options.mnist), device, options.toy)
    commit = options.commit or ("" if options.toy else kept.commit_of(*CODE))
    left = work(settings, names, begun + 60 * options.minutes, commit, options.processes)
    print(f"{time.time() - begun:6.1f} s  {left} jobs are left" if left else "all is done", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
