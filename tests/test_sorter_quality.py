"""The measures of differentiable ranks, on ranks whose answers are known."""

import math

import pytest
import torch

from benchmarks.sodeep_table_1 import written_down
from rankops.datasets.vectors.score_vectors import draw
from rankops.metrics import sorter_quality
from rankops.ranks import ranks
from rankops.sorters.handcrafted import Handcrafted
from rankops.sorters.laplace import Laplace
from rankops.sorters.sigmoid import Sigmoid


@pytest.fixture
def scores(generator):
    return torch.randn(6, 20, generator=generator)


def hard(scores):
    """Exact ranks with a gradient of nothing."""
    return ranks(scores) + 0 * scores


def test_exact_ranks_are_accurate_ties_included_and_have_no_gradient(scores, generator):
    for exact in (scores, torch.tensor([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]])):
        assert sorter_quality.accuracy(hard, exact) == {"l1": 0, "exact_ranks": 1, "exactly_ordered": 1}
    health = sorter_quality.gradient_health(hard, scores)
    assert (health["vanishing"], health["zero"], health["median_norm"]) == (1, 1, 0)
    assert (health["wrong_signs_of_own"], health["wrong_signs_of_others"]) == (0, 0)
    assert not any(sorter_quality.out_of_distribution(ranks, 3, 20, generator).values())
    assert sorter_quality.adam_steps(hard, 2, 8, generator, deviation=1.0, most=3) == 3


def test_ranks_that_are_off_by_a_place(scores):
    result = sorter_quality.accuracy(lambda scores: ranks(scores) + 1, scores)
    assert result == {"l1": pytest.approx(1 / 20), "exact_ranks": 0, "exactly_ordered": 1}


def test_signs_and_norms_of_a_linear_map(scores):
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
    for one, expected in zip(sorter_quality.jacobians(Laplace(), scores), scores, strict=True):
        assert torch.allclose(one, torch.autograd.functional.jacobian(Laplace(), expected), atol=1e-5)


def test_who_is_invariant_to_what(scores, generator):
    assert sorter_quality.invariance(Sigmoid(), scores, generator)["equivariance"] < 1e-6
    result = sorter_quality.invariance(lambda scores: scores * torch.arange(20), scores, generator)
    assert result["equivariance"] > 0.01
    assert result["shift"] == pytest.approx(3 * 9.5 / 20)
    flat = sorter_quality.invariance(Handcrafted(), scores, generator)
    assert flat["l1_at_scale_0.01"] > 0.2
    assert flat["l1_at_scale_100"] < 0.01


def test_ties_broken_by_position_are_seen(scores):
    by_position = sorter_quality.ties(lambda scores: Sigmoid()(scores) + torch.linspace(0, 1, 20), 7 * scores)
    assert by_position["spread_of_tied_ranks"] > 0.1
    fair = sorter_quality.ties(Sigmoid(), scores)
    assert fair["spread_of_tied_ranks"] < 1e-5
    assert fair["spread_of_tied_gradients"] < 1e-4


def test_the_gradient_of_ranks_under_noise_has_fidelity_1(scores, generator):
    def noisy(scores):
        width = 0.1 * scores.detach().std(-1, correction=0)[:, None, None]
        beats = 0.5 * torch.erfc((scores.unsqueeze(-1) - scores.unsqueeze(-2)) / (2 * width))
        return 0.5 + beats.sum(-1)

    result = sorter_quality.fidelity(noisy, scores, generator, sigmas=(0.1,))
    assert result["fidelity_0.1"] == pytest.approx(1, abs=1e-4)
    assert sorter_quality.fidelity(hard, scores, generator)["fidelity_0.1"] == 0


def test_steps_help_or_do_not_and_are_in_deviations_of_the_scores(scores, generator):
    assert sorter_quality.drop_of_spearman(hard, scores, generator) == 0
    drops, steps = [], []
    for scale in (1.0, 1000.0):
        draws = torch.Generator().manual_seed(0)
        drops.append(sorter_quality.drop_of_spearman(Laplace(), scale * scores, draws))
        steps.append(sorter_quality.adam_steps(Laplace(), 2, 6, draws, deviation=scale, most=200))
    assert drops[0] > 0.02
    assert drops[1] == pytest.approx(drops[0], abs=1e-4)
    assert steps[1] == pytest.approx(steps[0], abs=1)
    assert 1 < steps[0] < 200


def test_an_lstm_sorts_by_weights_that_are_written_down(generator):
    scores, _ = draw(200, 100, generator)
    errors = [sorter_quality.accuracy(written_down(cells), scores)["l1"] for cells in (32, 256)]
    assert errors[1] < 0.0033 < errors[0] < 0.02  # the paper's trained one has 0.0033
