"""Cross-modal retrieval: captions of an image, the image of a caption, judged by recall@K (SoDeep, Section 4.2.3)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checkpoints import build, load_model, save_model, start_from
from rankops.criterion import Criterion, grouped
from rankops.intervals import intervals
from rankops.metrics.recall import first_positive_ranks
from rankops.tables import as_batch, as_lists, decode_images, read_table
from rankops.training import Epoch, compute, random_batches
from rankops.transfer import embedded, head_then_all
from rankops.vocabulary import Vocabulary

__all__ = ["Encoder", "evaluate", "first_ranks", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "recall_at_1"  # the mean of both directions, on the validation split as one fold
HISTORIES = {"everything": "history.csv", "head": "head_history.csv"}
DEPTHS = (1, 5, 10)
FOLDS = 5

Split = tuple[Tensor, list[list[str]]]


@dataclass(frozen=True)
class Encoder:
    """A dual encoder and its vocabulary, in evaluation mode."""

    network: nn.Module
    vocabulary: Vocabulary

    def images(self, images: Tensor) -> Tensor:
        """Embeddings (n, size) of images (n, [3,] height, width) uint8; on the CPU."""
        return self.network.head(embedded(self.network, as_batch(images))).detach().float().cpu()

    @torch.no_grad()
    def captions(self, captions: list[str], *, batch_size: int = 1024) -> Tensor:
        """Embeddings (n, size) of captions; words that are not in the vocabulary count as unknown. On the CPU.

        Raises:
            ValueError: a caption has no words.
        """
        device = next(self.network.parameters()).device
        numbers = self.vocabulary.encode(captions).to(device)
        return torch.cat([self.network.encode_text(part).float().cpu() for part in numbers.split(batch_size)])


def load_split(folder: str | Path, split: str, *, threads: int) -> Split:
    """Images (n, [3,] height, width) uint8 and the captions of each, equally many.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, images have different numbers of captions, or
            one is empty.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "captions"])
    captions = read["captions"].to_pylist()
    for row, several in enumerate(captions):
        if not several or len(several) != len(captions[0]):
            expected = f"{len(captions[0])} as in row 0" if captions[0] else "at least one"
            raise ValueError(f"{path}: row {row}: {len(several or [])} captions, expected {expected}")
        for caption in several:
            if not caption or not Vocabulary.split(caption):
                raise ValueError(f"{path}: row {row}: a caption is {caption!r}, expected at least one word")
    return torch.from_numpy(decode_images(read["image"], path=path, threads=threads)), captions


def first_ranks(images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks of the first right answer among all, 1 = found first.

    Args:
        images: embeddings (n, size).
        captions: embeddings (n, captions, size), each of its image.

    Returns:
        Of each image, the rank of its first caption among all captions (n,); of each caption, the rank of its image
        among all images (n, captions).
    """
    count, several = captions.shape[:2]
    similarity = images @ captions.flatten(0, 1).T  # (n, n * captions)
    owner = torch.arange(count).repeat_interleave(several)
    positives = owner == torch.arange(count).unsqueeze(1)
    to_text = first_positive_ranks(similarity, positives)
    to_image = first_positive_ranks(similarity.T, positives.T)
    return to_text, to_image.view(count, several)


def train(
    train_split: Split,
    val_split: Split,
    *,
    model: dict[str, Any],
    loss: dict[str, Any],
    training: dict[str, Any],
    seed: int,
    start: str | Path | None = None,
    sorter: nn.Module | None = None,
    fine_tune: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    features: dict[str, Tensor] | None = None,
    name: str = "retrieval",
) -> Iterator[tuple[str, Epoch, Encoder]]:
    """Trains a dual encoder; each image is seen with one of its captions in an epoch, chosen at random.

    The loss gets the cosines of all images and captions of a batch, or, where a sorter of fixed length stands in it, of
    groups of that length. The vocabulary is of the training captions.

    Args:
        train_split, val_split: as from `load_split`; images are moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        training: `batch_size`, `least_count` (how often a word must occur to be in the vocabulary), `head` and
            `everything`, see `rankops.transfer.head_then_all`; the text encoder learns in both steps.
        seed: of all random choices.
        start: weights to start from, see `rankops.checkpoints.start_from`; without it the first step is left out.
        sorter, fine_tune, beside: see `rankops.criterion.Criterion`.
        device, precision: see `rankops.training.compute`.
        checkpoint: folder for the state of a training that may be killed.
        features: see `rankops.transfer.head_then_all`.
        name: for messages.

    Yields:
        `head` or `everything`, the epoch, and the encoder with the weights of its best epoch (complete once the
        iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.fit`.
    """
    images, val_images = as_batch(train_split[0]), as_batch(val_split[0])
    place = compute(device=device, precision=precision).device
    several = len(train_split[1][0])
    flat = [caption for captions in train_split[1] for caption in captions]
    vocabulary = Vocabulary.of(flat, least=training["least_count"])
    numbers = vocabulary.encode(flat).to(place)
    val_flat = [caption for captions in val_split[1] for caption in captions]
    network = build(
        "models", model["name"], model["args"], seed=seed, words=len(vocabulary), colours=images.shape[1]
    )  # fmt: skip
    if start is not None:
        start_from(network, start)
    criterion = Criterion(
        loss, sorter=None if sorter is None else sorter.to(place), fine_tune=fine_tune, beside=beside
    )  # fmt: skip
    size, group = training["batch_size"], criterion.length
    encoder = Encoder(network, vocabulary)

    def batches(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in random_batches(len(images), size, generator, multiple_of=group or 1):
            yield rows, (rows * several + torch.randint(several, (len(rows),), generator=generator)).to(place)

    def batch_loss(outputs: Tensor, chosen: Tensor, epoch: int) -> Tensor:
        length = group or len(chosen)
        words = numbers[chosen]
        words = words[:, : int((words != 0).sum(1).max())]  # no longer than the batch's longest
        texts = network.encode_text(words)
        similarity = grouped(outputs, length) @ grouped(texts, length).mT  # (groups, length, length)
        positives = torch.eye(length, dtype=torch.bool, device=place).expand_as(similarity)
        return criterion(similarity, positives, epoch=epoch)

    def figures(outputs: Tensor) -> dict[str, float]:
        texts = encoder.captions(val_flat).unflatten(0, (len(val_images), -1))
        to_text, to_image = first_ranks(outputs.float().cpu(), texts)
        both = [(ranks <= 1).double().mean().item() for ranks in (to_text, to_image)]
        return {JUDGED_BY: sum(both) / 2, "image_to_text": both[0], "text_to_image": both[1]}

    for step, epoch in head_then_all(
        network, images=images, val_images=val_images, batches=batches, batches_per_epoch=-(-len(images) // size),
        loss=batch_loss, figures=figures, judged_by=JUDGED_BY, head=None if start is None else training["head"],
        everything=training["everything"], seed=seed, device=device, precision=precision, checkpoint=checkpoint,
        state=criterion.state, features=features, name=name,
    ):  # fmt: skip
        yield step, epoch, encoder
    network.eval()


def save(path: str | Path, encoder: Encoder) -> None:
    """Writes the network and its vocabulary below `path`, so that `load(path)` rebuilds them."""
    save_model(Path(path) / "network", encoder.network, **encoder.network.recipe)
    (Path(path) / "vocabulary.json").write_text(json.dumps(encoder.vocabulary.words, indent=0) + "\n")


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Encoder:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.checkpoints.load_model`; no vocabulary.
    """
    words = Path(path) / "vocabulary.json"
    if not words.is_file():
        raise FileNotFoundError(f"{words}: no such file; expected a folder that a retrieval run wrote")
    network = load_model(Path(path) / "network").to(device, memory_format=torch.channels_last)
    return Encoder(network, Vocabulary(json.loads(words.read_text())))


def predictions(encoder: Encoder, split: Split) -> pa.Table:
    """One row an image: `id`, `image_embedding`, `captions` and `text_embeddings`, one for each caption.

    Raises:
        FloatingPointError: an embedding is not finite.
    """
    images, captions = split
    placed = encoder.images(images)
    texts = encoder.captions([caption for several in captions for caption in several])
    for kind, embeddings in (("image", placed), ("caption", texts)):
        if not torch.isfinite(embeddings).all():
            row = int((~torch.isfinite(embeddings)).any(1).nonzero()[0])
            raise FloatingPointError(f"{kind} {row}: its embedding is not finite")
    several = len(captions[0])
    offsets = pa.array(np.arange(len(images) + 1) * several, pa.int32())
    return pa.table(
        {
            "id": pa.array(range(len(images)), pa.int64()),
            "image_embedding": as_lists(placed),
            "captions": pa.array(captions, pa.list_(pa.string())),
            "text_embeddings": pa.ListArray.from_arrays(offsets, as_lists(texts)),
        }
    )


def evaluate(table: pa.Table, split: Split, *, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
    """Recall at 1, 5 and 10 and the median rank in both directions, each fold searched by itself, with intervals.

    The test images are cut into 5 folds of equal size, in order (what is left over at the end is left out), as the
    papers do on COCO; figures are means over folds, the median is of all folds' ranks. Intervals are of a bootstrap
    over images, the folds' contents fixed.

    Args:
        table: from `predictions`.
        split: given for the tasks' common form.
        resamples, seed: of the bootstrap.

    Raises:
        ValueError: fewer images than folds.
    """
    images = torch.from_numpy(np.stack(table["image_embedding"].to_numpy()))
    several = len(table["text_embeddings"][0])
    flat = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy()
    texts = torch.from_numpy(flat.reshape(len(images), several, images.shape[1]).copy())
    fold = len(images) // FOLDS
    if fold < 1:
        raise ValueError(f"{len(images)} test images do not make {FOLDS} folds: expected at least {FOLDS}")
    parts = [
        first_ranks(images[start : start + fold], texts[start : start + fold])
        for start in range(0, fold * FOLDS, fold)
    ]  # fmt: skip
    ranks = {
        "image_to_text": torch.cat([to_text for to_text, _ in parts]).unsqueeze(1),
        "text_to_image": torch.cat([to_image for _, to_image in parts]),
    }
    results = {}
    for direction, found in ranks.items():
        values = found.double().numpy()  # (n, captions that search, or 1)

        def figures(rows: np.ndarray, axis: int = -1, values: np.ndarray = values) -> np.ndarray:
            """Of resamples of row numbers (..., n): the recalls, and the median over all that search."""
            chosen = values[rows.astype(np.int64)]
            flat = chosen.reshape(*chosen.shape[:-2], -1)
            return np.stack([(flat <= depth).mean(-1) for depth in DEPTHS] + [np.median(flat, axis=-1)])

        names = [*(f"recall_at_{depth}" for depth in DEPTHS), "median_rank"]
        bounds = intervals(
            np.arange(len(values), dtype=np.float64), statistic=figures, resamples=resamples,
            generator=np.random.default_rng(seed),
        )  # fmt: skip
        results[direction] = dict(zip(names, bounds, strict=True))
    return results
