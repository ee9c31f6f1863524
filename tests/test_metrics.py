"""Metrics against plain loops, scipy, scikit-learn and hand-computed cases; and intervals."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata, spearmanr, weightedtau
from sklearn.metrics import average_precision_score, ndcg_score, precision_recall_fscore_support

from rankops.metrics.bootstrap import interval, intervals
from rankops.metrics.evaluation import Figures, compare, evaluate
from rankops.metrics.kendall import kendall
from rankops.metrics.label_ranking import ranked, unranked
from rankops.metrics.mean_average_precision import average_precision, mean_average_precision
from rankops.metrics.ndcg import ndcg
from rankops.metrics.precision_at_k import precision_at_k
from rankops.metrics.recall import first_positive_ranks, median_rank, recall
from rankops.metrics.spearman import spearman
from rankops.tasks.label_ranking import figures as figures_of
from rankops.tasks.label_ranking import label_ranks_of, predictions


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
    rows, labels = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    row = lambda low, high: draw(st.lists(st.integers(low, high), min_size=labels, max_size=labels))  # noqa: E731
    return [row(-3, 3) for _ in range(rows)], [dense(row(0, 4)) for _ in range(rows)]


@settings(deadline=None)
@given(images())
def test_ranked_agree_with_loops(batch):
    scores, label_ranks = batch
    found = ranked(torch.tensor(scores, dtype=torch.float32), torch.tensor(label_ranks))
    for row, (f, r) in enumerate(zip(scores, label_ranks, strict=True)):
        figures = [
            found[name][row].item() for name in ("precision", "recall", "f1_per_image", "accuracy", "exact_match")
        ]
        assert figures == pytest.approx(slow_ranked(f, r))
        assert found["mean_average_precision"][row].item() == pytest.approx(slow_mean_average_precision(f, r))


@settings(deadline=None)
@given(images(), st.floats(0.1, 10))
def test_ranked_see_the_order_of_scores_alone(batch, scale):
    scores, label_ranks = torch.tensor(batch[0], dtype=torch.float64), torch.tensor(batch[1])
    before, after = ranked(scores, label_ranks), ranked((scores * scale).exp(), label_ranks)
    assert all(before[name].equal(after[name]) for name in before)


def test_ranked_by_hand():
    # True order 1 > 0 > 2 = 3 (absent). The scores swap 0 and 2, so one of five pairs is wrong: (0, 2).
    found = ranked(torch.tensor([[0.2, 0.9, 0.3, 0.0]]), torch.tensor([[1, 2, 0, 0]]))
    # Pairs (u, v), u < v: (0,1) negative, right; (0,2) positive, missed; (0,3), (1,2), (1,3) positive, right.
    assert found["precision"].item() == 1
    assert found["recall"].item() == pytest.approx(3 / 4)
    assert found["accuracy"].item() == pytest.approx(4 / 5)
    assert found["exact_match"].item() == 0


def test_equal_scores_are_wrong():
    found = ranked(torch.zeros(1, 3), torch.tensor([[0, 1, 2]]))
    assert found["accuracy"].item() == 0
    assert found["precision"].item() == 0


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
def test_unranked_agree_with_scikit_learn(rows):
    selected, present = torch.tensor(rows)[:, :4], torch.tensor(rows)[:, 4:]
    found = unranked(selected, present.long() * 3)
    for row in range(len(rows)):
        precision, recall, f1, _ = precision_recall_fscore_support(
            present[row].numpy(), selected[row].numpy(), average="binary", pos_label=True, zero_division=0
        )
        assert found["precision"][row].item() == pytest.approx(precision)
        assert found["recall"][row].item() == pytest.approx(recall)
        assert found["f1_per_image"][row].item() == pytest.approx(f1)
        assert found["accuracy"][row].item() == pytest.approx((selected[row] == present[row]).double().mean().item())
        assert found["exact_match"][row].item() == selected[row].equal(present[row])


def test_shapes_that_differ_are_named():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        ranked(torch.zeros(2, 3), torch.zeros(2, 4))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_only_the_order_of_label_ranks_counts_whatever_their_type(dtype):
    scores = torch.tensor([[0.5, 0.1, 0.9, 0.4], [0.7, 0.2, 0.6, 0.1]])
    dense, gaps = torch.tensor([[1, 0, 2, 0], [1, 0, 3, 2]]), torch.tensor([[3, 0, 9, 0], [2, 0, 200, 7]])
    expected = ranked(scores, dense)
    assert expected["exact_match"].tolist() == [1, 0]
    assert all(values.equal(expected[name]) for name, values in ranked(scores, gaps.to(dtype)).items())
    of_booleans, of_numbers = ranked(scores, dense > 0), ranked(scores, (dense > 0).long())
    assert all(values.equal(of_numbers[name]) for name, values in of_booleans.items())


def test_selected_labels_that_are_not_boolean_are_refused():
    with pytest.raises(ValueError, match="selected is torch.int64, expected booleans"):
        unranked(torch.tensor([[2, 0, 1]]), torch.tensor([[2, 0, 1]]))


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="nan at"):
        ranked(torch.full((1, 3), float("nan")), torch.tensor([[0, 1, 2]]))


def test_selected_labels_are_ranked_among_themselves():
    scores = torch.tensor([[9.0, -5.0, 0.5, 0.5], [1.0, 2.0, 3.0, 4.0]])
    selected = torch.tensor([[False, True, True, True], [False] * 4])
    assert label_ranks_of(scores, selected).tolist() == [[0, 1, 2, 2], [0, 0, 0, 0]]


def test_f1_is_the_harmonic_mean_of_the_averages_and_intervals_hold_it():
    class Ranker:  # says what it is told to
        def __call__(self, images):
            return scores, torch.zeros_like(scores)

    draws = torch.Generator().manual_seed(0)
    scores, label_ranks = torch.randn(50, 4, generator=draws), torch.randint(0, 2, (50, 4), generator=draws)
    split = torch.zeros(50, 8, 8), label_ranks
    figures = evaluate(figures_of(predictions(Ranker(), split), split), resamples=200, seed=0)
    for kind in ("ranked", "unranked"):
        precision, recall = figures[kind]["precision"]["value"], figures[kind]["recall"]["value"]
        assert figures[kind]["f1"]["value"] == pytest.approx(2 * precision * recall / (precision + recall))
        assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in figures[kind].values())


def test_intervals_cover_as_often_as_they_say():
    draws = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        figure = interval(draws.normal(size=80), resamples=400, generator=draws)
        covered += figure["low"] <= 0 <= figure["high"]
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize(("values", "message"), [([1.0], "at least 2"), ([1.0, float("nan")], "row 1 is not finite")])
def test_intervals_refuse_what_has_none(values, message):
    with pytest.raises(ValueError, match=message):
        interval(np.array(values), resamples=10, generator=np.random.default_rng(0))


def test_a_score_that_is_not_finite_is_named():
    class Diverged:
        def __call__(self, images):
            return torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), torch.zeros(2, 2)

    with pytest.raises(FloatingPointError, match="row 1"):
        predictions(Diverged(), (torch.zeros(2, 8, 8), torch.zeros(2, 2)))


# Spearman's correlation.


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(2, 8), st.integers(0, 10_000))
def test_spearman_agrees_with_scipy(length, levels, seed):
    draws = np.random.default_rng(seed)
    scores, target = draws.integers(0, levels, (2, 3, length)) / 4  # many ties
    scores[:, :2], target[:, :2] = [0, 9], [0, 9]  # never constant
    found = spearman(torch.from_numpy(scores), torch.from_numpy(target))
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(
        [spearmanr(s, t).statistic for s, t in zip(scores, target, strict=True)], abs=1e-12
    )
    single = spearman(torch.from_numpy(scores).float(), torch.from_numpy(target).float())
    assert single.equal(found)


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(0, 1000))
def test_spearman_is_one_for_the_same_order_and_minus_one_for_the_reverse(length, seed):
    values = torch.randperm(length, generator=torch.Generator().manual_seed(seed)).double()
    assert spearman(values, values.exp() if length < 30 else values * 3).item() == 1
    assert spearman(values, -values).item() == -1


def test_spearman_by_hand():
    # Ranks 3, 1, 2 against 3, 2, 1: 1 - 6 * 2 / (3 * 8).
    assert spearman(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([1.0, 2.0, 3.0])).item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        ([1.0], [2.0], r"Spearman is undefined: 1 examples in \(1,\), expected at least 2"),
        ([1.0, 1.0], [1.0, 2.0], r"Spearman is undefined: scores are all 1.0, expected"),
        ([1.0, math.nan], [1.0, 2.0], r"Spearman is undefined: scores hold nan at \(1,\)"),
        ([1.0, 2.0], [1.0, math.inf], r"Spearman is undefined: target hold inf at \(1,\)"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], r"scores \(3,\) and target \(2,\)"),
    ],
)
def test_spearman_says_where_it_is_undefined(scores, target, message):
    with pytest.raises(ValueError, match=message):
        spearman(torch.tensor(scores), torch.tensor(target))


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_of_several_groups_those_without_an_order_are_nan(metric, generator):
    scores, target = torch.randn(4, 5, generator=generator), torch.rand(4, 5, generator=generator)
    scores[1], target[2] = 0.1, 0.1  # no two are different
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[3, 1:] = False  # one example
    weights = torch.rand(4, 5, generator=generator)
    for options in ({}, {"weights": weights}):
        single = {name: part[0] for name, part in options.items()}
        found = metric(scores, target, mask=mask, **options)
        assert found[0].item() == pytest.approx(metric(scores[0], target[0], **single).item())
        assert found[1:].isnan().all()


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
    rows, classes = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    table = lambda values: draw(  # noqa: E731
        st.lists(st.lists(values, min_size=classes, max_size=classes), min_size=rows, max_size=rows)
    )
    return tuple(np.array(table(values)) for values in (st.integers(-4, 4), st.booleans(), st.booleans()))


@settings(deadline=None)
@given(classified())
def test_average_precision_agrees_with_loops_and_scikit_learn(batch):
    scores, labels, difficult = batch
    tensors = torch.from_numpy(scores / 8), torch.from_numpy(labels)
    found = average_precision(*tensors, mask=torch.from_numpy(~difficult))
    plain = average_precision(*tensors)
    assert found.dtype == torch.float64
    assert plain.equal(average_precision(tensors[0].float(), tensors[1].long())) or plain.isnan().any()
    for c in range(scores.shape[1]):
        easy = ~difficult[:, c]
        wanted = slow_average_precision(scores[:, c], labels[:, c], difficult[:, c])
        assert found[c].item() == pytest.approx(wanted, nan_ok=True)
        if labels[easy, c].any():
            assert found[c].item() == pytest.approx(average_precision_score(labels[easy, c], scores[easy, c]))
        if labels[:, c].any():
            assert plain[c].item() == pytest.approx(average_precision_score(labels[:, c], scores[:, c]))
        else:
            assert plain[c].isnan()


def test_mean_average_precision_agrees_with_scikit_learn(generator):
    scores, labels = torch.randn(500, 6, generator=generator), torch.rand(500, 6, generator=generator) < 0.1
    wanted = average_precision_score(labels.numpy(), scores.numpy(), average="macro")
    assert mean_average_precision(scores, labels).item() == pytest.approx(wanted)


def test_mean_average_precision_by_hand():
    # Class 0: positives at places 1 and 3, 1 and 2/3. Class 1 has none and is left out.
    scores, labels = torch.tensor([[0.9, 0.1], [0.5, 0.2], [0.3, 0.3]]), torch.tensor([[1, 0], [0, 0], [1, 0]])
    assert mean_average_precision(scores, labels).item() == pytest.approx((1 + 2 / 3) / 2)
    # Without the difficult one in the middle the order is perfect; with a difficult positive one is left.
    difficult = torch.tensor([[False, False], [True, False], [False, False]])
    assert mean_average_precision(scores, labels, mask=~difficult).item() == 1
    difficult = torch.tensor([[True, False], [False, False], [False, False]])
    assert mean_average_precision(scores, labels, mask=~difficult).item() == pytest.approx(1 / 2)


def test_a_constant_classifier_has_the_average_precision_of_chance():
    assert mean_average_precision(torch.zeros(10, 1), torch.arange(10).unsqueeze(1) < 3).item() == pytest.approx(0.3)


def test_mean_average_precision_refuses_bad_input():
    scores, labels = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"undefined: labels \(2, 3\) hold no positive in any class"):
        mean_average_precision(scores, labels)
    with pytest.raises(ValueError, match="undefined"):
        mean_average_precision(scores, labels + 1, mask=torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"scores \(2, 3\) and labels \(3, 2\)"):
        mean_average_precision(scores, labels.T)
    with pytest.raises(ValueError, match=r"mask has shape \(3, 2\) and scores \(2, 3\)"):
        mean_average_precision(scores, labels, mask=labels.T.bool())
    with pytest.raises(TypeError, match="mask is torch.int64"):
        mean_average_precision(scores, labels, mask=labels)
    with pytest.raises(ValueError, match=r"labels hold 2 at \(0, 0\)"):
        mean_average_precision(scores, labels + 2)
    with pytest.raises(ValueError, match=r"labels are torch.float32"):
        mean_average_precision(scores, labels.float())
    with pytest.raises(ValueError, match=r"scores hold nan at \(0, 0\)"):
        mean_average_precision(scores * math.nan, labels)


# Recall at K and the median rank.


@st.composite
def searches(draw):
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    scores = draw(st.lists(st.integers(-3, 3), min_size=rows * columns, max_size=rows * columns))
    positives = torch.tensor(draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns)))
    positives = positives.view(rows, columns)
    positives[torch.arange(rows), torch.tensor([draw(st.integers(0, columns - 1)) for _ in range(rows)])] = True
    return torch.tensor(scores, dtype=torch.float32).view(rows, columns), positives


@settings(deadline=None)
@given(searches())
def test_recall_and_median_rank_agree_with_loops(batch):
    found = []
    for row, own in zip(*(part.tolist() for part in batch), strict=True):
        best = max(score for score, mine in zip(row, own, strict=True) if mine)
        found.append(1 + sum(score >= best for score, mine in zip(row, own, strict=True) if not mine))
    assert first_positive_ranks(*batch).tolist() == found
    assert median_rank(*batch).item() == np.median(found)
    for k in (1, 2, 5):
        assert recall(*batch, k=k).item() == pytest.approx(sum(place <= k for place in found) / len(found))


def test_the_rank_of_a_single_positive_is_its_rank(generator):
    scores = torch.randn(30, 30, generator=generator)
    own = torch.eye(30, dtype=torch.bool)
    assert first_positive_ranks(scores, own).tolist() == np.diag(rankdata(-scores.numpy(), axis=1)).tolist()


def test_equal_scores_count_against_the_positive():
    scores = torch.zeros(1, 5)
    assert first_positive_ranks(scores, torch.tensor([[False, True, False, False, True]])).tolist() == [4]
    assert recall(scores, torch.tensor([[True, True, False, False, False]]), k=3).item() == 0


def test_recall_refuses_bad_input():
    scores, own = torch.zeros(2, 3), torch.tensor([[True, False, False], [False, False, False]])
    with pytest.raises(ValueError, match="no True in row 1: expected at least one in each row"):
        first_positive_ranks(scores, own)
    with pytest.raises(ValueError, match=r"scores \(2, 3\) and positives \(3, 2\)"):
        median_rank(scores, own.T)
    with pytest.raises(ValueError, match=r"positives are torch.int64"):
        recall(scores, own.long(), k=1)
    with pytest.raises(ValueError, match="k is 0, expected at least 1"):
        recall(scores, ~own, k=0)
    with pytest.raises(ValueError, match=r"not empty"):
        recall(scores[:0], own[:0], k=1)
    with pytest.raises(ValueError, match=r"scores hold nan at \(0, 0\)"):
        recall(scores * math.nan, ~own, k=1)


@pytest.mark.parametrize("metric", [spearman, mean_average_precision, median_rank])
def test_metrics_have_no_gradient_and_change_nothing(metric, generator):
    scores = torch.randn(4, 6, generator=generator).requires_grad_()
    wanted = torch.randn(4, 6, generator=generator) if metric is spearman else torch.eye(4, 6, dtype=torch.bool)
    before = scores.detach().clone(), wanted.clone(), torch.get_rng_state()
    assert not metric(scores, wanted).requires_grad
    after = scores.detach(), wanted, torch.get_rng_state()
    assert all(old.equal(new) for old, new in zip(before, after, strict=True))


# Kendall, NDCG and precision at K.


PAIRS = st.integers(2, 10).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-4, 4), min_size=n, max_size=n) for _ in range(2)))
).filter(lambda pair: all(len(set(part)) > 1 for part in pair))  # fmt: skip


@settings(deadline=None)
@given(PAIRS)
def test_kendall_agrees_with_scipy(pair):
    found = kendall(*(torch.tensor(part, dtype=torch.float64) for part in pair))
    assert found.item() == pytest.approx(kendalltau(*pair).statistic)


@settings(deadline=None)
@given(st.permutations(range(8)), st.permutations(range(8)))
def test_top_heavy_kendall_agrees_with_scipy(scores, target):
    found = kendall(*(torch.tensor(part, dtype=torch.float64) for part in (scores, target)), top_heavy=True)
    places = np.argsort(np.argsort(-np.array(target)))
    assert found.item() == pytest.approx(weightedtau(scores, target, rank=places).statistic)


@settings(deadline=None)
@given(PAIRS, st.sampled_from([None, 1, 3]), st.booleans())
def test_ndcg_agrees_with_scikit_learn(pair, k, exponential):
    scores, target = np.array(pair[0], float), np.abs(np.array(pair[1], float))
    gain = "exponential" if exponential else "linear"
    found = ndcg(torch.from_numpy(scores), torch.from_numpy(target), k=k, gain=gain)
    if not target.any():
        assert found.isnan()
    else:
        gains = 2**target - 1 if exponential else target
        assert found.item() == pytest.approx(ndcg_score([gains], [scores], k=k), rel=1e-12)


@settings(deadline=None)
@given(PAIRS, st.integers(1, 4))
def test_precision_at_k_is_the_mean_over_the_orders_of_ties(pair, k):
    scores, labels = np.array(pair[0], float), np.array(pair[1]) > 0
    found = precision_at_k(torch.from_numpy(scores).unsqueeze(1), torch.from_numpy(labels).unsqueeze(1), k=k)
    # Each of the tied takes the free places with the same probability.
    wanted = 0.0
    for score, label in zip(scores, labels, strict=True):
        free = min(max(k - (scores > score).sum(), 0), (scores == score).sum())
        wanted += label * free / (scores == score).sum() / k
    assert found.item() == pytest.approx(wanted)


@pytest.mark.parametrize("metric", [spearman, kendall, ndcg])
def test_masked_metrics_are_those_of_what_is_left(metric, generator):
    scores, target = torch.randn(5, generator=generator), torch.rand(5, generator=generator)
    mask = torch.tensor([True, False, True, True, False])
    weights = torch.rand(5, generator=generator)
    for options, kept in (({}, {}), ({"weights": weights}, {"weights": weights[mask]})):
        found = metric(scores.masked_fill(~mask, math.nan), target.masked_fill(~mask, math.nan), mask=mask, **options)
        assert found.item() == pytest.approx(metric(scores[mask], target[mask], **kept).item())


@pytest.mark.parametrize("metric", [average_precision, precision_at_k])
def test_masked_metrics_of_classes_are_those_of_what_is_left(metric, generator):
    scores, labels = torch.randn(6, 2, generator=generator), torch.tensor([[1, 0], [0, 1], [1, 1]] * 2)
    mask = torch.tensor([True, False, True, True, False, True]).unsqueeze(1).expand(-1, 2)
    weights = torch.rand(6, 2, generator=generator)
    rows = mask[:, 0]
    found = metric(scores.masked_fill(~mask, math.nan), labels, mask=mask, weights=weights)
    assert found.tolist() == pytest.approx(metric(scores[rows], labels[rows], weights=weights[rows]).tolist())


def test_weighted_average_precision_agrees_with_scikit_learn(generator):
    scores, labels = torch.randn(50, 1, generator=generator), torch.rand(50, 1, generator=generator) < 0.3
    weights = torch.rand(50, 1, generator=generator)
    wanted = average_precision_score(labels[:, 0], scores[:, 0], sample_weight=weights[:, 0])
    assert average_precision(scores, labels, weights=weights).item() == pytest.approx(wanted)


def test_a_masked_median_rank_by_hand():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.7, 0.3, 0.5]])
    positives = torch.tensor([[True, False, False], [False, True, False]])
    mask = torch.tensor([[True, True, True], [False, True, True]])
    assert [median_rank(scores, positives, mask=one).item() for one in (None, mask)] == [2.0, 1.5]


def test_masked_and_weighted_recall_by_hand():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.7, 0.3, 0.5]])
    positives = torch.tensor([[True, False, False], [False, False, True]])
    mask = torch.tensor([[True, True, True], [False, True, True]])
    assert recall(scores, positives, k=1, mask=mask).item() == 1
    assert recall(scores, positives, k=1, weights=torch.tensor([1.0, 3.0])).item() == pytest.approx(1 / 4)


@pytest.mark.parametrize("metric", [spearman, kendall, partial(kendall, top_heavy=True)])
def test_a_weight_of_nothing_is_the_limit_of_small_ones(metric):
    scores, target = torch.tensor([-5.0, 1.0, 2.0, 3.0, -1.0]), torch.tensor([9.0, 3.0, 1.0, 2.0, -4.0])
    nothing, little = (metric(scores, target, weights=torch.tensor([w, 1.0, 1.0, 1.0, 1.0])) for w in (0.0, 1e-12))
    assert nothing.item() == pytest.approx(little.item())


def test_weighted_precision_is_at_most_one():
    scores, labels = torch.tensor([[3.0], [2.0], [1.0]]), torch.tensor([[1], [1], [0]])
    assert precision_at_k(scores, labels, k=2, weights=torch.full((3, 1), 2.0)).item() == 1


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_correlations_refuse_what_is_not_floating_point(metric):
    for bad in ([1.0, 2.0], torch.tensor([1, 2]), torch.tensor([1.0, 2.0j])):
        with pytest.raises(TypeError, match="expected a floating-point tensor"):
            metric(bad, torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize(("unknown", "said"), [(-1.0, "-1.0"), (math.nan, "nan")])
def test_label_ranks_that_are_none_are_refused(unknown, said):
    label_ranks = torch.tensor([[0.0, unknown, 2.0]])
    for metric, first in ((ranked, torch.rand(1, 3)), (unranked, torch.ones(1, 3, dtype=torch.bool))):
        with pytest.raises(ValueError, match=rf"label_ranks hold {said} at \(0, 1\), expected 0 \(absent\) or more"):
            metric(first, label_ranks)


def test_an_interval_takes_tensors_and_hits():
    hits = np.array([True, False, True, True])
    figures = [
        interval(column, resamples=99, generator=np.random.default_rng(0))
        for column in (hits, torch.from_numpy(hits), hits.astype(float))
    ]
    assert figures[0] == figures[1] == figures[2]
    assert figures[0]["value"] == 0.75


@pytest.mark.parametrize("small", [1.0, 1e-90, 1e-300])
def test_kendall_of_small_weights_is_that_of_large_ones(small):
    scores, target = torch.tensor([[0.1, 0.4, 0.2]] * 2).double(), torch.tensor([[1.0, 2.0, 3.0]] * 2).double()
    weights = torch.tensor([[1.0] * 3, [small] * 3], dtype=torch.float64)
    assert kendall(scores, target, weights=weights).tolist() == pytest.approx([1 / 3] * 2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_precision_is_exact_whatever_type_is_the_default(kind):
    torch.set_default_dtype(kind)
    try:
        thirds = precision_at_k(torch.zeros(3, 1, dtype=torch.float64), torch.tensor([[1], [0], [0]]), k=1)
        whole = precision_at_k(torch.zeros(3, 1, dtype=torch.float64), torch.ones(3, 1, dtype=torch.bool), k=2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert thirds.tolist() == [1 / 3]
    assert whole.tolist() == pytest.approx([1.0], abs=1e-15)


@pytest.mark.parametrize(
    ("metric", "name"),
    [(partial(recall, k=1), "positives"), (median_rank, "positives"), (ranked, "label_ranks"),
     (unranked, "label_ranks")],
)  # fmt: skip
def test_arrays_are_refused_by_name(metric, name):
    with pytest.raises(TypeError, match=f"{name} are of type ndarray, expected a tensor: torch.as_tensor"):
        metric(torch.zeros(2, 3), np.ones((2, 3), dtype=bool))


def test_what_a_mask_leaves_out_has_no_top_heavy_place():
    scores, target = torch.tensor([3.0, 1.0, 2.0, 9.0]), torch.tensor([-1.0, -2.0, -3.0, 99.0])
    found = kendall(scores, target, mask=torch.tensor([True, True, True, False]), top_heavy=True)
    assert found.item() == pytest.approx(kendall(scores[:3], target[:3], top_heavy=True).item())


class TestLevelAndSeed:
    VALUES = np.random.default_rng(0).normal(size=60)

    def figures(self, values: np.ndarray) -> Figures:
        return Figures(["mean"], len(values), lambda rows: values[rows].mean(-1)[None])

    def bounds(self, confidence: float, *, seed: int = 3) -> dict[str, float]:
        (found,) = intervals(
            self.VALUES, statistic=lambda values, axis: values.mean(axis)[None], resamples=999,
            generator=np.random.default_rng(seed), confidence=confidence,
        )  # fmt: skip
        return found

    def test_half_of_the_distribution_is_in_an_interval_of_a_half(self):
        half, most = self.bounds(0.5), self.bounds(0.95)
        assert (half["high"] - half["low"]) / (most["high"] - most["low"]) == pytest.approx(0.674 / 1.96, rel=0.1)

    def test_one_constant_column_of_two_leaves_an_interval(self):
        found = interval(
            self.VALUES, np.ones(60), statistic=lambda one, other, axis: (one * other).mean(axis), resamples=99,
            generator=np.random.default_rng(0),
        )  # fmt: skip
        assert found["low"] < found["value"] < found["high"]

    @pytest.mark.parametrize("seed", [3, 4])
    def test_figures_have_95_per_cent_by_the_seed(self, seed):
        found = evaluate(self.figures(self.VALUES), resamples=999, seed=seed)["mean"]
        assert found == pytest.approx(self.bounds(0.95, seed=seed))

    def test_differences_have_the_level_that_is_asked_for(self):
        zeros = self.figures(np.zeros(60))
        found = compare(self.figures(self.VALUES), zeros, resamples=999, seed=3, confidence=0.5)["mean"]
        assert found == pytest.approx(self.bounds(0.5))

    def test_columns_are_drawn_in_pairs(self):
        def correlation(one, other, axis):
            one, other = (values - values.mean(axis, keepdims=True) for values in (one, other))
            return (one * other).mean(axis) / np.sqrt((one**2).mean(axis) * (other**2).mean(axis))

        found = interval(
            self.VALUES, 2 * self.VALUES, statistic=correlation, resamples=99, generator=np.random.default_rng(0)
        )
        assert found == pytest.approx({"value": 1, "low": 1, "high": 1})
