"""Label-ranking metrics against plain loops over images and pairs, hand-computed cases, and intervals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from rankops.intervals import interval
from rankops.metrics.label_ranking import ranked, unranked
from rankops.tasks.label_ranking import evaluate, label_ranks_of, predictions


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
    figures = evaluate(predictions(Ranker(), torch.zeros(50, 8, 8)), label_ranks, resamples=200, seed=0)
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
        predictions(Diverged(), torch.zeros(2, 8, 8))
