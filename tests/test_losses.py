"""Each loss against slow loops that share no code with it, scipy, scikit-learn, or the metric that it stands for.

What all losses have in common is in contracts/.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import norm, rankdata

from rankgrad import losses, metrics
from rankgrad.ragged import pad_groups
from rankgrad.sorters import LSTM, Handcrafted, StraightThrough

from conftest import tables  # isort: skip

OWN = torch.eye(4, dtype=torch.bool)
EXACT = StraightThrough()


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


# Multi-label ranking: `label_ranks`, of one image against loops over scores f and label ranks r.


def slow_rlsep(f, r):
    """Equation 6."""
    return math.log(1 + sum(math.exp(f[v] - f[u]) for u, v in itertools.permutations(range(len(f)), 2) if r[u] > r[v]))


def slow_multilabel_cross_entropy(f, r):
    """Equation 1."""
    present = [score for score, rank in zip(f, r, strict=True) if rank > 0]
    return -sum(math.log(math.exp(score) / sum(map(math.exp, f))) / len(present) for score in present)


def slow_pairwise_logistic(f, r, adjacent):
    pairs = [(u, v) for u, v in itertools.permutations(range(len(f)), 2) if r[u] > r[v]]
    costs = [math.log(1 + math.exp(f[v] - f[u])) for u, v in pairs]
    weights = [adjacent if r[v] > 0 and r[u] - r[v] == 1 else 1.0 for u, v in pairs]
    return np.average(costs, weights=weights) if pairs else 0.0


def slow_plackett_luce(f, r):
    """Each label is drawn from those that are left."""
    total, left = 0.0, list(range(len(f)))
    for rank in sorted({rank for rank in r if rank > 0}, reverse=True):
        norm = sum(math.exp(f[v]) for v in left)
        total -= sum(math.log(math.exp(f[u]) / norm) for u in left if r[u] == rank)
        left = [u for u in left if r[u] != rank]
    return total


def slow_spearman_of_label_ranks(f, r):
    """Tied labels share their ranks."""
    errors, length = rankdata(-np.array(f)) - rankdata(-np.array(r)), len(f)
    return 6 * (errors**2).sum() / (length * (length**2 - 1))


OF_LABEL_RANKS = [
    ("lsep", {}, lambda f, r: slow_rlsep(f, [rank > 0 for rank in r])),  # Equation 3
    ("rlsep", {}, slow_rlsep), ("multilabel_cross_entropy", {}, slow_multilabel_cross_entropy),
    ("plackett_luce", {}, slow_plackett_luce), ("spearman_of_label_ranks", {}, slow_spearman_of_label_ranks),
    *(("pairwise_logistic", {"adjacent": adjacent}, slow_pairwise_logistic) for adjacent in (0.25, 1.0, 3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "slow"), OF_LABEL_RANKS)
@given(data=st.data())
def test_of_an_image_agrees_with_a_loop(name, options, slow, data):
    batch = tables(data.draw, st.integers(1, 4), st.integers(2, 6), st.floats(-5, 5), st.integers(0, 4))
    of_ranks = name.startswith("spearman")  # whose mean is over the images that have an order
    values = [slow(*image, **options) for image in zip(*batch, strict=True) if not of_ranks or len(set(image[1])) > 1]
    sorter = {"sorter": EXACT} if of_ranks else {}
    result = getattr(losses, name)(tensor(batch[0]), torch.tensor(batch[1]), **options, **sorter)
    assert result.item() == pytest.approx(np.mean(values) if values else 0.0, abs=1e-12)


@pytest.mark.parametrize("loss", [losses.rlsep, losses.lsep])
def test_pairs_are_as_many_as_asked_for_and_come_from_the_generator(loss, generator):
    label_ranks = torch.tensor([[0, 1, 1, 0, 0, 2]] * 8)
    for pairs in (1, 4, 9):  # of equal scores every pair adds exactly 1 inside the logarithm
        value = loss(torch.zeros(8, 6), label_ranks, pairs=pairs, generator=generator)
        assert value.exp().item() == pytest.approx(1 + pairs)
    scores = torch.randn(8, 6, generator=generator)
    first, again, other = (
        loss(scores, label_ranks, pairs=2, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert first.equal(again)
    assert not first.equal(other)


@pytest.mark.parametrize("name", ["rlsep", "lsep", "plackett_luce"])
def test_all_pairs_of_many_labels_take_memory_in_proportion_to_the_labels(name, generator):
    loss, slow = getattr(losses, name), next(slow for one, _, slow in OF_LABEL_RANKS if one == name)
    scores = torch.randn(200_000, generator=generator, requires_grad=True)  # whose pairs would take 160 GB
    label_ranks = torch.randint(0, 4, (200_000,), generator=generator)
    loss(scores, label_ranks).backward()
    assert scores.grad.isfinite().all()
    f, r = scores[:150].detach().double(), label_ranks[:150]
    assert loss(f, r).item() == pytest.approx(slow(f.tolist(), r.tolist()), rel=1e-12)


# Regression: `target`.


@st.composite
def groups(draw, *, distinct: bool = False):
    count, length = draw(st.integers(1, 4)), draw(st.integers(2, 7))
    values = st.integers(-20, 20)
    row = st.lists(values, min_size=length, max_size=length, unique=distinct)
    rows = st.lists(row, min_size=count, max_size=count)
    return np.array(draw(rows), dtype=np.float64) / 4, np.array(draw(rows), dtype=np.float64) / 4


@given(groups())
def test_l1_and_mse_are_means_of_errors(batch):
    scores, target = batch
    assert losses.l1(tensor(scores), tensor(target)).item() == pytest.approx(np.abs(scores - target).mean())
    assert losses.mse(tensor(scores), tensor(target)).item() == pytest.approx(np.square(scores - target).mean())
    shares = tensor(1 / (1 + np.exp(-target)))
    for loss in (losses.l1, losses.mse):
        expected = loss(tensor(1 / (1 + np.exp(-scores))), shares)
        assert loss(tensor(scores), shares, sigmoid=True).item() == pytest.approx(expected.item())


@given(groups())
def test_mse_of_normalized_groups_has_targets_of_that_form(batch):
    scores, target = batch
    mean, deviation = target.mean(1, keepdims=True), target.std(1, keepdims=True)
    ranked = rankdata(target, axis=1) / target.shape[1]
    for normalization, values, goal in (
        ("standardized", scores, (target - mean) / np.where(deviation > 0, deviation, 1)),
        ("ranks", scores, ranked),
        ("centered", scores - scores.mean(1, keepdims=True), target - mean),
    ):
        found = losses.mse(tensor(scores), tensor(target), normalize_groups=normalization).item()
        assert found == pytest.approx(np.square(values - goal).mean())
    twice = [torch.cat([tensor(part), tensor(part[:, :1])], 1) for part in batch]
    weights = 1.0 + (torch.arange(scores.shape[1]) == 0).double().expand(scores.shape)
    for normalization in ("standardized", "centered"):  # what weighs twice as much is there twice
        found = losses.mse(tensor(scores), tensor(target), weights=weights, normalize_groups=normalization).item()
        assert found == pytest.approx(losses.mse(*twice, normalize_groups=normalization).item())
    equal = torch.full((1, 13), 0.7, dtype=torch.float64)  # whose deviation is not quite 0
    assert losses.mse(torch.zeros(1, 13), equal, normalize_groups="standardized") == 0


@given(groups())
def test_spearman_is_equation_4_over_its_largest_value(batch):
    scores, target = batch
    values = []
    for s, t in zip(scores, target, strict=True):
        if len(set(t)) > 1:  # they have an order
            soft = 0.5 + (1 / (1 + np.exp(s[:, None] - s))).sum(1)  # of which each score adds 1/2 to its own
            values.append(6 * np.square(soft - rankdata(-t)).sum() / (len(s) * (len(s) ** 2 - 1)))
    result = losses.spearman(tensor(scores), tensor(target), sorter=Handcrafted(steepness=1.0))
    assert result.item() == pytest.approx(np.mean(values) if values else 0.0)


# Multi-label classification: `labels`.


@st.composite
def labelled(draw):
    scores, labels = tables(draw, st.integers(1, 3), st.integers(2, 5), st.integers(-6, 6), st.booleans())
    return tensor(scores) * draw(st.sampled_from([0.05, 0.25, 1.0])), torch.tensor(labels)


@given(labelled())
def test_multilabel_soft_margin_is_binary_cross_entropy(batch):
    scores, labels = (part.numpy() for part in batch)
    probability = 1 / (1 + np.exp(-scores))
    expected = -np.log(np.where(labels, probability, 1 - probability)).mean()
    assert losses.multilabel_soft_margin(*batch).item() == pytest.approx(expected)


@given(labelled(), st.sampled_from([0.5, 2.0]), st.sampled_from([0.0, 0.05]))
def test_rivals_of_soft_margin_are_their_formulas(batch, power, shift):
    scores, labels = (part.numpy() for part in batch)
    p = 1 / (1 + np.exp(-scores))
    right, moved = np.where(labels, p, 1 - p), np.maximum(p - shift, 0)
    absent = -(moved**power) * np.log(1 - moved)
    asymmetric = {"gamma_present": 1.0, "gamma_absent": power, "shift": shift}
    for name, options, expected in (
        ("focal", {"gamma": power}, -((1 - right) ** power) * np.log(right)),
        ("asymmetric", asymmetric, np.where(labels, -(1 - p) * np.log(p), absent)),
        ("generalized_cross_entropy", {"q": power / 2}, (1 - right ** (power / 2)) / (power / 2)),
    ):
        assert getattr(losses, name)(*batch, **options).item() == pytest.approx(expected.mean())


@given(labelled())
def test_sodeep_mean_average_precision_is_the_positives_mean_rank(batch):
    scores, labels = batch
    of_classes, sizes = [], []
    for s, present in zip(scores.numpy(), labels.numpy(), strict=True):
        places, count = rankdata(-s)[present], present.sum()
        if 0 < count < len(s):
            of_classes.append((places.mean() - (count + 1) / 2) / len(s))
            sizes.append(count)
    for weight_by, weights in (("classes", np.ones(len(sizes))), ("positives", np.array(sizes))):
        expected = np.average(of_classes, weights=weights) if sizes else 0.0
        result = losses.sodeep_mean_average_precision(scores, labels, sorter=EXACT, weight_by=weight_by)
        assert result.item() == pytest.approx(expected, abs=1e-12)
        assert result.item() >= -1e-12


def exhaustive_hinge_ap(scores, labels):
    """The maximum over all orders of the examples, of one class."""
    items = range(len(scores))
    pairs = [(i, j) for i, j in itertools.permutations(items, 2) if labels[i] and not labels[j]]
    truth, best = np.mean([scores[i] - scores[j] for i, j in pairs]), -math.inf
    for places in itertools.permutations(items):
        hits = np.array(labels)[np.argsort(places)]
        precision = (hits.cumsum() / np.arange(1, len(hits) + 1))[hits].mean()
        agreement = np.mean([np.sign(places[j] - places[i]) * (scores[i] - scores[j]) for i, j in pairs])
        best = max(best, 1 - precision + agreement)
    return best - truth


@settings(max_examples=80)
@given(labelled())
def test_hinge_ap_is_the_maximum_over_all_rankings(batch):
    scores, labels = batch
    classes = zip(scores.tolist(), labels.tolist(), strict=True)
    values = [exhaustive_hinge_ap(s, present) for s, present in classes if len(set(present)) > 1]
    assert losses.hinge_ap(scores, labels).item() == pytest.approx(np.mean(values) if values else 0.0, abs=1e-12)


# Retrieval: `positives`.


def slow_triplets(directions, *, margin, hardest, better):
    """Mean over the positives of both directions; `better(n, p)` is by how much a negative is ahead of a positive."""
    values = []
    for rows, own in directions:
        for row, mine in zip(rows, own, strict=True):
            for value in row[mine] if not mine.all() else ():
                result = np.maximum(0.0, margin + better(row[~mine], value))
                values.append(result.max() if hardest else result.mean())
    return np.mean(values) if values else 0.0


def both(scores, positives):
    return [(scores.numpy(), positives.numpy()), (scores.numpy().T, positives.numpy().T)]


def both_ranked(scores, positives):
    return [(rankdata(-rows, axis=1), own) for rows, own in both(scores, positives)]


@st.composite
def matrices(draw):
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    scores, more = tables(draw, st.just(rows), st.just(columns), st.integers(-8, 8), st.booleans())
    positives = torch.tensor(more) & draw(st.booleans())
    positives[torch.arange(rows), torch.tensor(draw(st.permutations(range(columns))) * 3)[:rows]] = True
    return tensor(scores) / 8, positives


@given(matrices(), st.booleans(), st.sampled_from([0.0, 0.2, 1.5, 2.5]))
def test_hard_negative_triplet_and_recall_agree_with_loops(batch, hardest, margin):
    options = {"margin": margin, "hardest": hardest}
    expected = slow_triplets(both(*batch), better=lambda n, p: n - p, **options)
    assert losses.hard_negative_triplet(*batch, **options).item() == pytest.approx(expected)
    expected = slow_triplets(both_ranked(*batch), better=lambda n, p: p - n, **options)
    assert losses.sodeep_recall(*batch, sorter=EXACT, **options).item() == pytest.approx(expected)


@given(matrices(), st.integers(1, 5), st.sampled_from([0.1, 1.0, 4.0]))
def test_hit_rate_is_a_sigmoid_of_the_first_positive(batch, k, temperature):
    values = []
    for places, own in both_ranked(*batch):
        first = np.where(own, places, np.inf).min(axis=1)[own.any(axis=1) & (own.shape[1] > 1)]
        values.append(1 - 1 / (1 + np.exp(-(k + 0.5 - first) / temperature)))
    result = losses.hit_rate(*batch, sorter=EXACT, k=k, temperature=temperature)
    assert result.item() == pytest.approx(np.concatenate(values).mean())


@given(matrices())
def test_mean_log_rank_and_info_nce_are_logarithms_of_ranks(batch):
    ordered, likely = [], []
    for (places, own), (rows, _) in zip(both_ranked(*batch), both(*batch), strict=True):
        for place, row, mine in zip(places, rows, own, strict=True):
            if mine.any() and not mine.all():
                ordered.append(np.log(place[mine]).mean() - np.log(range(1, mine.sum() + 1)).mean())
                exponential = 1 + np.exp((row[~mine] - row[mine][:, None]) / 0.25).sum(1)
                likely.append(np.log(exponential).mean())
    assert losses.mean_log_rank(*batch, sorter=EXACT).item() == pytest.approx(np.mean(ordered) if ordered else 0.0)
    assert losses.info_nce(*batch, temperature=0.25).item() == pytest.approx(np.mean(likely) if likely else 0.0)


LEFT_OUT = OWN.clone()
LEFT_OUT[2] = OWN[1]
IMPOSSIBLE = [
    ("hard_negative_triplet", LEFT_OUT, {}, "no True in column 2"),
    ("hard_negative_triplet", torch.stack([OWN, LEFT_OUT.T]), {}, r"no True in row 2 of matrix \(1,\)"),
    ("hard_negative_triplet", OWN[:, :3], {}, "no True in row 3"),
    ("hard_negative_triplet", torch.ones(5, 3, 1).bool(), {}, r"\(5, 3, 1\).* m of at least 2"),
    ("sodeep_recall", OWN, {"margin": -1.0}, "margin is -1.0"),
    ("hit_rate", OWN, {"k": 1.5}, "k is 1.5"),
    ("hit_rate", OWN, {"temperature": 0.0}, "temperature is 0.0"),
    ("ndcg", tensor([1.0, 61.0]), {}, r"target\[1\] is 61.0.*linear"),
    ("ndcg", torch.ones(2), {"gain": "cubic"}, "'cubic'.*'linear'"),
    ("mse", tensor([0.0, 1.5]), {"sigmoid": True}, r"target\[1\] is 1.5.*\[0, 1\]"),
    ("mse", tensor([0.0, 0.5]), {"sigmoid": True, "normalize_groups": "ranks"}, "'ranks' and sigmoid is True"),
    ("generalized_cross_entropy", torch.tensor([0, 1]), {"q": 1.5}, "q is 1.5"),
    ("asymmetric", torch.tensor([0, 1]), {"shift": 1.0}, "shift is 1.0"),
    ("info_nce", OWN, {"temperature": 0.0}, "temperature is 0.0"),
    ("pairwise_logistic", torch.ones(1, 2), {"adjacent": 0.0}, "adjacent is 0"),
    ("rlsep", torch.tensor([[1, 0]]), {"pairs": 1}, "generator is None"),
    ("lsep", torch.tensor([[1, 0]]), {"pairs": 0}, "pairs is 0"),
    ("spearman", torch.zeros(5, 1), {}, r"groups of 1.*\(5, 1\)"),
    (
        "sodeep_mean_average_precision",
        torch.tensor([0, 1]),
        {"weight_by": "class"},
        "'class'.*'classes' or 'positives'",
    ),
    ("average_precision", torch.tensor([1, 0, 0]), {"sorter": LSTM(length=3, hidden=2, layers=1)}, "fixed length 3"),
    ("gaussian_mlr", torch.ones(4), {"log_variances": torch.zeros(3)}, r"log_variances \(3,\) and scores \(4,\)"),
    ("gaussian_mlr", torch.ones(2), {"log_variances": torch.tensor([0, math.nan])}, r"log_variances\[1\] is nan"),
]


@pytest.mark.parametrize(("name", "truth", "options", "message"), IMPOSSIBLE)
def test_impossible_options_and_values_are_named(name, truth, options, message):
    with pytest.raises(TypeError if options.get("k") == 1.5 else ValueError, match=message):
        getattr(losses, name)(torch.zeros(truth.shape), truth, **options)


# Losses against the metrics that they stand for, with options of both.
AT_THE_LIMIT = [
    ("kendall", {"top_heavy": False}), ("kendall", {"top_heavy": True}), ("ndcg", {"k": None}), ("ndcg", {"k": 1}),
    ("ndcg", {"k": 3, "gain": "linear"}), ("precision_at_k", {"k": 1}), ("precision_at_k", {"k": 2}),
    ("average_precision", {}), ("reciprocal_rank", {}), ("expected_reciprocal_rank", {"k": None}),
    ("expected_reciprocal_rank", {"k": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), AT_THE_LIMIT)
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_with_exact_ranks_it_is_one_minus_its_metric(name, options, seed):
    draws = torch.Generator().manual_seed(seed)
    scores, truth = torch.randn(5, 7, generator=draws).double(), torch.randint(0, 4, (5, 7), generator=draws)
    mask = torch.rand(5, 7, generator=draws) < 0.8
    mask[:, :4], truth[:4, :4], truth[4] = True, torch.tensor([0, 3, 1, 2]), 0  # the last has nothing to order
    if name == "kendall":
        scores = scores.round()  # so that some are tied
    if name in ("average_precision", "precision_at_k", "reciprocal_rank"):
        truth = truth > 1
    options = options | {"mask": mask}
    if name not in ("average_precision", "precision_at_k"):  # whose weights are another thing in the metric
        options["weights"] = torch.rand(5, 7, generator=draws, dtype=torch.float64)
    soft = {} if name in ("average_precision", "reciprocal_rank") else {"temperature": 1e-3}
    result = getattr(losses, name)(scores.requires_grad_(), truth, sorter=EXACT, reduction="none", **options, **soft)
    expected = 1 - getattr(metrics, name)(scores, truth, **options)[:4]
    defined = ~expected.isnan()
    torch.testing.assert_close(result[:4][defined], expected[defined], atol=1e-6, rtol=0)
    assert result[4].item() == 0
    assert not torch.autograd.grad(result[4], scores)[0].any()


def test_more_pairs_than_32_bits_count(generator):
    scores = torch.randn(70_000, generator=generator)
    target = (scores + torch.randn(70_000, generator=generator)).round(decimals=1)
    found = losses.kendall(scores.requires_grad_(), target, sorter=EXACT, temperature=1e-3)
    assert found.item() == pytest.approx(1 - metrics.kendall(scores, target).item(), abs=1e-6)
    assert torch.autograd.grad(losses.rlsep(scores, target - target.min()), scores)[0].isfinite().all()


@pytest.mark.parametrize("temperature", [0.01, 3.0])
def test_expected_reciprocal_rank_is_its_formula_over_all_pairs(temperature, generator):
    scores = torch.randn(3, 200, generator=generator, dtype=torch.float64).requires_grad_()
    target, mask = torch.randint(5, (3, 200), generator=generator), torch.rand(3, 200, generator=generator) < 0.9
    options = {
        "sorter": lambda scores, mask=None: 1 + (scores.shape[-1] - 1) * (-scores).sigmoid(),
        "mask": mask,
        "temperature": temperature,
    }
    place, satisfied = 1 + 199 * (-scores).sigmoid(), (2.0 ** target.double() - 1) / 16 * mask
    apart = (place.unsqueeze(-1) - place.unsqueeze(-2)) / temperature
    before = (1 - apart.sign() * torch.expm1(-apart.abs())) / 2 * (1 - torch.eye(200, dtype=torch.float64))
    left = (before * torch.log1p(-satisfied).unsqueeze(-2)).sum(-1).exp()
    expected = 1 - (satisfied * left / place).sum(-1).mean()
    result = losses.expected_reciprocal_rank(scores, target, **options)
    for one, plain in zip(
        [result, *torch.autograd.grad(result, scores)], [expected, *torch.autograd.grad(expected, scores)], strict=True
    ):
        torch.testing.assert_close(one, plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("levels", [3, 600])
def test_kendall_of_a_long_list_is_that_of_its_pairs(levels, generator):
    draws = {"generator": generator, "dtype": torch.float64}
    scores, weights = torch.randn(2, 600, **draws).requires_grad_(), torch.rand(2, 600, **draws)
    target, mask = torch.randint(levels, (2, 600), generator=generator), torch.rand(2, 600, generator=generator) < 0.9

    def spread(scores, mask=None):
        return (scores.shape[-1] + 1) / 2 - 30 * (scores - scores.mean(-1, keepdim=True))

    options = {"sorter": spread, "reduction": "none", "mask": mask, "weights": weights}
    result = losses.kendall(scores, target, **options)
    weight = (weights * mask).unsqueeze(-1) * (weights * mask).unsqueeze(-2)
    apart = -30 * (scores.unsqueeze(-2) - scores.unsqueeze(-1)) / 0.5
    soft = apart.sign() * (1 - torch.exp(-apart.abs()))
    true = (target.unsqueeze(-1) - target.unsqueeze(-2)).sign()
    sums = [(weight * part).sum((-1, -2)) for part in (soft * true, soft**2, true**2)]
    expected = 1 - sums[0] / (sums[1] * sums[2]).sqrt()
    torch.testing.assert_close(result, expected)
    gradients = [torch.autograd.grad(one.sum(), scores)[0] for one in (result, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", ["kendall", "expected_reciprocal_rank"])
def test_long_lists_of_float32_have_the_gradient_of_float64(name, generator):
    scores = torch.randn(20_000, generator=generator)
    target = torch.randint(0, 5, scores.shape, generator=generator)
    found = []
    for dtype in (torch.float32, torch.float64):
        of_type = scores.to(dtype, copy=True).requires_grad_()
        value = getattr(losses, name)(of_type, target)
        assert value.dtype == dtype
        found.append((value.double(), torch.autograd.grad(value, of_type)[0].double()))
    (value, gradient), (precise_value, precise_gradient) = found
    assert abs(value - precise_value) < 1e-6 * precise_value
    assert (gradient - precise_gradient).norm() < 1e-6 * precise_gradient.norm()


@pytest.mark.parametrize("name", ["ranknet", "kendall", "spearman", "pairwise_logistic"])
def test_weights_of_whole_pairs_are_refused_and_count_as_group_weights(name):
    scores, truth = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[1, 0], [1, 0]])
    loss, weights = getattr(losses, name), torch.tensor([[1.0, 1.0], [100.0, 100.0]])
    with pytest.raises(ValueError, match=r"weights .* within each group of two .* group_weights="):
        loss(scores, truth, weights=weights)
    with pytest.raises(ValueError, match="group_weights="):
        loss(scores.mT, truth.mT, weights=weights.mT, dim=0)
    each = loss(scores, truth, reduction="none")
    weighed = loss(scores, truth, group_weights=weights.select(-1, 0))
    assert weighed.item() == pytest.approx(((each[0] + 100 * each[1]) / 101).item())
    # Weights within a group, of single scores under a mask, and equal ones mean something or nothing, and are taken.
    mask = torch.tensor([[True, True], [True, False]])
    for taken in ({"weights": torch.tensor([[1.0, 2.0], [100.0, 100.0]])}, {"weights": torch.full((2, 2), 3.0)},
                  {"weights": weights, "mask": mask}):  # fmt: skip
        assert loss(scores, truth, **taken).isfinite()


def test_losses_and_sorters_have_a_shape_without_values():
    scores = torch.empty(3, 5, device="meta")
    assert losses.spearman(scores, torch.empty(3, 5, device="meta"), reduction="none").shape == (3,)


# Worked out by hand: losses of an exact sorter are metrics.
BY_HAND = [
    # Ranks 1, 3, 2 against 1, 2, 3: errors 0, 1, 1, of which the last counts three times as much.
    ("spearman", [3.0, 1.0, 2.0], [3.0, 2.0, 1.0], [1, 1, 2], {}, 6 / 8 * 3 / 4),
    # Positives at places 2 and 3 of 4, weights 1 and 3: (2 + 9) / 4 places; the best is 3 at 1 and 1 at 2, 5 / 4.
    ("sodeep_mean_average_precision", [4, 3, 2, 1], [0, 1, 1, 0], [9, 1, 3, 9], {}, 6 / 4 / 4),
    # The positive is too low by 0 of 3 places in the first class and by 2 in the second, which weighs as it does.
    ("sodeep_mean_average_precision", [[9, 5, 1], [1, 9, 5]], [[1, 0, 0]] * 2, [[1, 1, 1], [3, 1, 1]],
     {"weight_by": "positives"}, (0 + 3 * 2 / 3) / 4),
    # Fewer positives than places can be perfect; the heaviest could have been taken.
    ("precision_at_k", [4, 3, 2, 1], [1, 0, 0, 0], [1, 1, 1, 1], {"k": 3, "temperature": 0.01}, 0),
    ("precision_at_k", [9, 5, 1], [1, 1, 0], [1, 3, 1], {"k": 1, "temperature": 0.01}, 1 - 1 / 3),
    # Positives weigh, and what stands before them.
    ("average_precision", [9, 5, 7], [1, 1, 0], [1, 3, 1], {}, 1 - (1 * 1 + 3 * 2 / 3) / 4),
    # Of both rows and both columns the second row alone, of weight 3, does not find its own first.
    ("hit_rate", [[9, 1], [8, 2]], [[1, 0], [0, 1]], [[1, 9], [9, 3]], {"temperature": 0.01}, 3 / (1 + 3 + 1 + 3)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "scores", "truth", "weights", "options", "expected"), BY_HAND)
def test_weighted_losses_by_hand(name, scores, truth, weights, options, expected):
    options = options | {"sorter": EXACT, "weights": tensor(weights)}
    value = getattr(losses, name)(tensor(scores), torch.tensor(truth), **options)
    assert value.item() == pytest.approx(expected)


# Ranked lists, against plain loops, closed forms and limits.


@pytest.fixture(params=["all", "masked and weighted"])
def lists(request):
    """Tensors and options for a loss, and (score, target, weight) of what the mask leaves."""
    scores, target = [0.3, -1.2, 0.8, 0.1, 2.0, -0.4], [2, 0, 3, 0, 1, 1]
    weights, mask, options = [1.0] * 6, [True] * 6, {}
    if request.param != "all":
        weights, mask = [1.0, 0.5, 2.0, 0.3, 1.5, 1.0], [True, True, True, False, True, True]
        options = {"mask": torch.tensor(mask), "weights": tensor(weights)}
    rows = [row for *row, kept in zip(scores, target, weights, mask, strict=True) if kept]
    return tensor(scores), torch.tensor(target), options, rows


def slow_listnet(rows):
    f, t, w = zip(*rows, strict=True)
    shares = [weight * math.exp(value) for value, weight in zip(t, w, strict=True)]
    return -sum(s / sum(shares) * math.log(p) for s, p in zip(shares, softmax(f), strict=True))


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


def slow_ranknet(rows):
    costs = [(first[2] * second[2], math.log1p(math.exp(second[0] - first[0])))
             for first, second in itertools.product(rows, rows) if first[1] > second[1]]  # fmt: skip
    return sum(weight * cost for weight, cost in costs) / sum(weight for weight, _ in costs)


def slow_lambdarank(rows, *, k=None, weighting="lambdarank", truncation=None):
    k = k or len(rows)
    gains = [weight * (2**value - 1) for _, value, weight in rows]
    best = sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)[:k]))
    order = sorted(range(len(rows)), key=lambda i: (-rows[i][0], gains[i]))
    total = 0.0
    for i, j in itertools.product(range(len(rows)), repeat=2):
        first, second = order.index(i) + 1, order.index(j) + 1
        if rows[i][1] <= rows[j][1] or min(first, second) > (truncation or k):
            continue
        swapped = abs((first <= k) / math.log2(1 + first) - (second <= k) / math.log2(1 + second))
        apart = abs(first - second)
        bound = 1 / math.log2(1 + apart) - 1 / math.log2(2 + apart)
        delta = {"lambdarank": swapped, "ndcg_loss2": bound, "ndcg_loss2++": swapped + 10 * bound}[weighting]
        total += delta * abs(gains[i] - gains[j]) / best * math.log2(1 + math.exp(rows[j][0] - rows[i][0]))
    return total


def slow_softsort_cross_entropy(rows, *, temperature):
    """SoftSort of the exact ranks, place by place."""
    ranks = [1 + sum(other[0] > row[0] for other in rows) for row in rows]
    total = 0.0
    for place in range(1, len(rows) + 1):
        shares = softmax([-abs(place - rank) / temperature for rank in ranks])
        for share, (_, value, weight) in zip(shares, rows, strict=True):
            above, tied = sum(r[1] > value for r in rows), sum(r[1] == value for r in rows)
            true = (above < place <= above + tied) / tied
            total -= weight * (true * math.log(share) + (1 - true) * math.log(1 - share))
    return total / len(rows) / sum(weight for *_, weight in rows)


OF_LISTS = [
    ("listnet", {}, slow_listnet), ("ranknet", {}, slow_ranknet), ("pairwise_logistic", {}, slow_ranknet),
    *(("list_mle", {"top_heavy": top_heavy}, slow_list_mle) for top_heavy in (False, True)),
    *(("lambdarank", {"weighting": weighting, "k": k}, slow_lambdarank)
      for weighting in ("lambdarank", "ndcg_loss2", "ndcg_loss2++") for k in (None, 2)),
    *(("lambdarank", {"truncation": truncation}, slow_lambdarank) for truncation in (1, 3)),
    ("softsort_cross_entropy", {"temperature": 0.7}, slow_softsort_cross_entropy),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "slow"), OF_LISTS)
def test_of_a_list_agrees_with_a_loop(lists, name, options, slow):
    scores, target, more, rows = lists
    more = more | ({"sorter": EXACT} if "temperature" in options else {})
    result = getattr(losses, name)(scores, target, **options, **more)
    assert result.item() == pytest.approx(slow(rows, **options))


def test_list_mle_of_long_lists_is_finite_and_lambdarank_has_a_gradient_where_all_scores_are_equal():
    scores = torch.zeros(4, requires_grad=True)
    (slope,) = torch.autograd.grad(losses.lambdarank(scores, torch.tensor([0, 2, 0, 1])), scores)
    assert slope[1] < slope[3] < 0 < slope[[0, 2]].min()
    scores = torch.linspace(-300, 300, 5000).requires_grad_()
    for top_heavy in (False, True):
        value = losses.list_mle(scores, scores.detach().flip(0), top_heavy=top_heavy)
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, scores)[0]).all()


@pytest.mark.parametrize("name", ["ndcg", "mse"])
def test_only_proportions_of_what_groups_count_matter_in_any_type(name):
    scores, target = torch.tensor([[0.1, 0.5], [0.9, 0.2], [0.3, 0.4]]), torch.tensor([[0.0, 1.0]]).expand(3, -1)
    counts = torch.tensor([1.0, 2.0, 1.0])
    expected = getattr(losses, name)(scores, target, group_weights=counts)
    several = [counts * 1.6e38, counts.double() * 1e300, counts.double() * 1e-300]
    several += [counts.to(kind) for kind in (torch.uint8, torch.uint16, torch.uint64)]
    for one in several:
        assert torch.allclose(getattr(losses, name)(scores, target, group_weights=one), expected)


@pytest.mark.parametrize("name", ["mse", "l1", "listnet"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_what_has_no_weight_does_not_count_however_large_its_error(name, reduction):
    options = {"weights": torch.tensor([1.0, 1.0, 0.0]), "reduction": reduction}
    target = torch.tensor([1.0, 2.0, -3e38])
    first, other = (getattr(losses, name)(torch.tensor([3.0, 1.0, last]), target, **options) for last in (-3e38, -1e30))
    assert first.isfinite()
    assert first.equal(other)


def test_list_mle_has_a_second_derivative_also_by_a_weight_of_the_loss(generator):
    scores = torch.randn(3, 6, generator=generator, dtype=torch.float64).requires_grad_()
    target, mask = torch.randint(0, 3, (3, 6), generator=generator), torch.rand(3, 6, generator=generator) < 0.9
    for weight in (1.0, 0.0, -2.0):
        loss = lambda scores, weight: weight * losses.list_mle(scores, target, mask=mask)  # noqa: E731
        assert torch.autograd.gradgradcheck(loss, (scores, tensor(weight).requires_grad_()))


def slow_gaussian_mlr(means, label_ranks, variances):
    presence = [
        norm.logcdf(m / v**0.5 if r else -m / v**0.5) for m, r, v in zip(means, label_ranks, variances, strict=True)
    ]
    pairs = [norm.logcdf((means[u] - means[v]) / (variances[u] + variances[v]) ** 0.5)
             for u, v in itertools.permutations(range(len(means)), 2) if label_ranks[u] > label_ranks[v]]  # fmt: skip
    return -sum(presence) / len(presence) - (sum(pairs) / len(pairs) if pairs else 0)


@pytest.mark.parametrize("label_ranks", [[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 3, 2]])
def test_gaussian_mlr_agrees_with_a_loop(label_ranks):
    means, variances, truth = [0.4, -1.0, 2.5, 0.1], [1.0, 2.0, 0.4, 1.3], torch.tensor(label_ranks)
    scores, spread = tensor(means).requires_grad_(), tensor(variances).log().requires_grad_()
    loss = lambda scores, spread: losses.gaussian_mlr(scores, truth, log_variances=spread)  # noqa: E731
    assert loss(scores, spread).item() == pytest.approx(slow_gaussian_mlr(means, label_ranks, variances))
    assert torch.autograd.gradcheck(loss, (scores, spread))
    plain = losses.gaussian_mlr(scores, truth).item()
    assert plain == pytest.approx(slow_gaussian_mlr(means, label_ranks, [1.0] * 4))


def test_gaussian_mlr_has_the_right_gradient_far_out():
    for score in (-10.0, -999.0, -1001.0, -1e6, -1e10, -1e30):
        scores = tensor([score]).requires_grad_()
        value = losses.gaussian_mlr(scores, torch.tensor([1]))
        (slope,) = torch.autograd.grad(value, scores)
        assert value.item() == pytest.approx(-norm.logcdf(score), rel=1e-12)
        expected = score - 1 / abs(score) if score < -100 else -math.exp(norm.logpdf(score) - norm.logcdf(score))
        assert slope.item() == pytest.approx(expected, rel=1e-9)


# Lists of different lengths; what a mask leaves of each is in contracts/.
SIZES = [3, 0, 5, 2]


def test_values_of_any_shape_and_type_are_padded_as_by_hand(generator):
    features = torch.randn(sum(SIZES), 2, 7, generator=generator)
    padded, mask = pad_groups(features, sizes=SIZES)
    by_hand = torch.nn.utils.rnn.pad_sequence(list(features.split(SIZES)), batch_first=True)
    assert torch.equal(padded, by_hand)
    assert mask.sum(-1).tolist() == SIZES
    assert metrics.ndcg(padded[..., 0, 0], mask.long(), mask=mask).isnan().tolist() == [size == 0 for size in SIZES]
    assert pad_groups(torch.tensor([True, True]), sizes=[1, 1])[0].dtype == torch.bool


def test_rows_of_a_query_are_found_wherever_they_stand(generator):
    query = torch.tensor([3, 1, 3, 1, 2**40, 3])
    features = torch.randn(6, 2, generator=generator)
    padded, mask = pad_groups(features, query=query)
    for rows, there, number in zip(padded, mask, query.unique(), strict=True):
        assert torch.equal(rows[there], features[query == number])
        assert not rows[~there].any()
    values, sizes = features[query.argsort(stable=True)], [2, 3, 1]
    assert all(map(torch.equal, pad_groups(values, sizes=sizes), (padded, mask)))


@pytest.mark.parametrize(
    ("values", "lists", "message"),
    [
        (torch.zeros(3), {"sizes": [2, 2]}, "sizes adds up to 4, expected 3"),
        (torch.zeros(3), {"sizes": [4, -1]}, r"sizes\[1\] is -1"),
        (torch.zeros(3), {"sizes": [1.0, 2.0]}, "torch.float64"), (torch.zeros(3), {"sizes": []}, r"\(0,\)"),
        ([0.0], {"sizes": [1]}, "values is a list"), (torch.zeros(3), {"query": [1, 2]}, "2 numbers, expected 3"),
        (torch.zeros(2), {"query": [1.0, math.nan]}, "query is torch.float64"), (torch.zeros(2), {}, "none of sizes"),
        (torch.zeros(2), {"query": [0, 1], "sizes": [1, 1]}, "both of sizes"),
        (torch.zeros(2), {"query": ["a", "b"]}, "query holds .*numpy.unique"),
        (torch.zeros(2), {"sizes": [2**62] * 4 + [2]}, "sizes adds up to 18446744073709551618"),
    ],
)  # fmt: skip
def test_what_cannot_be_padded_is_named(values, lists, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pad_groups(values, **lists)
