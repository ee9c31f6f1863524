"""Training in two steps: the head on frozen features, each computed once; then the whole network."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankops.io.checkpoints import build, start_from
from rankops.training.augmentation import shifted
from rankops.training.loop import Epoch, batch_count, compute, fit, random_batches
from rankops.training.objective import Criterion

__all__ = ["HISTORIES", "embedded", "train"]

HISTORIES = {"everything": "history.csv", "head": "head_history.csv"}  # files of the two steps, in a run's folder


def embedded(network: nn.Module, images: Tensor, *, batch_size: int = 256) -> Tensor:
    """Features of images, part by part, in evaluation mode and without gradient; on the network's device.

    Args:
        network: with `embed`.
        images: (n, colors, height, width) uint8, on any device.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(part.to(device)) for part in images.split(batch_size)])
    network.train(training)
    return features


def train(
    *,
    model: dict[str, Any],
    outputs: dict[str, int],
    loss: dict[str, Any],
    training: dict[str, Any],
    rows: int,
    images: Tensor,
    val_images: Tensor,
    draw: Callable[[Tensor, torch.Generator], tuple[Tensor, Any]],
    compared: Callable[[nn.Module, Tensor, Any, int], tuple[Tensor, Tensor]],
    figures: Callable[[nn.Module, Tensor], dict[str, float]],
    judged_by: str,
    seed: int,
    name: str,
    start: str | Path | None = None,
    sorter: nn.Module | None = None,
    fine_tune: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    features: dict[str, Tensor] | None = None,
) -> Iterator[tuple[str, Epoch, nn.Module]]:
    """Trains a network for a task: the head on frozen features, then everything (SoDeep, Section 4.2.1).

    A sorter of fixed length ranks groups of that length, any other a whole batch.

    Args:
        model: `name` and `args` of a network with `blocks` (its convolutional part), `embed` and `head`.
        outputs: what the data decides about it, see `rankops.io.checkpoints.build`.
        loss: `name` and `args`.
        training: `batch_size`; `head` (`epochs`, 0 for none, `patience`, `optimizer` and `schedule`, see
            `rankops.training.loop.fit`), which is left out without a `start`: frozen random features are of no use; and
            `everything`, the same of the second step (`epochs` may be 0 too), with `shift`, by how many pixels images
            are moved at random.
        rows: examples of the training split, of which batches are drawn.
        images, val_images: (n, colors, height, width) uint8; moved to the device whole.
        draw: of a batch's rows and a generator, the numbers of its images, and whatever `compared` should know of it.
        compared: of the network, its outputs for a batch, what `draw` said of it, and the length of a group: the scores
            and what they are held against, as the loss takes them.
        figures: of the network and its outputs for all `val_images`.
        judged_by: which of the figures decides on the best epoch; larger is better.
        seed: of all random choices.
        name: for messages.
        start: weights to start from, see `rankops.io.checkpoints.start_from`.
        sorter, fine_tune, beside: see `rankops.training.objective.Criterion`.
        device, precision: see `rankops.training.loop.compute`.
        checkpoint: folder for the state of a training that may be killed.
        features: the frozen features, which a caller of many trainings on the same images and weights may keep: an
            empty mapping is filled, a filled one is used; one of another network's features is filled anew.

    Yields:
        `head` or `everything`, the epoch (of the second step it is `best` only if it is no worse than the head's best),
        and the network. When all are done, it has the weights of the best epoch of
        either step.

    Raises:
        ValueError: both steps have no epochs, or the batches do not make groups of the sorter's length.
        FloatingPointError: see `rankops.training.loop.fit`.
    """
    here = compute(device=device, precision=precision)
    place, share = here.device, (here.process_index, here.num_processes)
    network = build("models", model["name"], model["args"], seed=seed, colors=images.shape[1], **outputs)
    if start is not None:
        start_from(network, start)
    criterion = Criterion(
        loss, sorter=None if sorter is None else sorter.to(place), fine_tune=fine_tune, beside=beside
    )  # fmt: skip
    head, everything = training["head"], training["everything"]
    with_head = start is not None and head["epochs"]
    if not everything["epochs"] and not with_head:
        raise ValueError(f"{name}: no epochs in either step, expected at least one")
    features = {} if features is None else features
    images, val_images = images.to(place), val_images.to(place)
    network.to(place, memory_format=torch.channels_last)
    size, group = training["batch_size"], criterion.length
    epochs: list[Epoch] = []
    best_of_head: tuple[float, dict[str, Tensor]] | None = None

    def batches(generator: torch.Generator) -> Iterator[tuple[Tensor, Any, int]]:
        for chosen in random_batches(rows, size, generator, multiple_of=group or 1, share=share):
            numbers, known = draw(chosen, generator)
            yield numbers.to(place), known, group or len(chosen)

    def moved(generator: torch.Generator) -> Iterator[tuple[Tensor, Any, int]]:
        for numbers, known, length in batches(generator):
            yield shifted(images[numbers], everything["shift"], generator), known, length

    def value(outputs: Tensor, known: Any, length: int) -> Tensor:
        # Epochs count on from the first step to the second.
        return criterion(*compared(network, outputs, known, length), epoch=len(epochs) + 1)

    def step(options: dict[str, Any], **how: Any) -> Iterator[Epoch]:
        for epoch in fit(
            network, epochs=options["epochs"], patience=options["patience"], optimizer=options["optimizer"],
            schedule=options["schedule"], judged_by=judged_by,
            batches_per_epoch=batch_count(rows, size, multiple_of=group or 1, share=share),
            device=device, precision=precision, state=criterion.state, **how,
        ):  # fmt: skip
            epochs.append(epoch)
            yield epoch

    if with_head:
        network.blocks.requires_grad_(False)
        # Of a network that embeds with weights of its own, which `start` does not give, features are of its seed.
        probe = embedded(network, images[:8])
        if "probe" not in features or not torch.equal(features["probe"], probe):
            features |= {"probe": probe, "train": embedded(network, images), "val": embedded(network, val_images)}
        for epoch in step(
            head, batches=batches, seed=seed,
            loss=lambda network, batch: value(network.head(features["train"][batch[0]]), *batch[1:]),
            validate=lambda network: figures(network, network.head(features["val"])),
            checkpoint=checkpoint and checkpoint / "head", name=f"{name} (head)",
        ):  # fmt: skip
            yield "head", epoch, network
        network.blocks.requires_grad_(True)
        features = {}  # the head is done with them; whoever gave the mapping keeps them
        state_now = {key: weights.detach().clone() for key, weights in network.state_dict().items()}
        best_of_head = max(epoch.validation[judged_by] for epoch in epochs), state_now
    if everything["epochs"]:
        for epoch in step(
            # Not the head's, or its batches would come once more; others' seeds end below 2^31.
            everything, batches=moved, seed=seed + 2**31,
            loss=lambda network, batch: value(network(batch[0]), *batch[1:]),
            validate=lambda network: figures(network, network.head(embedded(network, val_images))),
            checkpoint=checkpoint and checkpoint / "everything", name=name,
        ):  # fmt: skip
            worse = best_of_head is not None and epoch.validation[judged_by] < best_of_head[0]
            yield "everything", replace(epoch, best=epoch.best and not worse), network
        second = [epoch.validation[judged_by] for epoch in epochs[-epoch.number :]]
        if best_of_head is not None and best_of_head[0] > max(second):
            network.load_state_dict(best_of_head[1])
    network.eval()
