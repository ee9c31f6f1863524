"""Baselines of search, which are compared with runs but never registered."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.datasets.files.splits import Split
from rankgrad.plain_text import PAIR, spelled_alike, words_of

__all__ = ["RIVALS", "bm25", "lsa", "word_map"]

LARGEST = 2**28  # largest dense table, in numbers
AT_ONCE = 1000  # further documents to search at once
SETTINGS = ((0.9, 0.4), (1.2, 0.75), (2.0, 0.9))  # k1 and b: saturation of counts, and normalization by length
PENALTIES = (0.1, 1.0, 10.0)
DIRECTIONS = (25, 50, 100, 200)
MOST_PAIRS = 4000  # of a query and a passage, which `word_map` learns: its time grows with the cube of their number


class SearchBaseline(NamedTuple):
    """A simple way to search.

    Attributes:
        takes: the input type that it supports, by task.
        reads: the splits that it needs.
        options: what a setting is, for messages.
        settings: those among which validation chooses.
        scores: yields the scores of one of the splits, by setting; takes the splits, the name of one, and settings.
    """

    takes: Mapping[str, str]
    reads: Sequence[str]
    options: str
    settings: Sequence[Any]
    scores: Callable[[Mapping[str, Split], str, Sequence[Any]], Iterator[Any]]


def bm25(split: Split, settings: Sequence[tuple[float, float]] = SETTINGS) -> Iterator[Any]:
    """Yield the scores of BM25 (Robertson and Zaragoza, 2009), with statistics of all documents searched, by setting.

    Args:
        split: a split of passages that queries search, or of pairs of a query and a passage.
        settings: pairs of k1 and b.
    """
    is_search = split.inputs.about["kind"] == "text"
    if is_search:
        documents, queries = [*split.inputs.items, *(split.truth.others or ())], split.truth.texts
    else:
        queries, documents = zip(*(text.split(PAIR) for text in split.inputs.items), strict=True)
    asked, counts, lengths = _words_of(queries, documents)
    for saturation, by_length in settings:
        worth = _worth(counts, lengths, saturation, by_length)
        if not is_search:
            yield _scores(np.asarray(asked.multiply(worth).sum(1)).ravel())
            continue
        _check_size("bm25", split, worth.shape[1], "words of queries")
        own, queries_words = worth[: len(split)].toarray(), asked.toarray()
        further = _further(worth[len(split) :], own.std())
        yield _untied(own, own.std()), _untied(queries_words, queries_words.std()), further


def word_map(train: Split, split: Split, penalties: Sequence[float] = PENALTIES) -> Iterator[Any]:
    """Yield the scores of a ridge regression that predicts a passage's tf-idf from its query's, by penalty.

    It learns that customers say `bill` where passages say `invoice`. Words are split into pieces of 3 to 5 letters, so
    typing errors matter little. At most `MOST_PAIRS` pairs, drawn at random, are learned.

    Args:
        train: the training split of a search in texts.
        split: another split of it.
        penalties: those of the regression.
    """
    asked, answers = _pairs(train)
    chosen = np.sort(np.random.default_rng(0).permutation(len(asked))[:MOST_PAIRS])
    asked, answers = asked[chosen], answers[chosen]
    vectorizer = _tf_idf_of_pieces().fit([*asked, *answers])
    _check_size("word_map", split, len(asked), "pairs to learn from")
    learned, passages = vectorizer.transform(asked), vectorizer.transform(answers).T
    queries = (vectorizer.transform(split.truth.texts) @ learned.T).toarray()
    kernel = (learned @ learned.T).toarray()
    own = (vectorizer.transform(split.inputs.items) @ passages).toarray()
    others = vectorizer.transform(split.truth.others) if split.truth.others else passages.T[:0]
    for penalty in penalties:
        mapped = np.linalg.solve(kernel + penalty * np.eye(len(kernel)), queries.T).T
        yield _untied(own, own.std()), _untied(mapped, mapped.std()), _further(others, own.std(), passages)


def lsa(train: Split, split: Split, directions: Sequence[int] = DIRECTIONS) -> Iterator[Any]:
    """Yield the scores of latent semantic analysis (Deerwester et al., 1990), by number of directions.

    Each passage searched is joined with the training queries that it answers. Scores are cosines between the first
    singular vectors of their tf-idf of pieces of 3 to 5 letters.

    Args:
        train: the training split of a search in texts.
        split: another split of it.
        directions: numbers of singular vectors, as far as the texts have so many.
    """
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    asked = dict[str, list[str]]()  # by passage, whose case and spaces do not count
    for query, passage in zip(*_pairs(train), strict=True):
        asked.setdefault(spelled_alike(passage), []).append(query)
    passages = [*split.inputs.items, *(split.truth.others or ())]
    joined = [" ".join([text, *asked.get(spelled_alike(text), [])]) for text in passages]
    vectorizer = _tf_idf_of_pieces()
    counts, asked_counts = vectorizer.fit_transform(joined), vectorizer.transform(split.truth.texts)
    most = min(max(directions), *(size - 1 for size in counts.shape))
    if most < 1:
        raise ValueError(
            "lsa: a single passage is searched, so nothing is compared: remove this rival from params.yaml"
        )
    analysis = TruncatedSVD(most, random_state=0).fit(counts)
    found, queries = analysis.transform(counts), analysis.transform(asked_counts)
    for count in directions:
        of_passages, of_queries = normalize(found[:, :count]), normalize(queries[:, :count])
        own, further = of_passages[: len(split)], csr_matrix(of_passages[len(split) :])
        yield _untied(own, own.std()), _untied(of_queries, own.std()), _further(further, own.std())


def _tf_idf_of_pieces() -> Any:
    """Return scikit-learn's tf-idf of pieces of 3 to 5 letters of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        preprocessor=lambda text: " ".join(words_of(text)), analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True
    )


def _check_size(name: str, split: Split, width: int, of: str) -> None:
    """Raise ValueError if a table of a split's passages or queries, and so many columns, does not fit into memory."""
    rows = max(len(split), len(split.truth.texts))
    if rows * width > LARGEST:
        raise ValueError(
            f"{name}: {rows:,} passages or queries and {width:,} {of} are too many to search at once: remove this "
            "rival from params.yaml"
        )


def _pairs(train: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the queries and the passages of all pairs for training."""
    answers = np.repeat(np.array(train.inputs.items, object), train.truth.counts)
    return np.array(train.truth.texts, object), answers


def _further(worth: Any, spread: float, mapped: Any = None) -> Iterator[Tensor]:
    """Yield the weights of words in further documents in pieces, so that memory does not grow with them.

    Their ties are broken at the same scale as the split's own, so that neither wins more of them.

    Args:
        worth: the weights, a sparse matrix with a row for each document.
        spread: the standard deviation of those of the split's own documents.
        mapped: a sparse matrix by which they are multiplied first; None for none.
    """
    for first in range(0, worth.shape[0], AT_ONCE):
        piece = worth[first : first + AT_ONCE]
        yield _untied((piece if mapped is None else piece @ mapped).toarray(), spread, seed=1 + first)


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


def _learned(options: str, settings: Sequence[Any], scores: Callable[..., Iterator[Any]]) -> SearchBaseline:
    """Return a baseline of search in texts that learns from the training split, which `scores` takes first."""
    return SearchBaseline(
        {"retrieval": "text"},
        ["train", "val", "test"],
        options,
        settings,
        lambda splits, name, chosen: scores(splits["train"], splits[name], chosen),
    )


RIVALS = {
    "bm25": SearchBaseline(
        {"retrieval": "text", "query_ranking": "text_pair"},
        ["val", "test"],
        "k1 and b",
        SETTINGS,
        lambda splits, name, settings: bm25(splits[name], settings),
    ),
    "lsa": _learned("directions", DIRECTIONS, lsa),
    "word_map": _learned("penalty", PENALTIES, word_map),
}
