"""Images a second of the label-ranking task's training, against the bare forward, backward and step of its network.

Device, precision and compilation are those of params.yaml's `compute`: run it before and after a change of these.
"""

import time
from itertools import pairwise

import numpy as np
import torch

from benchmarks.results import write
from pipelines.config import Settings, load
from rankops.datasets.files.splits import Split
from rankops.inputs.image import of_tensor
from rankops.losses.rlsep import rlsep
from rankops.tasks.label_ranking import LabelRanking
from rankops.training.device import make_accelerator
from rankops.training.loop import train
from rankops.training.objective import Objective

RUN = "label_ranking-rlsep"
IMAGES, EPOCHS, ROUNDS = 1280, 3, 3


def random_scenes(canvas: int) -> Split:
    """Return images and label ranks with nothing in them; what is learned costs the same."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (IMAGES, canvas, canvas), generator=draws, dtype=torch.uint8)
    return Split(of_tensor(images), torch.randint(0, 4, (IMAGES, 10), generator=draws))


def bare(params: Settings, split: Split) -> float:
    """Return images a second of the three calls alone: no augmentation, no shuffling, one batch."""
    training = params.training_of(RUN)
    accelerator = make_accelerator(device=params.compute.device, precision=params.compute.precision)
    network = LabelRanking(training).build(params.runs[RUN].model.model_dump(), split, seed=1).scorer
    network = network.to(accelerator.device, memory_format=torch.channels_last).train()
    optimizer, size = training["scorer"]["optimizer"], training["scorer"]["batch_size"]
    steps = getattr(torch.optim, optimizer["name"])(network.parameters(), **optimizer["args"])
    batch, target = (part[:size].to(accelerator.device) for part in (split.inputs.items, split.truth))
    start = 0.0
    for step in range((1 + EPOCHS) * IMAGES // size):
        if step == IMAGES // size:  # after an epoch to warm up, as below
            _finish(accelerator.device)
            start = time.perf_counter()
        with accelerator.autocast():
            loss = rlsep(network(batch), target)
        loss.backward()
        steps.step()
        steps.zero_grad()
    _finish(accelerator.device)
    return EPOCHS * IMAGES / (time.perf_counter() - start)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":  # which has only been told what to do
        torch.cuda.synchronize()


def fitted(params: Settings, split: Split) -> float:
    """Return images a second of the task's own training, after an epoch to warm up."""
    training = params.training_of(RUN)
    training["scorer"] |= {"epochs": 1 + EPOCHS, "patience": 1 + EPOCHS}
    training["thresholds"] |= {"epochs": 1}
    task, compute = LabelRanking(training), {"device": params.compute.device, "precision": params.compute.precision}
    network = task.build(params.runs[RUN].model.model_dump(), split, seed=1)
    objective = Objective(params.runs[RUN].loss.model_dump(), device=make_accelerator(**compute).device)
    few = Split(of_tensor(split.inputs.items[:2]), split.truth[:2])  # so that validation costs nothing
    options = {"objective": objective, "seed": 1, **compute}
    moments = [time.perf_counter() for phase, _ in train(task, network, split, few, **options) if phase == "scorer"]
    return IMAGES / float(np.median([later - earlier for earlier, later in pairwise(moments)]))


def main() -> None:
    params = load()
    torch.set_num_threads(params.compute.threads)
    canvas = params.datasets[params.runs[RUN].dataset].args["canvas"]
    split = random_scenes(canvas)
    ratios, speeds = [], []
    for _ in range(ROUNDS):
        base = bare(params, split)
        speeds.append(fitted(params, split))
        ratios.append(speeds[-1] / base)
    figures = {"share of bare": float(np.median(ratios)), "lowest": min(ratios), "highest": max(ratios)}
    write("training", {f"{canvas} px": figures | {"images/s": float(np.median(speeds))}})


if __name__ == "__main__":
    main()
