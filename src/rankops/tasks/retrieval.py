"""Cross-modal retrieval: captions of an image, the image of a caption, judged by recall@K (SoDeep, Section 4.2.3)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from rankops.checks import check_finite
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import load_model, save_model
from rankops.io.parquet import as_batch, as_lists, decode_images, read_table
from rankops.metrics.evaluation import Figures
from rankops.metrics.recall import first_positive_ranks
from rankops.models.layers import similarities
from rankops.models.tokenizer import Vocabulary
from rankops.training import finetune
from rankops.training.finetune import HISTORIES, embedded
from rankops.training.loop import Epoch
from rankops.training.objective import grouped

__all__ = [
    "HISTORIES", "JUDGED_BY", "Encoder", "figures", "first_ranks", "load", "load_split", "predictions", "save",
    "train",
]  # fmt: skip

JUDGED_BY = "recall_at_1"  # the mean of both directions, on the validation split as one fold
DEPTHS = (1, 5, 10)
FOLDS = 5

Split = tuple[Tensor, list[list[str]], Tensor]  # images, the captions of each, and to which family each belongs


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
        return _encoded(self.network, self.vocabulary.encode(captions), batch_size).cpu()


def _encoded(network: nn.Module, words: Tensor, batch_size: int = 1024) -> Tensor:
    """Embeddings of captions, part by part; on the network's device."""
    device = next(network.parameters()).device
    return torch.cat([network.encode_text(part.to(device)).float() for part in words.split(batch_size)])


def load_split(folder: str | Path, split: str, *, threads: int) -> Split:
    """Images (n, [3,] height, width) uint8, the captions of each, equally many, and the number of its family (n,).

    Images of a family, the twins of made scenes, compete for the same captions; without a column `family` each is one
    by itself.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, images have different numbers of captions, or
            one is empty.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "captions"])
    families = torch.arange(len(read))
    if "family" in pq.read_schema(path).names:
        families = torch.from_numpy(read_table(path, ["family"])["family"].to_numpy().copy())
    captions = read["captions"].to_pylist()
    for row, several in enumerate(captions):
        if not several or len(several) != len(captions[0]):
            expected = f"{len(captions[0])} as in row 0" if captions[0] else "at least one"
            raise ValueError(f"{path}: row {row}: {len(several or [])} captions, expected {expected}")
        for caption in several:
            if not caption or not Vocabulary.split(caption):
                raise ValueError(f"{path}: row {row}: a caption is {caption!r}, expected at least one word")
    return torch.from_numpy(decode_images(read["image"], path=path, threads=threads)), captions, families


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
    numbers = torch.arange(count, device=similarity.device)
    positives = numbers.repeat_interleave(several) == numbers.unsqueeze(1)
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
    name: str = "retrieval",
    **options: Any,
) -> Iterator[tuple[str, Epoch, Encoder]]:
    """Trains a dual encoder; each image is seen with one of its captions in an epoch, chosen at random.

    The loss gets the cosines of all images and captions of a batch, or, where a sorter of fixed length stands in it, of
    groups of that length. The vocabulary is of the training captions.

    Args:
        train_split, val_split: as from `load_split`; images are moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        training: `batch_size`, `least_count` (how often a word must occur to be in the vocabulary), `head` and
            `everything`, see `rankops.training.finetune.train`; the text encoder learns in both steps.
        seed: of all random choices.
        name: for messages.
        options: `start`, `sorter`, `fine_tune`, `beside`, `device`, `precision`, `checkpoint` and `features`, see
            `rankops.training.finetune.train`.

    Yields:
        `head` or `everything`, the epoch, and the encoder with the weights of its best epoch (complete once the
        iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.loop.fit`.
    """
    images, captions = train_split[:2]
    val_images, val_captions = val_split[:2]
    several = len(captions[0])
    flat, val_flat = ([caption for group in split for caption in group] for split in (captions, val_captions))
    vocabulary = Vocabulary.of(flat, least=training["least_count"])
    numbers, val_numbers = vocabulary.encode(flat), vocabulary.encode(val_flat)

    def draw(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        words = numbers[rows * several + torch.randint(several, (len(rows),), generator=generator)]
        return rows, words[:, : int((words != 0).sum(1).max())]  # no longer than the batch's longest

    def compared(network: nn.Module, outputs: Tensor, words: Tensor, length: int) -> tuple[Tensor, Tensor]:
        texts = network.encode_text(words.to(outputs.device))
        similarity = similarities(grouped(outputs, length), grouped(texts, length))  # (groups, length, length)
        return similarity, torch.eye(length, dtype=torch.bool, device=outputs.device).expand_as(similarity)

    def validated(network: nn.Module, outputs: Tensor) -> dict[str, float]:
        texts = _encoded(network, val_numbers).unflatten(0, (len(val_images), -1))
        to_text, to_image = first_ranks(outputs.float(), texts)
        both = [(ranks <= 1).double().mean().item() for ranks in (to_text, to_image)]
        return {JUDGED_BY: sum(both) / 2, "image_to_text": both[0], "text_to_image": both[1]}

    for step, epoch, network in finetune.train(
        model=model, outputs={"words": len(vocabulary)}, loss=loss, training=training, rows=len(images),
        images=as_batch(images), val_images=as_batch(val_images), draw=draw, compared=compared, figures=validated,
        judged_by=JUDGED_BY, seed=seed, name=name, **options,
    ):  # fmt: skip
        yield step, epoch, Encoder(network, vocabulary)


def save(path: str | Path, encoder: Encoder) -> None:
    """Writes the network and its vocabulary below `path`, so that `load(path)` rebuilds them."""
    save_model(Path(path) / "network", encoder.network)
    with replaced_file(Path(path) / "vocabulary.json") as partial:
        partial.write_text(json.dumps(encoder.vocabulary.words, indent=0) + "\n")


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Encoder:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.io.checkpoints.load_model`; no vocabulary, or not that of the network.
    """
    words = Path(path) / "vocabulary.json"
    if not words.is_file():
        raise FileNotFoundError(f"{words}: no such file; expected a folder that a retrieval run wrote")
    network = load_model(Path(path) / "network", device=device)
    try:
        vocabulary = Vocabulary(json.loads(words.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{words}: no list of words ({error}); make it again with `dvc repro`") from error
    if len(vocabulary) != network.words.num_embeddings:
        raise ValueError(
            f"{words}: {len(vocabulary)} words, but the network beside it has embeddings of "
            f"{network.words.num_embeddings}: they were not saved together; make both again with `dvc repro`"
        )
    return Encoder(network, vocabulary)


def predictions(encoder: Encoder, split: Split) -> pa.Table:
    """One row an image: `id`, `image_embedding`, `captions` and `text_embeddings`, one for each caption.

    Raises:
        FloatingPointError: an embedding is not finite.
    """
    images, captions = split[:2]
    placed = encoder.images(images)
    texts = encoder.captions([caption for several in captions for caption in several])
    check_finite(placed, "image's embedding")
    check_finite(texts.view(len(images), -1), "captions' embeddings")
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


def figures(table: pa.Table, split: Split) -> Figures:
    """Recall at 1, 5 and 10 and the median rank in both directions, each fold searched by itself.

    The images are cut into 5 folds of equal size, in order (what is left over at the end is left out), as the papers do
    on COCO; figures are means over folds, the median is of all folds' ranks. Resamples are of families of images,
    which do not err independently, the folds' contents fixed.

    Args:
        table: from `predictions`.
        split: as from `load_split`, in the table's order.

    Raises:
        ValueError: fewer images than folds, or families of different sizes among those of the folds.
    """
    images = torch.from_numpy(np.stack(table["image_embedding"].to_numpy()))
    several = len(table["text_embeddings"][0])
    flat = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy()
    texts = torch.from_numpy(flat.reshape(len(images), several, images.shape[1]).copy())
    fold = len(images) // FOLDS
    if fold < 1:
        raise ValueError(f"{len(images)} images do not make {FOLDS} folds: expected at least {FOLDS}")
    parts = [
        first_ranks(images[start : start + fold], texts[start : start + fold])
        for start in range(0, fold * FOLDS, fold)
    ]  # fmt: skip
    ranks = {
        "image_to_text": torch.cat([to_text for to_text, _ in parts]).unsqueeze(1).numpy(),
        "text_to_image": torch.cat([to_image for _, to_image in parts]).numpy(),
    }

    families, sizes = np.unique(split[2][: fold * FOLDS].numpy(), return_counts=True)
    if len(set(sizes)) > 1:
        raise ValueError(
            f"{fold * FOLDS} images in {FOLDS} folds have families of {sorted(set(sizes.tolist()))} images, expected "
            "one size: choose a number of images by which no family is cut"
        )
    members = np.argsort(split[2][: fold * FOLDS].numpy(), kind="stable").reshape(len(families), -1)

    def of_rows(rows: np.ndarray) -> np.ndarray:
        rows = members[rows].reshape(*rows.shape[:-1], -1)
        found = []
        for values in ranks.values():  # (n, captions that search, or 1)
            chosen = values[rows]
            flat = chosen.reshape(*chosen.shape[:-2], -1)
            found += [(flat <= depth).mean(-1) for depth in DEPTHS] + [np.median(flat, axis=-1)]
        return np.stack(found)

    of_each = [*(f"recall_at_{depth}" for depth in DEPTHS), "median_rank"]
    return Figures([f"{direction}.{name}" for direction in ranks for name in of_each], len(families), of_rows)
