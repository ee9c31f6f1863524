"""The measures of differentiable ranks, on ranks whose answers are known."""

import math

import pytest
import torch

from rankops.metrics import sorter_quality as measures
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


def test_hard_ranks_are_right_and_have_no_gradient(scores):
    assert measures.accuracy(hard, scores) == {"l1": 0, "exact_ranks": 1, "exactly_ordered": 1}
    health = measures.gradient_health(hard, scores)
    assert (health["vanishing"], health["zero"], health["median_norm"]) == (1, 1, 0)


def test_exact_ranks_of_ties_are_exact():
    tied = torch.tensor([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]])
    assert measures.accuracy(hard, tied) == {"l1": 0, "exact_ranks": 1, "exactly_ordered": 1}
    assert measures.accuracy(lambda scores: ranks(scores) + 0.5, tied)["exact_ranks"] == 0


def test_ranks_that_are_off_by_a_place(scores):
    found = measures.accuracy(lambda scores: ranks(scores) + 1, scores)
    assert found == {"l1": pytest.approx(1 / 20), "exact_ranks": 0, "exactly_ordered": 1}


def test_signs_of_a_linear_map(scores):
    # Rank i rises with score i, and with half of the others.
    weights = torch.ones(20, 20)
    weights[:, ::2] = -1
    weights[range(20), range(20)] = 1
    health = measures.gradient_health(lambda scores: scores @ weights.T, scores)
    assert health["wrong_signs_of_own"] == 1
    assert health["wrong_signs_of_others"] == pytest.approx(0.5, abs=0.03)
    assert health["vanishing"] == 0
    deviations = scores.std(-1, correction=0)
    assert health["median_norm"] == pytest.approx((math.sqrt(20) * deviations / 20).median().item(), rel=0.2)


def test_the_jacobian_is_autograds(scores):
    found = measures.jacobians(Laplace(), scores)
    for one, expected in zip(found, scores, strict=True):
        assert torch.allclose(one, torch.autograd.functional.jacobian(Laplace(), expected), atol=1e-5)


def test_who_is_invariant_to_what(scores, generator):
    assert measures.invariance(Sigmoid(), scores, generator)["equivariance"] < 1e-6
    found = measures.invariance(lambda scores: scores * torch.arange(20), scores, generator)
    assert found["equivariance"] > 0.01
    assert found["shift"] == pytest.approx(3 * 9.5 / 20)
    flat = measures.invariance(Handcrafted(), scores, generator)
    assert flat["l1_at_scale_0.01"] > 0.2
    assert flat["l1_at_scale_100"] < 0.01


def test_ties_broken_by_position_are_seen(scores):
    by_position = measures.ties(lambda scores: Sigmoid()(scores) + torch.linspace(0, 1, 20), scores)
    assert by_position["spread_of_tied_ranks"] > 0.1
    fair = measures.ties(Sigmoid(), scores)
    assert fair["spread_of_tied_ranks"] < 1e-5
    assert fair["spread_of_tied_gradients"] < 1e-4


def test_the_gradient_of_ranks_under_noise_has_fidelity_1(scores, generator):
    def noisy(scores):
        width = 0.1 * scores.detach().std(-1, correction=0)[:, None, None]
        beats = 0.5 * torch.erfc((scores.unsqueeze(-1) - scores.unsqueeze(-2)) / (2 * width))
        return 0.5 + beats.sum(-1)

    found = measures.fidelity(noisy, scores, generator, sigmas=(0.1,))
    assert found["fidelity_0.1"] == pytest.approx(1, abs=1e-4)
    assert measures.fidelity(hard, scores, generator)["fidelity_0.1"] == 0


def test_a_step_helps_or_does_not(scores, generator):
    assert measures.drop_of_spearman(Laplace(softness=0.2), scores, generator) > 0.02
    assert measures.drop_of_spearman(hard, scores, generator) == 0


def test_steps_that_never_arrive_are_the_most(generator):
    assert measures.adam_steps(hard, 2, 8, generator, deviation=1.0, most=3) == 3


def test_out_of_distribution_of_exact_ranks_is_0(generator):
    found = measures.out_of_distribution(ranks, 3, 20, generator)
    assert len(found) == 5
    assert not any(found.values())


def test_a_gradient_of_nothing_has_no_wrong_sign(scores):
    health = measures.gradient_health(hard, scores)
    assert (health["wrong_signs_of_own"], health["wrong_signs_of_others"]) == (0, 0)


def test_norms_by_hand():
    # Rows of J with norms of 1, 1 and 4, at a deviation of 3: in units of d / s these are 1, 1 and 4.
    apart = 3 * math.sqrt(1.5)
    health = measures.gradient_health(
        lambda scores: scores * torch.tensor([1.0, 1.0, 4.0]), torch.tensor([[-apart, 0.0, apart]])
    )
    assert health["median_norm"] == pytest.approx(1)
    assert health["variation_of_norms"] == pytest.approx(math.sqrt(3) / 2)  # deviation over mean: the root of 3, over 2
    assert health["wrong_signs_of_own"] == 1


def test_ties_are_measured_on_scores_in_tenths_of_their_deviation(scores):
    seen = []
    found = measures.ties(lambda scores: seen.append(scores.detach()) or hard(scores), 7 * scores)
    in_tenths = 10 * scores / scores.std(-1, correction=0, keepdim=True)
    assert torch.allclose(10 * seen[0], in_tenths.round(), atol=1e-4)
    assert (found["l1_of_tied"], found["spread_of_tied_ranks"]) == (0, 0)
    spread = measures.ties(lambda scores: ranks(scores) + 0 * scores + torch.linspace(0, 1, 20), scores)
    assert 0.4 < 20 * spread["l1_of_tied"] < 0.6  # the mean of what was added


def test_steps_are_in_deviations_of_the_scores(scores):
    drops, steps = [], []
    for scale in (1.0, 1000.0):
        draws = torch.Generator().manual_seed(0)
        drops.append(measures.drop_of_spearman(Laplace(softness=0.2), scale * scores, draws))
        steps.append(measures.adam_steps(Laplace(softness=0.3), 2, 6, draws, deviation=scale, most=200))
    assert drops[1] == pytest.approx(drops[0], abs=1e-4)
    assert steps[1] == pytest.approx(steps[0], abs=1)
    assert 1 < steps[0] < 200


def test_what_is_right_after_the_first_step_took_one():
    found = [measures.adam_steps(hard, 1, 2, torch.Generator().manual_seed(k), deviation=1.0, most=3) for k in range(9)]
    assert set(found) == {1.0, 3.0}  # two scores, in order or not, which nothing moves


def test_out_of_distribution_are_the_five_kinds(generator):
    seen = []
    names = list(measures.out_of_distribution(lambda scores: seen.append(scores) or ranks(scores), 30, 40, generator))
    assert names == ["l1_cauchy", "l1_clusters", "l1_duplicates", "l1_offset_1e4", "l1_bfloat16"]
    cauchy, clusters, duplicates, offset, half = seen
    assert cauchy.abs().median().item() == pytest.approx(1, abs=0.15)
    assert cauchy.abs().max() > 50
    assert (clusters - clusters.round()).std().item() == pytest.approx(0.001, rel=0.1)
    assert clusters.round().unique().tolist() == list(range(10))
    assert duplicates.unique().tolist() == list(range(21))
    assert (offset - 1e4).mean().item() == pytest.approx(0, abs=0.1)
    assert half.equal(half.bfloat16().float())
    assert half.std().item() == pytest.approx(1, abs=0.1)
