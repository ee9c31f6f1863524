"""Losses where all of them differ: long lists, numbers far out, pairs that are drawn, options that are refused.

What all have in common is in contracts/test_measures.py, and their formulas in laws/test_losses.py.
"""

import math

import pytest
import torch
from contracts.values import gradient, normal
from scipy.stats import norm

from laws.formulas import LOSSES, Row
from rankgrad import losses, metrics
from rankgrad.sorters import Laplace, StraightThrough

OWN = torch.eye(4, dtype=torch.bool)
EXACT = StraightThrough()


# Pairs.


@pytest.mark.parametrize("loss", [losses.rlsep, losses.lsep])
def test_pairs_are_as_many_as_asked_for_and_come_from_the_generator(loss, generator):
    label_ranks = torch.tensor([[0, 1, 1, 0, 0, 2]] * 8)
    for pairs in (1, 4, 9):  # with equal scores every pair adds exactly 1 inside the logarithm
        value = loss(torch.zeros(8, 6), label_ranks, pairs=pairs, generator=generator)
        assert value.exp().item() == pytest.approx(1 + pairs)
    scores = torch.randn(8, 6, generator=generator)
    first, again, other = (
        loss(scores, label_ranks, pairs=2, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert first.equal(again)
    assert not first.equal(other)


@pytest.mark.parametrize("name", ["ranknet", "kendall", "spearman", "pairwise_logistic"])
def test_weights_of_whole_pairs_are_refused_and_count_as_group_weights(name):
    scores, truth = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[1, 0], [1, 0]])
    loss, weights = getattr(losses, name), torch.tensor([[1.0, 1.0], [100.0, 100.0]])
    with pytest.raises(ValueError, match=r"weights .* within each group of two .* group_weights="):
        loss(scores, truth, weights=weights)
    each = loss(scores, truth, reduction="none")
    weighted = loss(scores, truth, group_weights=weights.select(-1, 0))
    assert weighted.item() == pytest.approx(((each[0] + 100 * each[1]) / 101).item())
    within, equal = torch.tensor([[1.0, 2.0], [100.0, 100.0]]), torch.full((2, 2), 3.0)
    for meaningful in (within, equal):
        assert loss(scores, truth, weights=meaningful).isfinite()
    assert loss(scores, truth, weights=weights, mask=torch.tensor([[True, True], [True, False]])).isfinite()


@pytest.mark.parametrize("name", ["list_mle", "listnet", "ranknet", "lambdarank", "plackett_luce", "rlsep"])
def test_a_masked_score_costs_those_far_from_it_no_precision(name):
    scores, truth = torch.tensor([1.0, 0.0, 2.0, 3.0, 0.0]) - 1e6, torch.tensor([1, 3, 2, 0, 0])
    loss, mask = getattr(losses, name), torch.tensor([True, True, True, True, False])
    assert loss(scores, truth, mask=mask).item() == pytest.approx(loss(scores[:4], truth[:4]).item(), rel=1e-6)


# Long lists.


@pytest.mark.parametrize("levels", [3, 530])
@pytest.mark.parametrize("name", ["kendall", "expected_reciprocal_rank"])
def test_long_lists_are_their_formula_and_have_its_gradient(name, levels, generator):
    scores = normal(generator, 530).requires_grad_()
    target = torch.randint(levels, (530,), generator=generator) * 4 / levels
    loss = getattr(losses, name)
    rows = [Row(score, true, 1.0) for score, true in zip(scores.tolist(), target.tolist(), strict=True)]
    formula, *_ = LOSSES[name]
    assert loss(scores, target, sorter=EXACT).item() == pytest.approx(formula(rows), rel=1e-6)

    def soft(scores, mask=None):
        return 1 + (scores.shape[-1] - 1) * (-scores).sigmoid()

    weights = torch.rand(530, generator=generator, dtype=torch.float64)
    top_heavy = {"top_heavy": True} if name == "kendall" else {}
    for options in ({}, {"mask": weights > 0.1}, {"weights": weights} | top_heavy):
        value = lambda scores, options=options: loss(scores, target, sorter=soft, **options)  # noqa: E731
        assert torch.autograd.gradcheck(value, scores, fast_mode=True, atol=1e-6)


@pytest.mark.parametrize("name", ["kendall", "expected_reciprocal_rank", "rlsep", "lsep", "plackett_luce", "list_mle"])
def test_lists_whose_pairs_fill_no_memory_have_the_gradient_of_float64_in_float32(name, generator):
    scores = torch.randn(100_000, generator=generator)  # all pairs would take 40 GB
    target = torch.randint(0, 5, scores.shape, generator=generator)
    results = []
    for dtype in (torch.float32, torch.float64):
        leaf = scores.to(dtype, copy=True).requires_grad_()
        value = getattr(losses, name)(leaf, target)
        assert value.dtype == dtype
        results.append((value.double(), gradient(value, leaf).double()))
    (value, slope), (precise_value, precise_slope) = results
    assert abs(value - precise_value) < 1e-6 * precise_value
    assert (slope - precise_slope).norm() < 1e-6 * precise_slope.norm()


def test_more_pairs_than_32_bits_count(generator):
    scores = torch.randn(70_000, generator=generator)
    target = (scores + torch.randn(70_000, generator=generator)).round(decimals=1)
    value = losses.kendall(scores, target, sorter=EXACT, temperature=1e-3)
    assert value.item() == pytest.approx(1 - metrics.kendall(scores, target).item(), abs=1e-6)


# Limits.


@pytest.mark.parametrize("name", ["l1", "mse"])
def test_a_sigmoid_is_taken_before_the_error(name, generator):
    scores, target = torch.randn(2, 5, generator=generator), torch.rand(2, 5, generator=generator)
    loss = getattr(losses, name)
    assert loss(scores, target, sigmoid=True).equal(loss(scores.sigmoid(), target))


@pytest.mark.parametrize("name", ["mse", "l1", "listnet"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_item_of_no_weight_does_not_count_however_large_its_error(name, reduction):
    options = {"weights": torch.tensor([1.0, 1.0, 0.0]), "reduction": reduction}
    target = torch.tensor([1.0, 2.0, -3e38])
    first, other = (getattr(losses, name)(torch.tensor([3.0, 1.0, last]), target, **options) for last in (-3e38, -1e30))
    assert first.isfinite()
    assert first.equal(other)


def test_a_precision_of_soft_ranks_counts_for_1_at_most():
    scores, labels = torch.tensor([0.1, 0.0, -5.0]), torch.tensor([1, 1, 0])  # positives that lie close together
    sorter = Laplace(softness=0.2)
    among_positives, among_all = sorter(scores[:2]), sorter(scores)[:2]
    assert (among_positives / among_all).max() > 1
    expected = 1 - (among_positives / among_all).clamp(max=1).mean()
    assert losses.average_precision(scores, labels, sorter=sorter).item() == pytest.approx(expected.item())


def test_equal_targets_have_no_deviation_that_rounding_made():
    equal = torch.full((1, 13), 0.7, dtype=torch.float64)  # the computed deviation is not quite 0
    assert losses.mse(torch.zeros(1, 13), equal, normalize_groups="standardized") == 0


def test_list_mle_of_scores_far_apart_is_finite():
    scores = torch.linspace(-300, 300, 5000).requires_grad_()
    for top_heavy in (False, True):
        value = losses.list_mle(scores, scores.detach().flip(0), top_heavy=top_heavy)
        assert value.isfinite()
        assert gradient(value, scores).isfinite().all()


def test_lambdarank_has_a_gradient_where_all_scores_are_equal():
    scores = torch.zeros(4, requires_grad=True)
    slope = gradient(losses.lambdarank(scores, torch.tensor([0, 2, 0, 1])), scores)
    assert slope[1] < slope[3] < 0 < slope[[0, 2]].min()


def test_gaussian_mlr_has_the_right_gradient_far_out():
    for score in (-10.0, -999.0, -1001.0, -1e6, -1e10, -1e30):
        scores = torch.tensor([score], dtype=torch.float64).requires_grad_()
        value = losses.gaussian_mlr(scores, torch.tensor([1]))
        assert value.item() == pytest.approx(-norm.logcdf(score), rel=1e-12)
        expected = score - 1 / abs(score) if score < -100 else -math.exp(norm.logpdf(score) - norm.logcdf(score))
        assert gradient(value, scores).item() == pytest.approx(expected, rel=1e-9)


def test_the_variances_of_gaussian_mlr_have_a_gradient(generator):
    scores, log_variances = normal(generator, 2, 4).requires_grad_()
    label_ranks = torch.tensor([2, 0, 1, 0])
    loss = lambda scores, spread: losses.gaussian_mlr(scores, label_ranks, log_variances=spread)  # noqa: E731
    assert torch.autograd.gradcheck(loss, (scores, log_variances))


# Options and values that are refused.

LEFT_OUT = OWN.clone()
LEFT_OUT[2] = OWN[1]
REFUSED = [
    ("hard_negative_triplet", LEFT_OUT, {}, "no True in column 2"),
    ("hard_negative_triplet", torch.stack([OWN, LEFT_OUT.T]), {}, r"no True in row 2 of matrix \(1,\)"),
    ("hard_negative_triplet", torch.ones(5, 3, 1).bool(), {}, r"\(5, 3, 1\).* m of at least 2"),
    ("ndcg", torch.tensor([1.0, 61.0]), {}, r"target\[1\] is 61.0.*linear"),
    ("ndcg", torch.ones(2), {"gain": "cubic"}, "'cubic'.*'linear'"),
    ("mse", torch.tensor([0.0, 1.5]), {"sigmoid": True}, r"target\[1\] is 1.5.*\[0, 1\]"),
    ("mse", torch.tensor([0.0, 0.5]), {"sigmoid": True, "normalize_groups": "ranks"}, "'ranks' and sigmoid is True"),
    ("generalized_cross_entropy", torch.tensor([0, 1]), {"q": 1.5}, "q is 1.5"),
    ("asymmetric", torch.tensor([0, 1]), {"shift": 1.0}, "shift is 1.0"),
    ("rlsep", torch.tensor([[1, 0]]), {"pairs": 1}, "generator is None"),
    ("spearman", torch.zeros(5, 1), {}, r"groups of 1.*\(5, 1\)"),
    ("sodeep_mean_average_precision", torch.tensor([0, 1]), {"weight_by": "class"}, "'class'.*'classes'"),
    ("spearman", torch.ones(2), {"sorter": Laplace}, r"the class Laplace.*Laplace\(\.\.\.\)"),
    ("gaussian_mlr", torch.ones(4), {"log_variances": torch.zeros(3)}, r"log_variances \(3,\) and scores \(4,\)"),
    ("gaussian_mlr", torch.ones(1), {"log_variances": torch.tensor([math.nan])}, r"log_variances\[0\] is nan"),
]


@pytest.mark.parametrize(("name", "truth", "options", "message"), REFUSED)
def test_impossible_options_and_values_are_named(name, truth, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(losses, name)(torch.zeros(truth.shape), truth, **options)
