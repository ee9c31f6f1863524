"""Makes a sorter: trains one that has weights to imitate sorting, and writes the others down."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import rankops
from pipelines.config import Settings
from pipelines.running.progress import began, followed, keep_times
from pipelines.running.runner import checkpoint_folder
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import remove_folder, replaced_folder
from rankops.io.checkpoints import build, save_model
from rankops.ranks import ranks as exact_ranks
from rankops.training.device import find_device
from rankops.training.loop import fit

DATA = Path("data/score_vectors")
VALIDATED = 2048  # vectors at once: the paper's LSTM keeps some 2 MB of each


class Imitation:
    """Score vectors and their exact ranks, which a sorter learns to imitate by its own loss; validated by L1.

    Args:
        length: of a vector.
        fresh: whether vectors are drawn anew for each batch instead of taken from the training split.
    """

    lower_is_better = True

    def __init__(self, length: int, *, fresh: bool):
        self.length, self.fresh = length, fresh

    def monitor_in(self, phase: str) -> str:
        return "l1"

    def batch(
        self, data: tuple[Tensor, Tensor], phase: str, rows: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        scores, ranks = data
        if self.fresh:
            drawn = score_vectors.draw(len(rows), self.length, generator)[0].to(scores.device)
            return drawn, exact_ranks(drawn)
        rows = rows.to(scores.device)
        return scores[rows], ranks[rows]

    def loss(self, module: Any, phase: str, batch: tuple[Tensor, Tensor], objective: Any) -> Tensor:
        return module.imitation_loss(*batch)

    def validate(self, module: Any, phase: str, data: tuple[Tensor, Tensor]) -> dict[str, float]:
        scores, ranks = data
        found = torch.cat([module(part) for part in scores.split(VALIDATED)])
        return {"l1": ((found - ranks).abs().mean() / self.length).item()}


def code_of(sorter: str) -> str:
    """Return a hash of a sorter's code and of what all sorters share: runs that name it depend on it."""
    files = [f"sorters/{name}.py" for name in (sorter, "_base", "_laplace_sums", "_standardize")]
    digest = hashlib.md5(usedforsecurity=False)
    for file in [*files, "ranks.py"]:
        digest.update((Path(rankops.__file__).parent / file).read_bytes())
    return digest.hexdigest()


def main(params: Settings, name: str) -> None:
    options = params.sorters[name]
    length = params.score_vectors.length
    sorter = build("sorters", options.name, options.args, seed=options.seed, length=length)
    checkpoint = None
    if options.training is not None:
        training = options.training.model_dump()
        compute = params.compute
        device = find_device(compute.device)
        splits = [tuple(part.to(device) for part in score_vectors.load(DATA, split)[:2]) for split in ("train", "val")]
        checkpoint = checkpoint_folder(
            "pretrain",
            name,
            params=options.model_dump() | {"compute": compute.model_dump()},
            inputs=[DATA / "train.parquet", DATA / "val.parquet"],
        )
        epochs = fit(
            Imitation(length, fresh=training["vectors"] == "fresh"),
            "imitation",
            sorter,
            *splits,
            options=training,
            rows=training["epoch_size"] or len(splits[0][0]),
            seed=options.seed,
            device=compute.device,
            precision=compute.precision,
            checkpoint=checkpoint,
            name=f"sorters.{name}",
        )
        history = checkpoint / "history.csv"
        phases = (("imitation", epoch) for epoch in epochs)
        for _ in followed(phases, name=name, total=training["epochs"], history=history):
            pass
    with replaced_folder(f"models/sorters/{name}") as folder:
        save_model(folder, sorter)
        (folder / "code.json").write_text(json.dumps({"code": code_of(options.name)}) + "\n")
        if checkpoint is not None:
            (folder / "history.csv").write_bytes((checkpoint / "history.csv").read_bytes())
    if checkpoint is not None:
        if (begin := began(checkpoint)) is not None:
            keep_times("pretrain", name, Path("models/sorters") / name, {"all": (begin, int(time.time() * 1000))})
        remove_folder(checkpoint)
