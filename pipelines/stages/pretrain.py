"""Create a sorter: train it to imitate sorting if it has weights, otherwise only save it."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.config import Settings
from pipelines.running.history import began, followed, keep_times
from pipelines.running.runner import checkpoint_folder
from pipelines.stages.score_vectors import FOLDER
from rankgrad.datasets.vectors import score_vectors
from rankgrad.io.atomic import remove_folder, replaced_folder
from rankgrad.io.checkpoints import build, save_model
from rankgrad.ranks import exact_ranks
from rankgrad.training.device import find_device
from rankgrad.training.loop import fit
from rankgrad.training.options import Imitation
from rankgrad.training.phase import Batch, Phase

VALIDATED = 2048  # vectors at once: the paper's LSTM keeps some 2 MB of each


class ImitationPhase(Phase):
    """Train a sorter to imitate the exact ranks of score vectors with its own loss; validate with L1.

    Args:
        sorter: the sorter to train.
        train, val: scores (n, d) and ranks of both splits.
        options: options of the training.
    """

    monitor, lower_is_better = "l1", True

    def __init__(
        self,
        sorter: Any,
        train: tuple[Tensor, ...],
        val: tuple[Tensor, ...],
        options: Imitation,
    ):
        self.module, self.train, self.val, self.options = sorter, train, val, options
        self.batch_size, self.fresh = options.batch_size, options.epoch_size is not None
        self.rows = options.epoch_size or len(train[0])

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        scores, ranks = self.train
        if self.fresh:
            drawn = score_vectors.draw(len(rows), scores.shape[1], generator)[0].to(scores.device)
            return Batch((drawn, exact_ranks(drawn)), ())
        rows = rows.to(scores.device)
        return Batch((scores[rows], ranks[rows]), ())

    def outputs(self, module: Any, *inputs: Tensor) -> Tensor:
        return module.imitation_loss(*inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        return outputs[0]

    def validate(self, module: Any) -> dict[str, float]:
        scores, ranks = self.val
        predicted = torch.cat([module(chunk) for chunk in scores.split(VALIDATED)])
        return {"l1": ((predicted - ranks).abs().mean() / scores.shape[1]).item()}


def _read(folder: Path, split: str, device: torch.device) -> tuple[Tensor, Tensor]:
    scores, ranks, _ = score_vectors.load(folder, split)
    return scores.to(device), ranks.to(device)


def main(params: Settings, name: str) -> None:
    options = params.sorters[name]
    sorter = build("sorters", options.name, options.args, seed=options.seed, **params.length_of(name))
    checkpoint = None
    if options.training is not None:
        compute = params.compute
        device = find_device(compute.device)
        vectors = FOLDER / options.vectors
        train, val = _read(vectors, "train", device), _read(vectors, "val", device)
        checkpoint = checkpoint_folder(
            params,
            "pretrain",
            name,
            settings=options.model_dump() | {"compute": compute.model_dump()},
            inputs=[vectors / f"{split}.parquet" for split in ("train", "val")],
        )
        epochs = fit(
            ImitationPhase(sorter, train, val, options.training),
            seed=options.seed,
            device=compute.device,
            precision=compute.precision,
            checkpoint=checkpoint,
            name=f"sorters.{name}",
        )
        history = checkpoint / "history.csv"
        phases = (("imitation", epoch) for epoch in epochs)
        for _ in followed(phases, name=name, total=options.training.epochs, history=history):
            pass
    with replaced_folder(f"models/sorters/{name}") as folder:
        save_model(folder, sorter)
        if checkpoint is not None:
            (folder / "history.csv").write_bytes((checkpoint / "history.csv").read_bytes())
    if checkpoint is not None:
        if (begin := began(checkpoint)) is not None:
            keep_times("pretrain", name, Path("models/sorters") / name, {"all": (begin, int(time.time() * 1000))})
        remove_folder(checkpoint)
