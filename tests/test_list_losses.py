"""Losses of ranked lists against plain loops, closed forms and their limits."""

import itertools
import math

import pytest
import torch
from scipy.special import softmax
from scipy.stats import norm

from rankops import losses, metrics

SIX = {
    "scores": [0.3, -1.2, 0.8, 0.1, 2.0, -0.4],
    "target": [2, 0, 3, 0, 1, 1],
    "weights": [1.0, 0.5, 2.0, 0.3, 1.5, 1],
}


@pytest.fixture(params=["all", "masked and weighted"])
def lists(request):
    """Tensors and options for a loss, and (score, target, weight) of what the mask leaves."""
    scores, target = torch.tensor(SIX["scores"], dtype=torch.float64), torch.tensor(SIX["target"])
    if request.param == "all":
        return scores, target, {}, list(zip(SIX["scores"], SIX["target"], [1.0] * 6, strict=True))
    mask = torch.tensor([True, True, True, False, True, True])
    rows = list(zip(SIX["scores"], SIX["target"], SIX["weights"], strict=True))
    options = {"mask": mask, "weights": torch.tensor(SIX["weights"], dtype=torch.float64)}
    return scores, target, options, [row for row, kept in zip(rows, mask.tolist(), strict=True) if kept]


def test_listnet_agrees_with_a_loop(lists):
    scores, target, options, rows = lists
    f, t, w = zip(*rows, strict=True)
    shares = [weight * math.exp(value) for value, weight in zip(t, w, strict=True)]
    expected = -sum(s / sum(shares) * math.log(p) for s, p in zip(shares, softmax(f), strict=True))
    assert losses.listnet(scores, target, **options).item() == pytest.approx(expected)


def test_listnet_is_least_where_scores_are_the_targets_up_to_an_offset(generator):
    target = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    scores = (target + 5).requires_grad_()
    (slope,) = torch.autograd.grad(losses.listnet(scores, target), scores)
    assert slope.abs().max() < 1e-12


def slow_list_mle(rows, *, top_heavy):
    places = [sum(other[1] > row[1] for other in rows) for row in rows]
    tied = [sum(other[1] == row[1] for other in rows) for row in rows]
    n = len(rows)
    alpha = [sum(2.0 ** (n - place) - 1 for place in range(above + 1, above + many + 1)) / many
             for above, many in zip(places, tied, strict=True)]  # fmt: skip
    alpha = [a * n / sum(alpha) if top_heavy else 1 for a in alpha]
    heaviest = max(weight for *_, weight in rows)
    return sum(
        a * weight / heaviest * (math.log(sum(math.exp(other[0]) for other in rows if other[1] <= value)) - score)
        for a, (score, value, weight) in zip(alpha, rows, strict=True)
    )


@pytest.mark.parametrize("top_heavy", [False, True])
def test_list_mle_agrees_with_a_loop(lists, top_heavy):
    scores, target, options, rows = lists
    result = losses.list_mle(scores, target, top_heavy=top_heavy, **options)
    assert result.item() == pytest.approx(slow_list_mle(rows, top_heavy=top_heavy))


def test_list_mle_is_a_likelihood_and_that_of_plackett_luce(generator):
    scores = torch.randn(4, generator=generator, dtype=torch.float64)
    orders = torch.tensor(list(itertools.permutations([1, 2, 3, 4])))
    each = losses.list_mle(scores.expand(24, -1), orders, reduction="none")
    assert (-each).exp().sum().item() == pytest.approx(1)
    torch.testing.assert_close(each, losses.plackett_luce(scores.expand(24, -1), orders, reduction="none"))


def test_list_mle_of_long_lists_is_finite():
    scores = torch.linspace(-300, 300, 5000).requires_grad_()
    for top_heavy in (False, True):
        value = losses.list_mle(scores, scores.detach().flip(0), top_heavy=top_heavy)
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, scores)[0]).all()


def test_ranknet_agrees_with_a_loop(lists):
    scores, target, options, rows = lists
    costs = [(first[2] * second[2], math.log1p(math.exp(second[0] - first[0])))
             for first, second in itertools.product(rows, rows) if first[1] > second[1]]  # fmt: skip
    expected = sum(weight * cost for weight, cost in costs) / sum(weight for weight, _ in costs)
    assert losses.ranknet(scores, target, **options).item() == pytest.approx(expected)
    assert losses.pairwise_logistic(scores, target, **options).item() == pytest.approx(expected)
    assert losses.ranknet(scores, target - 9.5, **options).item() == pytest.approx(expected)


def slow_lambdarank(rows, *, k, weighting):
    k = k or len(rows)
    gains = [weight * (2**value - 1) for _, value, weight in rows]
    best = sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)[:k]))
    order = sorted(range(len(rows)), key=lambda i: (-rows[i][0], gains[i]))
    total = 0.0
    for i, j in itertools.product(range(len(rows)), repeat=2):
        first, second = order.index(i) + 1, order.index(j) + 1
        if rows[i][1] <= rows[j][1] or min(first, second) > k:
            continue
        swapped = abs((first <= k) / math.log2(1 + first) - (second <= k) / math.log2(1 + second))
        apart = abs(first - second)
        bound = 1 / math.log2(1 + apart) - 1 / math.log2(2 + apart)
        delta = {"lambdarank": swapped, "ndcg_loss2": bound, "ndcg_loss2++": swapped + 10 * bound}[weighting]
        total += delta * abs(gains[i] - gains[j]) / best * math.log2(1 + math.exp(rows[j][0] - rows[i][0]))
    return total


@pytest.mark.parametrize("weighting", ["lambdarank", "ndcg_loss2", "ndcg_loss2++"])
@pytest.mark.parametrize("k", [None, 2])
def test_lambdarank_agrees_with_a_loop(lists, weighting, k):
    scores, target, options, rows = lists
    result = losses.lambdarank(scores, target, weighting=weighting, k=k, **options)
    assert result.item() == pytest.approx(slow_lambdarank(rows, k=k, weighting=weighting))


def test_ndcg_loss2_is_an_upper_bound_of_one_minus_ndcg(generator):
    scores = torch.randn(500, 5, generator=generator, dtype=torch.float64) * 3
    target = torch.randint(0, 4, (500, 5), generator=generator)
    bound = losses.lambdarank(scores, target, weighting="ndcg_loss2", reduction="none")
    assert (bound - (1 - metrics.ndcg(scores, target)).nan_to_num()).min() > -1e-12


def test_lambdarank_has_a_gradient_where_all_scores_are_equal():
    scores = torch.zeros(4, requires_grad=True)
    (slope,) = torch.autograd.grad(losses.lambdarank(scores, torch.tensor([0, 2, 0, 1])), scores)
    assert slope[1] < slope[3] < 0 < slope[[0, 2]].min()


def test_reciprocal_rank_with_an_exact_sorter_is_one_minus_the_metric(generator):
    scores = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    labels = torch.rand(20, 6, generator=generator) < 0.3
    weights, mask = torch.rand(20, 6, generator=generator), torch.rand(20, 6, generator=generator) < 0.8
    counts = (labels & mask).any(-1) & (~labels & mask).any(-1)
    result = losses.reciprocal_rank(
        scores, labels, weights=weights, mask=mask, sorter="straight_through", reduction="none"
    )
    expected = 1 - metrics.reciprocal_rank(scores, labels, weights=weights, mask=mask)
    assert torch.allclose(result[counts], expected[counts])
    assert not result[~counts].any()


@pytest.mark.parametrize("k", [None, 2])
def test_expected_reciprocal_rank_tends_to_one_minus_the_metric(generator, k):
    scores = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    target = torch.randint(0, 5, (20, 6), generator=generator)
    options = {"weights": torch.rand(20, 6, generator=generator), "mask": torch.rand(20, 6, generator=generator) < 0.8}
    target[:, :2] = torch.tensor([0, 3])
    options["mask"][:, :2] = True
    result = losses.expected_reciprocal_rank(
        scores, target, k=k, temperature=0.01, sorter="straight_through", reduction="none", **options
    )
    assert torch.allclose(result, 1 - metrics.expected_reciprocal_rank(scores, target, k=k, **options), atol=1e-6)


def slow_gaussian_mlr(means, label_ranks, variances):
    presence = [
        norm.logcdf(m / v**0.5 if r else -m / v**0.5) for m, r, v in zip(means, label_ranks, variances, strict=True)
    ]
    pairs = [norm.logcdf((means[u] - means[v]) / (variances[u] + variances[v]) ** 0.5)
             for u, v in itertools.permutations(range(len(means)), 2) if label_ranks[u] > label_ranks[v]]  # fmt: skip
    return -sum(presence) / len(presence) - (sum(pairs) / len(pairs) if pairs else 0)


@pytest.mark.parametrize("label_ranks", [[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 3, 2]])
def test_gaussian_mlr_agrees_with_a_loop(label_ranks):
    means, log_variances = [0.4, -1.0, 2.5, 0.1], [0.0, 0.7, -1.0, 0.3]
    scores = torch.tensor(means, dtype=torch.float64).requires_grad_()
    spread = torch.tensor(log_variances, dtype=torch.float64).requires_grad_()
    expected = slow_gaussian_mlr(means, label_ranks, [math.exp(value) for value in log_variances])
    loss = lambda scores, spread: losses.gaussian_mlr(scores, torch.tensor(label_ranks), log_variances=spread)  # noqa: E731
    assert loss(scores, spread).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(loss, (scores, spread))
    plain = losses.gaussian_mlr(scores, torch.tensor(label_ranks)).item()
    assert plain == pytest.approx(slow_gaussian_mlr(means, label_ranks, [1.0] * 4))
    with pytest.raises(ValueError, match=r"log_variances \(3,\) and scores \(4,\)"):
        loss(scores, spread[:3])
    with pytest.raises(ValueError, match=r"log_variances\[1\] is nan"):
        loss(scores, spread.detach().clone().index_fill(0, torch.tensor([1]), math.nan))


def test_permutation_cross_entropy_agrees_with_a_loop(lists):
    scores, target, options, rows = lists
    result = losses.permutation_cross_entropy(scores, target, sorter="straight_through", temperature=0.7, **options)
    # SoftSort of the exact ranks, place by place.
    ranks = [1 + sum(other[0] > row[0] for other in rows) for row in rows]
    total = 0.0
    for place in range(1, len(rows) + 1):
        shares = softmax([-abs(place - rank) / 0.7 for rank in ranks])
        for share, (_, value, weight) in zip(shares, rows, strict=True):
            above, tied = sum(r[1] > value for r in rows), sum(r[1] == value for r in rows)
            true = (above < place <= above + tied) / tied
            total -= weight * (true * math.log(share) + (1 - true) * math.log(1 - share))
    assert result.item() == pytest.approx(total / len(rows) / sum(weight for *_, weight in rows))
