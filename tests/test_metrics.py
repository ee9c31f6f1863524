"""Each metric against plain loops, scipy, scikit-learn and cases computed by hand.

What all metrics have in common is in contracts/.
"""

import itertools
import math
import textwrap

import numpy as np
import pytest
import torch
from contracts.truths import kind
from contracts.values import parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata, spearmanr, weightedtau
from sklearn.metrics import average_precision_score, ndcg_score, precision_recall_fscore_support
from sklearn.metrics import coverage_error as sklearn_coverage_error

from rankgrad import metrics

from conftest import tables  # isort: skip


def slow_ranked(scores, label_ranks):
    """Precision, recall, F1, accuracy and 0-1 of one image, as Section 5.3 of the paper defines them."""
    share = lambda part, whole: part / whole if whole else 0  # noqa: E731
    pairs = [(u, v) for u, v in itertools.combinations(range(len(scores)), 2) if label_ranks[u] != label_ranks[v]]
    positive = np.array([label_ranks[u] > label_ranks[v] for u, v in pairs], bool)
    tied = np.array([scores[u] == scores[v] for u, v in pairs], bool)
    predicted = np.where(tied, ~positive, [scores[u] > scores[v] for u, v in pairs]).astype(bool)
    hits, right = (positive & predicted).sum(), (positive == predicted).sum()
    precision, recall = share(hits, predicted.sum()), share(hits, positive.sum())
    f1 = share(2 * precision * recall, precision + recall)
    return precision, recall, f1, share(right, len(pairs)), float(right == len(pairs))


def slow_mean_average_precision(scores, label_ranks):
    precisions, left = [], list(label_ranks)
    while any(left):
        precisions.append(slow_ranked(scores, left)[0])
        smallest = min(rank for rank in left if rank)
        left = [0 if rank == smallest else rank for rank in left]
    return sum(precisions) / len(precisions) if precisions else 0


@st.composite
def images(draw):
    scores, label_ranks = tables(draw, st.integers(1, 4), st.integers(1, 6), st.integers(-3, 3), st.integers(0, 4))
    return scores, label_ranks  # with gaps: their order alone counts


@given(images())
def test_ranked_agree_with_loops(batch):
    scores, label_ranks = batch
    result = metrics.label_ranking_scores(torch.tensor(scores, dtype=torch.float32), torch.tensor(label_ranks))
    for row, (f, r) in enumerate(zip(scores, label_ranks, strict=True)):
        names = ("precision", "recall", "f1_per_image", "accuracy", "exact_match")
        rates = [result[name][row].item() for name in names]
        assert rates == pytest.approx(slow_ranked(f, r))
        assert result["mean_average_precision"][row].item() == pytest.approx(slow_mean_average_precision(f, r))


@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
def test_unranked_agree_with_scikit_learn(rows):
    selected, present = torch.tensor(rows)[:, :4], torch.tensor(rows)[:, 4:]
    result = metrics.label_set_scores(selected, present.long() * 3)
    for row in range(len(rows)):
        precision, recall, f1, _ = precision_recall_fscore_support(
            present[row].numpy(), selected[row].numpy(), average="binary", pos_label=True, zero_division=0
        )
        assert result["precision"][row].item() == pytest.approx(precision)
        assert result["recall"][row].item() == pytest.approx(recall)
        assert result["f1_per_image"][row].item() == pytest.approx(f1)
        assert result["accuracy"][row].item() == pytest.approx((selected[row] == present[row]).double().mean().item())
        assert result["exact_match"][row].item() == selected[row].equal(present[row])


# Spearman's correlation.


@given(st.integers(2, 30), st.integers(2, 8), st.integers(0, 10_000))
def test_spearman_agrees_with_scipy(length, levels, seed):
    draws = np.random.default_rng(seed)
    scores, target = draws.integers(0, levels, (2, 3, length)) / 4  # many ties
    scores[:, :2], target[:, :2] = [0, 9], [0, 9]  # never constant
    result = metrics.spearman(torch.from_numpy(scores), torch.from_numpy(target))
    expected = [spearmanr(s, t).statistic for s, t in zip(scores, target, strict=True)]
    assert result.tolist() == pytest.approx(expected, abs=1e-12)


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


@st.composite
def classified(draw):
    kinds = st.integers(-4, 4), st.booleans(), st.booleans(), st.sampled_from([0.5, 1.0, 3.0])
    return tuple(map(np.array, tables(draw, st.integers(1, 8), st.integers(1, 3), *kinds)))


@given(classified())
def test_average_precision_agrees_with_scikit_learn(batch):
    scores, labels, easy, weights = batch
    everything = np.ones_like(labels)
    for extra in ({}, {"mask": easy}, {"weights": weights}):
        options = {name: torch.from_numpy(part) for name, part in extra.items()} | {"dim": -2}
        expected = []
        for c in range(scores.shape[1]):
            kept = extra.get("mask", everything)[:, c]
            own = [part[kept, c] for part in (labels, scores, extra.get("weights", everything))]
            expected.append(average_precision_score(*own[:2], sample_weight=own[2]) if own[0].any() else math.nan)
        tensors = torch.from_numpy(scores / 8), torch.from_numpy(labels)
        assert metrics.average_precision(*tensors, **options).tolist() == pytest.approx(expected, nan_ok=True)
        if not np.isnan(expected).all():
            mean = metrics.mean_average_precision(*tensors, **options)
            assert mean.item() == pytest.approx(np.nanmean(expected))


# Recall at K and the median rank.


@st.composite
def searches(draw):
    kinds = st.integers(-3, 3), st.booleans(), st.booleans()
    scores, positives, mask = map(torch.tensor, tables(draw, st.integers(1, 6), st.integers(1, 6), *kinds))
    for row, kept in zip(positives, mask, strict=True):
        place = draw(st.integers(0, len(row) - 1))
        row[place] = kept[place] = True  # each has one
    return scores.float(), positives, mask


@given(searches())
def test_hit_rate_and_median_rank_agree_with_loops(batch):
    scores, positives, mask = batch
    places = []
    for row in zip(*(part.tolist() for part in batch), strict=True):
        seen = [(score, mine) for score, mine, kept in zip(*row, strict=True) if kept]
        best = max(score for score, mine in seen if mine)
        places.append(1 + sum(score >= best for score, mine in seen if not mine))
    assert metrics.first_positive_ranks(scores, positives, mask=mask).tolist() == places
    assert metrics.median_rank(scores, positives, mask=mask).item() == np.median(places)
    for k in (1, 2, 5):
        assert metrics.hit_rate(scores, positives, k=k, mask=mask).tolist() == [place <= k for place in places]


# Kendall, NDCG and precision at K.


PAIRS = st.integers(2, 10).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-4, 4), min_size=n, max_size=n) for _ in range(2)))
).filter(lambda pair: all(len(set(part)) > 1 for part in pair))  # fmt: skip


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_top_heavy_kendall_agrees_with_scipy(scores, target):
    result = metrics.kendall(*(torch.tensor(part, dtype=torch.float64) for part in (scores, target)), top_heavy=True)
    places = np.argsort(np.argsort(-np.array(target)))
    assert result.item() == pytest.approx(weightedtau(scores, target, rank=places).statistic)


@given(st.integers(2, 70), st.integers(2, 9), st.integers(0, 10_000), st.booleans())
def test_kendall_and_gamma_agree_with_all_pairs(length, levels, seed, top_heavy):
    draws = np.random.default_rng(seed)
    scores, target = draws.integers(0, levels, (2, 3, length)).astype(float)
    scores[:, :2], target[:, :2] = [0, 9], [9, 0]  # never constant
    weights, mask = draws.random((3, length)).round(1), draws.random((3, length)) < 0.8
    weights[:, :2], mask[:, :2] = 0.1, True
    counts = weights * mask
    pairs = counts[:, :, None] * counts[:, None]
    if top_heavy:
        closeness = 1 / np.stack([rankdata(-row + 99 * ~kept) for row, kept in zip(target, mask, strict=True)])
        pairs = pairs * (closeness[:, :, None] + closeness[:, None])
    ours, true = (np.sign(part[:, :, None] - part[:, None]) for part in (scores, target))
    total = lambda part: (pairs * part).sum((1, 2))  # noqa: E731
    options = {"mask": torch.from_numpy(mask), "weights": torch.from_numpy(weights)}
    given = torch.from_numpy(scores), torch.from_numpy(target)
    tau = total(ours * true) / np.sqrt(total(ours**2) * total(true**2))
    assert metrics.kendall(*given, top_heavy=top_heavy, **options).tolist() == pytest.approx(tau, abs=1e-12)
    if not top_heavy:
        gamma = total(ours * true) / total(abs(ours * true))
        assert metrics.goodman_kruskal_gamma(*given, **options).tolist() == pytest.approx(gamma, abs=1e-12)


def test_kendall_of_many_with_ties_agrees_with_scipy(generator):
    target = torch.randn(200_000, generator=generator)
    scores = ((target + torch.randn(200_000, generator=generator)) * 50).round()
    assert metrics.kendall(scores, (target * 500).round()).item() == pytest.approx(
        kendalltau(scores, (target * 500).round()).statistic, abs=1e-12
    )


def test_kendall_of_weights_far_apart_is_that_of_its_pairs():
    weights = torch.tensor([1.0, 1e-165, 2e-165], dtype=torch.float64)  # the last pair weighs next to nothing
    tau = metrics.kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 3, 1]), weights=weights)
    assert tau.item() == pytest.approx(-1 / 3)


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


def test_precision_at_k_of_short_lists():
    scores, labels = torch.tensor([[0.9, 0.7, 0.1]] * 3), torch.tensor([[1, 0, 1], [1, 1, 1], [1, 1, 1]])
    mask = torch.tensor([[True] * 3, [True, True, False], [False] * 3])
    precision = metrics.precision_at_k(scores, labels, k=4, mask=mask)
    assert precision.tolist() == pytest.approx([2 / 4, 2 / 4, math.nan], nan_ok=True)
    precision = metrics.precision_at_k(scores, labels, k=4, mask=mask, adaptive_k=True)
    assert precision.tolist() == pytest.approx([2 / 3, 1, math.nan], nan_ok=True)
    assert metrics.precision_at_k(scores[0], labels[0], k=2, adaptive_k=True).item() == 0.5


def test_ranked_of_many_labels_needs_no_memory_for_all_pairs_at_once(generator, monkeypatch):
    scores, label_ranks = torch.randn(7, 5, generator=generator), torch.randint(0, 4, (7, 5), generator=generator)
    whole = metrics.label_ranking_scores(scores, label_ranks)
    monkeypatch.setattr("rankgrad.metrics.label_ranking.PAIRS", 50)  # two rows at a time
    parts = metrics.label_ranking_scores(scores, label_ranks)
    assert all(parts[name].equal(values) for name, values in whole.items())


SCORES, NOTHING = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)


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


ONE_A_GROUP = [
    metrics.spearman, metrics.kendall, metrics.goodman_kruskal_gamma, metrics.ndcg, metrics.average_precision,
    metrics.reciprocal_rank, metrics.hit_rate, metrics.recall_at_k, metrics.coverage_error, metrics.ranking_loss,
]  # fmt: skip


@pytest.mark.parametrize("metric", ONE_A_GROUP, ids=lambda metric: metric.__name__)
def test_a_group_without_a_value_is_nan_alone_as_among_others(metric):
    scores, truth = torch.arange(5.0), torch.zeros(5)
    assert metric(scores, truth).isnan()
    assert metric(scores[None], truth[None]).isnan().tolist() == [True]
    assert metric(scores[:1], truth[:1]).isnan()
    for shape in ((0, 5), (2, 0, 5)):
        assert metric(torch.zeros(shape), torch.zeros(shape)).shape == shape[:-1]


@pytest.mark.parametrize("metric", [metrics.spearman, metrics.kendall, metrics.goodman_kruskal_gamma])
def test_equal_scores_have_no_correlation(metric):
    assert metric(torch.zeros(5), torch.arange(5.0)).isnan()
    assert metric(torch.zeros(5), torch.arange(5), mask=torch.zeros(5, dtype=torch.bool)).isnan()


def test_means_without_a_value_are_nan():
    assert metrics.mean_average_precision(SCORES, NOTHING).isnan()
    assert metrics.mean_average_precision(SCORES, ~NOTHING, mask=NOTHING).isnan()
    none = torch.zeros(0, 3)
    assert metrics.mean_average_precision(none, none).isnan()
    assert metrics.median_rank(none, none).isnan()


def test_the_class_for_torchmetrics_runs_as_documented():
    pytest.importorskip("torchmetrics")
    lines = metrics.__doc__.split("needs these lines")[1].split("\n\n", 1)[1].splitlines()
    code = textwrap.dedent("\n".join(lines))
    names = {name: getattr(metrics, name) for name in metrics.__all__}
    exec(code, names)
    values = names["metrics"].compute()
    assert values["ndcg"].item() == pytest.approx(1.0)  # the exact order
    assert 0 < values["err"] < 1
    mean = names["MeanOverGroups"](metrics.spearman)
    for scores in (torch.zeros(5), torch.arange(5.0)):
        mean.update(scores, torch.arange(5.0))
    assert mean.compute() == 1.0


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_relevance_and_label_ranks_may_be_unsigned(dtype):
    scores, truth = torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 2]])
    mask = torch.tensor([[True, True, False]])
    for metric in (metrics.ndcg, metrics.expected_reciprocal_rank):
        assert metric(scores, truth.to(dtype), mask=mask).equal(metric(scores, truth, mask=mask))
    assert metrics.label_ranking_scores(scores, truth.to(dtype))["precision"].equal(
        metrics.label_ranking_scores(scores, truth)["precision"]
    )
    assert metrics.ranked_map_ceiling(truth.to(dtype)) == metrics.ranked_map_ceiling(truth)
    with pytest.raises(ValueError, match=r"label_ranks\[0, 0\] is 9223372036854775809, expected .*below 2\^63"):
        metrics.label_ranking_scores(scores, torch.tensor([[2**63 + 1, 0, 0]], dtype=torch.uint64))


# Ranked lists and sets of labels, with ties and masks. A row is (score, truth, weight) of what a mask leaves.


@st.composite
def lists(draw):
    """Scores with ties, grades, what is there, and weights: of two queries with up to six documents."""
    kinds = st.integers(-2, 2), st.integers(0, 3), st.booleans(), st.sampled_from([0.5, 1, 3])
    return tables(draw, st.just(2), st.integers(2, 6), *kinds)


def positives_of(row):
    """The weight and the place of each positive: of equal scores, negatives stand before it and positives beside."""
    first = {}
    for at, (score, label, _) in enumerate(sorted(row, key=lambda item: (-item[0], item[1])), 1):
        if label:
            first.setdefault(score, at)
    return [(weight, first[score]) for score, label, weight in row if label]


def slow_reciprocal_rank(row, k=None, worth=lambda at: 1 / at):
    found = positives_of(row)
    best = max((weight * worth(at) for weight, at in found if at <= (k or 99)), default=0)
    return best / max((weight for weight, _ in found), default=math.nan)


def slow_hit_rate(row, k):
    return slow_reciprocal_rank(row, k, worth=lambda at: 1)


def slow_recall_at_k(row, k):
    """The mean over the orders of ties."""
    orders = [order for order in itertools.permutations(row)
              if all(first[0] >= second[0] for first, second in itertools.pairwise(order))]  # fmt: skip
    total = sum(label * weight for _, label, weight in row)
    return np.mean([sum(label * weight for _, label, weight in order[:k]) for order in orders]) / (total or math.nan)


def slow_coverage_error(row):
    # scikit-learn needs two labels: one more at the bottom changes nothing.
    f, y, _ = zip(*row, (-9, 0, 0), strict=True)
    return sklearn_coverage_error([y], [f]) if any(y) else math.nan


def slow_ranking_loss(row):
    pairs = [(first[2] * second[2], first[0] <= second[0])
             for first, second in itertools.permutations(row, 2) if first[1] > second[1]]  # fmt: skip
    return sum(weight for weight, wrong in pairs if wrong) / (sum(weight for weight, _ in pairs) or math.nan)


def slow_expected_reciprocal_rank(row, k, max_grade):
    heaviest = max((weight for *_, weight in row), default=1)
    read = [(-score, (2**grade - 1) / 2**max_grade * weight / heaviest) for score, grade, weight in row]
    reading, expected = 1.0, 0.0 if row else math.nan
    for at, (_, satisfied) in enumerate(sorted(read)[:k], 1):
        expected += reading * satisfied / at
        reading *= 1 - satisfied
    return expected


def slow_elementwise_match(row):
    ranks = [rankdata([item[part] for item in row]) for part in (0, 1)]
    return np.average(ranks[0] == ranks[1], weights=[weight for *_, weight in row]) if row else math.nan


SLOW = [
    ("reciprocal_rank", {"k": None}, slow_reciprocal_rank), ("reciprocal_rank", {"k": 3}, slow_reciprocal_rank),
    ("hit_rate", {"k": 1}, slow_hit_rate), ("hit_rate", {"k": 3}, slow_hit_rate),
    ("recall_at_k", {"k": 1}, slow_recall_at_k), ("recall_at_k", {"k": 3}, slow_recall_at_k),
    ("coverage_error", {}, slow_coverage_error), ("ranking_loss", {}, slow_ranking_loss),
    ("expected_reciprocal_rank", {"k": None, "max_grade": 3.0}, slow_expected_reciprocal_rank),
    ("expected_reciprocal_rank", {"k": 2, "max_grade": 3.0}, slow_expected_reciprocal_rank),
    ("elementwise_match", {}, slow_elementwise_match),
    ("exact_match", {}, lambda row: slow_elementwise_match(row) // 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "slow"), SLOW)
@settings(max_examples=30)
@given(drawn=lists())
def test_of_lists_agrees_with_a_loop(name, options, slow, drawn):
    metric, (scores, truth, mask, weights) = getattr(metrics, name), map(torch.tensor, drawn)
    truth = truth > 1 if kind(metric) == "labels" else truth
    for weighted in (False, True) if "weights" in parameters(metric) else (False,):
        extra = {"weights": weights.double()} if weighted else {}
        result = metric(scores.double(), truth, mask=mask, **options, **extra)
        parts = (scores, truth.long(), mask, weights if weighted else torch.ones_like(weights))
        for value, *row in zip(result.tolist(), *(part.tolist() for part in parts), strict=True):
            kept = [(score, true, weight) for score, true, there, weight in zip(*row, strict=True) if there]
            assert value == pytest.approx(slow(kept, **options), nan_ok=True)
