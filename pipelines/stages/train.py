"""Trains one run: a task with a loss, a model and a seed; some start from trained weights, some have a sorter."""

from importlib import import_module
from pathlib import Path

from pipelines.epochs import shown, write_history
from pipelines.settings import Settings
from pipelines.stage import checkpoint_folder, run
from rankops.atomic_writes import remove_folder, replaced_folder
from rankops.sorters import load_sorter


def main(params: Settings, name: str) -> None:
    options = params.all_runs[name].model_dump()
    task = import_module(f"rankops.tasks.{options['task']}")
    training = params.training.model_dump()[options["task"]]
    data, start, sorter = Path("data") / options["dataset"], options.get("start"), options.get("sorter")
    inputs = [data / "train.parquet", data / "val.parquet"]
    extra = {}
    if start is not None:
        extra["start"] = start
        inputs += sorted(Path(start).rglob("*.safetensors")) if Path(start).is_dir() else [Path(start)]
    if sorter is not None:
        folder = Path("models/sorters") / sorter["name"]
        extra |= {"sorter": load_sorter(folder), "fine_tune": sorter["fine_tune"], "beside": options["beside"]}
        inputs.append(folder / "model.safetensors")
    threads = params.compute.threads
    splits = [task.load_split(data, split, threads=threads) for split in ("train", "val")]
    checkpoint = checkpoint_folder(
        "train",
        name,
        params={"run": options, "training": training, "compute": params.compute.model_dump()},
        inputs=inputs,
    )
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
    epochs = {}
    total = sum(step["epochs"] for step in training.values() if isinstance(step, dict))
    for step, epoch, predictor in shown(progress, name=name, total=total):
        epochs.setdefault(step, []).append(epoch)
    with replaced_folder(f"models/runs/{name}") as folder:
        task.save(folder, predictor)
        for step, history in epochs.items():
            write_history(folder / task.HISTORIES[step], history)
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
