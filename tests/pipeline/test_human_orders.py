"""Orders that votes make: their table, the ranks of ties, losses on votes, and a method that learns a planted order."""

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.io import savemat
from scipy.stats import entropy

from studies import human_orders
from studies.converters import votes


def test_equal_votes_are_tied_and_labels_without_votes_are_absent():
    ranks = human_orders.ranks_of(torch.tensor([[0.0, 0.133333, 0.7, 0.1333334, 0.0333]]))
    assert ranks.tolist() == [[0, 2, 3, 2, 1]]
    assert human_orders.average_ranks(ranks).tolist() == [[-5.0, -2.5, -1.0, -2.5, -4.0]]


def test_kl_is_that_of_scipy_and_the_first_label_is_shared_by_ties(generator):
    scores = torch.randn(3, 4, generator=generator)
    counts = torch.tensor([[3.0, 0.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])
    expected = [entropy(count, score.softmax(-1)) for count, score in zip(counts, scores, strict=True)]
    assert human_orders.kl(scores, counts).tolist() == pytest.approx(expected, rel=1e-5)
    first = human_orders.first_label(scores, human_orders.ranks_of(counts))
    share = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert first.tolist() == pytest.approx((-share * scores.log_softmax(-1)).sum(-1).tolist(), rel=1e-5)


@pytest.mark.parametrize("method", human_orders.METHODS)
def test_each_method_learns_an_order_that_features_decide(method, tmp_path, monkeypatch):
    draws = np.random.default_rng(1)
    features = draws.normal(size=(120, 6))
    counts = np.floor(4 * np.exp(features[:, :4] - features[:, :4].mean(1, keepdims=True)))
    table = pd.DataFrame(np.hstack([features, counts]))
    table.columns = [*(f"x_{index}" for index in range(6)), *(f"votes_{index}" for index in range(4))]
    table.to_parquet(tmp_path / "planted.parquet")
    small = {"TABLES": tmp_path, "SPLITS": 2, "SEEDS": 2, "CHOOSE_BY": 1, "RATES": (1e-5, 0.01), "STEPS": (1, 100)}
    for name, value in small.items():
        monkeypatch.setattr(human_orders, name, value)
    human_orders.read.cache_clear()
    human_orders.inputs.cache_clear()
    rows = human_orders.rows("planted", method)
    accuracy = [row.value for row in rows if row.metric == "accuracy"]
    assert len(accuracy) == 4  # of two splits and of two seeds
    assert min(accuracy) > (0.65 if method == "cross-entropy, first label" else 0.8)
    assert {row.value for row in rows if row.metric == "setting.rate"} == {0.01}


class TestConverter:
    def test_writes_features_and_votes_and_refuses_another_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr(votes, "TABLES", tmp_path / "tables")
        path = tmp_path / "Movie.mat"
        savemat(path, {"features": np.eye(3), "labels": np.full((3, 5), 0.2)})
        with pytest.raises(ValueError, match=r"Movie\.mat.* expected 5c86"):
            votes.table_of(path, votes.SETS["Movie"])
        with pytest.raises(FileNotFoundError, match=r"Movie\.mat"):
            votes.table_of(tmp_path / "elsewhere" / "Movie.mat", votes.SETS["Movie"])
        movie = replace(votes.SETS["Movie"], sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setattr(votes, "SETS", {"Movie": movie})
        votes.main(str(tmp_path))
        table = pd.read_parquet(tmp_path / "tables/Movie.parquet")
        assert [*table.columns] == ["x_1", "x_2", "x_3", *(f"votes_{label}" for label in movie.labels)]
        assert table["x_2"].tolist() == [0, 1, 0]
        assert table["votes_5_stars"].tolist() == [0.2] * 3
