"""Each metric against plain loops, scipy, scikit-learn and cases computed by hand.

What all metrics have in common is in contracts/.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr, weightedtau
from sklearn.metrics import (
    average_precision_score,
    label_ranking_average_precision_score,
    label_ranking_loss,
    ndcg_score,
    precision_recall_fscore_support,
)
from sklearn.metrics import coverage_error as sklearn_coverage_error

from rankops import metrics

from conftest import tables  # isort: skip


def slow_ranked(scores, label_ranks):
    """Precision, recall, F1, accuracy and 0-1 of one image, as Section 5.3 of the paper defines them."""
    true_positive = false_positive = false_negative = right = total = 0
    for u in range(len(scores)):
        for v in range(u + 1, len(scores)):
            if label_ranks[u] == label_ranks[v]:
                continue
            positive = label_ranks[u] > label_ranks[v]
            predicted = scores[u] > scores[v] if scores[u] != scores[v] else not positive
            true_positive += positive and predicted
            false_positive += predicted and not positive
            false_negative += positive and not predicted
            right += positive == predicted
            total += 1
    precision = true_positive / (true_positive + false_positive) if true_positive + false_positive else 0
    recall = true_positive / (true_positive + false_negative) if true_positive + false_negative else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    return precision, recall, f1, right / total if total else 0, float(right == total)


def slow_mean_average_precision(scores, label_ranks):
    precisions, left = [], list(label_ranks)
    while any(left):
        precisions.append(slow_ranked(scores, left)[0])
        smallest = min(rank for rank in left if rank)
        left = [0 if rank == smallest else rank for rank in left]
    return sum(precisions) / len(precisions) if precisions else 0


def dense(values):
    levels = sorted(set(values) | {0})
    return [levels.index(value) for value in values]


@st.composite
def images(draw):
    scores, label_ranks = tables(draw, st.integers(1, 4), st.integers(1, 6), st.integers(-3, 3), st.integers(0, 4))
    return scores, [dense(row) for row in label_ranks]


@given(images())
def test_ranked_agree_with_loops(batch):
    scores, label_ranks = batch
    result = metrics.ranked(torch.tensor(scores, dtype=torch.float32), torch.tensor(label_ranks))
    for row, (f, r) in enumerate(zip(scores, label_ranks, strict=True)):
        names = ("precision", "recall", "f1_per_image", "accuracy", "exact_match")
        rates = [result[name][row].item() for name in names]
        assert rates == pytest.approx(slow_ranked(f, r))
        assert result["mean_average_precision"][row].item() == pytest.approx(slow_mean_average_precision(f, r))


def test_a_perfect_ranking_may_have_a_mean_average_precision_below_1():
    # Of the second image no pair is positive.
    assert metrics.ranked_ceiling(torch.tensor([[2, 1, 0], [0, 0, 1]])) == 0.5


@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
def test_unranked_agree_with_scikit_learn(rows):
    selected, present = torch.tensor(rows)[:, :4], torch.tensor(rows)[:, 4:]
    result = metrics.unranked(selected, present.long() * 3)
    for row in range(len(rows)):
        precision, recall, f1, _ = precision_recall_fscore_support(
            present[row].numpy(), selected[row].numpy(), average="binary", pos_label=True, zero_division=0
        )
        assert result["precision"][row].item() == pytest.approx(precision)
        assert result["recall"][row].item() == pytest.approx(recall)
        assert result["f1_per_image"][row].item() == pytest.approx(f1)
        assert result["accuracy"][row].item() == pytest.approx((selected[row] == present[row]).double().mean().item())
        assert result["exact_match"][row].item() == selected[row].equal(present[row])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_only_the_order_of_label_ranks_counts_whatever_their_type(dtype):
    scores = torch.tensor([[0.5, 0.1, 0.9, 0.4], [0.7, 0.2, 0.6, 0.1]])
    dense, gaps = torch.tensor([[1, 0, 2, 0], [1, 0, 3, 2]]), torch.tensor([[3, 0, 9, 0], [2, 0, 200, 7]])
    expected = metrics.ranked(scores, dense)
    assert expected["exact_match"].tolist() == [1, 0]
    assert all(values.equal(expected[name]) for name, values in metrics.ranked(scores, gaps.to(dtype)).items())
    of_booleans, of_numbers = metrics.ranked(scores, dense > 0), metrics.ranked(scores, (dense > 0).long())
    assert all(values.equal(of_numbers[name]) for name, values in of_booleans.items())


# Spearman's correlation.


@given(st.integers(2, 30), st.integers(2, 8), st.integers(0, 10_000))
def test_spearman_agrees_with_scipy(length, levels, seed):
    draws = np.random.default_rng(seed)
    scores, target = draws.integers(0, levels, (2, 3, length)) / 4  # many ties
    scores[:, :2], target[:, :2] = [0, 9], [0, 9]  # never constant
    result = metrics.spearman(torch.from_numpy(scores), torch.from_numpy(target))
    assert result.dtype == torch.float64
    expected = [spearmanr(s, t).statistic for s, t in zip(scores, target, strict=True)]
    assert result.tolist() == pytest.approx(expected, abs=1e-12)
    single = metrics.spearman(torch.from_numpy(scores).float(), torch.from_numpy(target).float())
    assert single.equal(result)


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        ([1.0], [2.0], r"Spearman.*1 examples.*\(1,\)"),
        ([1.0, 1.0], [1.0, 2.0], r"Spearman.*scores are 1.0"),
        ([1.0, math.nan], [1.0, 2.0], r"scores\[1\] is nan.*Spearman"),
        ([1.0, 2.0], [1.0, math.inf], r"target\[1\] is inf.*Spearman"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], r"scores \(3,\) and target \(2,\)"),
    ],
)
def test_spearman_says_where_it_is_undefined(scores, target, message):
    with pytest.raises(ValueError, match=message):
        metrics.spearman(torch.tensor(scores), torch.tensor(target))


@pytest.mark.parametrize("metric", [metrics.spearman, metrics.kendall])
def test_of_several_groups_those_without_an_order_are_nan(metric, generator):
    scores, target = torch.randn(4, 5, generator=generator), torch.rand(4, 5, generator=generator)
    scores[1], target[2] = 0.1, 0.1  # no two are different
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[3, 1:] = False  # one example
    weights = torch.rand(4, 5, generator=generator)
    for options in ({}, {"weights": weights}):
        single = {name: part[0] for name, part in options.items()}
        result = metric(scores, target, mask=mask, **options)
        assert result[0].item() == pytest.approx(metric(scores[0], target[0], **single).item())
        assert result[1:].isnan().all()


# Mean average precision.


def slow_average_precision(scores, labels, difficult):
    """The mean over positives of the precision among all examples that score at least as high; skipping some."""
    kept = [(s, y) for s, y, hard in zip(scores, labels, difficult, strict=True) if not hard]
    precisions = []
    for score, label in kept:
        if label:
            down_to = [y for s, y in kept if s >= score]
            precisions.append(sum(down_to) / len(down_to))
    return sum(precisions) / len(precisions) if precisions else math.nan


@st.composite
def classified(draw):
    parts = tables(draw, st.integers(1, 8), st.integers(1, 3), st.integers(-4, 4), st.booleans(), st.booleans())
    return tuple(map(np.array, parts))


@given(classified())
def test_average_precision_agrees_with_loops_and_scikit_learn(batch):
    scores, labels, difficult = batch
    tensors = torch.from_numpy(scores / 8), torch.from_numpy(labels)
    result = metrics.average_precision(*tensors, dim=-2, mask=torch.from_numpy(~difficult))
    plain = metrics.average_precision(*tensors, dim=-2)
    assert result.dtype == torch.float64
    assert plain.equal(metrics.average_precision(tensors[0].float(), tensors[1].long(), dim=-2)) or plain.isnan().any()
    for c in range(scores.shape[1]):
        easy = ~difficult[:, c]
        expected = slow_average_precision(scores[:, c], labels[:, c], difficult[:, c])
        assert result[c].item() == pytest.approx(expected, nan_ok=True)
        if labels[easy, c].any():
            assert result[c].item() == pytest.approx(average_precision_score(labels[easy, c], scores[easy, c]))
        if labels[:, c].any():
            assert plain[c].item() == pytest.approx(average_precision_score(labels[:, c], scores[:, c]))
        else:
            assert plain[c].isnan()


# Recall at K and the median rank.


@st.composite
def searches(draw):
    scores, more = tables(draw, st.integers(1, 6), st.integers(1, 6), st.integers(-3, 3), st.booleans())
    positives = torch.tensor(more)
    for row in positives:  # each has one
        row[draw(st.integers(0, len(row) - 1))] = True
    return torch.tensor(scores).float(), positives


@given(searches())
def test_recall_and_median_rank_agree_with_loops(batch):
    result = []
    for row, own in zip(*(part.tolist() for part in batch), strict=True):
        best = max(score for score, mine in zip(row, own, strict=True) if mine)
        result.append(1 + sum(score >= best for score, mine in zip(row, own, strict=True) if not mine))
    assert metrics.first_positive_ranks(*batch).tolist() == result
    assert metrics.median_rank(*batch).item() == np.median(result)
    for k in (1, 2, 5):
        assert metrics.recall(*batch, k=k).item() == pytest.approx(sum(place <= k for place in result) / len(result))


# Kendall, NDCG and precision at K.


PAIRS = st.integers(2, 10).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-4, 4), min_size=n, max_size=n) for _ in range(2)))
).filter(lambda pair: all(len(set(part)) > 1 for part in pair))  # fmt: skip


@given(PAIRS)
def test_kendall_agrees_with_scipy(pair):
    result = metrics.kendall(*(torch.tensor(part, dtype=torch.float64) for part in pair))
    assert result.item() == pytest.approx(kendalltau(*pair).statistic)


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_top_heavy_kendall_agrees_with_scipy(scores, target):
    result = metrics.kendall(*(torch.tensor(part, dtype=torch.float64) for part in (scores, target)), top_heavy=True)
    places = np.argsort(np.argsort(-np.array(target)))
    assert result.item() == pytest.approx(weightedtau(scores, target, rank=places).statistic)


@given(PAIRS, st.sampled_from([None, 1, 3]), st.booleans())
def test_ndcg_agrees_with_scikit_learn(pair, k, exponential):
    scores, target = np.array(pair[0], float), np.abs(np.array(pair[1], float))
    gain = "exponential" if exponential else "linear"
    result = metrics.ndcg(torch.from_numpy(scores), torch.from_numpy(target), k=k, gain=gain)
    if not target.any():
        assert result.isnan()
    else:
        gains = 2**target - 1 if exponential else target
        assert result.item() == pytest.approx(ndcg_score([gains], [scores], k=k), rel=1e-12)


@given(PAIRS, st.integers(1, 4))
def test_precision_at_k_is_the_mean_over_the_orders_of_ties(pair, k):
    scores, labels = np.array(pair[0], float), np.array(pair[1]) > 0
    result = metrics.precision_at_k(torch.from_numpy(scores), torch.from_numpy(labels), k=k)
    # Each of the tied takes the free places with the same probability.
    expected = 0.0
    for score, label in zip(scores, labels, strict=True):
        free = min(max(k - (scores > score).sum(), 0), (scores == score).sum())
        expected += label * free / (scores == score).sum() / k
    assert result.item() == pytest.approx(expected)


def test_weighted_and_mean_average_precision_agree_with_scikit_learn(generator):
    scores, labels = torch.randn(500, 6, generator=generator), torch.rand(500, 6, generator=generator) < 0.1
    weights = torch.rand(500, generator=generator)
    expected = average_precision_score(labels.numpy(), scores.numpy(), average="macro")
    assert metrics.mean_average_precision(scores, labels, dim=-2).item() == pytest.approx(expected)
    expected = average_precision_score(labels[:, 0], scores[:, 0], sample_weight=weights)
    assert metrics.average_precision(scores[:, 0], labels[:, 0], weights=weights).item() == pytest.approx(expected)


def test_masked_and_weighted_recall_by_hand():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.7, 0.3, 0.5]])
    positives = torch.tensor([[True, False, False], [False, False, True]])
    mask = torch.tensor([[True, True, True], [False, True, True]])
    assert metrics.recall(scores, positives, k=1, mask=mask).item() == 1
    assert metrics.recall(scores, positives, k=1, weights=torch.tensor([1.0, 3.0])).item() == pytest.approx(1 / 4)


@pytest.mark.parametrize("metric", [metrics.spearman, metrics.kendall, partial(metrics.kendall, top_heavy=True)])
def test_a_weight_of_nothing_is_the_limit_of_small_ones(metric):
    scores, target = torch.tensor([-5.0, 1.0, 2.0, 3.0, -1.0]), torch.tensor([9.0, 3.0, 1.0, 2.0, -4.0])
    nothing, little = (metric(scores, target, weights=torch.tensor([w, 1.0, 1.0, 1.0, 1.0])) for w in (0.0, 1e-12))
    assert nothing.item() == pytest.approx(little.item())


def test_what_a_mask_leaves_out_has_no_top_heavy_place():
    scores, target = torch.tensor([3.0, 1.0, 2.0, 9.0]), torch.tensor([-1.0, -2.0, -3.0, 99.0])
    result = metrics.kendall(scores, target, mask=torch.tensor([True, True, True, False]), top_heavy=True)
    assert result.item() == pytest.approx(metrics.kendall(scores[:3], target[:3], top_heavy=True).item())


def test_what_has_no_metric_is_named():
    scores, nothing = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    for call, message in (
        (lambda: metrics.mean_average_precision(scores, nothing), r"no positive.*"),
        (lambda: metrics.mean_average_precision(scores, ~nothing, mask=nothing), "no positive"),
        (lambda: metrics.first_positive_ranks(scores, nothing), "no True in row 0"),
        (
            lambda: metrics.first_positive_ranks(torch.zeros(1, 2, 2), torch.ones(1, 2, 2).bool()),
            r"\(1, 2, 2\).*\(n, m\)",
        ),
        (lambda: metrics.recall(scores, ~nothing, k=0), "k is 0"),
        (lambda: metrics.unranked(scores, scores), "selected is torch.float32"),
        (lambda: metrics.unranked(nothing, torch.full((2, 3), math.nan)), r"label_ranks\[0, 0\] is nan"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# Ranked lists and sets of labels, with ties and masks.


@st.composite
def lists(draw, highest=1):
    """Scores with ties, grades, what is there, and weights: of two queries with up to six documents."""
    kinds = st.integers(-2, 2), st.integers(0, highest), st.booleans(), st.sampled_from([0.5, 1, 3])
    return tables(draw, st.just(2), st.integers(1, 6), *kinds)


def tensors(drawn):
    scores, truth, mask, weights = drawn
    options = {"mask": torch.tensor(mask), "weights": torch.tensor(weights, dtype=torch.float64)}
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(truth), options


def rows(drawn):
    """What a mask leaves of each row: (score, truth, weight)."""
    for scores, truth, mask, weights in zip(*drawn, strict=True):
        yield [row[:2] + row[3:] for row in zip(scores, truth, mask, weights, strict=True) if row[2]]


def places_read_badly(row):
    """The documents from the top; of equal scores, the least relevant first."""
    return sorted(row, key=lambda item: (-item[0], item[1]))


@given(lists(), st.sampled_from([None, 1, 3]))
def test_reciprocal_rank_and_hit_rate_agree_with_loops(drawn, k):
    scores, labels, options = tensors(drawn)
    plain, weighted = (metrics.reciprocal_rank(scores, labels, mask=options["mask"], k=k, **extra)
                       for extra in ({}, {"weights": options["weights"]}))  # fmt: skip
    hits = metrics.hit_rate(scores, labels, mask=options["mask"], k=k or 99)
    weighted_hits = metrics.hit_rate(scores, labels, k=k or 99, **options)
    for place, row in enumerate(rows(drawn)):
        read = places_read_badly(row)
        first = next((at for at, item in enumerate(read, 1) if item[1]), None)
        if first is None:
            assert all(math.isnan(values[place]) for values in (plain, weighted, hits))
            continue
        within = first <= (k or 99)
        assert plain[place].item() == pytest.approx(within / first)
        assert hits[place].item() == within
        worth = [(item[2], at) for at, item in enumerate(read, 1) if item[1]]
        # A positive that ties with another is as high as that.
        worth = [(weight, min(at for at, item in enumerate(read, 1) if item[1] and item[0] == read[here - 1][0]))
                 for weight, here in worth]  # fmt: skip
        best = max((weight / at for weight, at in worth if at <= (k or 99)), default=0)
        heaviest = max(weight for weight, _ in worth)
        assert weighted[place].item() == pytest.approx(best / heaviest)
        found = max((weight for weight, at in worth if at <= (k or 99)), default=0)
        assert weighted_hits[place].item() == pytest.approx(found / heaviest)


@given(lists(), st.integers(1, 4))
def test_recall_at_k_is_the_mean_over_the_orders_of_ties(drawn, k):
    scores, labels, options = tensors(drawn)
    result = metrics.recall_at_k(scores, labels, k=k, **options)
    for place, row in enumerate(rows(drawn)):
        total = sum(label * weight for _, label, weight in row)
        if not total:
            assert math.isnan(result[place])
            continue
        found = [
            sum(label * weight for _, label, weight in order[:k]) / total
            for order in itertools.permutations(row)
            if all(first[0] >= second[0] for first, second in itertools.pairwise(order))
        ]
        assert result[place].item() == pytest.approx(np.mean(found))


@given(lists())
def test_coverage_error_and_ranking_loss_agree_with_scikit_learn(drawn):
    scores, labels, options = tensors(drawn)
    coverage = metrics.coverage_error(scores, labels, mask=options["mask"])
    weighted = metrics.ranking_loss(scores, labels, **options)
    loss = metrics.ranking_loss(scores, labels, mask=options["mask"])
    for place, row in enumerate(rows(drawn)):
        f, y, w = ([item[part] for item in row] for part in range(3))
        # scikit-learn needs two labels: one more at the bottom changes nothing.
        expected = sklearn_coverage_error([[*y, 0]], [[*f, -9]]) if any(y) else math.nan
        assert coverage[place].item() == pytest.approx(expected, nan_ok=True)
        if len(set(y)) < 2:
            assert math.isnan(loss[place])
            continue
        assert loss[place].item() == pytest.approx(label_ranking_loss([y], [f]))
        pairs = [(w[i] * w[j], f[i] <= f[j]) for i in range(len(f)) for j in range(len(f)) if y[i] > y[j]]
        expected = sum(weight for weight, wrong in pairs if wrong) / sum(weight for weight, _ in pairs)
        assert weighted[place].item() == pytest.approx(expected)


@given(lists(highest=3), st.sampled_from([None, 1, 3]))
def test_expected_reciprocal_rank_agrees_with_the_authors_loop(drawn, k):
    scores, target, options = tensors(drawn)
    plain = metrics.expected_reciprocal_rank(scores, target, k=k, highest=3.0, mask=options["mask"])
    weighted = metrics.expected_reciprocal_rank(scores, target, k=k, highest=3.0, **options)
    for place, row in enumerate(rows(drawn)):
        heaviest = max((weight for *_, weight in row), default=1)
        for values, weigh in ((plain, False), (weighted, True)):
            read = [(f, (2**grade - 1) / 2**3 * (w / heaviest if weigh else 1)) for f, grade, w in row]
            reading, expected = 1.0, 0.0 if row else math.nan
            for at, (_, satisfied) in enumerate(places_read_badly(read)[:k], 1):
                expected += reading * satisfied / at
                reading *= 1 - satisfied
            assert values[place].item() == pytest.approx(expected, nan_ok=True)


def test_expected_reciprocal_rank_names_a_grade_beyond_the_scale():
    with pytest.raises(ValueError, match=r"target\[1\] is 5.*highest, 4"):
        metrics.expected_reciprocal_rank(torch.zeros(2), torch.tensor([0, 5]))
    one = metrics.expected_reciprocal_rank(torch.tensor([1.0, 0.0]), torch.tensor([900, 0]), highest=900.0)
    assert one.item() == pytest.approx(1)


@given(lists(highest=3))
def test_matches_agree_with_loops(drawn):
    scores, target, options = tensors(drawn)
    exact = metrics.exact_match(scores, target, mask=options["mask"])
    share = metrics.elementwise_match(scores, target, **options)
    for place, row in enumerate(rows(drawn)):
        if not row:
            assert math.isnan(exact[place])
            assert math.isnan(share[place])
            continue
        ranked = [[sum(other[part] > item[part] for other in row) + sum(other[part] == item[part] for other in row) / 2
                   for item in row] for part in (0, 1)]  # fmt: skip
        matched = [first == second for first, second in zip(*ranked, strict=True)]
        assert exact[place].item() == all(matched)
        weights = [item[2] for item in row]
        expected = sum(w for w, hit in zip(weights, matched, strict=True) if hit) / sum(weights)
        assert share[place].item() == pytest.approx(expected)


@given(lists())
def test_average_precision_of_labels_is_label_ranking_average_precision(drawn):
    scores, labels, options = tensors(drawn)
    result = metrics.average_precision(scores, labels, mask=options["mask"])
    for place, row in enumerate(rows(drawn)):
        f, y, _ = ([item[part] for item in row] for part in range(3))
        if not any(y):
            assert math.isnan(result[place])
            continue
        if len(row) > 1:
            assert result[place].item() == pytest.approx(label_ranking_average_precision_score([y], [f]))


@given(lists(highest=3))
def test_gamma_agrees_with_a_loop(drawn):
    scores, target, options = tensors(drawn)
    if scores.shape[1] < 2:
        return
    result, weighted = (metrics.goodman_kruskal_gamma(scores, target, mask=options["mask"], **extra)
                        for extra in ({}, {"weights": options["weights"]}))  # fmt: skip
    for place, row in enumerate(rows(drawn)):
        for values, weigh in ((result, False), (weighted, True)):
            pairs = [
                ((first[0] - second[0]) * (first[1] - second[1]), first[2] * second[2] if weigh else 1)
                for first, second in itertools.combinations(row, 2)
            ]
            concordant, discordant = (sum(w for sign, w in pairs if sign * way > 0) for way in (1, -1))
            compared = concordant + discordant
            expected = (concordant - discordant) / compared if compared else math.nan
            assert values[place].item() == pytest.approx(expected, nan_ok=True)
