"""Training in two steps: the head on frozen features, each computed once; then the whole network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankops.augmentation import shifted
from rankops.training import Epoch, compute, fit

__all__ = ["embedded", "head_then_all"]


def embedded(network: nn.Module, images: Tensor, *, batch_size: int = 256) -> Tensor:
    """Features of images, part by part, in evaluation mode and without gradient; on the network's device.

    Args:
        network: with `embed`.
        images: (n, colours, height, width) uint8, on any device.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(part.to(device)) for part in images.split(batch_size)])
    network.train(training)
    return features


def head_then_all(
    network: nn.Module,
    *,
    images: Tensor,
    val_images: Tensor,
    batches: Callable[[torch.Generator], Iterator[tuple[Tensor, Any]]],
    batches_per_epoch: int,
    loss: Callable[[Tensor, Any, int], Tensor],
    figures: Callable[[Tensor], dict[str, float]],
    judged_by: str,
    head: dict[str, Any] | None,
    everything: dict[str, Any],
    seed: int,
    device: str,
    precision: str,
    checkpoint: Path | None,
    state: list[Any],
    name: str,
    features: dict[str, Tensor] | None = None,
) -> Iterator[tuple[str, Epoch]]:
    """Trains `network` in place (SoDeep, Section 4.2.1: the head for some epochs on frozen features, then everything).

    Args:
        network: with `blocks` (its convolutional part), `embed` and `head`.
        images, val_images: (n, colours, height, width) uint8; moved to the device whole.
        batches: of one epoch, each the numbers of its images and whatever `loss` should know of it.
        batches_per_epoch: how many.
        loss: of the network's outputs for a batch, what `batches` said of it, and the epoch's number, which counts on
            from the first step to the second.
        figures: of the outputs for all `val_images`.
        judged_by: which of the figures decides on the best epoch; larger is better.
        head: `epochs` (0 for none), `patience`, `optimiser` and `schedule` of the first step, see
            `rankops.training.fit`; None for networks that were not started from trained ones: frozen random features
            are of no use.
        everything: the same of the second step (`epochs` may be 0 too), with `shift`, by how many pixels images are
            moved at random.
        seed, device, precision, checkpoint, state, name: see `rankops.training.fit`.
        features: the frozen features, which a caller of many trainings on the same images and weights may keep: an
            empty mapping is filled, a filled one is used.

    Yields:
        `head` or `everything`, and the epoch. When all are done, the network has the weights of the best epoch of
        either step.

    Raises:
        ValueError: both steps have no epochs.
    """
    if not everything["epochs"] and not (head and head["epochs"]):
        raise ValueError(f"{name}: no epochs in either step, expected at least one")
    features = {} if features is None else features
    place = compute(device=device, precision=precision).device
    images, val_images = images.to(place), val_images.to(place)
    network.to(place, memory_format=torch.channels_last)
    epochs: list[Epoch] = []
    best_of_head: tuple[float, dict[str, Tensor]] | None = None
    common = {
        "judged_by": judged_by, "batches_per_epoch": batches_per_epoch, "seed": seed, "device": device,
        "precision": precision, "state": state,
    }  # fmt: skip
    if head and head["epochs"]:
        network.blocks.requires_grad_(False)
        if "train" not in features:
            features |= {"train": embedded(network, images), "val": embedded(network, val_images)}
        for epoch in fit(
            network, batches=batches,
            loss=lambda network, batch: loss(
                network.head(features["train"][batch[0].to(place)]), batch[1], len(epochs) + 1
            ),
            validate=lambda network: figures(network.head(features["val"])),
            epochs=head["epochs"], patience=head["patience"], optimiser=head["optimiser"], schedule=head["schedule"],
            checkpoint=checkpoint and checkpoint / "head", name=f"{name} (head)", **common,
        ):  # fmt: skip
            epochs.append(epoch)
            yield "head", epoch
        network.blocks.requires_grad_(True)
        state_now = {key: value.detach().clone() for key, value in network.state_dict().items()}
        best_of_head = max(epoch.validation[judged_by] for epoch in epochs), state_now
    if not everything["epochs"]:
        return

    def moved(generator: torch.Generator) -> Iterator[tuple[Tensor, Any]]:
        for numbers, known in batches(generator):
            yield shifted(images[numbers.to(place)], everything["shift"], generator), known

    for epoch in fit(
        network, batches=moved,
        loss=lambda network, batch: loss(network(batch[0]), batch[1], len(epochs) + 1),
        validate=lambda network: figures(network.head(embedded(network, val_images))),
        epochs=everything["epochs"], patience=everything["patience"], optimiser=everything["optimiser"],
        schedule=everything["schedule"], checkpoint=checkpoint and checkpoint / "everything", name=name, **common,
    ):  # fmt: skip
        epochs.append(epoch)
        yield "everything", epoch
    second = [epoch.validation[judged_by] for epoch in epochs[-epoch.number :]]
    if best_of_head is not None and best_of_head[0] > max(second):
        network.load_state_dict(best_of_head[1])
