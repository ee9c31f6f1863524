"""Metrics of many rows and of batches, and what they refuse.

What all have in common is in contracts/test_measures.py, and their formulas in laws/test_losses.py.
"""

from functools import partial

import numpy as np
import pytest
import torch
from contracts.measures import METRICS
from contracts.values import parameters
from hypothesis import given
from hypothesis import strategies as st

from laws.formulas import Row, rates, reciprocal_rank
from laws.law import law
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
    for group in zip(scores, positives, mask, strict=True):
        rows = [Row(score, float(mine), 1.0) for score, mine, kept in zip(*group, strict=True) if kept]
        places.append(1 / reciprocal_rank(rows))
    tensors = [torch.from_numpy(array) for array in (scores, positives, mask)]
    assert metrics.first_positive_ranks(*tensors[:2], mask=tensors[2]).tolist() == pytest.approx(places)
    assert metrics.median_rank(*tensors[:2], mask=tensors[2]).item() == pytest.approx(np.median(places))


def test_mean_average_precision_is_over_the_classes_that_have_a_positive(generator):
    scores, labels = torch.randn(20, 3, generator=generator), torch.rand(20, 3, generator=generator) < 0.3
    labels[:, 2] = False
    arguments = {"dim": -2, "weights": torch.rand(20, 3, generator=generator)}
    expected = metrics.average_precision(scores, labels, **arguments)[:2].mean()
    assert metrics.mean_average_precision(scores, labels, **arguments).equal(expected)


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


def test_a_mean_over_no_class_is_nan():
    assert metrics.mean_average_precision(SCORES, NOTHING).isnan()
    assert metrics.mean_average_precision(SCORES, ~NOTHING, mask=NOTHING).isnan()


# A metric of a set whose rows come in batches.


def same(first, second) -> None:
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12, equal_nan=True)


def in_batches(metric, sizes, **columns):
    """Return the metric of rows that come in batches of these sizes."""
    epoch_metric = metrics.EpochMetric(metric)
    for batch in zip(*(values.split(sizes) for values in columns.values()), strict=True):
        epoch_metric.update(**dict(zip(columns, batch, strict=True)))
    return epoch_metric.compute()


@pytest.mark.parametrize("metric", [*(metric.function for metric in METRICS), metrics.label_set_scores])
@law(10)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), seed=st.integers(0, 1000))
def test_a_metric_of_batches_is_that_of_their_rows(metric, sizes, seed):
    arguments, generator = parameters(metric), torch.Generator().manual_seed(seed)
    shape = (sum(sizes), 5)
    scores, truth = torch.randint(4, (2, *shape), generator=generator)
    scores = scores > 1 if metric is metrics.label_set_scores else scores.double()
    if arguments[1] in ("labels", "positives"):
        truth = truth.clamp(max=1)
    if arguments[1] == "positives":
        truth[:, 0] = 1
    more = {}
    if "mask" in arguments:
        more["mask"] = torch.rand(shape, generator=generator) < 0.8
        more["mask"][:, 0] = True
    if "weights" in arguments:
        more["weights"] = torch.rand(shape, generator=generator)
    columns = {"scores": scores, "truth": truth, **more}
    expected = metric(scores, truth, **more)
    same(in_batches(metric, sizes, **columns), expected)

    if "dim" in arguments:
        across = partial(metric, dim=0)
        same(in_batches(across, sizes, **columns), across(scores, truth, **more))
        # Rows of lists in any order, of which some are left out, and others masked.
        order = torch.randperm(scores.numel(), generator=generator)
        order = order[more["mask"].flatten()[order] | (torch.rand(len(order), generator=generator) < 0.5)]
        columns["query"] = torch.arange(shape[0])[:, None].expand(shape)
        rows = {column: values.flatten()[order] for column, values in columns.items()}
        same(in_batches(metric, 3, **rows), expected)


def test_the_next_set_begins_with_nothing_and_a_batch_is_kept_as_it_was():
    metric, scores = metrics.EpochMetric(metrics.spearman), torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    for target in ([1, 2, 3], [3, 2, 1]):
        metric.update(scores, torch.tensor(target))
        with torch.no_grad():
            scores.mul_(2)
        value = metric.compute()
        assert value == metric.compute()
        assert not value.requires_grad
        metric.reset()
        with pytest.raises(ValueError, match="no batch.*call update first"):
            metric.compute()
    assert value == -1


BATCH = {"scores": torch.zeros(2, 3), "truth": torch.zeros(2, 3)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": torch.tensor(0.5)}, ValueError, r"scores has shape \(\).*not their metric"),
        ({"scores": [0.5]}, TypeError, "scores is a list"),
        ({"truth": torch.zeros(3, 2)}, ValueError, r"truth has shape \(3, 2\), expected the shape of scores, \(2, 3\)"),
        ({"query": torch.zeros(2)}, ValueError, r"scores has shape \(2, 3\), expected \(n,\) with query"),
        ({"mask": BATCH["truth"] > 0}, ValueError, "arguments are scores, truth, mask, expected scores, truth as in"),
        ({name: values[:, :2] for name, values in BATCH.items()}, ValueError, r"scores has shape \(2, 2\).*\(n, 3\)"),
        ({"truth": BATCH["truth"].double()}, TypeError, "truth is torch.float64, expected torch.float32"),
        ({"scores": BATCH["scores"].to("meta")}, ValueError, "scores is on meta, expected cpu"),
    ],
)
def test_a_batch_that_cannot_join_the_others_is_named(change, error, message):
    metric = metrics.EpochMetric(metrics.spearman)
    metric.update(**BATCH)
    with pytest.raises(error, match=message):
        metric.update(**BATCH | change)
