"""Cranfield: 225 questions on aerodynamics, 1,400 abstracts, and people's judgments; BM25's first 100 are reranked.

Put `cran.all.1400.xml`, `cran.qry.xml` and `cranqrel.trec.txt` into data/raw/cranfield; the repository
oussbenk/cranfield-trec-dataset on GitHub has them, at commit 1208e6d, without a license: nothing of it is kept here.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from rankgrad.vocabulary import Vocabulary
from studies.converters.writing import convert, drawn_splits

__all__ = ["bm25", "table"]

DEEP = 100  # abstracts of a question that are reranked
SATURATION, LENGTH = 1.2, 0.75  # k1 and b of BM25
BLOCK = {
    "name": "table",
    "raw": "data/raw/cranfield",
    "args": {
        "file": "cranfield.parquet",
        "text_pair": ["query", "passage"],
        "relevance": "relevance",
        "group": "qid",
        "split": "split",
        "gate_share": 0,
    },
    "folds": 5,
    "seed": 1,
}


def bm25(passages: list[list[str]], query: list[str]) -> np.ndarray:
    """Return the score of each passage for a query (n,), by words (Robertson and Zaragoza 2009, Eq. 3.15).

    >>> bm25([["wing"], ["wing", "flow"], ["heat"]], ["flow"]).round(3).tolist()
    [0.0, 0.814, 0.0]
    """
    counts = [Counter(words) for words in passages]
    lengths = np.array([len(words) for words in passages])
    scores = np.zeros(len(passages))
    for word in {*query}:
        frequency = np.array([count[word] for count in counts])
        documents = (frequency > 0).sum()
        rarity = np.log1p((len(passages) - documents + 0.5) / (documents + 0.5))
        norm = SATURATION * (1 - LENGTH + LENGTH * lengths / lengths.mean())
        scores += query.count(word) * rarity * frequency * (SATURATION + 1) / (frequency + norm)
    return scores


def _texts(file: Path, entry: str, *fields: str) -> list[str]:
    """Return the text of each entry of a file of tags, which is no valid XML."""
    texts = []
    for block in re.findall(rf"<{entry}>(.*?)</{entry}>", file.read_text(encoding="utf-8"), re.DOTALL):
        parts = [re.findall(rf"<{field}>(.*?)</{field}>", block, re.DOTALL) for field in fields]
        texts.append(" ".join(" ".join(part[0].split()) for part in parts if part))
    return texts


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each of BM25's first 100 abstracts of a question, and for each relevant one that it misses."""
    passages = _texts(raw / "cran.all.1400.xml", "doc", "title", "text")
    questions = _texts(raw / "cran.qry.xml", "top", "title")
    judged = pd.read_csv(raw / "cranqrel.trec.txt", sep=r"\s+", names=["query", "run", "document", "grade"])
    words = [*map(Vocabulary.split, passages)]
    readable = np.array([bool(of_passage) for of_passage in words])  # two abstracts are empty
    splits = drawn_splits(range(1, len(questions) + 1), test=0.2, val=0.2)
    rows = []
    for number, question in enumerate(questions, 1):
        scores = np.where(readable, bm25(words, Vocabulary.split(question)), -np.inf)
        relevant = {*judged[(judged["query"] == number) & (judged["grade"] > 0)]["document"]}
        listed = dict.fromkeys((np.argsort(-scores, kind="stable")[:DEEP] + 1).tolist())
        for document in [*listed, *sorted(relevant - {*listed})]:
            if readable[document - 1]:
                rows.append({
                    "qid": number, "query": question, "passage": passages[document - 1],
                    "relevance": int(document in relevant), "bm25": scores[document - 1], "split": splits[number - 1],
                })  # fmt: skip
    return pd.DataFrame(rows)


if __name__ == "__main__":
    convert(table, BLOCK)
