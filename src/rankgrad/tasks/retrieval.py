"""Cross-modal retrieval: find an item's captions and a caption's item; metric recall@K (SoDeep, Section 4.2.3)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional

from rankgrad import lookup
from rankgrad.checks import check_finite
from rankgrad.datasets.files.splits import MEMORY, Split, captions_of, padded
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs, one_of, type_of
from rankgrad.inputs.text import Text, of_strings
from rankgrad.io.parquet import COLLECTION, as_lists, flat, ragged_lists, read_table
from rankgrad.layers import similarities
from rankgrad.metrics.median_rank import first_positive_ranks
from rankgrad.plain_text import spelled_alike
from rankgrad.tasks._base import SHOWN, Examples, Metric, Reads, mean_of, network_of, weight_of
from rankgrad.tasks._phases import GroupPhase, TwoPhases, embedded
from rankgrad.tasks._predict import Column, Id, of_row
from rankgrad.training.objective import grouped
from rankgrad.training.options import Component, Training, check_least, check_lists
from rankgrad.training.phase import Batch
from rankgrad.vocabulary import Vocabulary

__all__ = ["Retrieval", "first_ranks", "searching"]

WORDS = Component("words")  # default backbone for captions
DEPTHS = (1, 5, 10)
CUT = 10  # of MRR@10
COUNTED = (1, math.inf)  # limits of a number of items, or of a rank
FOUND = ("image_embedding", "captions", "text_embeddings")  # columns that a search for captions needs
AT_ONCE = 1000  # rows of similarities that are ranked together
DIRECTIONS = {"item_to_text": "caption", "text_to_item": "item"}


def first_ranks(
    items: Tensor,
    captions: Tensor,
    counts: Tensor,
    *,
    others: Iterable[Tensor] = (),
    ignored: Tensor | None = None,
    firsts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the rank of the first correct result in both directions; 1 is the best.

    Args:
        items: embeddings (n, size).
        captions: embeddings (m, size), grouped by item.
        counts: the number of captions of each item (n,).
        others: embeddings (o, size) of further items that captions search, in pieces.
        ignored: pairs (k, 2) of a caption and an item that do not count as wrong, and neither do equal items; `others`
            are numbered from n.
        firsts: the number of the first item that equals each item (n,); captions search equal items once.

    Returns:
        For each item, the rank of its best caption among all captions (n,); for each caption, the rank of its item
        among all items and `others` (m,).
    """
    similarity = items @ captions.T  # (n, m)
    numbers = torch.arange(len(items), device=similarity.device)
    of_captions = numbers.repeat_interleave(counts.to(similarity.device))
    caption, item = torch.zeros(2, 0, dtype=torch.int64) if ignored is None else ignored.T
    caption, item = caption.to(similarity.device), item.to(similarity.device)
    is_inside, lowest = item < len(items), torch.finfo(similarity.dtype).min
    is_ignored = torch.zeros_like(similarity, dtype=torch.bool)
    is_ignored[item[is_inside], caption[is_inside]] = True
    if firsts is not None:
        is_ignored = is_ignored[firsts.to(similarity.device)]
    is_ignored.T.scatter_(1, of_captions.unsqueeze(1), False)
    similarity[is_ignored] = lowest
    to_text, own = _ranks(similarity, numbers, of_captions), similarity.T.gather(1, of_captions.unsqueeze(1))
    if firsts is not None:
        similarity[firsts.to(similarity.device) != numbers] = lowest
        similarity.T.scatter_(1, of_captions.unsqueeze(1), own)
    to_item, first = _ranks(similarity.T, of_captions, numbers), len(items)

    # Count the other items that match a caption at least as well as its own item.
    for piece in others:
        check_finite(piece, "passage's embedding")
        scores = captions @ piece.T
        is_inside = (item >= first) & (item < first + len(piece))
        scores[caption[is_inside], item[is_inside] - first] = lowest
        to_item += (scores >= own).sum(1)
        first += len(piece)
    return to_text, to_item


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


def searching(split: Split, texts: list[str], answered: Iterable[tuple[str, Iterable[str]]]) -> Split:
    """Return a split of passages and queries (captions) whose queries also search other passages.

    A passage that answers a query, in this split or in another, does not count as wrong for it, and neither does a
    passage with the same text as one that answers it.

    Args:
        split: the split.
        texts: the other passages.
        answered: passages of any split, each with the queries that it answers.
    """
    # Number the split's own passages, then the others; of equal ones of the split, only the first.
    own_passages, queries = split.inputs.items, [spelled_alike(query) for query in split.truth.texts]
    keys, numbers = [spelled_alike(text) for text in (*own_passages, *texts)], defaultdict[str, list[int]](list)
    for passage, key in enumerate(keys):
        if passage >= len(split) or key not in numbers:
            numbers[key].append(passage)

    answers = defaultdict[str, set[str]](set)
    passage_of_query = torch.arange(len(split)).repeat_interleave(split.truth.counts).tolist()
    for passage, query in zip(passage_of_query, queries, strict=True):
        answers[query].add(keys[passage])
    for text, of_text in answered:
        for query in answers.keys() & map(spelled_alike, of_text):
            answers[query].add(spelled_alike(text))

    right, counts = [], []
    for query in queries:
        count = len(right)
        for key in sorted(answers[query]):
            right += numbers.get(key, ())
        counts.append(len(right) - count)
    ignored = torch.stack([torch.arange(len(queries)).repeat_interleave(torch.tensor(counts)), torch.tensor(right)], 1)
    firsts = torch.tensor([numbers[key][0] for key in keys[: len(split)]])
    return replace(split, truth=split.truth._replace(others=texts, ignored=ignored, firsts=firsts))


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

    def __init__(self, task: "Retrieval", name: str, module: Any, train: Split, *arguments: Any, **options: Any):
        super().__init__(task, name, module, train, *arguments, **options)
        self.negatives: Inputs | None = None
        self.passages, self.queries = None, None  # numbers that are equal for equal texts
        if train.inputs.type is Text:
            texts = [spelled_alike(text) for text in train.inputs.items]
            self.passages = torch.from_numpy(np.unique(texts, return_inverse=True)[1])
            self.queries = train.truth.texts.unique(dim=0, return_inverse=True)[1]
        if (negatives := train.truth.negatives) is None or not any(negatives):
            return
        if self.length is not None:
            raise ValueError(
                f"the sorter ranks {self.length} scores, but with the table's `negatives` there is one more: choose a "
                "sorter of any length, such as laplace"
            )
        self.negatives = of_strings([*chain(*negatives)]).ready(module).to(self.inputs.device)
        self.negative_counts = torch.tensor([len(texts) for texts in negatives])
        if self.frozen:
            self.negatives = self.negatives.replaced(task.features(module, self.negatives))

    def together(self, training: RetrievalTraining) -> tuple[str, int, Tensor] | None:
        if (length := training.together) is None:
            return None
        return "together", length, self.train.truth.family.unique(return_inverse=True)[1]

    def choose(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        counts = self.train.truth.counts
        return (counts.cumsum(0) - counts)[rows] + one_of(counts[rows], generator)

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        (inputs,), (chosen, weight) = super().batch(rows, generator)
        chosen = chosen.cpu()
        words = self.train.truth.texts[chosen]
        words = words[:, : int((words != 0).sum(1).max())].to(inputs.device)  # cut to the longest caption of the batch
        alike = None
        if self.passages is not None and self.queries is not None:
            alike = torch.stack([self.passages[rows], self.queries[chosen]], 1).to(inputs.device)
        if self.negatives is None:
            return Batch((inputs, words), (alike, None, weight))
        # A caption without negatives gets any text, which `compare` does not count.
        counts, first = self.negative_counts[chosen], (self.negative_counts.cumsum(0) - self.negative_counts)[chosen]
        drawn = first.clamp(max=len(self.negatives) - 1) + one_of(counts.clamp(min=1), generator)
        exist = (counts > 0).to(inputs.device)
        return Batch((inputs, words, self.negatives.take(drawn)), (alike, exist, weight))

    def outputs(self, module: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        items, words, *negatives = inputs
        embedded = [super(PairPhase, self).outputs(module, texts) for texts in negatives]
        return super().outputs(module, items), module.encode_text(words), *embedded

    def compare(self, *values: Any, length: int) -> tuple[Tensor, Tensor]:
        """Return similarities and which are right, (groups, length, length), or with the column of negatives.

        A passage is right for a query if a row has both, also with other rows of the batch that have an equal text.
        """
        (items, captions, *negatives), (alike, exist) = values[:-2], values[-2:]
        similarity = similarities(grouped(items, length), grouped(captions, length))
        right = torch.eye(length, dtype=torch.bool, device=similarity.device).expand_as(similarity)
        if alike is not None:
            numbers = grouped(alike, length)  # (groups, length, 2), of passages and queries
            right = (numbers.unsqueeze(1) == numbers.unsqueeze(2)).any(-1)
        if not negatives:
            return similarity, right
        # Each row is a caption here. Its last column is its own negative, or the lowest cosine if it has none.
        own = similarities(captions.unsqueeze(1), negatives[0].unsqueeze(1)).flatten().where(exist, -1.0)
        similarity = torch.cat([similarity.mT, grouped(own, length).unsqueeze(-1)], -1)
        return similarity, functional.pad(right, (0, 1))

    def weigh(self, weight: Tensor, scores: Tensor) -> dict[str, Tensor]:
        return {"weights": weight.view(*scores.shape[:2], 1).expand_as(scores)}

    def measure(self, network: Any, outputs: Tensor) -> dict[str, float]:
        truth, others = self.val.truth, ()
        if truth.others is not None:  # which are the training passages, see `splits_for`
            others = self.outputs_of(network, self.inputs).split(AT_ONCE)
        to_text, to_image = first_ranks(
            outputs, _encoded(network, truth.texts), truth.counts,
            others=others, ignored=truth.ignored, firsts=truth.firsts,
        )  # fmt: skip
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
    the split into several galleries. If the dataset has a collection, captions search all of it: passages of any split,
    and those that answer no query; validation in training searches the passages of validation and training. The metric
    `gallery` is the number of items searched.

    A truth is `rankgrad.datasets.files.splits.Captions`.
    """

    title = "Cross-modal retrieval"
    metrics = (
        *_metrics_of("item_to_text"),
        *_metrics_of("text_to_item"),
        Metric("gallery", "items searched", shown=False, limits=COUNTED),
    )
    learns = ("positives",)
    Training = RetrievalTraining
    reads = Reads(("captions",), captions_of, optional=("family", "gallery", "negatives"), sampled=False)
    phase = PairPhase
    text = WORDS

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
        texts = [*split.truth.texts, *items, *chain(*(split.truth.negatives or ()))]
        words = Vocabulary.of(texts, least=self.training.least_count).words
        text = None if self.training.shared else model.get("text") or asdict(WORDS)
        args = {"text": text, "size": self.training.size, "words": words}
        return network_of("dual_encoder", model, split, seed=seed, task=self.name, **args)

    def load(self, folder: str | Path, split: str, *, threads: int, memory: float = MEMORY) -> Split:
        """Read a split; if the dataset has a collection, all of it is searched by captions that are not for training.

        See `rankgrad.datasets.files.splits.read_split`.
        """
        rows, collection = super().load(folder, split, threads=threads, memory=memory), Path(folder) / COLLECTION
        if split == "train" or not collection.is_file():
            return rows
        table = read_table(collection, ["text", "captions"])
        own, passages = set(map(spelled_alike, rows.inputs.items)), table["text"].to_pylist()
        others = [text for text in passages if spelled_alike(text) not in own]
        return searching(rows, others, zip(passages, table["captions"].to_pylist(), strict=True))

    def splits_for(self, network: Any, train: Split, val: Split) -> tuple[Split, Split]:
        if val.truth.others is not None:
            queries, captions = iter(train.truth.texts), []
            for count in train.truth.counts.tolist():
                captions.append([*islice(queries, count)])
            passages = train.inputs.items
            val = searching(val, passages, zip(passages, captions, strict=True))
        return _tokenized(network, train), _tokenized(network, val)

    @torch.no_grad()
    def embed_captions(self, network: Any, captions: list[str]) -> Tensor:
        """Return embeddings (n, size) of captions, on the CPU; words outside the vocabulary count as unknown.

        Raises:
            ValueError: a caption has no words.
        """
        return _encoded(network, network.tokenize(captions)).cpu()

    @torch.no_grad()
    def embed_passages(self, network: Any, passages: list[str]) -> Iterator[Tensor]:
        """Yield embeddings (n, size) of passages in pieces, on the CPU, so that memory does not grow with them."""
        for first in range(0, len(passages), AT_ONCE):
            inputs = of_strings(passages[first : first + AT_ONCE]).ready(network)
            yield network.head(embedded(network, inputs.parts())).float().cpu()

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per item, with its embeddings, captions, and ranks, see `table_of`."""
        items, captions = self.outputs(network, split.inputs), self.embed_captions(network, split.truth.texts)
        return self.table_of(split, (items, captions, self.embed_passages(network, split.truth.others or [])))

    def table_of(self, split: Split, scores: tuple[Tensor, Tensor, Iterable[Tensor]]) -> pa.Table:
        """Return one row per item, see `Task.table_of`.

        The columns are `image_embedding`, `captions`, `text_embeddings`, `family`, `caption_rank` (of the item's best
        caption), `item_ranks` (of the item, for each of its captions), and `searched` (the number of items searched).

        Args:
            split: the split.
            scores: embeddings of its items, of its captions, and, in pieces, of the other passages searched.
        """
        truth, (placed, captions, others) = split.truth, scores
        check_finite(placed, "item's embedding")
        check_finite(captions, "captions' embeddings")
        caption_rank, searched = torch.zeros(2, len(split), dtype=torch.int64)
        item_ranks = torch.zeros(len(captions), dtype=torch.int64)
        for number in truth.gallery.unique():
            rows = truth.gallery == number
            of_rows = rows.repeat_interleave(truth.counts)
            caption_rank[rows], item_ranks[of_rows] = first_ranks(
                placed[rows], captions[of_rows], truth.counts[rows],
                others=others, ignored=truth.ignored, firsts=truth.firsts,
            )  # fmt: skip
            searched[rows] = rows.sum()
        if truth.others is not None:
            searched += len(truth.others) + len(truth.firsts.unique()) - len(split)
        columns = {
            "image_embedding": as_lists(placed),
            "captions": ragged_lists(pa.array(truth.texts, pa.string()), truth.counts),
            "text_embeddings": ragged_lists(as_lists(captions), truth.counts),
            "family": pa.array(truth.family.numpy()),
            "caption_rank": pa.array(caption_rank.numpy()),
            "item_ranks": ragged_lists(pa.array(item_ranks.numpy()), truth.counts),
            "searched": pa.array(searched.numpy()),
        }
        return split.table(columns)

    def scored(self, table: pa.Table) -> Statistic:
        """Return recall, median rank, and MRR@10 in both directions; each gallery is searched separately.

        Metrics cover the rows of all galleries; `gallery` is the mean gallery size over items. Recall uses the weights
        of rows, if there are any. The bootstrap resamples families of items, because their errors are not independent,
        or groups; the galleries themselves do not change.
        """
        ranks, counts = flat(table["item_ranks"])
        item_ranks, is_caption = padded(torch.tensor(ranks.to_numpy()), counts)
        items = len(table)
        weight = weight_of(table)
        weight = np.ones(items) if weight is None else weight
        searches = [
            (table["caption_rank"].to_numpy().astype(np.float64)[:, None], np.ones((items, 1), bool)),
            (item_ranks.double().numpy(), is_caption.numpy()),
        ]
        sizes = table["searched"].to_numpy().astype(np.float64)

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

        return Statistic([metric.name for metric in self.metrics], items, of_rows)

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
        """Return the `embedding` of each row's item or `caption`, with unit length.

        The embedding of a caption without a known word is None, since it would depend only on the number of words; then
        `error` says so.
        """
        about, answers = network.recipe["input"], []
        item, vocabulary = type_of(about), getattr(network.texts.backbone, "vocabulary", None)
        for number, row in enumerate(rows, first):
            if "caption" in row and vocabulary is not None and not vocabulary.has_word_of(row["caption"]):
                unknown = f"the model knows no word of the caption {row['caption'][:60]!r}, expected at least one"
                answers.append({"embedding": None, "error": unknown})
                continue
            with of_row(number):
                if "caption" in row:
                    embedding = self.embed_captions(network, [row["caption"]])
                else:
                    prepared = item.prepared([row[item.name]], about, where=f"row {number}")
                    embedding = self.outputs(network, item.gathered([prepared], about))
            answers.append({"embedding": embedding[0].tolist()})
        return answers

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        plots.found_captions(path, examples.inputs(SHOWN), _found(examples.predicted(*FOUND)))
        return True


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
