"""The measures of differentiable ranks, on ranks whose answers are known."""

import math

import pytest
import torch

from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import LSTM, Laplace, Logistic
from rankgrad.sorters import _quality as sorter_quality


@pytest.fixture
def scores(generator):
    return torch.randn(6, 20, generator=generator)


def hard(scores):
    """Exact ranks with a gradient of nothing."""
    return exact_ranks(scores) + 0 * scores


def test_exact_ranks_are_accurate_ties_included_and_have_no_gradient(scores, generator):
    for exact in (scores, torch.tensor([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]])):
        assert sorter_quality.accuracy(hard, exact) == {"l1": 0, "exact_ranks": 1, "exactly_ordered": 1}
    health = sorter_quality.gradient_health(hard, scores)
    assert (health["vanishing"], health["zero"], health["median_norm"]) == (1, 1, 0)
    assert (health["wrong_signs_of_own"], health["wrong_signs_of_others"]) == (0, 0)
    assert not any(sorter_quality.out_of_distribution(exact_ranks, 3, 20, generator).values())
    assert sorter_quality.adam_steps(hard, 2, 8, generator, deviation=1.0, most=3) == 3


def test_of_ranks_that_are_off_by_a_place_and_of_a_linear_map(scores, generator):
    result = sorter_quality.accuracy(lambda scores: exact_ranks(scores) + 1, scores)
    assert result == {"l1": pytest.approx(1 / 20), "exact_ranks": 0, "exactly_ordered": 1}
    assert sorter_quality.invariance(lambda vector: vector * torch.arange(20), scores, generator)["equivariance"] > 0.01
    by_position = sorter_quality.ties(lambda scores: Logistic()(scores) + torch.linspace(0, 1, 20), 7 * scores)
    assert by_position["spread_of_tied_ranks"] > 0.1 > sorter_quality.ties(Logistic(), scores)["spread_of_tied_ranks"]

    # Rank i rises with score i, and with half of the others.
    weights = torch.ones(20, 20)
    weights[:, ::2] = -1
    weights[range(20), range(20)] = 1
    health = sorter_quality.gradient_health(lambda scores: scores @ weights.T, scores)
    assert health["wrong_signs_of_own"] == 1
    assert health["wrong_signs_of_others"] == pytest.approx(0.5, abs=0.03)
    assert health["vanishing"] == 0
    deviations = scores.std(-1, correction=0)
    assert health["median_norm"] == pytest.approx((math.sqrt(20) * deviations / 20).median().item(), rel=0.2)


def test_the_jacobian_is_autograds(scores):
    for jacobian, expected in zip(sorter_quality.jacobians(Laplace(), scores), scores, strict=True):
        assert torch.allclose(jacobian, torch.autograd.functional.jacobian(Laplace(), expected), atol=1e-5)


def test_the_gradient_of_ranks_under_noise_has_fidelity_1(scores, generator):
    def noisy(scores):
        width = 0.1 * scores.detach().std(-1, correction=0)[:, None, None]
        beats = 0.5 * torch.erfc((scores.unsqueeze(-1) - scores.unsqueeze(-2)) / (2 * width))
        return 0.5 + beats.sum(-1)

    result = sorter_quality.fidelity(noisy, scores, generator, sigmas=(0.1,))
    assert result["fidelity_0.1"] == pytest.approx(1, abs=1e-4)
    assert sorter_quality.fidelity(hard, scores, generator)["fidelity_0.1"] == 0


def test_an_lstm_sorts_by_weights_that_are_written_down(generator):
    scores, _ = draw(200, 100, generator)
    options = {"length": 100, "layers": 1, "projection": "formula", "standardize": True}
    errors = [sorter_quality.accuracy(LSTM(hidden=cells, **options).eval(), scores)["l1"] for cells in (32, 256)]
    assert errors[1] < 0.0033 < errors[0] < 0.02  # the paper's trained one has 0.0033
