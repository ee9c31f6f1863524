"""Train one run: each seed, in each fold of its data, with the best setting of its grid on validation.

Seeds, folds, and settings are independent jobs. They run in parallel (`jobs` in the params), each can be resumed
separately, and results are identical on any number of parallel jobs.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from statistics import fmean, median_low
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from joblib import Parallel, cpu_count, delayed, parallel_config

from pipelines.config import Run, Settings, resolve
from pipelines.ops.messages import first_line, without_credentials
from pipelines.ops.process import tie_to, tie_to_starter, tied
from pipelines.running.history import Times, began, followed, keep_times
from pipelines.running.runner import FEATURES, checkpoint_folder
from pipelines.stages._splits import data_of
from rankgrad import lookup
from rankgrad.datasets.files.folds import REGISTERED, join
from rankgrad.io.atomic import remove_folder, replaced_folder
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.io.recipes import name_of
from rankgrad.io.starts import start_from, with_files
from rankgrad.sorters import load_sorter
from rankgrad.training.device import find_device, make_accelerator
from rankgrad.training.loop import train
from rankgrad.training.objective import Objective

JOINED = "joined"  # folder beside the jobs for training and validation rows in one split
CHOOSING = 3  # number of seeds for choosing a setting of the grid


class Job(NamedTuple):
    """An independent training: the number of a setting, a seed, and a fold (see `trained_folds`).

    A refit trains the model to register on training and validation rows, for as many epochs as were best before: in its
    `histories`, the folds whose models have its setting, and itself.
    """

    setting: int
    seed: int
    fold: int | None
    histories: Sequence[int | None] = ()

    @property
    def refit(self) -> bool:
        return len(self.histories) > 0


def main(params: Settings, name: str) -> None:
    run = params.runs[name]
    dataset = params.datasets[run.dataset]
    folder = checkpoint_folder(
        params,
        "train",
        name,
        settings=resolve(params, name).values() | {"compute": params.compute.model_dump()},
        inputs=_inputs(params, name),
    )
    settings = run.settings
    first = run.seeds[:CHOOSING] if len(settings) > 1 else []  # a single setting needs no choice
    numbers = range(len(settings))
    tried = _trained(params, name, [Job(*values) for values in product(numbers, first, dataset.fold_numbers)], folder)
    chosen = {fold: _best(tried, numbers, fold) for fold in dataset.trained_folds}
    jobs = [Job(number, seed, fold) for seed, (fold, number) in product(run.seeds, chosen.items())]
    validation = _trained(params, name, jobs, folder)
    if run.refit:
        registered = [job for job in jobs if not job.fold]
        data = data_of(params, run.dataset, registered[0].fold, folder / "registered", ["train", "val"])
        join(data, folder / JOINED)
        refits = {}
        for job in registered:
            histories = [fold for fold, number in chosen.items() if number == job.setting]
            refits[job] = job._replace(histories=tuple(histories))
        _trained(params, name, [*refits.values()], folder)
        jobs = [refits.get(job, job) for job in jobs]
    with replaced_folder(f"models/runs/{name}") as target:
        for job in jobs:
            result, kept = folder / _key(settings, job) / "result", target / name_of(job.seed, job.fold)
            copytree(result, kept, ignore=ignore_patterns("validation.json"), copy_function=copyfile)
        record = _record(run, tried, chosen, validation)
        starts = {_start(params, name, job) for job in jobs if not job.fold}
        if starts != {None} and len(starts) < len(run.seeds):
            record["shared_start"] = str(starts.pop())
        (target / "run.json").write_text(json.dumps(record, indent=2) + "\n")
    keep_times("train", name, Path("models/runs") / name, _times(folder, settings, jobs))
    remove_folder(folder)


def _record(
    run: Run, tried: dict[Job, float], chosen: dict[int | None, int], validation: dict[Job, float]
) -> dict[str, Any]:
    """Return the contents of `run.json`: the chosen setting, the best seed, and all validation results.

    A validation result is the best value of the metric that chose the epoch, negated if a lower value is better.
    """
    settings = run.settings
    by_seed = _by_seed({job: value for job, value in validation.items() if job.fold != REGISTERED})
    record: dict[str, Any] = {
        "seeds": run.seeds,
        "best": max(run.seeds, key=lambda seed: by_seed[str(seed)]),
        "setting": settings[next(iter(chosen.values()))],
        "tried": [],
        "validation": by_seed,
    }
    for number, setting in enumerate(settings if tried else []):
        of_setting = {job: value for job, value in tried.items() if job.setting == number}
        record["tried"].append({"setting": setting, "validation": _by_seed(of_setting)})
    for fold, number in chosen.items():
        if fold:
            of_fold = {job: value for job, value in validation.items() if job.fold == fold}
            entry = {"fold": fold, "setting": settings[number], "validation": _by_seed(of_fold)}
            record.setdefault("folds", []).append(entry)
    return record


def _best(tried: dict[Job, float], settings: Iterable[int], fold: int | None) -> int:
    """Return the number of the best setting on a fold's validation split; the first if none were tried.

    The model to register takes the setting that is best over all folds.
    """

    def mean(setting: int) -> float:
        values = [value for job, value in tried.items() if job.setting == setting and fold in (job.fold, REGISTERED)]
        return fmean(values or [0.0])

    return max(settings, key=mean)


def _by_seed(validation: dict[Job, float]) -> dict[str, float]:
    """Return the mean over folds of each seed."""
    by_seed: dict[str, list[float]] = {}
    for job, value in validation.items():
        by_seed.setdefault(str(job.seed), []).append(value)
    return {seed: fmean(values) for seed, values in by_seed.items()}


def _times(folder: Path, settings: list[dict[str, Any]], jobs: list[Job]) -> dict[str, Times]:
    """Return when each seed started and ended with the chosen setting, and under `all`, the times of all settings."""
    ended = {path.parent.parent: path.stat().st_mtime_ns // 10**6 for path in folder.glob("*/result/validation.json")}
    times = {job: (begin, end) for job, end in ended.items() if (begin := began(job)) is not None}
    if len(times) < len(ended):  # a job finished before times were recorded
        return {}
    by_seed: dict[str, list[Times]] = {"all": list(times.values())}
    for job in jobs:
        by_seed.setdefault(str(job.seed), []).append(times[folder / _key(settings, job)])
    result = {}
    for seed, of_jobs in by_seed.items():
        begins, ends = zip(*of_jobs, strict=True)
        result[seed] = (min(begins), max(ends))
    return result


def _inputs(params: Settings, name: str) -> list[Path]:
    """Return the files that training a run reads: its data, and the weights of its start and its sorter.

    Raises:
        FileNotFoundError: a file is missing.
    """
    plan = resolve(params, name)
    inputs = [Path("data") / plan.dataset / f"{split}.parquet" for split in ("train", "val")]
    if plan.start is not None:
        for seed, fold in product(plan.seeds, params.datasets[plan.dataset].trained_folds):
            start = _start(params, name, Job(0, seed, fold)) or plan.start  # no setting of the grid changes it
            inputs.append(start if start.suffix == ".safetensors" else start / "model.safetensors")
        inputs = list(dict.fromkeys(inputs))  # seeds may share a start
    if plan.sorter is not None:
        inputs += [Path("models/sorters") / plan.sorter / file for file in ("model.json", "model.safetensors")]
    if missing := [path for path in inputs if not path.is_file()]:
        raise FileNotFoundError(
            f"{missing[0]}: no such file; if it is an output of the pipeline, `dvc repro` creates it"
        )
    return inputs


def _start(params: Settings, name: str, job: Job) -> Path | None:
    """Return the start of a job: for a run, its model with the same seed, or the model of its only seed.

    A seed's folder is used as is. If the run was trained on the same folds, use the model of the same fold.
    """
    plan = resolve(params, name)
    before = params.run_before(name)
    if plan.start is None or before is None or plan.start.name.startswith("seed"):
        return plan.start
    seed = job.seed if job.seed in before.seeds else before.seeds[0]
    return plan.start / name_of(seed, job.fold if before.dataset == plan.dataset else None)


def _key(settings: list[dict[str, Any]], job: Job) -> str:
    """Return the name of a job's folder, which is unique for each setting, even if the grid changes."""
    name, setting = f"seed{job.seed}" + (f"-fold{job.fold}" if job.fold else ""), settings[job.setting]
    if job.refit:
        name += f"-refit{''.join(f'-{fold}' for fold in job.histories if fold is not None)}"
    text = json.dumps(setting, sort_keys=True)
    return f"{name}-{sha256(text.encode()).hexdigest()[:12]}" if setting else name


def _named(settings: list[dict[str, Any]], job: Job) -> str:
    """Return a job's name in messages."""
    words = [f"seed{job.seed}", *([f"fold{job.fold}"] if job.fold else []), *(["refit"] if job.refit else [])]
    return ", ".join([*words, *(f"{option}={value}" for option, value in settings[job.setting].items())])


def _side_by_side(params: Settings) -> int:
    """Return the number of parallel trainings of a run: `jobs.count`, limited by the cores of this process.

    Two processes whose threads compete for cores would both be many times slower. A stage that runs beside others may
    use the cores of its slot, see `pipelines.ops.side_by_side.slots_of`.
    """
    if params.jobs.backend != "loky" or find_device(params.compute.device).type != "cpu":
        return params.jobs.count
    return min(params.jobs.count, max(1, cpu_count() // params.compute.threads))


def _trained(params: Settings, name: str, jobs: list[Job], folder: Path) -> dict[Job, float]:
    """Train jobs in parallel and return the validation metric of each.

    Raises:
        ValueError, FloatingPointError: a job failed; the message names it, and the results of other jobs are kept.
    """
    settings = params.runs[name].settings
    waiting = [job for job in jobs if not (folder / _key(settings, job) / "result").is_dir()]
    at_once = min(_side_by_side(params), len(waiting))
    if at_once > 1 or (waiting and params.jobs.backend != "loky"):
        with parallel_config(params.jobs.backend, **_backend(params)):
            errors = Parallel(n_jobs=at_once, batch_size=1)(
                delayed(_job)(params, name, job, str(folder), number, str(Path.cwd()))
                for number, job in enumerate(waiting)
            )
    else:
        errors = [_job(params, name, job, str(folder), 0, None) for job in waiting]
    _check_failed({_named(settings, job): error for job, error in zip(waiting, errors, strict=True)}, name)
    results = {job: folder / _key(settings, job) / "result/validation.json" for job in jobs}
    return {job: json.loads(path.read_text())["worth"] for job, path in results.items()}


def _check_failed(errors: dict[str, str | None], name: str) -> None:
    failed = {job: error for job, error in errors.items() if error is not None}
    if failed:
        raise ValueError(
            "\n".join(f"{name}: {job} failed: {error}" for job, error in failed.items())
            + f"\n{len(errors) - len(failed)} of {len(errors)} jobs are done; `dvc repro` trains those that failed"
        )


def _backend(params: Settings) -> dict[str, Any]:
    """Connect to a cluster, and return joblib's options for it.

    Raises:
        ValueError: there is no response from the address.
    """
    if params.jobs.backend == "dask" and params.jobs.address is not None:
        from distributed import Client

        try:
            Client(params.jobs.address, timeout="10s")
        except (OSError, ValueError) as error:
            raise ValueError(
                f"jobs.address: no Dask scheduler answers at {without_credentials(params.jobs.address)} "
                f"({first_line(error)}): start one, or set jobs.backend to loky"
            ) from error
    elif params.jobs.backend == "loky":  # before imports, because the stage may be killed meanwhile
        return {"initializer": tie_to, "initargs": (os.getpid(),)}
    return {}


def _job(params: Settings, name: str, job: Job, folder: str, number: int, started: str | None) -> str | None:
    """Train one job; return an error, or None.

    Args:
        started: the working folder of the process that started this job in another process; None in the same process.
    """
    if started is not None:
        os.chdir(started)
        if params.compute.device != "cpu" and "CUDA_VISIBLE_DEVICES" not in os.environ:
            os.environ["CUDA_VISIBLE_DEVICES"] = str(number % max(1, torch.cuda.device_count()))
    torch.set_num_threads(params.compute.threads)
    job_folder = Path(folder) / _key(params.runs[name].settings, job)
    job_folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(job_folder / ".lock", timeout=20):
            if (job_folder / "result").is_dir():
                return None
            data_of(params, params.runs[name].dataset, job.fold, job_folder / "data", ["train", "val"])
            if params.compute.processes > 1:
                _launch(params, name, job, job_folder)
            else:
                train_one(params, name, job, job_folder)
            remove_folder(job_folder / "data")
    except (ValueError, OSError, FloatingPointError) as error:
        if os.environ.get("RANKGRAD_TRACEBACK"):
            raise
        return str(error)
    except Exception as error:  # an exception would lose its message on the way to the parent process
        memory_is_full = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if memory_is_full or not lookup.line_in_own(error) or os.environ.get("RANKGRAD_TRACEBACK"):
            raise
        return lookup.raised_at(error)
    return None


def _launch(params: Settings, name: str, job: Job, folder: Path) -> None:
    """Train one job in several processes that share every batch, started like `accelerate launch` does.

    Raises:
        ValueError: there are GPUs, but fewer than processes.
        ChildProcessError: a process failed.
    """
    processes, gpus = params.compute.processes, torch.cuda.device_count()
    if params.compute.device != "cpu" and 0 < gpus < processes:
        raise ValueError(
            f"compute.processes is {processes}, but there are {gpus} GPUs: expected at most one process per GPU"
        )
    arguments = folder / "arguments.json"
    arguments.write_text(json.dumps([params.model_dump(), name, job, str(folder)]))
    command = tied(
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)),
        *("-m", __name__, str(arguments)),
    )
    # They communicate only over the loopback interface.
    loopback = "lo" if sys.platform == "linux" else "lo0"
    environment = os.environ | {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
    environment |= {"OMP_NUM_THREADS": str(max(1, params.compute.threads // processes))}
    done = subprocess.run(command, check=False, env=environment)
    if done.returncode:
        raise ChildProcessError(
            f"one of {processes} processes failed (exit status {done.returncode}), see above; `dvc repro` resumes from "
            "the last saved epoch"
        )


@lru_cache(maxsize=1)  # one process trains many seeds and settings on the same data
def _splits(task: str, data: Path, stamps: tuple[int, ...], threads: int, memory: float) -> list[Any]:
    """Return the training and validation splits of a folder; the times when its files were written are a cache key."""
    reader = lookup.find("tasks", task)()
    return [reader.load(data, split, threads=threads, memory=memory) for split in ("train", "val")]


def _splits_in(data: Path, params: Settings, task: str) -> list[Any]:
    """Return the training and validation splits of a folder as a task reads them."""
    stamps = tuple((data / f"{split}.parquet").stat().st_mtime_ns for split in ("train", "val"))
    return _splits(task, data.resolve(), stamps, params.compute.threads, params.compute.memory)


def train_one(params: Settings, name: str, job: Job, folder: Path) -> None:
    """Train one job, and write its network, history, and validation metric to `folder/result`."""
    plan = resolve(params, name, params.runs[name].settings[job.setting])
    compute = {"device": params.compute.device, "precision": params.compute.precision}
    accelerator = make_accelerator(**compute)
    task = lookup.find("tasks", plan.task)(plan.training, cache=FEATURES)
    stored = Path("data") / plan.dataset if job.fold is None else folder / "data"
    splits = _splits_in(folder.parent / JOINED if job.refit else stored, params, plan.task)
    stops = _stops(params.runs[name].settings, job, folder.parent) if job.refit else None
    start, model = _start(params, name, job), plan.model.model_dump()
    network = task.build(model if start is None else with_files(model, start), splits[0], seed=job.seed)
    if start is not None:
        start_from(network, start)
    objective = Objective(
        plan.loss,
        sorter=None if plan.sorter is None else load_sorter(Path("models/sorters") / plan.sorter),
        sorter_optimizer=plan.sorter_optimizer,
        auxiliary=plan.auxiliary,
        device=accelerator.device,
    )
    shown = f"{name}, {_named(params.runs[name].settings, job)}"
    epochs = train(
        task,
        network,
        *splits,
        objective=objective,
        seed=job.seed,
        started=start is not None,
        checkpoint=folder / "epochs",
        name=shown,
        stops=stops,
        **compute,
    )
    if not accelerator.is_main_process:
        for _ in epochs:
            pass
        return
    total = _most_epochs(task, network, started=start is not None, stops=stops)
    history_file = folder / "history.csv"
    epochs = followed(epochs, name=shown, total=total, history=history_file, is_validated=not job.refit)
    history = [epoch for _, epoch in epochs]
    with replaced_folder(folder / "result") as result:
        if job.refit:
            chosen = folder.parent / _key(params.runs[name].settings, job._replace(histories=())) / "result"
            train_split, _ = _splits_in(stored, params, plan.task)
            task.carry_over(network, load_model(chosen).to(accelerator.device), train_split)
            for file in ("history.csv", "validation.json"):
                copyfile(chosen / file, result / file)
        else:
            task.finish(network, splits[1])
            copyfile(history_file, result / "history.csv")
            worth = max(epoch.worth for epoch in history if epoch.monitor == history[0].monitor)
            (result / "validation.json").write_text(json.dumps({"worth": worth}) + "\n")
        save_model(result, network)
    remove_folder(folder / "epochs")


def _most_epochs(task: Any, network: Any, *, started: bool, stops: Mapping[str, int] | None) -> int:
    """Return the largest number of epochs of a training, for its progress bar."""
    if stops is not None:
        return sum(stops.values())
    if not any(weight.requires_grad for weight in network.parameters()):  # it was fitted when it was built
        return 1
    return sum(options.epochs for options in task.plan(started=started).values())


def _stops(settings: list[dict[str, Any]], job: Job, folder: Path) -> dict[str, int]:
    """Return how many epochs a refit trains each phase: the median of the best epochs in its histories.

    A phase is left out if it was worse than an earlier one in most of them.
    """
    best_epochs: dict[str, list[int]] = {}
    for fold in job.histories:
        chosen = folder / _key(settings, Job(job.setting, job.seed, fold))
        for phase, epoch in stops_in(chosen / "result/history.csv").items():
            best_epochs.setdefault(phase, []).append(epoch)
    return {phase: median_low(best) for phase, best in best_epochs.items() if 2 * len(best) >= len(job.histories)}


def stops_in(history: Path) -> dict[str, int]:
    """Return the best epoch of each phase in a history, counted within the phase.

    A phase without one was worse than an earlier phase, and is left out.
    """
    stops, first = dict[str, int](), dict[str, int]()
    with history.open(newline="") as file:
        for row in csv.DictReader(file):
            phase, epoch = row["phase"], int(row["epoch"])
            first.setdefault(phase, epoch)
            if row["best"] == "1":
                stops[phase] = epoch - first[phase] + 1
    return stops


if __name__ == "__main__":  # one of the processes of `_launch`
    tie_to_starter()
    _values, _name, _job_values, _folder = json.loads(Path(sys.argv[1]).read_text())
    _params = Settings.model_validate(_values)
    torch.set_num_threads(max(1, _params.compute.threads // _params.compute.processes))
    train_one(_params, _name, Job(*_job_values), Path(_folder))
