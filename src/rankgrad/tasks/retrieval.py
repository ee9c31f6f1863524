"""Cross-modal retrieval: find an item's captions and a caption's item; metric recall@K (SoDeep, Section 4.2.3)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad import lookup
from rankgrad.checks import check_finite
from rankgrad.datasets.files.splits import Split, captions_of, padded
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs, one_of, type_of
from rankgrad.inputs.text import Text
from rankgrad.io.parquet import as_lists, list_lengths, ragged_lists
from rankgrad.layers import similarities
from rankgrad.metrics.median_rank import first_positive_ranks
from rankgrad.tasks._base import SHOWN, Examples, Metric, Reads, mean_of, network_of, weight_of
from rankgrad.tasks._phases import GroupPhase, TwoPhases
from rankgrad.tasks._predict import Column, Id, of_row
from rankgrad.training.objective import grouped
from rankgrad.training.options import Component, Training, check_least, check_lists
from rankgrad.training.phase import Batch
from rankgrad.vocabulary import Vocabulary

__all__ = ["Retrieval", "first_ranks"]

WORDS = Component("words")  # default backbone for captions
DEPTHS = (1, 5, 10)
CUT = 10  # of MRR@10
COUNTED = (1, math.inf)  # limits of a number of items, or of a rank
FOUND = ("image_embedding", "captions", "text_embeddings")  # columns that a search for captions needs
AT_ONCE = 1000  # rows of similarities that are ranked together
DIRECTIONS = {"item_to_text": "caption", "text_to_item": "item"}


def first_ranks(items: Tensor, captions: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rank of the first correct result in both directions; 1 is the best.

    Args:
        items: embeddings (n, size).
        captions: embeddings (m, size), grouped by item.
        counts: the number of captions of each item (n,).

    Returns:
        For each item, the rank of its best caption among all captions (n,); for each caption, the rank of its item
        among all items (m,).
    """
    similarity = items @ captions.T  # (n, m)
    numbers = torch.arange(len(items), device=similarity.device)
    of_captions = numbers.repeat_interleave(counts.to(similarity.device))
    return _ranks(similarity, numbers, of_captions), _ranks(similarity.T, of_captions, numbers)


def _ranks(similarity: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the first rank (n,) at which each row finds a column with its number; work in chunks to save memory."""
    ranks = []
    for chunk, numbers in zip(similarity.split(AT_ONCE), rows.split(AT_ONCE), strict=True):
        ranks.append(first_positive_ranks(chunk, numbers.unsqueeze(1) == columns))
    return torch.cat(ranks)


def _encoded(network: Any, words: Tensor, batch_size: int = 1024) -> Tensor:
    """Return the embeddings of captions, computed in chunks, on the network's device."""
    device = next(network.parameters()).device
    return torch.cat([network.encode_text(chunk.to(device)).float() for chunk in words.split(batch_size)])


def _tokenized(network: Any, split: Split) -> Split:
    """Return a split whose captions are word numbers."""
    return replace(split, truth=split.truth._replace(texts=network.tokenize(split.truth.texts)))


@dataclass(frozen=True, kw_only=True)
class RetrievalTraining(Training):
    """Options of the training of retrieval.

    `size` is the dimension of the common embedding space. A word must occur `least_count` times in the training
    captions to enter the vocabulary. With `shared`, the items' encoder also encodes captions; items must be texts, such
    as the passages that queries search. `together` puts that many items of a family (the column `family`), such as
    twins, into the same batch; with None, batches have any rows.
    """

    least_count: int = 1
    size: int = 128
    shared: bool = False
    together: int | None = None
    monitor: Literal["recall_at_1", "item_to_text", "text_to_item"] = "recall_at_1"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, least_count=1, size=1)
        check_lists("together", self.together, self.batch_size)


class PairPhase(GroupPhase):
    """Pair each item with one of its captions; the loss gets the cosines of all items and captions of a group."""

    monitor = "recall_at_1"  # mean of both directions, with the validation split as one gallery

    def together(self, training: RetrievalTraining) -> tuple[str, int, Tensor] | None:
        if (length := training.together) is None:
            return None
        return "together", length, self.train.truth.family.unique(return_inverse=True)[1]

    def choose(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        counts = self.train.truth.counts
        words = self.train.truth.texts[(counts.cumsum(0) - counts)[rows] + one_of(counts[rows], generator)]
        return words[:, : int((words != 0).sum(1).max())]  # cut to the longest caption of the batch

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        (inputs,), (words, weight) = super().batch(rows, generator)
        return Batch((inputs, words), (weight,))

    def outputs(self, module: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        items, words = inputs
        return super().outputs(module, items), module.encode_text(words)

    def compare(self, *values: Tensor, length: int) -> tuple[Tensor, Tensor]:
        items, captions = values
        similarity = similarities(grouped(items, length), grouped(captions, length))  # (groups, length, length)
        return similarity, torch.eye(length, dtype=torch.bool, device=similarity.device).expand_as(similarity)

    def weigh(self, weight: Tensor, scores: Tensor) -> dict[str, Tensor]:
        return {"weights": weight.view(*scores.shape[:2], 1).expand_as(scores)}

    def measure(self, network: Any, outputs: Tensor) -> dict[str, float]:
        truth = self.val.truth
        to_text, to_image = first_ranks(outputs, _encoded(network, truth.texts), truth.counts)
        weight = self.val.weight
        of_captions = None if weight is None else weight.repeat_interleave(truth.counts)
        text, image = mean_of(to_text <= 1, weight), mean_of(to_image <= 1, of_captions)
        return {"recall_at_1": (text + image) / 2, "item_to_text": text, "text_to_item": image}


def _metrics_of(direction: str) -> list[Metric]:
    """Return recall at each depth, the median rank and the mean reciprocal rank of one direction."""
    answer = DIRECTIONS[direction]
    metrics = []
    for depth in DEPTHS:
        metrics.append(Metric(f"{direction}.recall_at_{depth}", f"{answer} R@{depth}", shown=depth == 1))
    metrics.append(
        Metric(f"{direction}.median_rank", f"{answer} median rank", lower_is_better=True, shown=False, limits=COUNTED)
    )
    return [*metrics, Metric(f"{direction}.reciprocal_rank_at_{CUT}", f"{answer} MRR@{CUT}", shown=False)]


class Retrieval(TwoPhases):
    """Embed items and captions in one space; each epoch pairs an item with one of its captions.

    Items are images, vectors, or texts; captions are any texts that search for an item, including queries.

    The loss gets the cosines of all items and captions of a batch, or of groups of the sorter's length if that is
    fixed. The vocabulary comes from the training captions; the text encoder is trained in both phases.

    Recall is computed over the whole gallery: all items of a split and all their captions, unless the dataset divides
    the split into several galleries. The metric `gallery` is the number of items searched.

    A truth is `rankgrad.datasets.files.splits.Captions`.
    """

    title = "Cross-modal retrieval"
    metrics = (
        *_metrics_of("item_to_text"),
        *_metrics_of("text_to_item"),
        Metric("gallery", "items searched", shown=False, limits=COUNTED),
    )
    Training = RetrievalTraining
    reads = Reads(("captions",), captions_of, optional=("family", "gallery"), sampled=False)
    phase = PairPhase
    text = WORDS

    def learns(self) -> tuple[str, ...]:
        return ("positives",)

    @classmethod
    def accepts(cls, model: Mapping[str, Any]) -> None:
        text = model.get("text")
        if text is not None and (takes := lookup.find("models.backbones", text["name"]).input) not in Text.backbones:
            raise ValueError(f"{text['name']} takes {takes}, expected a backbone for text")

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        items = split.inputs.type.texts(split.inputs.items)
        if self.training.shared and split.inputs.type is not Text:
            raise ValueError(
                f"training.shared: items are {split.inputs.type.name}, expected text, because captions are"
            )
        texts = split.truth.texts + items
        words = Vocabulary.of(texts, least=self.training.least_count).words
        text = None if self.training.shared else model.get("text") or asdict(WORDS)
        args = {"text": text, "size": self.training.size, "words": words}
        return network_of("dual_encoder", model, split, seed=seed, task=self.name, **args)

    def splits_for(self, network: Any, train: Split, val: Split) -> tuple[Split, Split]:
        return _tokenized(network, train), _tokenized(network, val)

    @torch.no_grad()
    def embed_captions(self, network: Any, captions: list[str]) -> Tensor:
        """Return embeddings (n, size) of captions, on the CPU; words outside the vocabulary count as unknown.

        Raises:
            ValueError: a caption has no words.
        """
        return _encoded(network, network.tokenize(captions)).cpu()

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per item: `id`, `image_embedding`, `captions`, `text_embeddings`, `family` and `gallery`."""
        return self.table_of(
            split, (self.outputs(network, split.inputs), self.embed_captions(network, split.truth.texts))
        )

    def table_of(self, split: Split, scores: tuple[Tensor, Tensor]) -> pa.Table:
        texts, counts, family, gallery = split.truth
        placed, embedded = scores
        check_finite(placed, "item's embedding")
        check_finite(embedded, "captions' embeddings")
        columns = {
            "image_embedding": as_lists(placed),
            "captions": ragged_lists(pa.array(texts, pa.string()), counts),
            "text_embeddings": ragged_lists(as_lists(embedded), counts),
            "family": pa.array(family.numpy()),
            "gallery": pa.array(gallery.numpy()),
        }
        return split.table(columns)

    def scored(self, table: pa.Table) -> Statistic:
        """Return recall, median rank, and MRR@10 in both directions; each gallery is searched separately.

        Metrics cover the rows of all galleries; `gallery` is the mean gallery size over items. Recall uses the weights
        of rows, if there are any. The bootstrap resamples families of items, because their errors are not independent,
        or groups; the galleries themselves do not change.

        Raises:
            ValueError: a number is missing.
        """
        for name in ("family", "gallery"):
            if missing := table[name].null_count:
                raise ValueError(
                    f"column {name}: {missing} missing, expected a number in each row; run `dvc repro` again"
                )
        items = torch.from_numpy(np.stack(table["image_embedding"].to_numpy()))
        counts = torch.from_numpy(list_lengths(table["text_embeddings"]).astype(np.int64))
        flat = np.concatenate([chunk.flatten().flatten() for chunk in table["text_embeddings"].chunks])
        texts = torch.from_numpy(flat).view(-1, items.shape[1]).split(counts.tolist())
        gallery = torch.from_numpy(table["gallery"].to_numpy().copy())
        searched, to_text = gallery.new_zeros(len(items)), gallery.new_zeros(len(items))
        to_image, is_caption = padded(gallery.new_zeros(int(counts.sum())), counts)
        for number in gallery.unique():
            rows = (gallery == number).nonzero().squeeze(1)
            captions = torch.cat([texts[row] for row in rows.tolist()])
            to_text[rows], of_captions = first_ranks(items[rows], captions, counts[rows])
            to_image[rows] = to_image[rows].masked_scatter(is_caption[rows], of_captions)
            searched[rows] = len(rows)
        weight = weight_of(table)
        weight = np.ones(len(items)) if weight is None else weight
        searches = [
            (to_text.unsqueeze(1).double().numpy(), np.ones((len(items), 1), bool)),
            (to_image.double().numpy(), is_caption.numpy()),
        ]
        sizes = searched.double().numpy()

        def of_rows(rows: np.ndarray) -> np.ndarray:
            metrics = []
            for ranks_of, is_search in searches:  # (n, captions that search, or 1)
                ranks = ranks_of[rows].reshape(*rows.shape[:-1], -1)
                counted = is_search[rows].reshape(ranks.shape)
                share = (is_search * weight[:, None])[rows].reshape(ranks.shape)
                metrics += [((ranks <= depth) * share).sum(-1) / share.sum(-1) for depth in DEPTHS]
                median = np.median if counted.all() else np.nanmedian
                metrics.append(median(ranks if counted.all() else np.where(counted, ranks, np.nan), axis=-1))
                found = np.where((ranks <= CUT) & (ranks > 0), 1 / np.maximum(ranks, 1), 0.0)
                metrics.append((found * share).sum(-1) / share.sum(-1))
            return np.stack([*metrics, sizes[rows].mean(-1)])

        return Statistic([metric.name for metric in self.metrics], len(items), of_rows)

    def group_of(self, table: pa.Table) -> np.ndarray | None:
        group = super().group_of(table)
        return table["family"].to_numpy() if group is None else group

    def columns(self, recipe: Mapping[str, Any]) -> dict[str, Column]:
        item = type_of(recipe["input"])
        optional = {item.name: Column(item, required=False), "caption": Column(Text, required=False)}
        return optional | {"id": Column(Id, required=False)}

    def checked(
        self, recipe: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], *, first: int = 0
    ) -> list[dict[str, Any]]:
        """Check the rows of a request; each must have either an item or a caption."""
        checked, item = super().checked(recipe, rows, first=first), type_of(recipe["input"]).name
        for number, row in enumerate(checked, first):
            if (item in row) == ("caption" in row):
                raise ValueError(f"row {number}: expected either {item} or caption")
        return checked

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return each item's `embedding`, with unit length."""
        return [{"embedding": embedding} for embedding in self.outputs(network, inputs).tolist()]

    def answers_to(self, network: Any, rows: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        """Return the `embedding` of each row's item or `caption`, with unit length."""
        about, answers = network.recipe["input"], []
        item = type_of(about)
        for number, row in enumerate(rows, first):
            with of_row(number):
                if "caption" in row:
                    _check_known(network, row["caption"])
                    embedding = self.embed_captions(network, [row["caption"]])
                else:
                    prepared = item.prepared([row[item.name]], about, where=f"row {number}")
                    embedding = self.outputs(network, item.gathered([prepared], about))
            answers.append({"embedding": embedding[0].tolist()})
        return answers

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        plots.found_captions(path, examples.inputs(SHOWN), _found(examples.predicted(*FOUND)))
        return True


def _check_known(network: Any, caption: str) -> None:
    """Raise a ValueError if the caption encoder has a vocabulary but knows no word of a caption.

    The result would then depend only on the number of words.
    """
    vocabulary = getattr(network.texts.backbone, "vocabulary", None)
    if vocabulary is not None and not vocabulary.has_word_of(caption):
        raise ValueError(f"the model knows no word of the caption {caption[:60]!r}, expected at least one")


def _found(table: pa.Table) -> list[list[tuple[str, bool]]]:
    """Return the three best captions for each of the first items, and whether each belongs to the item."""
    items = np.stack(table["image_embedding"][:SHOWN].to_numpy())
    texts = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy().reshape(-1, items.shape[1])
    captions = []
    for item, of_item in enumerate(table["captions"].to_pylist()):
        captions += [(text, item) for text in of_item]
    best = np.argsort(-(items @ texts.T), axis=1, kind="stable")[:, :3]
    pictures = []
    for item, numbers in enumerate(best):
        answers = [captions[number] for number in numbers]
        pictures.append([(text, owner == item) for text, owner in answers])
    return pictures
