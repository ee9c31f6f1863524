"""Metrics against scipy and scikit-learn, of many rows, and what they refuse.

What all have in common is in contracts/test_measures.py, and their formulas in laws/test_losses.py.
"""

import math
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

from laws.formulas import rates
from rankgrad import metrics

SCORES, NOTHING = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)


@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
def test_label_sets_have_their_rates(rows):
    selected, present = torch.tensor(rows)[:, :4], torch.tensor(rows)[:, 4:]
    result = metrics.label_set_scores(selected, present.long() * 3)
    rates_of_rows = torch.stack(list(result.values()), -1).tolist()
    for values, chosen, true in zip(rates_of_rows, selected.tolist(), present.tolist(), strict=True):
        assert values == pytest.approx(rates(true, chosen))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_first_positives_and_their_median_agree_with_loops(count, length, seed):
    draws = np.random.default_rng(seed)
    scores = draws.integers(-3, 4, (count, length)).astype(float)
    positives, mask = draws.random((2, count, length)) < 0.5
    positives[range(count), seed % length] = mask[range(count), seed % length] = True  # each row has one
    places = []
    for row, mine, kept in zip(scores, positives, mask, strict=True):
        best = row[mine & kept].max()
        places.append(1 + (row[~mine & kept] >= best).sum())
    tensors = [torch.from_numpy(array) for array in (scores, positives, mask)]
    assert metrics.first_positive_ranks(*tensors[:2], mask=tensors[2]).tolist() == places
    assert metrics.median_rank(*tensors[:2], mask=tensors[2]).item() == np.median(places)


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_and_its_mean_agree_with_scikit_learn(seed):
    draws = np.random.default_rng(seed)
    scores, labels = draws.integers(-4, 5, (20, 3)), draws.random((20, 3)) < 0.3
    labels[:, 2] = False
    weights = draws.random((20, 3))
    expected = [average_precision_score(labels[:, c], scores[:, c], sample_weight=weights[:, c]) for c in range(2)]
    arguments = {"dim": -2, "weights": torch.from_numpy(weights)}
    tensors = torch.from_numpy(scores / 8), torch.from_numpy(labels)
    precisions = metrics.average_precision(*tensors, **arguments)
    assert precisions.tolist() == pytest.approx([*expected, math.nan], nan_ok=True)
    assert metrics.mean_average_precision(*tensors, **arguments).item() == pytest.approx(np.mean(expected))


def test_kendall_of_many_with_ties_agrees_with_scipy(generator):
    target = torch.randn(200_000, generator=generator)
    scores = ((target + torch.randn(200_000, generator=generator)) * 50).round()
    target = (target * 500).round()
    expected = kendalltau(scores, target).statistic
    assert metrics.kendall(scores, target).item() == pytest.approx(expected, abs=1e-12)


def test_kendall_of_weights_far_apart_is_that_of_its_pairs():
    weights = torch.tensor([1.0, 1e-165, 2e-165], dtype=torch.float64)  # the last pair weighs next to nothing
    tau = metrics.kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 3, 1]), weights=weights)
    assert tau.item() == pytest.approx(-1 / 3)


def test_rankings_of_many_labels_are_scored_a_few_rows_at_a_time(generator):
    scores = torch.randn(3, 1200, generator=generator)
    label_ranks = torch.randint(0, 2, (3, 1200), generator=generator)
    for name, values in metrics.label_ranking_scores(scores, label_ranks).items():
        alone = [metrics.label_ranking_scores(scores[[row]], label_ranks[[row]])[name] for row in range(3)]
        assert values.equal(torch.cat(alone))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.spearman(torch.arange(2.0), torch.tensor([1.0, math.inf])), r"target\[1\] is inf.*Spearman"),
        (lambda: metrics.first_positive_ranks(SCORES[None], ~NOTHING[None]), r"\(1, 2, 3\).*\(n, m\)"),
        (lambda: metrics.hit_rate(SCORES, ~NOTHING, k=0), "k is 0"),
        (lambda: metrics.label_set_scores(SCORES, SCORES), "selected is torch.float32"),
        (lambda: metrics.label_set_scores(NOTHING, SCORES / 0), r"label_ranks\[0, 0\] is nan"),
        (lambda: metrics.expected_reciprocal_rank(SCORES, SCORES + 5), r"target\[0, 0\] is 5.*max_grade, 4"),
    ],
)
def test_what_has_no_metric_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_perfect_ranking_reaches_the_ceiling_of_any_type():
    label_ranks = torch.tensor([[2, 1, 0], [0, 1, 2]])
    for dtype in (torch.int64, torch.float32, torch.uint16):
        assert metrics.ranked_map_ceiling(label_ranks.to(dtype)) == 0.5


def test_means_without_a_value_are_nan():
    assert metrics.mean_average_precision(SCORES, NOTHING).isnan()
    assert metrics.mean_average_precision(SCORES, ~NOTHING, mask=NOTHING).isnan()
    assert metrics.median_rank(SCORES[:0], SCORES[:0]).isnan()


def test_the_class_for_torchmetrics_runs_as_documented():
    pytest.importorskip("torchmetrics")
    lines = metrics.__doc__.split("needs these lines")[1].split("\n\n", 1)[1].splitlines()
    names = {name: getattr(metrics, name) for name in metrics.__all__}
    exec(textwrap.dedent("\n".join(lines)), names)
    values = names["metrics"].compute()
    assert values["ndcg"].item() == pytest.approx(1.0)  # the exact order
    assert 0 < values["err"] < 1
    mean = names["MeanOverGroups"](metrics.spearman)
    for scores in (torch.zeros(5), torch.arange(5.0)):
        mean.update(scores, torch.arange(5.0))
    assert mean.compute() == 1.0
