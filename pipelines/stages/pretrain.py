"""Teaches a sorter to imitate sorting, by its own loss; judged by L1 between its ranks and the exact ones."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from pipelines.config.schema import Settings, SorterParams
from pipelines.reporting.history import shown, write_history
from pipelines.stages.runner import checkpoint_folder, run
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import remove_folder, replaced_folder
from rankops.io.checkpoints import build, save_model
from rankops.training.loop import Epoch, batch_count, compute, fit, random_batches

DATA = Path("data/score_vectors")
VALIDATED = 2048  # vectors at once: the paper's LSTM keeps some 2 MB of each


def pretrained(params: Settings, options: SorterParams, name: str) -> tuple[nn.Module, list[Epoch], Path]:
    """A trained sorter, its epochs, and the folder of its checkpoint, which the caller removes when all is written."""
    device = compute(device=params.compute.device, precision=params.compute.precision).device
    scores, ranks = (part.to(device) for part in score_vectors.load(DATA, "train")[:2])
    val_scores, val_ranks = (part.to(device) for part in score_vectors.load(DATA, "val")[:2])
    length = scores.shape[1]
    if options.vectors == "fresh":
        size = options.epoch_size
        count = -(-size // options.batch_size)
    else:
        size = min(options.epoch_size, len(scores))
        count = batch_count(len(scores), options.batch_size, limit=size)
    sorter = build("sorters", options.name, options.args, seed=options.seed, length=length)

    def batches(generator) -> Iterator[tuple[Tensor, Tensor]]:
        if options.vectors == "fresh":
            for batch in score_vectors.batches(size, length, options.batch_size, generator):
                yield tuple(part.to(device) for part in batch)
        else:
            for rows in random_batches(len(scores), options.batch_size, generator, limit=size):
                yield scores[rows.to(device)], ranks[rows.to(device)]

    def imitation(sorter: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return sorter.imitation_loss(*batch)

    def validate(sorter: nn.Module) -> dict[str, float]:
        found = torch.cat([sorter(part) for part in val_scores.split(VALIDATED)])
        return {"l1": ((found - val_ranks).abs().mean() / length).item()}

    checkpoint = checkpoint_folder(
        "pretrain",
        name,
        params=options.model_dump() | {"compute": params.compute.model_dump()},
        inputs=[DATA / "train.parquet", DATA / "val.parquet"],
    )
    epochs = list(
        shown(
            fit(
                sorter,
                batches=batches,
                loss=imitation,
                validate=validate,
                judged_by="l1",
                lower_is_better=True,
                epochs=options.epochs,
                batches_per_epoch=count,
                patience=options.patience,
                optimizer=options.optimizer.model_dump(),
                schedule=options.schedule.model_dump(),
                seed=options.seed,
                device=params.compute.device,
                precision=params.compute.precision,
                checkpoint=checkpoint,
                name=f"sorters.{name}",
            ),
            name=name,
            total=options.epochs,
        )
    )
    return sorter, epochs, checkpoint


def main(params: Settings, name: str) -> None:
    sorter, epochs, checkpoint = pretrained(params, params.sorters[name], name)
    with replaced_folder(f"models/sorters/{name}") as folder:
        save_model(folder, sorter)
        write_history(folder / "history.csv", epochs)
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
