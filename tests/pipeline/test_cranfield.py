"""Reranking a question's abstracts: methods that learn a planted order, with settings that validation chose."""

import numpy as np
import pandas as pd
import pytest

from studies import cranfield, cranfield_texts


@pytest.mark.parametrize("method", ["bm25", *cranfield.METHODS])
def test_each_method_learns_relevance_that_a_feature_decides(method, tmp_path, monkeypatch):
    draws = np.random.default_rng(1)
    questions, depth = 60, 10
    features = draws.normal(size=(questions * depth, 3))
    relevance = (features[:, 0].reshape(questions, depth).argsort(1).argsort(1) > 7).ravel().astype(int)
    relevance[:depth] = 0  # a question without a relevant abstract
    table = pd.DataFrame(features, columns=["x_bm25", "x_b", "x_c"]).assign(relevance=relevance)
    table.assign(qid=np.arange(questions).repeat(depth)).to_parquet(tmp_path / "table.parquet")
    small = {"TABLE": tmp_path / "table.parquet", "RATES": (1e-6, 0.03), "STEPS": (1, 100), "LEARNED": method,
             "RULE": method}  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(cranfield, name, value)
    monkeypatch.chdir(tmp_path)
    cranfield.read.cache_clear()
    scores_of = cranfield.rule_scores if method == "bm25" else cranfield.network_scores
    rows = cranfield.rows(method, scores_of)
    values = {row.metric: row.value for row in rows if row.seed is None and row.fold is None}
    assert min(values[name] for name in cranfield.NAMES) > 0.9
    if method != "bm25":
        assert {row.value for row in rows if row.metric == "setting.rate"} == {0.03}
    assert {row.metric: row.value for row in cranfield.shape()}["questions"] == questions - 1


@pytest.mark.parametrize("run", ["bag_of_words, ranknet", "knrm, mse"])
def test_networks_that_read_words_learn_what_a_word_decides(run, tmp_path, monkeypatch):
    draws = np.random.default_rng(1)
    relevance = draws.integers(0, 2, 400)
    relevance[::10] = 1
    passages = [f"the flow is {'smooth' if relevant else 'turbulent'}" for relevant in relevance]
    table = pd.DataFrame({"qid": np.arange(40).repeat(10), "query": "smooth flow", "passage": passages})
    table.assign(relevance=relevance, x_bm25=0.0).to_parquet(tmp_path / "table.parquet")
    monkeypatch.setattr(cranfield, "TABLE", tmp_path / "table.parquet")
    monkeypatch.chdir(tmp_path)
    for name, value in {"RATES": (1e-6, 0.03), "STEPS": (1, 30), "SEEDS": 1}.items():
        monkeypatch.setattr(cranfield_texts, name, value)
    cranfield.read.cache_clear()
    cranfield_texts.pairs.cache_clear()
    cranfield_texts.rows("bm25")
    values = {row.metric: row.value for row in cranfield_texts.rows(run) if row.seed is None and row.fold is None}
    assert values["mean_average_precision"] > 0.95
    assert values["mean_average_precision minus bm25"] > 0
