"""Images a second of `fit` on the label-ranking task, against the bare forward, backward and step of the same model."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise

import numpy as np
import torch

from benchmarks.results import write
from pipelines.config.schema import load
from rankops.io.checkpoints import build
from rankops.losses.rlsep import rlsep
from rankops.tasks import label_ranking
from rankops.training.loop import compute

IMAGES, EPOCHS, ROUNDS = 1280, 3, 3


def bare(
    images: torch.Tensor, label_ranks: torch.Tensor, model: dict, batch_size: int, optimizer: dict,
    autocast: Callable[[], AbstractContextManager],
) -> float:  # fmt: skip
    """Images a second with everything but the three calls left out: no augmentation, no shuffling, one batch."""
    network = build("models", model["name"], model["args"], seed=1, outputs=10).to(
        images.device, memory_format=torch.channels_last
    )
    steps = getattr(torch.optim, optimizer["name"])(network.parameters(), **optimizer["args"])
    batch, target = images[:batch_size].unsqueeze(1), label_ranks[:batch_size]
    for step in range((1 + EPOCHS) * IMAGES // batch_size):
        if step == IMAGES // batch_size:  # after an epoch to warm up, as below
            _wait_for(images)
            start = time.perf_counter()
        with autocast():
            loss = rlsep(network(batch), target)
        loss.backward()
        steps.step()
        steps.zero_grad()
    _wait_for(images)
    return EPOCHS * IMAGES / (time.perf_counter() - start)


def _wait_for(images: torch.Tensor) -> None:
    if images.is_cuda:  # which has only been told what to do
        torch.cuda.synchronize()


def random_scenes(canvas: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and label ranks with nothing in them; what is learned costs the same."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (IMAGES, canvas, canvas), generator=draws, dtype=torch.uint8)
    return images, torch.randint(0, 4, (IMAGES, 10), generator=draws)


def fitted(
    images: torch.Tensor, label_ranks: torch.Tensor, model: dict, loss: dict, training: dict, device: str,
    precision: str,
) -> float:  # fmt: skip
    """Images a second of the task's own training, after an epoch to warm up."""
    few = images[:2], label_ranks[:2]  # so that validation costs nothing
    moments = [
        time.perf_counter()
        for network, _, _ in label_ranking.train(
            (images, label_ranks),
            few,
            model=model,
            loss=loss,
            training={
                "scorer": training["scorer"] | {"epochs": 1 + EPOCHS},
                "thresholds": training["thresholds"] | {"epochs": 1},
            },
            seed=1,
            device=device,
            precision=precision,
        )
        if network == "scorer"
    ]
    return IMAGES / float(np.median([later - earlier for earlier, later in pairwise(moments)]))


def main() -> None:
    params = load()
    torch.set_num_threads(params.compute.threads)
    options = params.runs["label_ranking-rlsep"].model_dump()
    training = params.training.label_ranking.model_dump()
    canvas, where = params.ranked_mnist.canvas, (params.compute.device, params.compute.precision)
    images, label_ranks = random_scenes(canvas)
    here = compute(device=params.compute.device, precision=params.compute.precision)
    ratios, speeds = [], []
    for _ in range(ROUNDS):
        base = bare(
            images.to(here.device), label_ranks.to(here.device), options["model"], training["scorer"]["batch_size"],
            training["scorer"]["optimizer"], here.autocast,
        )  # fmt: skip
        speed = fitted(images, label_ranks, options["model"], options["loss"], training, *where)
        ratios.append(speed / base)
        speeds.append(speed)
    figures = {"share of bare": float(np.median(ratios)), "lowest": min(ratios), "highest": max(ratios)}
    write("training", {f"{canvas} px": figures | {"images/s": float(np.median(speeds))}})


if __name__ == "__main__":
    main()
