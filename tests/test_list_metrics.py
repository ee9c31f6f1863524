"""Metrics of ranked lists and of label sets against scikit-learn, scipy and plain loops, with ties and masks."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import coverage_error as sklearn_coverage_error
from sklearn.metrics import label_ranking_average_precision_score, label_ranking_loss

from rankops import metrics


@st.composite
def lists(draw, highest=1):
    """Scores with ties, grades, what is there, and weights: of two queries with up to six documents."""
    length = draw(st.integers(1, 6))
    row = lambda values: draw(st.lists(st.lists(values, min_size=length, max_size=length), min_size=2, max_size=2))  # noqa: E731
    return row(st.integers(-2, 2)), row(st.integers(0, highest)), row(st.booleans()), row(st.sampled_from([0.5, 1, 3]))


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
    loss, weighted = (
        metrics.ranking_loss(scores, labels, mask=options["mask"]),
        metrics.ranking_loss(scores, labels, **options),
    )
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
