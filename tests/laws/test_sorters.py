"""Each sorter against its formula, pair by pair; and sorters on disk. What all have in common is in contracts/."""

import copy
import math

import numpy as np
import pytest
import torch
from contracts.values import gradient, normal
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import laplace, logistic

from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.io.checkpoints import build, save_model
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import CNN, LSTM, Comparator, Handcrafted, Laplace, Logistic, StraightThrough, load_sorter
from rankgrad.sorters import _quality as sorter_quality


def jacobian(sorter, scores: torch.Tensor) -> torch.Tensor:
    """[i, j] = the derivative of rank i by score j, of one vector."""
    return torch.autograd.functional.jacobian(sorter, scores)


def small_comparator() -> Comparator:
    return build("sorters", "comparator", {"hidden": 8}, seed=0).double()


def summed(values, kernel) -> np.ndarray:
    """The sum over all pairs; of each score with itself it is 1/2, where a rank begins with 1."""
    return 0.5 + kernel(values - values[:, None]).sum(1)


@settings(max_examples=20)
@given(
    hnp.arrays("float64", st.integers(2, 12), elements=st.floats(-3, 3)).filter(lambda values: np.ptp(values) > 1e-3)
)
def test_sums_over_pairs(values):
    scores, deviation = torch.from_numpy(values), values.std()
    for sorter, expected in (
        (Handcrafted(), summed(values, logistic(scale=0.1).cdf)),
        (Logistic(softness=0.2), summed(values / deviation, logistic(scale=0.2).cdf)),
        (Laplace(), summed(values / deviation, laplace(scale=0.2).cdf)),
        (Laplace(softness=0.3, standardize=False), summed(values, laplace(scale=0.3).cdf)),
    ):
        assert sorter(scores).numpy() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("softness", [0.2, 1e-3])  # by cumulative sums of the whole vector, and within blocks
def test_long_vectors_and_batches_are_summed_as_short_ones(softness, generator):
    scores = normal(generator, 9, 300).requires_grad_()
    mask, probe = torch.rand(9, 300, generator=generator) < 0.8, normal(generator, 9, 300)
    sorter = Laplace(softness=softness, standardize=False)
    apart = (scores.unsqueeze(-2) - scores.unsqueeze(-1)) / softness
    pairs = (apart.sign() * -torch.expm1(-apart.abs()) * mask.unsqueeze(-2)).sum(-1) / 2
    expected = (pairs + (mask.sum(-1, keepdim=True) + 1) / 2) * mask
    slopes = gradient(expected * probe, scores)
    soft = sorter(scores, mask=mask)
    assert torch.allclose(soft, expected)
    (twice,) = torch.autograd.grad((soft * probe).sum(), scores, create_graph=True)  # by another way
    assert torch.allclose(gradient(soft * probe, scores), slopes)
    assert torch.allclose(twice, slopes)
    assert torch.allclose(torch.func.vmap(sorter)(scores), torch.stack([sorter(row) for row in scores]))
    assert torch.allclose(sorter(scores[:, :100]), torch.stack([sorter(row[:100]) for row in scores]))
    few = scores[0, :140].detach().requires_grad_()
    assert torch.autograd.gradcheck(sorter, few, fast_mode=True, eps=1e-8)
    assert torch.autograd.gradgradcheck(sorter, few, fast_mode=True, eps=1e-8, atol=1e-3, rtol=1e-2)


def test_detached_gradients_are_those_of_the_formula_with_the_deviation_held_constant(generator):
    scores = normal(generator, 6)
    deviation = scores.std(correction=0).item()
    fixed = Laplace(softness=0.1 * deviation, standardize=False)
    assert torch.allclose(jacobian(Laplace(softness=0.1), scores), jacobian(fixed, scores))
    fixed = Handcrafted(steepness=4 / deviation)
    assert torch.allclose(jacobian(Logistic(softness=0.25), scores), jacobian(fixed, scores))
    for softness in (0.0, 0.05):
        straight_through = StraightThrough(softness=softness, gradient_softness=0.3)
        assert torch.allclose(jacobian(straight_through, scores), jacobian(Laplace(softness=0.3), scores))


def test_a_score_far_away_does_not_tie_the_others():
    sorter, near = Laplace(standardize=False), torch.tensor([0.1, 0.7, 0.3, -0.4])
    scores = torch.cat([near, torch.tensor([1e8])])
    assert sorter(scores)[:4].allclose(sorter(near) + 1)
    assert jacobian(sorter, scores)[0, :4].allclose(jacobian(sorter, near)[0])


def slow_comparator(sorter: Comparator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks and Jacobian, pair by pair, from what the network makes of each gap."""
    d = len(scores)
    order = np.argsort(-scores, kind="stable")
    at = (scores[order] - scores.mean()) / scores.std()
    gaps, steep = [], []
    for i in range(d - 1):
        distances = [at[i] - at[i + 1]]
        for step in (1, 2, 4, 8):
            distances.append(at[max(i - step, 0)] - at[i])
            distances.append(at[i + 1] - at[min(i + 1 + step, d - 1)])
        seen = np.log(np.clip(np.array(distances) * d, 1e-3, 1e3)) / 3
        factor = np.exp(3 * np.tanh(sorter.network(torch.from_numpy(seen)).item() / 3))
        gaps.append(3 * (1 - np.exp(-factor * distances[0] * d)))
        steep.append(gaps[-1] / distances[0])
    slopes = np.sqrt(np.array([steep[0], *steep]) * np.array([*steep, steep[-1]])) + 0.1 * d
    warped = -np.concatenate([[0], np.cumsum(gaps)])
    result, derivative = np.empty(d), np.zeros((d, d))
    for i in range(d):
        result[order[i]] = 1 + sum(laplace.cdf(warped[j] - warped[i]) for j in range(d) if j != i)
        for j in range(d):
            if i != j:
                pull = (slopes[i] + slopes[j]) / 4 * np.exp(-abs(warped[i] - warped[j])) / scores.std()
                derivative[order[i], order[j]] += pull
                derivative[order[i], order[i]] -= pull
    return result, derivative


@pytest.mark.parametrize("d", [2, 5, 23])
def test_the_comparator_is_its_formula_pair_by_pair(d, generator):
    sorter, scores = small_comparator(), normal(generator, d)
    expected, derivative = slow_comparator(sorter, scores.numpy())
    assert sorter(scores).detach().numpy() == pytest.approx(expected)
    assert jacobian(sorter, scores).numpy() == pytest.approx(derivative)


def test_the_comparators_imitation_loss_is_its_formula(generator):
    scores = normal(generator, 3, 6).requires_grad_()
    soft, probe = small_comparator()(scores), torch.tensor([1.0, -1.0] * 3).double()
    ours = gradient(soft * probe, scores)
    width = (scores.std(-1, correction=0) * math.sqrt(2) * 3 / 6)[:, None, None]
    density = torch.exp(-((scores.unsqueeze(-1) - scores.unsqueeze(-2)) / width).square() / 2)
    theirs = density @ probe - density.sum(-1) * probe
    cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=-1)
    expected = (soft - exact_ranks(scores)).abs().mean() + (1 - cosine).mean()
    assert small_comparator().imitation_loss(scores, exact_ranks(scores)).item() == pytest.approx(expected.item())


@pytest.mark.parametrize(
    ("length", "options"),
    [*((length, {"layers": math.ceil(math.log2(length))}) for length in (2, 3, 31, 33, 100)),
     (10, {"layers": 3, "kernels": [2, 3, 7]})],
)  # fmt: skip
def test_each_rank_of_a_convolutional_network_depends_on_all_scores(length, options):
    sorter = CNN(length=length, channels=2, **options).eval()
    with torch.no_grad():  # all weights positive, so that nothing cancels and no ReLU closes
        for weights in sorter.parameters():
            weights.fill_(1.0)
    assert (sorter_quality.jacobians(sorter, torch.ones(1, length)) > 0).all()


@pytest.mark.parametrize(
    ("sorter", "options", "message"),
    [
        (Laplace, {"softness": 1e-45}, "softness is 1e-45, .* 1e-12"),
        (StraightThrough, {"softness": -1}, "softness is -1, .* 0 or"),
        (CNN, {"length": 4, "layers": 2, "kernels": [2, 2]}, r"kernels is \[2, 2\], 4 in total, .* = 5 in total"),
        (CNN, {"length": 4, "kernels": [2, 4]}, r"kernels is \[2, 4\], .* layers = 8 widths"),
        (CNN, {"length": 0}, "length is 0"),
        (LSTM, {"length": 4.0}, "length is 4.0, expected a whole number"),
        (LSTM, {"length": 4, "projection": "half"}, "projection is 'half', expected 'full' or 'shared'"),
    ],
)
def test_impossible_options_are_named(sorter, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sorter(**options)


def test_the_pretrained_comparator_is_nearly_exact_and_has_healthy_gradients(generator):
    sorter = load_sorter("comparator")
    assert sum(weight.numel() for weight in sorter.parameters()) <= 10_000
    for length, most in ((10, 0.1 / 10), (100, 0.0006), (1000, 0.1 / 1000)):
        scores, _ = draw(100, length, generator)
        assert sorter_quality.accuracy(sorter, scores)["l1"] <= most
    health = sorter_quality.gradient_health(sorter, draw(20, 100, generator)[0])
    assert health["vanishing"] <= 0.001
    assert health["wrong_signs_of_own"] == health["wrong_signs_of_others"] == 0


class TestOnDisk:
    def test_a_model_that_is_no_sorter_is_refused(self, tmp_path):
        save_model(tmp_path, build("models", "threshold_network", {}, seed=0, features=3, outputs=3))
        with pytest.raises(ValueError, match="ThresholdNetwork, expected a sorter"):
            load_sorter(tmp_path)

    def test_what_could_not_be_loaded_again_is_not_saved(self, tmp_path):
        odd = build("sorters", "laplace", {"softness": 0.25}, seed=0)
        odd.recipe["args"]["softness"] = object()
        for module, message in ((odd, "object"), (LSTM(length=4), "LSTM: .*build")):
            with pytest.raises(TypeError, match=message):
                save_model(tmp_path / "sorter", module)
        assert not (tmp_path / "sorter").exists()

    def test_is_made_and_loaded_in_float32_whatever_is_the_default_and_leaves_the_random_state(self):
        expected, state = copy.deepcopy(load_sorter("comparator").state_dict()), torch.get_rng_state()
        torch.set_default_dtype(torch.float64)
        try:
            loaded, made = load_sorter("comparator"), build("sorters", "lstm", {"hidden": 4}, seed=0, length=4)
        finally:
            torch.set_default_dtype(torch.float32)
        assert all(weights.equal(expected[name]) for name, weights in loaded.state_dict().items())
        assert {weights.dtype for weights in made.parameters()} == {torch.float32}
        assert torch.get_rng_state().equal(state)
