"""Cranfield: 225 questions on aerodynamics, 1,400 abstracts, and people's judgments; BM25's first 100 are reranked.

Put `cran.all.1400.xml`, `cran.qry.xml`, and `cranqrel.trec.txt` into data/raw/cranfield. They are in the GitHub
repository oussbenk/cranfield-trec-dataset, at commit 1208e6d, without a license, so they are not part of this project.
In addition to both texts, a row has features `x_<name>`, which do not use the judgments; use them with `features: x_*`
instead of `text_pair`.
"""

import re
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from rankgrad.plain_text import words_of
from studies.converters.writing import block_of, convert, drawn_splits

DEEP = 100  # abstracts to rerank for each question
SATURATION, LENGTH = 1.2, 0.75  # k1 and b of BM25
SMOOTHING = 500.0  # words of the Dirichlet prior
TOPICS = 100  # components of latent semantic indexing
FED_BACK = 10  # abstracts with which a question is expanded
BLOCK = block_of(
    "cranfield",
    folds=5,
    text_pair=["query", "passage"],
    relevance="relevance",
    group="qid",
    split="split",
    gate_share=0,
)


def bm25(passages: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the BM25 score of each passage for each query (q, n) (Robertson and Zaragoza 2009, Eq. 3.15).

    Args:
        passages, queries: word counts, (n, words) and (q, words).

    >>> bm25(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]]), np.array([[0, 1, 0]])).round(3).tolist()
    [[0.0, 0.814, 0.0]]
    """
    lengths = passages.sum(1, keepdims=True)
    norm = SATURATION * (1 - LENGTH + LENGTH * lengths / lengths.mean())
    return queries @ (rarity(passages) * passages * (SATURATION + 1) / (passages + norm)).T


def rarity(passages: np.ndarray) -> np.ndarray:
    """Return the inverse document frequency of each word (words,) in BM25's form."""
    documents = (passages > 0).sum(0)
    return np.log1p((len(passages) - documents + 0.5) / (documents + 0.5))


def features_of(titles: list[list[str]], passages: list[list[str]], queries: list[list[str]]) -> dict[str, np.ndarray]:
    """Return features of each passage for each query that do not use judgments, (q, n) each."""
    title, passage, query = _counts(titles, passages, queries)
    weight = rarity(passage)
    asked = (query > 0) * weight
    asked = asked / asked.sum(1, keepdims=True).clip(min=1e-9)
    vectors, questions = _unit(np.log1p(passage) * weight), _unit(np.log1p(query) * weight)

    # Expand a question with BM25's first abstracts (Rocchio 1971).
    scores = bm25(passage, query)
    first = np.argsort(-scores, axis=1, kind="stable")[:, :FED_BACK]
    expanded = _unit(questions + vectors[first].mean(1))
    # Compute topics from all abstracts; a question is a mixture of topics (Deerwester et al. 1990).
    topics = np.linalg.svd(vectors, full_matrices=False)[2][:TOPICS]

    lengths = passage.sum(1)
    prior = SMOOTHING * passage.sum(0) / passage.sum()
    seen = np.log1p(passage / prior.clip(min=1e-9))  # 0 for a word that no abstract has
    language = query @ seen.T - query.sum(1, keepdims=True) * np.log1p(lengths / SMOOTHING)
    pairs = [{*pairwise(words)} for words in passages]
    shared = np.empty(scores.shape)
    for row, words in enumerate(queries):
        of_query = {*pairwise(words)}
        shared[row] = [len(of_query & of_passage) for of_passage in pairs]
    return {
        "bm25": scores,
        "bm25_title": bm25(title, query),
        "language_model": language,
        "cosine": questions @ vectors.T,
        "topics": _unit(questions @ topics.T) @ _unit(vectors @ topics.T).T,
        "feedback": expanded @ vectors.T,
        "feedback_topics": _unit(expanded @ topics.T) @ _unit(vectors @ topics.T).T,
        "coverage": asked @ (passage > 0).T,
        "coverage_of_title": asked @ (title > 0).T,
        "shared_pairs": shared,
        "words": np.broadcast_to(np.log1p(lengths), scores.shape),
        "words_of_title": np.broadcast_to(np.log1p(title.sum(1)), scores.shape),
        "words_of_query": np.broadcast_to(np.log1p(query.sum(1, keepdims=True)), scores.shape),
    }


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-9)


def _counts(*texts: list[list[str]]) -> list[np.ndarray]:
    """Return word counts (texts, words) over the vocabulary of all texts."""
    every = chain.from_iterable(chain.from_iterable(texts))
    counter = CountVectorizer(analyzer=list, vocabulary=[*dict.fromkeys(every)])  # words in the order of the texts
    return [counter.transform(of_text).toarray().astype(float) for of_text in texts]


def _texts(file: Path, entry: str, *fields: str) -> list[str]:
    """Return the text of each entry of a file with tags, which is not valid XML."""
    texts = []
    for block in re.findall(rf"<{entry}>(.*?)</{entry}>", file.read_text(encoding="utf-8"), re.DOTALL):
        parts = [re.findall(rf"<{field}>(.*?)</{field}>", block, re.DOTALL) for field in fields]
        texts.append(" ".join(" ".join(part[0].split()) for part in parts if part))
    return texts


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each of BM25's first 100 abstracts of a question.

    Relevant abstracts that BM25 misses are not added: they would come last, and their features would give them away.
    Abstracts without words are in no list, even if judged; an abstract is relevant if its judgment is above 0.
    """
    titles = _texts(raw / "cran.all.1400.xml", "doc", "title")
    passages = _texts(raw / "cran.all.1400.xml", "doc", "title", "text")
    questions = _texts(raw / "cran.qry.xml", "top", "title")
    judged = pd.read_csv(raw / "cranqrel.trec.txt", sep=r"\s+", names=["query", "run", "document", "grade"])
    words = [*map(words_of, passages)]
    readable = np.array([number for number, of_passage in enumerate(words) if of_passage])  # two abstracts are empty
    features = features_of(
        [words_of(titles[document]) for document in readable],
        [words[document] for document in readable],
        [*map(words_of, questions)],
    )
    splits = drawn_splits(range(1, len(questions) + 1), test=0.2, val=0.2)
    rows = []
    for row, question in enumerate(questions):
        relevant = {*judged[(judged["query"] == row + 1) & (judged["grade"] > 0)]["document"]}
        for column in np.argsort(-features["bm25"][row], kind="stable")[:DEEP]:
            document = readable[column]
            known = {f"x_{name}": values[row, column] for name, values in features.items()}
            rows.append({
                "qid": row + 1, "query": question, "passage": passages[document],
                "relevance": int(document + 1 in relevant), **known, "split": splits[row],
            })  # fmt: skip
    return pd.DataFrame(rows)


if __name__ == "__main__":
    convert(table, BLOCK)
