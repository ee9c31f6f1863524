"""The MovieLens benchmark: metrics of each user."""

import math

import pytest
import torch
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from benchmarks import movielens_100k as benchmark
from rankops.datasets.files.splits import Split, padded
from rankops.inputs.features import of_tensor


def users(generator, count=6) -> Split:
    """Lists of three to five films; the first user likes all alike."""
    sizes = torch.arange(count).remainder(3).add(3)
    ratings = torch.stack([torch.randperm(5, generator=generator) for _ in range(count)])
    ratings[0] = 2
    ratings = ratings[torch.arange(5) < sizes.unsqueeze(1)]
    return Split(of_tensor(torch.randn(len(ratings), 4, generator=generator)), ratings, sizes)


def test_metrics_are_those_of_each_list_and_none_where_ratings_are_alike(generator):
    data = users(generator)
    relevance, mask = padded(data.truth, data.sizes)
    scores = torch.randn(mask.shape, generator=generator)
    found = benchmark.of_users(scores, data).T.tolist()
    assert all(map(math.isnan, found[0]))
    for row in range(1, len(found)):
        ratings, own = relevance[row][mask[row]], scores[row][mask[row]]
        expected = [ndcg_score([2**ratings - 1], [own]), kendalltau(own, ratings).statistic]
        assert found[row] == pytest.approx(expected)
    assert benchmark.of_users(torch.zeros_like(scores), data)[1, 1:].tolist() == [0] * 5
    best = benchmark.of_users(benchmark.reference(benchmark.REFERENCES[1], data), data)
    assert best[0, 1:].tolist() == pytest.approx([1] * 5)
    own, _ = padded(benchmark.centered(data).truth, data.sizes)
    assert torch.allclose(own.sum(-1), torch.zeros(6), atol=1e-6)
