"""Simple models to compare networks with, which are never registered: linear, boosted trees, word counts, BM25."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.datasets.files.splits import Split
from rankgrad.vocabulary import PAIR, Vocabulary

__all__ = ["RIVALS", "Rival", "fitting"]

Scorer = Callable[[Split], Any]  # returns scores as `Task.table_of` takes them
PENALTIES = (1e-4, 1e-2, 1.0)  # on squared weights, per example
TREES, RATES, LEAVES = 300, (0.03, 0.1), (7, 31)
LARGEST = 2**28  # largest dense table, in numbers
BM25 = ((0.9, 0.4), (1.2, 0.75), (2.0, 0.9))  # k1 and b: saturation of counts, and normalization by length


class Rival(NamedTuple):
    """A simple model.

    Attributes:
        takes: the tasks and input types that it supports.
        fitted: fits it to a training split of a task, and yields one fitted model per setting.
    """

    takes: set[tuple[str, str]]
    fitted: Callable[[Split, str], Iterator[Scorer]]


def fitting(task: str, input_type: str, *, pairs: bool = False) -> list[str]:
    """Return the names of the rivals for a task and an input type.

    Args:
        task: name of the task.
        input_type: name of the input type.
        pairs: whether queries are preference pairs, in which an answer need not repeat the words of its prompt.

    >>> fitting("score_ranking", "features"), fitting("query_ranking", "text_pair"), fitting("label_ranking", "images")
    (['linear', 'boosting'], ['bm25'], [])
    """
    names = [name for name, rival in RIVALS.items() if (task, input_type) in rival.takes]
    if input_type == "text_pair":
        fit = "word_counts" if pairs else "bm25"
        return [name for name in names if name == fit]
    return names


def _linear(train: Split, task: str) -> Iterator[Scorer]:
    """Fit linear models on standardized features, or on features mapped to normal quantiles."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer, StandardScaler

    features = train.inputs.items.numpy()
    quantiles = {"n_quantiles": min(1000, len(features)), "output_distribution": "normal", "random_state": 0}
    for transformer in (StandardScaler(), QuantileTransformer(**quantiles)):
        values = transformer.fit_transform(features)
        for penalty in PENALTIES:
            model = make_pipeline(transformer, _weights(values, train, task, penalty))
            yield lambda split, model=model: _scores(model.predict(split.inputs.items.numpy()))


def _word_counts(train: Split, task: str) -> Iterator[Scorer]:
    """Fit linear models on word counts, or on tf-idf of words and word pairs; of a pair of texts, the second counts."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    words = {"token_pattern": r"[^\W_]+"}
    for vectorizer in (CountVectorizer(**words), TfidfVectorizer(**words, sublinear_tf=True, ngram_range=(1, 2))):
        counts = vectorizer.fit_transform(_last_texts(train)).astype(np.float64)
        for penalty in PENALTIES:
            model = _weights(counts, train, task, penalty)

            def scorer(split: Split, vectorizer: Any = vectorizer, model: Any = model) -> Any:
                return _scores(model.predict(vectorizer.transform(_last_texts(split)).astype(np.float64)))

            yield scorer


def _weights(values: Any, train: Split, task: str, penalty: float) -> Any:
    """Return a fitted linear model: the Bradley-Terry model for preferences, otherwise ridge regression."""
    from scipy.sparse import issparse, vstack
    from sklearn.linear_model import LogisticRegression, Ridge

    target, weight = _target(train, task), _weight(train)
    if train.sizes is None or not bool((train.sizes == 2).all()):
        return Ridge(penalty * len(target)).fit(values, target, weight)
    differences, sign = values[::2] - values[1::2], np.sign(target[::2] - target[1::2])
    decided = sign != 0
    stack = vstack if issparse(values) else np.vstack
    both_ways = stack([differences[decided], -differences[decided]])
    model = LogisticRegression(C=1 / (penalty * 2 * max(1, decided.sum())), fit_intercept=False, max_iter=1000)
    of_pairs = None if weight is None else np.tile(weight[::2][decided], 2)
    model.fit(both_ways, np.concatenate([sign[decided], -sign[decided]]), of_pairs)
    ridge = Ridge(fit_intercept=False)
    ridge.coef_, ridge.intercept_ = model.coef_[0], 0.0
    return ridge


def _boosting(train: Split, task: str) -> Iterator[Scorer]:
    """Fit gradient-boosted trees, separately for each class."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.multioutput import MultiOutputRegressor

    features, target, weight = train.inputs.items.numpy(), _target(train, task), _weight(train)
    options = {"max_iter": TREES, "early_stopping": False, "random_state": 0}
    options["min_samples_leaf"] = min(
        20, max(2, len(features) // 20)
    )  # with few rows, leaves of 20 would allow no split
    for rate, leaves in product(RATES, LEAVES):
        trees: Any = HistGradientBoostingRegressor(learning_rate=rate, max_leaf_nodes=leaves, **options)
        trees = MultiOutputRegressor(trees) if target.ndim > 1 else trees
        trees.fit(features, target, weight)
        yield lambda split, trees=trees: _scores(trees.predict(split.inputs.items.numpy()))


def _bm25(train: Split, task: str) -> Iterator[Scorer]:
    """Score documents with BM25 (Robertson and Zaragoza, 2009), with statistics of the documents."""
    for saturation, by_length in BM25:

        def scorer(split: Split, saturation: float = saturation, by_length: float = by_length) -> Any:
            if task == "retrieval":
                documents, queries = split.inputs.items, split.truth.texts
            else:
                queries, documents = zip(*(text.split(PAIR) for text in split.inputs.items), strict=True)
            asked, worth = _words_of(queries, documents, saturation, by_length)
            if task == "retrieval":
                if worth.shape[0] * worth.shape[1] > LARGEST:
                    raise ValueError(
                        f"bm25: {len(documents):,} passages and {worth.shape[1]:,} words of queries are too many to "
                        "search at once: remove this rival from params.yaml"
                    )
                return _untied(worth.toarray()), _untied(asked.toarray())
            return _scores(np.asarray(asked.multiply(worth).sum(1)).ravel())

        yield scorer


def _words_of(queries: Any, documents: Any, saturation: float, by_length: float) -> tuple[Any, Any]:
    """Return the count of each word in each query (q, V), and the weight of each word in each document."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=Vocabulary.split)
    asked = vectorizer.fit_transform(queries)
    worth = vectorizer.transform(documents).astype(float).tocoo()
    lengths = np.array([len(Vocabulary.split(text)) for text in documents])
    documents_with = np.bincount(worth.col, minlength=worth.shape[1])
    rarity = np.log1p((len(lengths) - documents_with + 0.5) / (documents_with + 0.5))
    normal_length = 1 - by_length + by_length * lengths / lengths.mean()
    worth.data *= (saturation + 1) * rarity[worth.col] / (worth.data + saturation * normal_length[worth.row])
    return asked, worth.tocsr()


def _last_texts(split: Split) -> list[str]:
    """Return the texts, or the second text of each pair."""
    return [text.rpartition(PAIR)[2] for text in split.inputs.items]


def _target(train: Split, task: str) -> np.ndarray:
    """Return the regression target: labels (n, C), the relevance of documents (m,), or ranks of targets (n,).

    Ranks are mapped to normal quantiles, within groups if only rows of a group are compared.
    """
    if task == "multilabel":
        return train.truth.labels.numpy().astype(float)
    if task == "query_ranking":
        return train.truth.double().numpy()
    import pandas as pd
    from scipy.special import ndtri

    targets = pd.Series(train.truth.double().numpy())
    groups = train.about["group"].to_pandas().to_numpy() if train.within and train.about else np.zeros(len(targets))
    grouped = targets.groupby(groups)
    return ndtri((grouped.rank() - 0.5) / grouped.transform("size")).to_numpy()


def _weight(train: Split) -> np.ndarray | None:
    """Return the weight of each item, a row or a document of a row; None for equal weights."""
    if train.weight is None:
        return None
    weight = train.weight if train.sizes is None else train.weight.repeat_interleave(train.sizes)
    return weight.double().numpy()


def _untied(values: np.ndarray) -> Tensor:
    """Return scores whose ties are broken at random: texts of few words often tie, and a tie counts as lost."""
    noise = np.random.default_rng(0).random(values.shape)
    return _scores(values + 1e-4 * values.std() * noise)


def _scores(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


LEARNED = ("score_ranking", "query_ranking", "multilabel")
RIVALS = {
    "linear": Rival({(task, "features") for task in LEARNED}, _linear),
    "boosting": Rival({(task, "features") for task in LEARNED}, _boosting),
    "word_counts": Rival({*((task, "text") for task in LEARNED), ("query_ranking", "text_pair")}, _word_counts),
    "bm25": Rival({("retrieval", "text"), ("query_ranking", "text_pair")}, _bm25),
}
