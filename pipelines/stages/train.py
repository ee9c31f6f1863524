"""Trains one run: a task with a loss, a model and a seed."""

from pathlib import Path

from pipelines.epochs import shown, write_history
from pipelines.settings import Settings
from pipelines.stage import checkpoint_folder, run
from rankops.atomic_writes import remove_folder, replaced_folder
from rankops.tasks import label_ranking


def main(params: Settings, name: str) -> None:
    options, training = params.runs[name], params.training.label_ranking
    data = Path("data") / options.dataset
    threads = params.compute.threads
    checkpoint = checkpoint_folder(
        "train",
        name,
        params={
            "run": options.model_dump(),
            "training": training.model_dump(),
            "compute": params.compute.model_dump(),
        },
        inputs=[data / "train.parquet", data / "val.parquet"],
    )
    progress = label_ranking.train(
        label_ranking.load_split(data, "train", threads=threads),
        label_ranking.load_split(data, "val", threads=threads),
        model=options.model.model_dump(),
        loss=options.loss.model_dump(),
        scorer=training.scorer.model_dump(),
        thresholds=training.thresholds.model_dump(),
        seed=options.seed,
        device=params.compute.device,
        precision=params.compute.precision,
        checkpoint=checkpoint,
        name=f"runs.{name}",
    )
    epochs = {"scorer": [], "thresholds": []}
    total = training.scorer.epochs + training.thresholds.epochs
    for network, epoch, ranker in shown(progress, name=name, total=total):
        epochs[network].append(epoch)
    with replaced_folder(f"models/runs/{name}") as folder:
        label_ranking.save_ranker(folder, ranker, model=options.model.model_dump(), hidden=training.thresholds.hidden)
        write_history(folder / "history.csv", epochs["scorer"])
        write_history(folder / "thresholds_history.csv", epochs["thresholds"])
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
