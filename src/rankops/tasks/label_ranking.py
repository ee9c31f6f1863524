"""Multi-label ranking: which labels an image has, in order of importance (RLSEP)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops import by_name
from rankops.checkpoints import build, load_model, save_model
from rankops.datasets.ranked_mnist import CLASSES, dense_ranks, load
from rankops.intervals import interval
from rankops.metrics.label_ranking import ranked, unranked
from rankops.ranks import check_scores
from rankops.training import Epoch, compute, fit, random_batches

__all__ = ["LabelRanker", "evaluate", "label_ranks_of", "load_ranker", "load_split", "predictions", "shifted", "train"]

JUDGED_BY = "accuracy"  # of the validation split's pairs


@dataclass(frozen=True)
class LabelRanker:
    """A scoring network f and a threshold network g on its embedding; both on one device, in evaluation mode."""

    scorer: nn.Module
    thresholds: nn.Module

    @torch.inference_mode()
    def __call__(self, images: Tensor, *, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Scores (n, K) and thresholds (n, K) of images (n, height, width) uint8, on any device; results on the CPU."""
        device = next(self.scorer.parameters()).device
        results = []
        for batch in images.split(batch_size):
            embedding = self.scorer.embed(batch.unsqueeze(1).to(device))
            results.append(torch.stack([self.scorer.head(embedding), self.thresholds(embedding)]).float().cpu())
        scores, thresholds = torch.cat(results, dim=1) if results else torch.zeros(2, 0, CLASSES)
        return scores, thresholds


def load_split(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Images (n, height, width) uint8 and label ranks (n, K) of a split of Ranked MNIST."""
    images, recipe = load(folder, split, threads=threads)
    return images, recipe.label_ranks


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Moves each image by up to `most` pixels both ways, at random; what comes in is black.

    Args:
        images: (n, 1, height, width).

    >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
    >>> shifted(images, 0, torch.Generator()).equal(images)
    True
    """
    if most == 0:
        return images
    count, _, height, width = images.shape
    moves = torch.randint(0, 2 * most + 1, (2, count, 1), generator=generator).to(images.device)
    rows = torch.arange(height, device=images.device) + moves[0]
    columns = torch.arange(width, device=images.device) + moves[1]
    padded = nn.functional.pad(images.squeeze(1), [most] * 4)
    numbers = torch.arange(count, device=images.device)
    return padded[numbers[:, None, None], rows[:, :, None], columns[:, None, :]].unsqueeze(1)


def train(
    train_split: tuple[Tensor, Tensor],
    val_split: tuple[Tensor, Tensor],
    *,
    model: dict[str, Any],
    loss: dict[str, Any],
    scorer: dict[str, Any],
    thresholds: dict[str, Any],
    seed: int,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    name: str = "label_ranking",
) -> Iterator[tuple[str, Epoch, LabelRanker | None]]:
    """Trains the scoring network with a ranking loss, then the threshold network on its frozen embedding.

    Args:
        train_split, val_split: images (n, height, width) uint8 and label ranks (n, K); moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        scorer: training options of the scoring network: `batch_size`, `shift` (pixels), `epochs`, `patience`,
            `optimiser` and `schedule`, see `rankops.training.fit`.
        thresholds: the same of the threshold network, with `hidden`, without `shift`.
        seed: of all random choices.
        device, precision: see `rankops.training.compute`.
        checkpoint: folder for the state of a training that may be killed.
        name: for messages.

    Yields:
        `scorer` or `thresholds`, the epoch, and the networks with the weights of their best epochs (complete once
        the iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.fit`.
    """
    place = compute(device=device, precision=precision).device
    images, label_ranks = (part.to(place) for part in train_split)
    images = images.unsqueeze(1)
    val_images, val_ranks = (part.to(place) for part in val_split)
    outputs = label_ranks.shape[1]
    network = build("models", model["name"], model["args"], seed=seed, outputs=outputs)
    network = network.to(memory_format=torch.channels_last)
    criterion = partial(by_name.find("losses", loss["name"]), **loss["args"])
    draws_pairs = loss["args"].get("pairs") is not None
    batch_size = scorer["batch_size"]

    def batches(generator: torch.Generator) -> Iterator[tuple]:
        for rows in random_batches(len(images), batch_size, generator):
            rows = rows.to(place)
            yield shifted(images[rows], scorer["shift"], generator), label_ranks[rows], generator

    def batch_loss(network: nn.Module, batch: tuple) -> Tensor:
        pictures, target, generator = batch
        runtime = {"generator": generator} if draws_pairs else {}
        return criterion(network(pictures), target, **runtime)

    def scores_of(network: nn.Module, pictures: Tensor) -> tuple[Tensor, Tensor]:
        parts = [network.embed(part) for part in pictures.split(256)]
        return torch.cat([network.head(part) for part in parts]), torch.cat(parts)

    def validate(network: nn.Module) -> dict[str, float]:
        rates = ranked(scores_of(network, val_images.unsqueeze(1))[0].float(), val_ranks)
        return {figure: rates[figure].mean().item() for figure in ("accuracy", "exact_match")}

    ranker = LabelRanker(network, build(
        "models", "threshold_network", {"hidden": thresholds["hidden"]}, seed=seed,
        features=network.embedding_size, outputs=outputs,
    ))  # fmt: skip
    common = {"seed": seed, "device": device, "precision": precision, "judged_by": JUDGED_BY}
    for epoch in fit(
        network, batches=batches, loss=batch_loss, validate=validate, epochs=scorer["epochs"],
        batches_per_epoch=-(-len(images) // batch_size), patience=scorer["patience"], optimiser=scorer["optimiser"],
        schedule=scorer["schedule"], checkpoint=checkpoint and checkpoint / "scorer", name=name, **common,
    ):  # fmt: skip
        yield "scorer", epoch, ranker

    # The scorer is frozen from here on: its scores and embeddings are computed once.
    network.eval()
    with torch.no_grad():
        scores, embeddings = scores_of(network, images)
        val_scores, val_embeddings = scores_of(network, val_images.unsqueeze(1))
    present, size = (label_ranks > 0).float(), thresholds["batch_size"]

    def threshold_batches(generator: torch.Generator) -> Iterator[Tensor]:
        return (rows.to(place) for rows in random_batches(len(images), size, generator))

    def threshold_loss(network: nn.Module, rows: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(scores[rows] - network(embeddings[rows]), present[rows])

    def threshold_validate(network: nn.Module) -> dict[str, float]:
        levels = network(val_embeddings)
        check_scores(levels)
        rates = unranked(val_scores > levels, val_ranks)
        return {figure: rates[figure].mean().item() for figure in ("accuracy", "exact_match")}

    for epoch in fit(
        ranker.thresholds, batches=threshold_batches, loss=threshold_loss, validate=threshold_validate,
        epochs=thresholds["epochs"], batches_per_epoch=-(-len(images) // size), patience=thresholds["patience"],
        optimiser=thresholds["optimiser"], schedule=thresholds["schedule"],
        checkpoint=checkpoint and checkpoint / "thresholds", name=f"{name} (thresholds)", **common,
    ):  # fmt: skip
        yield "thresholds", epoch, ranker


def save_ranker(path: str | Path, ranker: LabelRanker, *, model: dict[str, Any], hidden: int) -> None:
    """Writes both networks below `path`, so that `load_ranker(path)` rebuilds them."""
    outputs = ranker.thresholds.layers[-1].out_features
    scorer_args = model["args"] | {"outputs": outputs}
    threshold_args = {"hidden": hidden, "features": ranker.scorer.embedding_size, "outputs": outputs}
    save_model(Path(path) / "scorer", ranker.scorer, folder="models", name=model["name"], args=scorer_args)
    save_model(
        Path(path) / "thresholds", ranker.thresholds, folder="models", name="threshold_network", args=threshold_args
    )


def load_ranker(path: str | Path, *, device: str | torch.device = "cpu") -> LabelRanker:
    """What `save_ranker` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.checkpoints.load_model`.
    """
    scorer = load_model(Path(path) / "scorer").to(device, memory_format=torch.channels_last)
    return LabelRanker(scorer, load_model(Path(path) / "thresholds").to(device))


def label_ranks_of(scores: Tensor, selected: Tensor) -> Tensor:
    """Label ranks of the selected labels by their scores: 0 = not selected, larger = more important.

    >>> label_ranks_of(torch.tensor([[0.5, -2.0, 3.0]]), torch.tensor([[True, False, True]]))
    tensor([[1, 0, 2]])
    """
    # dense_ranks ranks what is positive: each score's place among all of them is.
    places = torch.searchsorted(scores.sort(dim=-1).values, scores.contiguous()) + 1
    return dense_ranks(torch.where(selected, places, 0))


def predictions(ranker: LabelRanker, images: Tensor) -> pa.Table:
    """One row an image: `id`, `scores`, `label_ranks` (0 = absent, larger = more important) and `selected`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    scores, thresholds = ranker(images)
    if not torch.isfinite(scores).all():
        row = int((~torch.isfinite(scores)).any(1).nonzero()[0])
        raise FloatingPointError(f"row {row}: a predicted score is not finite: {scores[row].tolist()}")
    selected = scores > thresholds
    columns = {"scores": scores, "label_ranks": label_ranks_of(scores, selected), "selected": selected}
    table = {"id": pa.array(range(len(images)), pa.int64())}
    for name, values in columns.items():
        flat = pa.array(values.numpy().ravel())
        table[name] = pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1) * values.shape[1], pa.int32()), flat)
    return pa.table(table)


def _harmonic(precision: np.ndarray, recall: np.ndarray, axis: int = -1) -> np.ndarray:
    """F1 as the paper prints it: of the averaged precision and recall."""
    precision, recall = precision.mean(axis), recall.mean(axis)
    return 2 * precision * recall / np.maximum(precision + recall, 1e-300)


def evaluate(table: pa.Table, label_ranks: Tensor, *, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
    """Ranked and unranked figures of a table of `predictions`, each with a 95 % bootstrap interval.

    Args:
        table: from `predictions`.
        label_ranks: the true ones, (n, K), in the table's order.
        resamples, seed: of the bootstrap.

    Returns:
        `ranked` and `unranked`, each a mapping from a figure's name to `value`, `low`, `high`.
    """
    matrix = lambda name: torch.from_numpy(np.stack(table[name].to_numpy()))  # noqa: E731
    results = {}
    for kind, rates in (
        ("ranked", ranked(matrix("scores"), label_ranks)),
        ("unranked", unranked(matrix("selected"), label_ranks)),
    ):
        columns = {name: values.numpy() for name, values in rates.items()}
        make = partial(interval, resamples=resamples, generator=np.random.default_rng(seed))
        results[kind] = {name: make(values) for name, values in columns.items()}
        results[kind]["f1"] = make(columns["precision"], columns["recall"], statistic=_harmonic)
    return results
