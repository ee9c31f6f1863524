"""The MovieLens benchmark: metrics of each user."""

import math

import pytest
import torch
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from benchmarks import movielens_100k as benchmark
from rankops.datasets.splits import Queries


def users(generator, count=6) -> Queries:
    """Lists of three to five films; the first user likes all alike."""
    mask = torch.arange(5) < torch.arange(count).remainder(3).add(3).unsqueeze(1)
    ratings = torch.stack([torch.randperm(5, generator=generator) for _ in range(count)]) * mask
    ratings[0] = 2 * mask[0]
    return Queries(torch.randn(count, 5, 4, generator=generator) * mask.unsqueeze(-1), ratings, mask)


def test_metrics_are_those_of_each_list_and_none_where_ratings_are_alike(generator):
    data = users(generator)
    scores = torch.randn(data.mask.shape, generator=generator)
    found = benchmark.of_users(scores, data).T.tolist()
    assert all(map(math.isnan, found[0]))
    for row in range(1, len(found)):
        ratings, own = data.relevance[row][data.mask[row]], scores[row][data.mask[row]]
        expected = [ndcg_score([2**ratings - 1], [own]), kendalltau(own, ratings).statistic]
        assert found[row] == pytest.approx(expected)
    assert benchmark.of_users(torch.zeros_like(scores), data)[1, 1:].tolist() == [0] * 5
    best = benchmark.of_users(benchmark.reference(benchmark.REFERENCES[1], data), data)
    assert best[0, 1:].tolist() == pytest.approx([1] * 5)
    own = benchmark.centered(data).relevance
    assert torch.allclose(own.sum(-1), torch.zeros(6), atol=1e-6)
    assert not own[~data.mask].any()
