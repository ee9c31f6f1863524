"""Trains one run: a task with a loss, a model and a seed; some start from trained weights, some have a sorter.

In one process, or in several that share each batch (`train_processes`): then this one starts and watches them.
"""

from pathlib import Path

from pipelines.config.schema import Settings
from pipelines.ops.launch import train_together
from pipelines.reporting.history import write_trained
from pipelines.stages.runner import checkpoint_folder, run
from rankops import lookup
from rankops.io.atomic import remove_folder
from rankops.sorters import load_sorter
from rankops.training.loop import compute


def main(params: Settings, name: str) -> None:
    options = params.all_runs[name].model_dump()
    start, sorter = options.get("start"), options.get("sorter")
    inputs = [Path("data") / options["dataset"] / f"{split}.parquet" for split in ("train", "val")]
    if start is not None:
        inputs += sorted(Path(start).rglob("*.safetensors")) if Path(start).is_dir() else [Path(start)]
    if sorter is not None:
        inputs.append(Path("models/sorters") / sorter["name"] / "model.safetensors")
    if missing := [path for path in inputs if not path.is_file()]:
        raise FileNotFoundError(f"{missing[0]}: no such file; make it with `dvc repro`")
    processes, computed = params.train_processes, params.compute.model_dump()
    checkpoint = checkpoint_folder(
        "train",
        name,
        params={
            "run": options, "training": params.training.model_dump()[options["task"]], "compute": computed,
            "processes": processes,
        },
        inputs=inputs,
    )  # fmt: skip
    if processes == 1:
        train(params, name, checkpoint)
    else:
        train_together(
            train, params, name, checkpoint,
            processes=processes, device=params.compute.device, threads=params.compute.threads,
        )  # fmt: skip
    remove_folder(checkpoint)


def train(params: Settings, name: str, checkpoint: Path) -> None:
    """The training, in each process that takes part; the main one shows it, and writes what came of it."""
    options = params.all_runs[name].model_dump()
    task = lookup.module("tasks", options["task"])
    training = params.training.model_dump()[options["task"]]
    extra = {}
    if options.get("start") is not None:
        extra["start"] = options["start"]
    if sorter := options.get("sorter"):
        loaded = load_sorter(Path("models/sorters") / sorter["name"])
        extra |= {"sorter": loaded, "fine_tune": sorter["fine_tune"], "beside": options["beside"]}
    threads = max(1, params.compute.threads // params.train_processes)
    splits = [task.load_split(Path("data") / options["dataset"], split, threads=threads) for split in ("train", "val")]
    progress = task.train(
        *splits,
        model=options["model"],
        loss=options["loss"],
        training=training,
        seed=options["seed"],
        device=params.compute.device,
        precision=params.compute.precision,
        checkpoint=checkpoint,
        name=name,
        **extra,
    )
    if not compute(device=params.compute.device, precision=params.compute.precision).is_main_process:
        for _ in progress:
            pass
        return
    write_trained(f"models/runs/{name}", task, progress, name=name, training=training)


if __name__ == "__main__":
    run(main)
