"""Cross-modal retrieval: captions of an image, the image of a caption, judged by recall@K (SoDeep, Section 4.2.3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.checks import check_finite
from rankops.datasets.splits import read_captions
from rankops.io.checkpoints import build
from rankops.io.parquet import as_batch, as_lists, list_lengths
from rankops.io.recipes import image_size
from rankops.metrics.bootstrap import Statistic
from rankops.metrics.recall import first_positive_ranks
from rankops.models.layers import similarities
from rankops.models.tokenizer import Vocabulary
from rankops.tasks.base import Metric
from rankops.tasks.predict import of_row, picture_of
from rankops.training.finetune import Data, ProbeAndFinetune
from rankops.training.objective import grouped
from rankops.training.options import Training

__all__ = ["Retrieval", "first_ranks"]

WORDS = {"name": "words", "args": {}}  # the captions' backbone, where the model names none
DEPTHS = (1, 5, 10)
AT_ONCE = 1000  # rows of similarities that are ranked together
DIRECTIONS = {"image_to_text": "caption", "text_to_image": "image"}

Split = tuple[Tensor, list[list[str]], Tensor, Tensor]


def first_ranks(images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ranks of the first right answer among all, 1 = found first.

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
    of_captions = numbers.repeat_interleave(several)
    to_text = _ranks(similarity, numbers, of_captions)
    to_image = _ranks(similarity.T, of_captions, numbers)
    return to_text, to_image.view(count, several)


def _ranks(similarity: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the first rank (n,) at which each row finds a column of its number, part by part: they need memory."""
    parts = zip(similarity.split(AT_ONCE), rows.split(AT_ONCE), strict=True)
    return torch.cat([first_positive_ranks(part, own.unsqueeze(1) == columns) for part, own in parts])


def _encoded(network: Any, words: Tensor, batch_size: int = 1024) -> Tensor:
    """Return the embeddings of captions, part by part, on the network's device."""
    device = next(network.parameters()).device
    return torch.cat([network.encode_text(part.to(device)).float() for part in words.split(batch_size)])


@dataclass(frozen=True, kw_only=True)
class RetrievalTraining(Training):
    """`least_count` is how often a word must occur in the training captions to be known, `size` of the common space."""

    least_count: int = 1
    size: int = 128


class Retrieval(ProbeAndFinetune):
    """Embed images and captions in one space; each image is seen with one of its captions in an epoch.

    The loss gets the cosines of all images and captions of a batch, or of groups of the sorter's length where that is
    fixed. The vocabulary is of the training captions; the text encoder learns in both phases.

    Recall is of the whole gallery: all images of a split, and all of their captions, unless the dataset cuts it into
    several. `gallery` among the metrics says how many images are searched.

    A split is images (n, [3,] height, width) uint8, the captions of each, and the numbers of its family and gallery
    (n,).
    """

    name, title = "retrieval", "Cross-modal retrieval"
    monitor = "recall_at_1"  # the mean of both directions, the validation split as one gallery
    metrics = (
        *(
            Metric(
                f"{direction}.{name}",
                f"{found} {title}",
                lower_is_better=name == "median_rank",
                shown=name == "recall_at_1",
            )
            for direction, found in DIRECTIONS.items()
            for name, title in [
                *((f"recall_at_{depth}", f"R@{depth}") for depth in DEPTHS),
                ("median_rank", "median rank"),
            ]
        ),
        Metric("gallery", "images searched", shown=False),
    )
    Training = RetrievalTraining
    columns: ClassVar = {"image": "image?", "caption": "text?"}
    truth = ("positives",)
    learns_from = ("image", "captions")

    def load(self, folder: str | Path, split: str, *, threads: int) -> Split:
        return read_captions(folder, split, threads=threads)

    def images(self, split: Split) -> Tensor:
        return as_batch(split[0])

    def outputs(self, split: Split) -> dict[str, Any]:
        flat = [caption for several in split[1] for caption in several]
        return {"words": Vocabulary.of(flat, least=self.training["least_count"]).words}

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        image = image_size(self.images(split))
        parts = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
        parts |= {"text": model.get("text") or WORDS, "size": self.training["size"]}
        network = build("models", "dual_encoder", parts, seed=seed, colors=image["colors"], **self.outputs(split))
        network.recipe |= {"task": self.name, "image": image}
        return network

    def begin(self, network: Any, phase: str, train: Split, val: Split, **options: Any) -> tuple[Any, Any, Any]:
        network, data, val_data = super().begin(network, phase, train, val, **options)
        numbers = [network.tokenize([caption for several in split[1] for caption in several]) for split in (train, val)]
        return (
            network,
            Data((numbers[0], len(train[1][0]), len(train[0])), data.inputs),
            Data(numbers[1], val_data.inputs),
        )

    def examples(self, split: tuple[Tensor, int, int]) -> int:
        return split[2]

    def choose(self, split: tuple[Tensor, int, int], rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        numbers, several, _ = split
        words = numbers[rows * several + torch.randint(several, (len(rows),), generator=generator)]
        return rows, words[:, : int((words != 0).sum(1).max())]  # no longer than the batch's longest

    def compare(self, network: Any, outputs: Tensor, truth: Tensor, length: int) -> tuple[Tensor, Tensor]:
        texts = network.encode_text(truth.to(outputs.device))
        similarity = similarities(grouped(outputs, length), grouped(texts, length))  # (groups, length, length)
        return similarity, torch.eye(length, dtype=torch.bool, device=outputs.device).expand_as(similarity)

    def measure(self, network: Any, outputs: Tensor, split: Tensor) -> dict[str, float]:
        texts = _encoded(network, split).unflatten(0, (len(outputs), -1))
        both = [(ranks <= 1).double().mean().item() for ranks in first_ranks(outputs.float(), texts)]
        return {self.monitor: sum(both) / 2} | dict(zip(DIRECTIONS, both, strict=True))

    def embed_images(self, network: Any, images: Tensor) -> Tensor:
        """Return embeddings (n, size) of images (n, [3,] height, width), on the CPU."""
        return network.head(self.features(network, as_batch(images))).detach().float().cpu()

    @torch.no_grad()
    def embed_captions(self, network: Any, captions: list[str]) -> Tensor:
        """Return embeddings (n, size) of captions, on the CPU; words that are not in the vocabulary count as unknown.

        Raises:
            ValueError: a caption has no words.
        """
        return _encoded(network, network.tokenize(captions)).cpu()

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row an image: `id`, `image_embedding`, `captions`, `text_embeddings`, `family` and `gallery`."""
        images, captions, family, gallery = split
        placed = self.embed_images(network, images)
        texts = self.embed_captions(network, [caption for several in captions for caption in several])
        check_finite(placed, "image's embedding")
        check_finite(texts.view(len(images), -1), "captions' embeddings")
        offsets = pa.array(np.arange(len(images) + 1) * len(captions[0]), pa.int32())
        return pa.table(
            {
                "id": pa.array(range(len(images)), pa.int64()),
                "image_embedding": as_lists(placed),
                "captions": pa.array(captions, pa.list_(pa.string())),
                "text_embeddings": pa.ListArray.from_arrays(offsets, as_lists(texts)),
                "family": family.numpy(),
                "gallery": gallery.numpy(),
            }
        )

    def statistic(self, table: pa.Table) -> Statistic:
        """Return recall at 1, 5 and 10 and the median rank in both directions, each gallery searched by itself.

        Metrics are over the rows of all galleries; `gallery` is the mean size of that in which an image is searched.
        Resamples are of families of images, which do not err independently; the galleries' contents are fixed.

        Raises:
            ValueError: families of different sizes, images of different numbers of captions, or a missing number.
        """
        for name in ("family", "gallery"):
            if missing := table[name].null_count:
                raise ValueError(f"column {name}: {missing} missing, expected a number in each row; predict again")
        images = torch.from_numpy(np.stack(table["image_embedding"].to_numpy()))
        lengths = list_lengths(table["text_embeddings"])
        several = int(lengths[0])
        if (lengths != several).any():
            row = int((lengths != several).argmax())
            raise ValueError(f"row {row}: {lengths[row]} captions, expected {several} as in row 0; predict again")
        flat = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy()
        texts = torch.from_numpy(flat.reshape(len(images), several, images.shape[1]).copy())
        gallery = torch.from_numpy(table["gallery"].to_numpy().copy())
        searched = gallery.new_zeros(len(images))
        to_text, to_image = gallery.new_zeros(len(images)), gallery.new_zeros(len(images), several)
        for number in gallery.unique():
            rows = (gallery == number).nonzero().squeeze(1)
            to_text[rows], to_image[rows] = first_ranks(images[rows], texts[rows])
            searched[rows] = len(rows)
        ranks, searched = [to_text.unsqueeze(1).numpy(), to_image.numpy()], searched.double().numpy()
        family = table["family"].to_numpy()
        families, sizes = np.unique(family, return_counts=True)
        if len(set(sizes)) > 1:
            raise ValueError(
                f"{len(images)} images have families of {sorted(set(sizes.tolist()))} images, expected one size: "
                "choose a number of images by which no family is cut"
            )
        members = np.argsort(family, kind="stable").reshape(len(families), -1)

        def of_rows(rows: np.ndarray) -> np.ndarray:
            rows = members[rows].reshape(*rows.shape[:-1], -1)
            found = []
            for values in ranks:  # (n, captions that search, or 1)
                chosen = values[rows]
                flat = chosen.reshape(*chosen.shape[:-2], -1)
                found += [(flat <= depth).mean(-1) for depth in DEPTHS] + [np.median(flat, axis=-1)]
            return np.stack([*found, searched[rows].mean(-1)])

        return Statistic([metric.name for metric in self.metrics], len(families), of_rows)

    def respond(self, network: Any, rows: Iterable[dict[str, Any]], *, first: int = 0) -> list[dict[str, Any]]:
        """Return the `embedding` of each row's `image` or `caption`, of unit length."""
        answers = []
        for number, row in enumerate(rows, first):
            with of_row(number):
                image, caption = row.get("image"), row.get("caption")
                if isinstance(image, bytes) == isinstance(caption, str):
                    raise ValueError("expected either an image or a caption")
                if isinstance(caption, str):
                    embedding = self.embed_captions(network, [caption])
                else:
                    embedding = self.embed_images(network, picture_of(network, image, where=f"row {number}"))
                answers.append({"embedding": embedding[0].tolist()})
        return answers
