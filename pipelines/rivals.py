"""BM25, the usual baseline of search: it learns nothing, so it is compared with runs but never registered."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.datasets.files.splits import Split
from rankgrad.plain_text import PAIR, words_of

__all__ = ["TAKES", "bm25"]

TAKES = {"retrieval": "text", "query_ranking": "text_pair"}  # the input type that it supports, by task
LARGEST = 2**28  # largest dense table, in numbers
AT_ONCE = 1000  # further documents to search at once
SETTINGS = ((0.9, 0.4), (1.2, 0.75), (2.0, 0.9))  # k1 and b: saturation of counts, and normalization by length


def bm25(split: Split, task: str, settings: Sequence[tuple[float, float]] = SETTINGS) -> Iterator[Any]:
    """Yield the scores of BM25 (Robertson and Zaragoza, 2009), with statistics of all documents searched, by setting.

    Args:
        split: a split of the task.
        task: a key of `TAKES`.
        settings: pairs of k1 and b.
    """
    if task == "retrieval":
        documents, queries = [*split.inputs.items, *(split.truth.others or ())], split.truth.texts
    else:
        queries, documents = zip(*(text.split(PAIR) for text in split.inputs.items), strict=True)
    asked, counts, lengths = _words_of(queries, documents)
    for saturation, by_length in settings:
        worth = _worth(counts, lengths, saturation, by_length)
        if task != "retrieval":
            yield _scores(np.asarray(asked.multiply(worth).sum(1)).ravel())
            continue
        if len(split) * worth.shape[1] > LARGEST:
            raise ValueError(
                f"bm25: {len(split):,} passages and {worth.shape[1]:,} words of queries are too many to search at "
                "once: remove this rival from params.yaml"
            )
        own, queries_words = worth[: len(split)].toarray(), asked.toarray()
        further = _further(worth[len(split) :], own.std())
        yield _untied(own, own.std()), _untied(queries_words, queries_words.std()), further


def _further(worth: Any, spread: float) -> Iterator[Tensor]:
    """Yield the weights of words in further documents in pieces, so that memory does not grow with them.

    Their ties are broken at the same scale as the split's own, so that neither wins more of them.
    """
    for first in range(0, worth.shape[0], AT_ONCE):
        yield _untied(worth[first : first + AT_ONCE].toarray(), spread, seed=1 + first)


def _words_of(queries: Any, documents: Any) -> tuple[Any, Any, np.ndarray]:
    """Return the count of each word of the queries in each query (q, V) and document (n, V), and documents' lengths."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=words_of)
    asked = vectorizer.fit_transform(queries)
    lengths = np.array([len(words_of(text)) for text in documents])
    return asked, vectorizer.transform(documents), lengths


def _worth(counts: Any, lengths: np.ndarray, saturation: float, by_length: float) -> Any:
    """Return the weight of each word in each document (n, V)."""
    worth = counts.astype(float).tocoo()
    documents_with = np.bincount(worth.col, minlength=worth.shape[1])
    rarity = np.log1p((len(lengths) - documents_with + 0.5) / (documents_with + 0.5))
    normal_length = 1 - by_length + by_length * lengths / lengths.mean()
    worth.data *= (saturation + 1) * rarity[worth.col] / (worth.data + saturation * normal_length[worth.row])
    return worth.tocsr()


def _untied(values: np.ndarray, spread: float, *, seed: int = 0) -> Tensor:
    """Return scores whose ties are broken at random: texts of few words often tie, and a tie counts as lost."""
    noise = np.random.default_rng(seed).random(values.shape)
    return _scores(values + 1e-4 * spread * noise)


def _scores(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))
