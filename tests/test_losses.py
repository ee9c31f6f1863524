"""What every loss in the folder must do, and each against slow loops that share no code with it.

The name of a loss's second argument says what it wants: `label_ranks`, `target`, `labels` or `positives`. Examples of
each kind are made here, so a new loss inherits all tests of its kind.
"""

import inspect
import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import average_precision_score
from torch._subclasses import FakeTensorMode

from rankops import lookup
from rankops.checks import NotFiniteError
from rankops.losses.average_precision import average_precision
from rankops.losses.cross_entropy import cross_entropy
from rankops.losses.hard_negative_triplet import hard_negative_triplet
from rankops.losses.hinge_ap import hinge_ap
from rankops.losses.kendall import kendall
from rankops.losses.l1 import l1
from rankops.losses.lsep import lsep
from rankops.losses.mean_average_precision import mean_average_precision
from rankops.losses.mse import mse
from rankops.losses.multilabel_soft_margin import multilabel_soft_margin
from rankops.losses.ndcg import ndcg
from rankops.losses.pairwise_logistic import pairwise_logistic
from rankops.losses.plackett_luce import plackett_luce
from rankops.losses.precision_at_k import precision_at_k
from rankops.losses.recall import recall
from rankops.losses.recall_at_k import recall_at_k
from rankops.losses.rlsep import rlsep
from rankops.losses.spearman import spearman
from rankops.losses.spearman_of_label_ranks import spearman_of_label_ranks
from rankops.metrics.kendall import kendall as kendall_metric
from rankops.metrics.ndcg import ndcg as ndcg_metric
from rankops.metrics.precision_at_k import precision_at_k as precision_at_k_metric
from rankops.ranks import ranks
from rankops.sorters.handcrafted import Handcrafted
from rankops.sorters.laplace import Laplace
from rankops.sorters.lstm import LSTM

ALL = lookup.names("losses")
OTHER = {
    "adjacent": 4.0,
    "gain": "linear",
    "hardest": False,
    "k": 2,
    "margin": 2.5,
    "pairs": 2,
    "sigmoid": True,
    "temperature": 0.3,
    "top_heavy": True,
    "weight_by": "positives",
}
OWN = torch.eye(4, dtype=torch.bool)
PICKED_BY_SORTER = ("recall", "recall_at_k")  # of retrieval: ranks in both directions
PAIRED = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]).bool()
# Wanted outputs of each kind, one group each.
WANTED = {
    "label_ranks": torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 2], [0, 0, 0, 4, 0]]),
    "target": torch.tensor([0.3, 0.9, 0.1, 0.4, 0.4, 0.7]),
    "labels": torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1]]),
    "positives": PAIRED,
}
# Without anything to compare.
DEGENERATE = {
    "label_ranks": {"no label": [[0, 0, 0]], "all tied": [[2, 2, 2]], "one label": [[0, 3, 0]]},
    "target": {"constant": [[0.5, 0.5, 0.5]], "zero": [[0.0, 0.0, 0.0]]},
    "labels": {"no positive": [[0, 0], [0, 0], [0, 0]], "no negative": [[1, 1], [1, 1], [1, 1]]},
    "positives": {"no negative": [[True, True], [True, True]]},
}
UNDEFINED = {  # the value and the gradient are 0 there
    "label_ranks": ["no label"],
    "spearman": ["constant", "zero"],
    "kendall": ["constant", "zero"],
    "ndcg": ["zero"],
    "precision_at_k": ["no positive", "no negative"],
    "mean_average_precision": ["no positive", "no negative"],
    "average_precision": ["no positive", "no negative"],
    "hinge_ap": ["no positive", "no negative"],
    "recall": ["no negative"],
    "hard_negative_triplet": ["no negative"],
}


def kind(name: str) -> str:
    return list(inspect.signature(lookup.find("losses", name)).parameters)[1]


def of_kind(*kinds: str) -> list[str]:
    return [name for name in ALL if kind(name) in kinds]


# Their sorter must be of any length, because it is asked for the ranks of a part too.
ANY_LENGTH = ("average_precision",)


def takes_sorter(name: str) -> bool:
    return "sorter" in inspect.signature(lookup.find("losses", name)).parameters


def call(name: str, scores, wanted, **options):
    if options.get("pairs"):
        options["generator"] = torch.Generator().manual_seed(0)
    if takes_sorter(name):
        options.setdefault("sorter", Handcrafted(steepness=3.0))
    return lookup.find("losses", name)(scores, wanted, **options)


def example(name: str, generator, *, dtype=torch.float64):
    """Random scores, and what they should be."""
    wanted = WANTED[kind(name)]
    scores = torch.randn(wanted.shape, generator=generator, dtype=dtype)
    return scores, wanted.to(dtype) if wanted.is_floating_point() else wanted


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_rounded_once_as_the_scores_are(name, generator):
    scores, wanted = example(name, generator, dtype=torch.float32)
    scores = (10 * scores).bfloat16()
    whole = scores.float().requires_grad_()
    half = scores.clone().requires_grad_()
    values = [call(name, one, wanted) for one in (half, whole)]
    assert values[0].item() == values[1].item()
    gradients = [torch.autograd.grad(value, one)[0] for value, one in zip(values, (half, whole), strict=True)]
    assert torch.allclose(gradients[0].float(), gradients[1], rtol=1e-2, atol=1e-6)


def test_every_loss_is_of_a_kind_that_is_tested():
    assert {kind(name) for name in ALL} == set(WANTED)


@pytest.mark.parametrize("name", ALL)
def test_has_the_gradient_of_its_value_and_changes_nothing_else(name, generator):
    scores, wanted = example(name, generator)
    scores.requires_grad_()
    before = scores.detach().clone(), wanted.clone(), torch.get_rng_state()
    assert torch.autograd.gradcheck(lambda scores: call(name, scores, wanted), scores)
    after = scores.detach(), wanted, torch.get_rng_state()
    assert all(old.equal(new) for old, new in zip(before, after, strict=True))
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert not call(name, scores, wanted).requires_grad
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_a_scalar_of_the_scores_type(name, dtype, generator):
    value = call(name, *example(name, generator, dtype=dtype))
    assert value.shape == ()
    assert value.dtype == dtype


@pytest.mark.parametrize("name", ALL)
def test_takes_leading_dimensions_and_does_not_grow_with_them(name, generator):
    scores, wanted = example(name, generator)
    value = call(name, scores, wanted)
    copies = scores.expand(2, 3, *scores.shape), wanted.expand(2, 3, *wanted.shape)
    assert call(name, *copies).item() == pytest.approx(value.item())


@pytest.mark.parametrize("name", ALL)
def test_is_the_mean_over_groups(name, generator):
    pairs = [example(name, generator) for _ in range(4)]
    together = call(name, *(torch.stack(parts) for parts in zip(*pairs, strict=True)))
    assert together.item() == pytest.approx(np.mean([call(name, *pair).item() for pair in pairs]))


@pytest.mark.parametrize(("name", "case"), [(name, case) for name in ALL for case in DEGENERATE[kind(name)]])
def test_is_finite_and_has_a_finite_gradient_without_anything_to_compare(name, case):
    wanted = torch.tensor(DEGENERATE[kind(name)][case])
    scores = torch.tensor([[1.0, -2.0, 0.5], [0.5, 1.0, 3.0], [-1.0, 2.0, 2.0]])[: wanted.shape[0], : wanted.shape[1]]
    scores.requires_grad_()
    value = call(name, scores, wanted)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()
    if case in UNDEFINED.get(name, []) + UNDEFINED.get(kind(name), []):
        assert value.item() == 0
        assert not scores.grad.any()


@pytest.mark.parametrize("name", [name for name in of_kind("label_ranks") if not takes_sorter(name)])
def test_does_not_overflow(name):
    scores = torch.tensor([[-1e4, 1e4, 0.0]], requires_grad=True)
    value = call(name, scores, torch.tensor([[2, 0, 1]]))
    value.backward()
    assert value.item() == pytest.approx(2e4, rel=0.5)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("name", ALL)
def test_is_finite_for_large_scores(name, generator):
    scores, wanted = example(name, generator, dtype=torch.float32)
    scores = (scores * 1e4).requires_grad_()
    value = call(name, scores, wanted)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("name", ALL)
def test_falls_when_the_order_is_right(name):
    if kind(name) == "label_ranks":
        wanted = torch.tensor([[0, 1, 2, 0]])
        right, wrong = torch.tensor([[-3.0, 1.0, 1.5, -3.0]]), torch.tensor([[3.0, 1.0, 0.5, 3.0]])
    else:
        wanted = WANTED[kind(name)]
        right = 2 * wanted.float() - 1
        wrong = -right
    assert call(name, right, wanted) < call(name, wrong, wanted)


@pytest.mark.parametrize("name", ALL)
def test_falls_when_its_gradient_is_followed(name, generator):
    scores, wanted = example(name, generator)
    scores.requires_grad_()
    value = call(name, scores, wanted)
    (slope,) = torch.autograd.grad(value, scores)
    assert slope.any()
    assert call(name, scores - 0.01 * slope / slope.norm(), wanted) < value


@pytest.mark.parametrize("name", ALL)
def test_names_shapes_that_differ(name):
    wanted = torch.zeros(2, 4, dtype=WANTED[kind(name)].dtype)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        call(name, torch.zeros(2, 3), wanted)


@pytest.mark.parametrize("name", ALL)
def test_refuses_what_is_empty(name):
    shape = (0, 3, 3)
    with pytest.raises(ValueError, match=r"\(0, 3, 3\).*not empty"):
        call(name, torch.zeros(shape), torch.zeros(shape, dtype=WANTED[kind(name)].dtype))


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in ALL for option in lookup.options(lookup.find("losses", name))]
)
def test_every_option_changes_something(name, option, generator):
    scores, wanted = example(name, generator)
    if option not in OTHER:
        pytest.fail(f"give {option} of {name} another value in OTHER, at the top of this file")
    # A step can only be seen where there is one.
    base = {"k": 3} if name == "ndcg" and option == "temperature" else {}
    found = call(name, scores, wanted, **base, **{option: OTHER[option]})
    assert not call(name, scores, wanted, **base).allclose(found)


@pytest.mark.parametrize("name", [name for name in ALL if takes_sorter(name)])
class TestWithSorter:
    def test_refuses_groups_of_another_length(self, name, generator):
        if name in ANY_LENGTH:
            with pytest.raises(ValueError, match="fixed length 5: choose one of any length"):
                call(name, *example(name, generator, dtype=torch.float32), sorter=LSTM(length=5, hidden=2, layers=1))
            return
        scores, wanted = example(name, generator, dtype=torch.float32)
        length = scores.shape[-2 if kind(name) == "labels" else -1]
        with pytest.raises(ValueError, match=rf"length {length} .*expected 8"):
            call(name, scores, wanted, sorter=LSTM(length=8, hidden=2, layers=1))

    def test_trains_through_a_frozen_sorter(self, name, generator):
        if name in ANY_LENGTH:
            pytest.skip("takes no sorter with weights of a fixed length")
        scores, wanted = example(name, generator, dtype=torch.float32)
        length = scores.shape[-2 if kind(name) == "labels" else -1]
        torch.manual_seed(0)
        sorter = LSTM(length=length, hidden=4, layers=1).requires_grad_(False).eval()
        scores.requires_grad_()
        call(name, scores, wanted, sorter=sorter).backward()
        assert scores.grad.any()
        assert all(weight.grad is None for weight in sorter.parameters())

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_refuses_scores_that_are_not_finite(self, name, bad, generator):
        scores, wanted = example(name, generator)
        scores.view(-1)[0] = bad
        with pytest.raises(ValueError, match="scores hold"):
            call(name, scores, wanted)

    @settings(deadline=None, max_examples=30)
    @given(seed=st.integers(0, 1000), shift=st.integers(-100, 100))
    def test_depends_on_the_order_of_the_scores_alone_if_the_sorter_does(self, name, seed, shift):
        scores, wanted = example(name, torch.Generator().manual_seed(seed))
        scores = (scores * 3).round()  # exact under the shift, and with ties
        value = call(name, scores, wanted, sorter=ranks)
        for same in (scores + shift, scores * 8, scores.exp()):
            assert call(name, same, wanted, sorter=ranks).equal(value)


@pytest.mark.parametrize("name", of_kind("target"))
def test_refuses_a_target_that_wants_a_gradient(name, generator):
    scores, wanted = example(name, generator)
    with pytest.raises(ValueError, match="target requires a gradient, and gets none: pass target.detach"):
        call(name, scores, wanted.clone().requires_grad_())


MASKED = [name for name in ALL if "mask" in inspect.signature(lookup.find("losses", name)).parameters]


def three_groups(name: str, generator) -> tuple:
    """Three groups of one kind, as (scores, wanted)."""
    pairs = [example(name, generator) for _ in range(3)]
    return tuple(torch.stack(parts) for parts in zip(*pairs, strict=True))


def test_every_loss_with_a_sorter_takes_a_mask_and_weights():
    with_sorter = [name for name in ALL if takes_sorter(name)]
    assert with_sorter == MASKED
    assert all("weights" in inspect.signature(lookup.find("losses", name)).parameters for name in MASKED)


@pytest.mark.parametrize("name", MASKED)
def test_what_is_masked_might_as_well_not_be_there(name, generator):
    scores, wanted = three_groups(name, generator)
    axes = {"label_ranks": (-1,), "target": (-1,), "labels": (-2,), "positives": (-2, -1)}[kind(name)]
    kept = torch.tensor([0, 2, 3])
    mask = torch.ones_like(scores, dtype=torch.bool)
    shorter_scores, shorter_wanted = scores, wanted
    for axis in axes:
        gone = torch.ones(scores.shape[axis], dtype=torch.bool)
        gone[kept] = False
        mask = mask & ~gone.view([-1 if axis == other else 1 for other in range(-scores.dim(), 0)])
        shorter_scores, shorter_wanted = (part.index_select(axis, kept) for part in (shorter_scores, shorter_wanted))
    spoilt = scores.masked_fill(~mask, torch.nan).requires_grad_()
    found = call(name, spoilt, wanted, mask=mask)
    assert found.item() == pytest.approx(call(name, shorter_scores, shorter_wanted).item())
    found.backward()
    assert (spoilt.grad[~mask] == 0).all()
    assert torch.isfinite(spoilt.grad).all()


@pytest.mark.parametrize("name", MASKED)
def test_where_all_is_masked_the_loss_is_zero(name, generator):
    scores, wanted = three_groups(name, generator)
    scores.requires_grad_()
    value = call(name, scores, wanted, mask=torch.zeros_like(scores, dtype=torch.bool))
    value.backward()
    assert value.item() == 0
    assert not scores.grad.any()


@pytest.mark.parametrize("name", MASKED)
def test_weights_count_in_proportion(name, generator):
    scores, wanted = three_groups(name, generator)
    weights = torch.rand(scores.shape, generator=generator, dtype=scores.dtype) + 0.1
    value = call(name, scores, wanted, weights=weights)
    assert call(name, scores, wanted, weights=weights * 7).item() == pytest.approx(value.item())
    assert call(name, scores, wanted, weights=torch.ones_like(weights)).item() == pytest.approx(
        call(name, scores, wanted).item()
    )
    assert value.item() != pytest.approx(call(name, scores, wanted).item())


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("factor", [1e-37, 1e-15, 1e15, 1e38])
def test_weights_of_any_size_count_in_proportion(name, factor, generator):
    scores, wanted = three_groups(name, generator)
    scores.requires_grad_()
    weights = torch.rand(scores.shape, generator=generator, dtype=scores.dtype) + 0.1
    expected = torch.autograd.grad(call(name, scores, wanted, weights=weights), scores)[0]
    value = call(name, scores, wanted, weights=weights * factor)
    assert value.item() == pytest.approx(call(name, scores, wanted, weights=weights).item())
    assert torch.allclose(torch.autograd.grad(value, scores)[0], expected)
    small = scores.detach().float().requires_grad_()
    value = call(
        name, small, wanted.float() if wanted.is_floating_point() else wanted, weights=weights.float() * factor
    )
    assert torch.isfinite(torch.autograd.grad(value, small)[0]).all()


@pytest.mark.parametrize("name", [name for name in MASKED if name != "recall"])
def test_runs_compiled_whole_and_mapped_over(name, generator):
    scores, wanted = three_groups(name, generator)
    value = partial(call, name)
    assert torch.allclose(
        torch.func.vmap(value)(scores, wanted), torch.stack([value(*pair) for pair in zip(scores, wanted, strict=True)])
    )
    sorter = Handcrafted(steepness=3.0)
    loss = lookup.find("losses", name)
    compiled = torch.compile(
        lambda scores, wanted: loss(scores, wanted, sorter=sorter), fullgraph=True, backend="eager"
    )
    assert torch.allclose(compiled(scores, wanted), value(scores, wanted))


@pytest.mark.parametrize("name", MASKED)
def test_refuses_bad_masks_and_weights(name, generator):
    scores, wanted = example(name, generator)
    for options, error, said in (
        ({"mask": torch.ones(scores.shape)}, TypeError, "mask is torch.float32, expected a boolean"),
        ({"mask": torch.ones(2, dtype=torch.bool)}, ValueError, r"mask has shape \(2,\)"),
        ({"weights": -torch.ones(scores.shape)}, ValueError, r"weights hold -1.0 at \(0"),
        ({"weights": torch.full(scores.shape, math.nan)}, ValueError, "weights hold nan"),
        ({"weights": torch.ones(2)}, ValueError, r"weights \(2,\) and scores"),
        ({"weights": torch.ones(scores.shape).long()}, TypeError, "weights are torch.int64"),
    ):
        with pytest.raises(error, match=said):
            call(name, scores, wanted, **options)


@pytest.mark.parametrize("name", of_kind("target", "labels", "positives"))
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000))
def test_does_not_see_in_which_order_examples_come(name, seed):
    generator = torch.Generator().manual_seed(seed)
    scores, wanted = example(name, generator)
    axis = -1 if kind(name) == "target" else -2
    order = torch.randperm(scores.shape[axis], generator=generator)
    moved = [part.index_select(axis, order) for part in (scores, wanted)]
    if kind(name) == "positives":  # images and texts each in an order of their own
        order = torch.randperm(scores.shape[-1], generator=generator)
        moved = [part.index_select(-1, order) for part in moved]
    assert call(name, *moved).item() == pytest.approx(call(name, scores, wanted).item(), abs=1e-12)


# Multi-label ranking: `label_ranks`.


@st.composite
def batches(draw):
    rows, labels = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    values = draw(st.lists(st.floats(-5, 5), min_size=rows * labels, max_size=rows * labels))
    label_ranks = draw(st.lists(st.integers(0, 4), min_size=rows * labels, max_size=rows * labels))
    shape = rows, labels
    return torch.tensor(values, dtype=torch.float64).view(shape), torch.tensor(label_ranks).view(shape)


def slow_pairwise(scores, label_ranks, positive):
    total = 0.0
    for f, r in zip(scores.tolist(), label_ranks.tolist(), strict=True):
        pairs = [(u, v) for u in range(len(f)) for v in range(len(f)) if positive(r[u], r[v])]
        total += math.log(1 + sum(math.exp(f[v] - f[u]) for u, v in pairs))
    return total / len(scores)


@settings(deadline=None)
@given(batches())
def test_rlsep_is_equation_6(batch):
    assert rlsep(*batch).item() == pytest.approx(slow_pairwise(*batch, lambda u, v: u > v))


@pytest.mark.parametrize("name", [name for name in of_kind("label_ranks") if name not in MASKED])
def test_a_label_that_cannot_be_there_may_score_minus_infinity(name, generator):
    label_ranks = torch.tensor([[2, 1, 0, 0], [1, 0, 0, 0]])
    impossible = torch.tensor([[False, False, False, True], [False, True, False, False]])
    scores = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    # e^-1000 is 0 in double precision: so far down nothing is left of a label, but for the gradient to be a number.
    (found, pulled), (limit, wanted) = (
        (value, *torch.autograd.grad(value, given))
        for lowest in (-torch.inf, -1000.0)
        for given in [scores.masked_fill(impossible, lowest).requires_grad_()]
        for value in [call(name, given, label_ranks)]
    )
    torch.testing.assert_close(found, limit)
    torch.testing.assert_close(pulled, wanted)


@pytest.mark.parametrize("name", ["average_precision", "mean_average_precision", "precision_at_k", *PICKED_BY_SORTER])
def test_a_score_that_is_not_finite_is_named_by_its_place_in_what_was_given(name):
    scores = torch.zeros(4, 4)
    scores[3, 1] = torch.nan
    options = {"k": 1} if name.endswith("_k") else {}
    with pytest.raises(NotFiniteError, match=r"nan at \(3, 1\) and 1 non-finite"):
        lookup.find("losses", name)(scores, torch.eye(4, dtype=torch.bool), sorter=ranks, **options)


@pytest.mark.parametrize("name", of_kind("label_ranks"))
def test_refuses_what_are_no_label_ranks_and_no_scores(name):
    with pytest.raises(ValueError, match=r"label_ranks hold -1 at \(0, 2\), expected 0 \(absent\) or more"):
        call(name, torch.zeros(1, 3), torch.tensor([[1, 0, -1]]))
    with pytest.raises(ValueError, match=r"label_ranks hold nan at \(0, 0\)"):
        call(name, torch.zeros(1, 2), torch.tensor([[float("nan"), 0.0]]))
    with pytest.raises(TypeError, match="scores are torch.int64, expected a floating-point tensor"):
        call(name, torch.tensor([[3, 1]]), torch.tensor([[1, 0]]))
    with pytest.raises(TypeError, match=r"label_ranks are of type list, expected a tensor: torch.as_tensor"):
        call(name, torch.zeros(1, 2), [[1, 0]])


def test_pairwise_logistic_of_half_precision_counts_more_pairs_than_that_can():
    scores = torch.zeros(1, 400, dtype=torch.float16, requires_grad=True)
    value = pairwise_logistic(scores, torch.arange(400)[None])
    value.backward()
    assert value.item() == pytest.approx(math.log(2))
    assert scores.grad.abs().max() > 0


@settings(deadline=None)
@given(batches())
def test_lsep_is_equation_3_and_rlsep_of_zeros_and_ones(batch):
    scores, label_ranks = batch
    assert lsep(*batch).item() == pytest.approx(slow_pairwise(*batch, lambda u, v: u > 0 and v == 0))
    assert lsep(*batch).equal(rlsep(scores, (label_ranks > 0).long()))


@settings(deadline=None)
@given(batches())
def test_cross_entropy_is_equation_1(batch):
    scores, label_ranks = batch
    total = 0.0
    for f, r in zip(scores.tolist(), label_ranks.tolist(), strict=True):
        present = [j for j, rank in enumerate(r) if rank > 0]
        norm = sum(math.exp(value) for value in f)
        total -= sum(math.log(math.exp(f[j]) / norm) / len(present) for j in present)
    assert cross_entropy(*batch).item() == pytest.approx(total / len(scores), abs=1e-12)


@settings(deadline=None)
@given(batches(), st.sampled_from([0.25, 1.0, 3.0]))
def test_pairwise_logistic_is_the_weighted_mean_over_pairs(batch, adjacent):
    total = 0.0
    for f, r in zip(*(part.tolist() for part in batch), strict=True):
        pairs = [(u, v) for u in range(len(f)) for v in range(len(f)) if r[u] > r[v]]
        costs = [math.log(1 + math.exp(f[v] - f[u])) for u, v in pairs]
        weights = [adjacent if r[v] > 0 and r[u] - r[v] == 1 else 1.0 for u, v in pairs]
        total += np.average(costs, weights=weights) if pairs else 0.0
    found = pairwise_logistic(*batch, adjacent=adjacent)
    assert found.item() == pytest.approx(total / len(batch[0]), abs=1e-12)


def test_pairwise_logistic_holds_two_present_labels_alone_for_near_ties():
    scores = torch.tensor([[0.3, -1.0, 0.2, 2.0]])
    for label_ranks, near in (([[1, 0, 0, 0]], False), ([[2, 0, 0, 2]], False), ([[2, 1, 0, 0]], True)):
        found = [pairwise_logistic(scores, torch.tensor(label_ranks), adjacent=adjacent) for adjacent in (1.0, 9.0)]
        assert found[0].equal(found[1]) != near


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_pairwise_logistic_refuses_a_weight_that_is_not_positive(bad):
    with pytest.raises(ValueError, match=f"adjacent is {bad}, expected a positive number"):
        pairwise_logistic(torch.zeros(1, 2), torch.tensor([[1, 0]]), adjacent=bad)


@settings(deadline=None)
@given(batches())
def test_plackett_luce_draws_each_label_from_those_that_are_left(batch):
    total = 0.0
    for f, r in zip(*(part.tolist() for part in batch), strict=True):
        left = list(range(len(f)))
        for rank in sorted({rank for rank in r if rank > 0}, reverse=True):
            norm = sum(math.exp(f[v]) for v in left)
            for u in [u for u in left if r[u] == rank]:
                total -= math.log(math.exp(f[u]) / norm)
            left = [u for u in left if r[u] != rank]
    assert plackett_luce(*batch).item() == pytest.approx(total / len(batch[0]), abs=1e-12)


@pytest.mark.parametrize("present", [1, 2, 3, 4, 5])
def test_plackett_luce_is_a_likelihood(present, generator):
    # The probabilities of all orders of so many of five labels add up to 1.
    scores, total = torch.randn(5, generator=generator, dtype=torch.float64), 0.0
    for order in itertools.permutations(range(5), present):
        label_ranks = torch.zeros(5, dtype=torch.long)
        label_ranks[list(order)] = torch.arange(present, 0, -1)
        total += (-plackett_luce(scores, label_ranks)).exp().item()
    assert total == pytest.approx(1)


def test_plackett_luce_keeps_small_differences_of_large_scores():
    # Where the next float32 is 64 away, a logarithm of sums of the scores' own exponentials would be as coarse.
    scores = torch.full((1, 3), 1e9, requires_grad=True)
    value = plackett_luce(scores, torch.tensor([[2, 1, 0]]))
    assert value.item() == pytest.approx(math.log(6))


@settings(deadline=None)
@given(batches())
def test_spearman_of_label_ranks_shares_the_ranks_of_tied_labels(batch):
    scores, label_ranks = batch
    if scores.shape[-1] < 2:
        with pytest.raises(ValueError, match="groups of 1"):
            spearman_of_label_ranks(scores, label_ranks, sorter=ranks)
        return
    values, length = [], scores.shape[-1]
    for f, r in zip(scores.numpy(), label_ranks.numpy(), strict=True):
        if len(set(r)) > 1:
            errors = rankdata(-f) - rankdata(-r)
            values.append(6 * (errors**2).sum() / (length * (length**2 - 1)))
    found = spearman_of_label_ranks(scores, label_ranks, sorter=ranks)
    assert found.item() == pytest.approx(np.mean(values) if values else 0.0, abs=1e-12)


def test_label_ranks_that_a_mask_leaves_out_may_be_anything():
    scores, mask = torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[False, True, True]])
    wanted = spearman_of_label_ranks(scores[:, 1:], torch.tensor([[0, 2]]), sorter=ranks)
    for unknown in (-1.0, math.nan, 7.0):
        label_ranks = torch.tensor([[unknown, 0.0, 2.0]])
        assert spearman_of_label_ranks(scores, label_ranks, sorter=ranks, mask=mask) == wanted


@pytest.mark.parametrize("factor", [1e-50, 1e50])
def test_weights_in_double_precision_count_in_proportion_for_scores_in_single(factor):
    scores, target = torch.tensor([0.3, 0.1, 0.2]), torch.tensor([1.0, 2.0, 3.0])
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    found, wanted = (spearman(scores, target, sorter=ranks, weights=w) for w in (weights * factor, weights))
    assert found.item() == pytest.approx(wanted.item())
    assert wanted > 0


def test_spearman_of_label_ranks_by_hand():
    label_ranks = torch.tensor([[0, 2, 0, 1, 0]])  # wanted: 4, 1, 4, 2, 4
    level, distinct = tensor([[0.0, 3.0, 0.0, 2.0, 0.0]]), tensor([[-1.0, 3.0, 0.0, 2.0, 1.0]])
    assert spearman_of_label_ranks(level, label_ranks, sorter=ranks).item() == 0
    # Three tied labels at the places 5, 4, 3 cost 3 (9 - 1) / (2 * 5 * 24).
    assert spearman_of_label_ranks(distinct, label_ranks, sorter=ranks).item() == pytest.approx(0.1)


@pytest.mark.parametrize("loss", [rlsep, lsep])
class TestPairs:
    def test_are_as_many_as_asked_for_and_true_pairs(self, loss):
        # Equal scores: every pair adds exactly 1 inside the logarithm.
        label_ranks = torch.tensor([[0, 1, 1, 0, 0, 2]])
        for pairs, counted in ((1, 1), (4, 4), (9, 9)):
            value = loss(torch.zeros(1, 6), label_ranks, pairs=pairs, generator=torch.Generator().manual_seed(1))
            assert value.exp().item() == pytest.approx(1 + counted)

    def test_are_all_of_them_when_more_are_asked_for(self, loss, generator):
        scores, label_ranks = torch.randn(3, 4, generator=generator), torch.tensor([[0, 1, 2, 0]] * 3)
        assert loss(scores, label_ranks, pairs=12, generator=generator).allclose(loss(scores, label_ranks))

    def test_come_from_the_generator(self, loss, generator):
        scores, label_ranks = torch.randn(8, 6, generator=generator), torch.tensor([[0, 1, 2, 0, 0, 3]] * 8)
        first, again, other = (
            loss(scores, label_ranks, pairs=2, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
        )
        assert first.equal(again)
        assert not first.equal(other)

    def test_need_a_generator_and_a_positive_number(self, loss, generator):
        arguments = torch.zeros(1, 3), torch.tensor([[0, 1, 2]])
        with pytest.raises(ValueError, match="generator"):
            loss(*arguments, pairs=1)
        with pytest.raises(ValueError, match="pairs is 0"):
            loss(*arguments, pairs=0, generator=generator)


# Regression: `target`.


@st.composite
def groups(draw, *, distinct: bool = False):
    count, length = draw(st.integers(1, 4)), draw(st.integers(2, 7))
    values = st.integers(-20, 20)
    row = st.lists(values, min_size=length, max_size=length, unique=distinct)
    rows = st.lists(row, min_size=count, max_size=count)
    return np.array(draw(rows), dtype=np.float64) / 4, np.array(draw(rows), dtype=np.float64) / 4


@settings(deadline=None)
@given(groups())
def test_l1_and_mse_are_means_of_errors(batch):
    scores, target = batch
    errors = [abs(s - t) for s, t in zip(scores.ravel(), target.ravel(), strict=True)]
    assert l1(tensor(scores), tensor(target)).item() == pytest.approx(sum(errors) / len(errors))
    assert mse(tensor(scores), tensor(target)).item() == pytest.approx(sum(e * e for e in errors) / len(errors))


@pytest.mark.parametrize("loss", [l1, mse])
def test_regression_through_a_sigmoid(loss):
    scores, target = tensor([-2.0, 0.0, 5.0]), tensor([0.0, 0.5, 1.0])
    squashed = tensor([1 / (1 + math.exp(-value)) for value in scores.tolist()])
    assert loss(scores, target, sigmoid=True).item() == pytest.approx(loss(squashed, target).item())
    with pytest.raises(ValueError, match=r"target holds 1.5 at \(1,\), expected in \[0, 1\]"):
        loss(tensor([0.0, 0.0]), tensor([0.0, 1.5]), sigmoid=True)
    assert loss(torch.zeros(1), torch.ones(1)).item() == 1  # one score is enough


@settings(deadline=None)
@given(groups(distinct=True))
def test_spearman_of_an_exact_sorter_is_one_minus_the_metric(batch):
    scores, target = batch
    wanted = np.mean([1 - spearmanr(s, t).statistic for s, t in zip(scores, target, strict=True)])
    assert spearman(tensor(scores), tensor(target), sorter=ranks).item() == pytest.approx(wanted, abs=1e-12)
    soft = spearman(tensor(scores), tensor(target), sorter=Handcrafted(steepness=1000.0))
    assert soft.item() == pytest.approx(wanted, abs=1e-9)


@settings(deadline=None)
@given(groups())
def test_spearman_is_equation_4_over_its_largest_value(batch):
    scores, target = batch
    values = []
    for s, t in zip(scores, target, strict=True):
        if len(set(t)) == 1:
            continue  # no order
        length = len(s)
        soft = [1 + sum(1 / (1 + math.exp(s[i] - s[j])) for j in range(length) if j != i) for i in range(length)]
        total = sum((a - b) ** 2 for a, b in zip(soft, rankdata(-t), strict=True))
        values.append(6 * total / (length * (length**2 - 1)))
    found = spearman(tensor(scores), tensor(target), sorter=Handcrafted(steepness=1.0))
    assert found.item() == pytest.approx(np.mean(values) if values else 0.0)


def test_spearman_softens_to_the_metric_as_the_sorter_gets_steeper(generator):
    scores, target = (torch.randn(5, 20, generator=generator, dtype=torch.float64) for _ in range(2))
    wanted = np.mean([1 - spearmanr(s, t).statistic for s, t in zip(scores.numpy(), target.numpy(), strict=True)])
    away = [
        abs(spearman(scores, target, sorter=Handcrafted(steepness=steepness)).item() - wanted)
        for steepness in (1.0, 10.0, 100.0, 1e6)
    ]
    assert away == sorted(away, reverse=True)
    assert away[-1] < 1e-9


def test_spearman_by_hand():
    # Ranks 1, 2, 3 where 1, 3, 2 are wanted: 6 (0 + 1 + 1) / (3 * 8).
    assert spearman(tensor([3.0, 2.0, 1.0]), tensor([9.0, 1.0, 5.0]), sorter=ranks).item() == pytest.approx(0.5)
    # The reverse order is 2; a group without order does not count.
    pair = tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), tensor([[3.0, 2.0, 1.0], [7.0, 7.0, 7.0]])
    assert spearman(*pair, sorter=ranks).item() == pytest.approx(2.0)


def test_spearman_refuses_groups_of_one():
    with pytest.raises(ValueError, match=r"groups of 1 in shape \(5, 1\)"):
        spearman(torch.zeros(5, 1), torch.zeros(5, 1), sorter=ranks)


def test_spearman_holds_in_half_precision(generator):
    scores, target = torch.linspace(-1, 1, 500).half(), torch.linspace(1, -1, 500).half()
    assert spearman(scores, target, sorter=ranks).item() == pytest.approx(2.0, rel=1e-2)


@pytest.mark.parametrize("name", of_kind("target"))
class TestTarget:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_must_be_finite(self, name, bad):
        target = torch.zeros(2, 3)
        target[1, 2] = bad
        with pytest.raises(ValueError, match=rf"target holds {bad} at \(1, 2\)"):
            call(name, torch.zeros(2, 3), target)

    def test_must_be_floating_point(self, name):
        with pytest.raises(TypeError, match=r"target is torch.int64"):
            call(name, torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long))


# Multi-label classification: `labels`.


@st.composite
def labelled(draw):
    examples, classes = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    size = examples * classes
    scores = draw(st.lists(st.integers(-6, 6), min_size=size, max_size=size))
    labels = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    scale = draw(st.sampled_from([0.05, 0.25, 1.0]))
    return tensor(scores).view(examples, classes) * scale, torch.tensor(labels).view(examples, classes)


@settings(deadline=None)
@given(labelled())
def test_multilabel_soft_margin_is_binary_cross_entropy(batch):
    total = 0.0
    for score, label in zip(batch[0].flatten().tolist(), batch[1].flatten().tolist(), strict=True):
        probability = 1 / (1 + math.exp(-score))
        total -= math.log(probability if label else 1 - probability)
    assert multilabel_soft_margin(*batch).item() == pytest.approx(total / batch[0].numel())


@settings(deadline=None)
@given(labelled())
def test_mean_average_precision_is_the_positives_mean_rank(batch):
    scores, labels = batch
    of_classes, sizes = [], []
    for s, present in zip(scores.T.numpy(), labels.T.numpy(), strict=True):
        places, count = rankdata(-s)[present], present.sum()
        if 0 < count < len(s):
            of_classes.append((places.mean() - (count + 1) / 2) / len(s))
            sizes.append(count)
    for weight_by, weights in (("classes", np.ones(len(sizes))), ("positives", np.array(sizes))):
        wanted = np.average(of_classes, weights=weights) if sizes else 0.0
        found = mean_average_precision(scores, labels, sorter=ranks, weight_by=weight_by)
        assert found.item() == pytest.approx(wanted, abs=1e-12)
        assert found.item() >= -1e-12


@settings(deadline=None)
@given(labelled())
def test_mean_average_precision_by_positives_is_equation_7(batch):
    scores, labels = batch
    usable = [c for c in range(labels.shape[1]) if 0 < labels[:, c].sum() < len(labels)]

    def equation_7(scores):
        return sum(rankdata(-scores[:, c].numpy())[labels[:, c].numpy()].sum() for c in usable)

    # Up to a constant: so of two score matrices.
    other = scores.flip(0) * 2 + 1
    first, second = (
        mean_average_precision(values, labels, sorter=ranks, weight_by="positives").item() for values in (scores, other)
    )
    factor = labels[:, usable].sum().item() * len(labels)
    assert (first - second) * factor == pytest.approx(equation_7(scores) - equation_7(other), abs=1e-9)


@pytest.mark.parametrize("loss", ["mean_average_precision", "hinge_ap"])
def test_a_perfect_order_costs_nothing(loss):
    labels = torch.tensor([[1, 0], [0, 0], [1, 1]])
    scores = tensor([[80.0, -70.0], [10.0, -80.0], [90.0, 0.0]])
    found = call(loss, scores, labels, **({} if loss == "hinge_ap" else {"sorter": ranks}))
    assert found.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("loss", ["mean_average_precision", "hinge_ap"])
def test_classes_of_one_kind_are_left_out(loss, generator):
    scores = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    labels = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1], [1, 0, 1]])
    assert call(loss, scores, labels).item() == pytest.approx(call(loss, scores[:, :1], labels[:, :1]).item())


def test_weights_are_checked():
    with pytest.raises(ValueError, match="weight_by is 'class', expected 'classes' or 'positives'"):
        mean_average_precision(torch.zeros(2, 1), torch.tensor([[0], [1]]), sorter=ranks, weight_by="class")


def exhaustive_hinge_ap(scores, labels):
    """The maximum over all orders of the examples, of one class."""
    positives = [i for i, label in enumerate(labels) if label]
    negatives = [i for i, label in enumerate(labels) if not label]
    pairs = len(positives) * len(negatives)
    best = -math.inf
    truth = sum(scores[i] - scores[j] for i in positives for j in negatives) / pairs
    for order in itertools.permutations(range(len(scores))):
        place = {item: number for number, item in enumerate(order)}
        seen, precisions = 0, []
        for number, item in enumerate(order):
            if labels[item]:
                seen += 1
                precisions.append(seen / (number + 1))
        agreement = sum(
            (1 if place[i] < place[j] else -1) * (scores[i] - scores[j]) for i in positives for j in negatives
        )  # fmt: skip
        best = max(best, 1 - sum(precisions) / len(precisions) + agreement / pairs)
    return best - truth


@settings(deadline=None, max_examples=150)
@given(labelled())
def test_hinge_ap_is_the_maximum_over_all_rankings(batch):
    scores, labels = batch
    values = [
        exhaustive_hinge_ap(s, present)
        for s, present in zip(scores.T.tolist(), labels.T.tolist(), strict=True)
        if any(present) and not all(present)
    ]
    assert hinge_ap(scores, labels).item() == pytest.approx(np.mean(values) if values else 0.0, abs=1e-12)


@pytest.mark.parametrize("positives", [1, 2, 3, 4, 5])
def test_hinge_ap_is_the_maximum_for_six_examples(positives, generator):
    labels = [True] * positives + [False] * (6 - positives)
    for spread in (0.01, 0.1, 0.5, 2.0):
        scores = torch.randn(6, generator=generator, dtype=torch.float64) * spread
        found = hinge_ap(scores.unsqueeze(1), torch.tensor(labels).unsqueeze(1))
        assert found.item() == pytest.approx(exhaustive_hinge_ap(scores.tolist(), labels), abs=1e-12)


def test_hinge_ap_bounds_what_the_order_loses(generator):
    # Distinct scores, many of them: the loss is at least 1 - AP of their own order.
    scores = torch.randn(200, 4, generator=generator, dtype=torch.float64)
    labels = torch.rand(200, 4, generator=generator) < 0.3
    lost = []
    for s, present in zip(scores.T.tolist(), labels.T.tolist(), strict=True):
        ordered = [label for _, label in sorted(zip(s, present, strict=True), reverse=True)]
        precisions = [sum(ordered[: place + 1]) / (place + 1) for place, label in enumerate(ordered) if label]
        lost.append(1 - sum(precisions) / len(precisions))
    assert hinge_ap(scores, labels).item() >= np.mean(lost)


def test_hinge_ap_of_half_precision_is_computed_in_single(generator):
    scores, labels = torch.randn(50, 3, generator=generator).half(), torch.rand(50, 3, generator=generator) < 0.4
    assert hinge_ap(scores, labels).item() == pytest.approx(hinge_ap(scores.double(), labels).item(), rel=1e-5)


@pytest.mark.parametrize("name", of_kind("labels"))
class TestLabels:
    def test_may_be_boolean_or_integers(self, name, generator):
        scores, labels = example(name, generator)
        values = [call(name, scores, labels.to(dtype)) for dtype in (torch.bool, torch.uint8, torch.int64)]
        assert values[0].equal(values[1])
        assert values[0].equal(values[2])

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([[1, 0], [2, 0]], r"labels hold 2 at \(1, 0\), expected 0 or 1"),
            ([[1, 0], [0, -1]], r"labels hold -1 at \(1, 1\)"),
            ([[1.0, 0.0], [0.0, 1.0]], r"labels are torch.float32"),
        ],
    )
    def test_are_nothing_but_zero_and_one(self, name, labels, message):
        with pytest.raises(ValueError, match=message):
            call(name, torch.zeros(2, 2), torch.tensor(labels))

    def test_have_a_dimension_of_examples(self, name):
        with pytest.raises(ValueError, match=r"labels \(3,\): expected one shape \(..., n, C\)"):
            call(name, torch.zeros(3), torch.zeros(3, dtype=torch.bool))


@pytest.mark.parametrize("name", ["mean_average_precision", "hinge_ap"])
def test_ranking_examples_needs_more_than_one(name):
    with pytest.raises(ValueError, match=r"groups of 1 example in shape \(4, 1, 3\)"):
        call(name, torch.zeros(4, 1, 3), torch.zeros(4, 1, 3, dtype=torch.bool))


# Retrieval: `positives`.


def slow_triplets(directions, margin, *, hardest, better):
    """Mean over the positives of both directions; `better(n, p)` is by how much a negative is ahead of a positive."""
    values = []
    for rows, own in directions:
        for row, belongs in zip(rows.tolist(), own.tolist(), strict=True):
            rivals = [value for value, mine in zip(row, belongs, strict=True) if not mine]
            for value, mine in zip(row, belongs, strict=True):
                if mine and rivals:
                    found = [max(0.0, margin + better(rival, value)) for rival in rivals]
                    values.append(max(found) if hardest else sum(found) / len(found))
    return sum(values) / len(values) if values else 0.0


def both(scores, positives):
    return [(scores.numpy(), positives.numpy()), (scores.numpy().T, positives.numpy().T)]


def both_ranked(scores, positives):
    return [(rankdata(-rows, axis=1), own) for rows, own in both(scores, positives)]


@st.composite
def matrices(draw):
    size = draw(st.integers(2, 5))
    scores = draw(st.lists(st.integers(-8, 8), min_size=size * size, max_size=size * size))
    more = draw(st.lists(st.booleans(), min_size=size * size, max_size=size * size))
    order = draw(st.permutations(range(size)))
    positives = torch.tensor(more).view(size, size) & draw(st.booleans())
    positives[torch.arange(size), torch.tensor(order)] = True
    return tensor(scores).view(size, size) / 8, positives


@settings(deadline=None)
@given(matrices(), st.booleans(), st.sampled_from([0.0, 0.2, 1.5]))
def test_hard_negative_triplet_agrees_with_loops(batch, hardest, margin):
    wanted = slow_triplets(both(*batch), margin, hardest=hardest, better=lambda negative, positive: negative - positive)
    assert hard_negative_triplet(*batch, margin=margin, hardest=hardest).item() == pytest.approx(wanted)


@settings(deadline=None)
@given(matrices(), st.booleans(), st.sampled_from([0.0, 1.0, 2.5]))
def test_recall_agrees_with_loops(batch, hardest, margin):
    wanted = slow_triplets(
        both_ranked(*batch), margin, hardest=hardest, better=lambda negative, positive: positive - negative
    )  # fmt: skip
    assert recall(*batch, sorter=ranks, margin=margin, hardest=hardest).item() == pytest.approx(wanted)


@settings(deadline=None)
@given(matrices(), st.integers(1, 5), st.sampled_from([0.1, 1.0, 4.0]))
def test_recall_at_k_is_a_sigmoid_of_the_first_positive(batch, k, temperature):
    values = []
    for places, own in both_ranked(*batch):
        for row, belongs in zip(places.tolist(), own.tolist(), strict=True):
            first = min(place for place, mine in zip(row, belongs, strict=True) if mine)
            values.append(1 - 1 / (1 + math.exp(-(k + 0.5 - first) / temperature)))
    assert recall_at_k(*batch, sorter=ranks, k=k, temperature=temperature).item() == pytest.approx(np.mean(values))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_recall_at_k_hardens_to_the_metric(k, generator):
    scores = torch.randn(20, 20, generator=generator, dtype=torch.float64)
    places = both_ranked(scores, torch.eye(20, dtype=torch.bool))
    wanted = 1 - np.mean([(np.diag(rows) <= k).mean() for rows, _ in places])
    away = []
    for temperature, steepness in ((4.0, 10.0), (1.0, 100.0), (0.2, 1e4), (0.01, 1e6)):
        sorter = Handcrafted(steepness=steepness)
        value = recall_at_k(scores, torch.eye(20, dtype=torch.bool), sorter=sorter, k=k, temperature=temperature)
        away.append(abs(value.item() - wanted))
    assert away[-1] < 1e-9
    assert away[-2] < away[0]


def test_retrieval_by_hand():
    scores = tensor([[0.9, 0.5], [0.0, 0.6]])
    own = torch.eye(2, dtype=torch.bool)
    # 0.5 against 0.9 and 0.6 (its row and its column), 0.0 against both: 0.2 + 0.5 - 0.6 alone is above 0.
    assert hard_negative_triplet(scores, own).item() == pytest.approx(0.1 / 4)
    # All are ranked first; a margin of 1 is kept exactly, of 2 missed by 1.
    assert recall(scores, own, sorter=ranks).item() == 0
    assert recall(scores, own, sorter=ranks, margin=2.0).item() == 1
    # The other way round: everyone is ranked 2 where the rival is 1.
    assert recall(scores.flip(0), own, sorter=ranks).item() == 2


@settings(deadline=None)
@given(matrices())
def test_retrieval_sees_both_directions_alike(batch):
    scores, positives = batch
    for name in of_kind("positives"):
        value = call(name, scores, positives)
        assert call(name, scores.T, positives.T).item() == pytest.approx(value.item())


@pytest.mark.parametrize("name", of_kind("positives"))
class TestPositives:
    def test_must_be_in_every_row_and_column(self, name):
        own = OWN.clone()
        own[2, 2] = False
        own[2, 1] = True
        with pytest.raises(ValueError, match="no True in column 2: expected at least one"):
            call(name, torch.zeros(4, 4), own)
        with pytest.raises(ValueError, match="no True in row 2: expected at least one"):
            call(name, torch.zeros(4, 4), own.T)
        with pytest.raises(ValueError, match=r"no True in row 2 of matrix \(1,\)"):
            call(name, torch.zeros(2, 4, 4), torch.stack([OWN, own.T]))

    def test_must_be_boolean(self, name):
        with pytest.raises(ValueError, match=r"positives are torch.int64, expected booleans"):
            call(name, torch.zeros(4, 4), OWN.long())

    def test_must_be_square_and_larger_than_one(self, name):
        with pytest.raises(ValueError, match=r"scores \(3, 4\) and positives \(3, 4\): expected one shape"):
            call(name, torch.zeros(3, 4), OWN[:3])
        with pytest.raises(ValueError, match=r"\(5, 1, 1\), which leaves nothing to compare"):
            call(name, torch.zeros(5, 1, 1), torch.ones(5, 1, 1, dtype=torch.bool))


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("recall", "margin", -1.0, "margin is -1.0, expected at least 0"),
        ("recall", "margin", math.nan, "margin is nan"),
        ("hard_negative_triplet", "margin", -0.1, "margin is -0.1"),
        ("recall_at_k", "k", 0, "k is 0, expected at least 1"),
        ("recall_at_k", "temperature", 0.0, "temperature is 0.0, expected a positive number"),
    ],
)
def test_options_of_retrieval_are_checked(name, option, value, message):
    with pytest.raises(ValueError, match=message):
        call(name, torch.zeros(4, 4), OWN, **{option: value})


# Losses against the metrics that they stand for.


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), top_heavy=st.booleans())
def test_kendall_tends_to_one_minus_tau(seed, top_heavy):
    draws = torch.Generator().manual_seed(seed)
    # Coarse, so that some are tied; random weights.
    scores, target = ((torch.randn(2, 7, generator=draws, dtype=torch.float64) * 2).round() for _ in range(2))
    weights = torch.rand(2, 7, generator=draws, dtype=torch.float64)
    if any((part == part[:, :1]).all(1).any() for part in (scores, target)):
        return
    value = kendall(scores, target, sorter=ranks, temperature=1e-3, weights=weights, top_heavy=top_heavy)
    wanted = kendall_metric(scores, target, weights=weights, top_heavy=top_heavy)
    assert value.item() == pytest.approx(1 - wanted.mean().item())


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), k=st.sampled_from([None, 1, 3]), gain=st.sampled_from(["exponential", "linear"]))
def test_ndcg_tends_to_one_minus_the_metric(seed, k, gain):
    draws = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 6, generator=draws, dtype=torch.float64)
    target = torch.randint(0, 4, (3, 6), generator=draws).double()
    weights = torch.rand(3, 6, generator=draws, dtype=torch.float64)
    value = ndcg(scores, target, sorter=ranks, temperature=1e-3, weights=weights, k=k, gain=gain)
    wanted = ndcg_metric(scores, target, weights=weights, k=k, gain=gain)
    assert value.item() == pytest.approx(1 - wanted.nanmean().item())


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 4))
def test_precision_at_k_tends_to_one_minus_the_metric(seed, k):
    draws = torch.Generator().manual_seed(seed)
    scores = torch.randn(9, 2, generator=draws, dtype=torch.float64)
    labels = torch.zeros(9, 2, dtype=torch.bool)
    labels[:5] = True  # at least K
    value = precision_at_k(scores, labels, sorter=ranks, temperature=1e-3, k=k)
    assert value.item() == pytest.approx(1 - precision_at_k_metric(scores, labels, k=k).mean().item())


def test_precision_at_k_of_fewer_positives_than_places_can_be_perfect():
    labels = torch.tensor([[1], [0], [0], [0]])
    value = precision_at_k(torch.tensor([[4.0], [3.0], [2.0], [1.0]]), labels, sorter=ranks, temperature=1e-3, k=3)
    assert value.item() == pytest.approx(0)


def test_weighted_spearman_by_hand():
    # Ranks 1, 3, 2 against 1, 2, 3: errors 0, 1, 1, of which the last counts three times as much.
    scores, target, weights = (
        torch.tensor([3.0, 1.0, 2.0]),
        torch.tensor([3.0, 2.0, 1.0]),
        torch.tensor([1.0, 1.0, 2.0]),
    )
    assert spearman(scores, target, sorter=ranks, weights=weights).item() == pytest.approx(6 / 8 * 3 / 4)


def test_weighted_mean_average_precision_by_hand():
    # Positives at places 2 and 3 of 4, weights 1 and 3: (2 + 9) / 4 places; the best is 3 at 1 and 1 at 2, 5 / 4.
    scores, labels = torch.tensor([[4.0], [3.0], [2.0], [1.0]]), torch.tensor([[0], [1], [1], [0]])
    weights = torch.tensor([[9.0], [1.0], [3.0], [9.0]])
    assert mean_average_precision(scores, labels, sorter=ranks, weights=weights).item() == pytest.approx(6 / 4 / 4)


def test_ndcg_sees_the_smallest_relevance():
    scores, target = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1e-7, 3e-7, 0.0])
    assert ndcg(scores, target, sorter=ranks).item() == pytest.approx(1 - ndcg_metric(scores, target).item())


def test_ndcg_refuses_what_is_no_relevance():
    scores = torch.zeros(2)
    for target, options, said in (
        (torch.tensor([1.0, -2.0]), {}, r"holds -2.0 at \(1,\), expected a relevance of at least 0"),
        (torch.tensor([1.0, 61.0]), {}, r"holds 61.0 at \(1,\), expected at most 60, or gain='linear'"),
        (torch.ones(2), {"gain": "cubic"}, "gain is 'cubic'"),
        (torch.ones(2), {"k": 0}, "k is 0"),
    ):
        with pytest.raises(ValueError, match=said):
            ndcg(scores, target, sorter=ranks, **options)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000))
def test_average_precision_of_exact_ranks_is_one_minus_the_metric(seed):
    draws = torch.Generator().manual_seed(seed)
    scores = torch.randn(9, 3, generator=draws, dtype=torch.float64)
    labels = torch.rand(9, 3, generator=draws) < 0.4
    defined = labels.any(0) & ~labels.all(0)
    if not defined.any():
        return
    value = average_precision(scores, labels, sorter=ranks)
    wanted = average_precision_score(labels.numpy()[:, defined], scores.numpy()[:, defined], average="macro")
    assert value.item() == pytest.approx(1 - wanted)


def test_average_precision_of_soft_ranks_does_not_reward_positives_that_lie_close_together():
    labels = (torch.arange(16) < 8).long().unsqueeze(1)
    weights = torch.full((16, 1), 0.01)
    weights[7] = 1.0
    inside = torch.cat([torch.linspace(8, 4, 8), torch.linspace(-4, -8, 8)]).unsqueeze(1)
    below_a_negative = torch.cat([1 - 0.01 * torch.arange(8), torch.tensor([3.0]), -1 - 0.1 * torch.arange(7)])
    right, wrong = (
        average_precision(scores, labels, sorter=Laplace(softness=0.2), weights=weights).item()
        for scores in (inside, below_a_negative.unsqueeze(1))
    )
    assert 0 <= right < wrong


# What losses look up by nonzero has a shape that depends on the values, which fake tensors do not have.
PICKS = ("hinge_ap", "recall", "recall_at_k", "hard_negative_triplet")


class TestGpu:
    @pytest.mark.parametrize("name", [name for name in ALL if name not in PICKS])
    def test_no_loss_makes_a_tensor_on_another_device_than_the_scores(self, name, generator, monkeypatch):
        monkeypatch.setattr("rankops.losses.inputs.any_of", lambda flags: False)  # values are not there to be looked at
        scores, wanted = example(name, generator, dtype=torch.float32)
        options = {"sorter": partial(Handcrafted(), check_finite=False)} if takes_sorter(name) else {}
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            there = [torch.empty(one.shape, dtype=one.dtype, device="cuda") for one in (scores, wanted)]
            assert call(name, *there, **options).device.type == "cuda"

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    @pytest.mark.parametrize("name", ALL)
    def test_values_and_gradients_are_the_cpus(self, name, generator):
        scores, wanted = example(name, generator)
        found = []
        for device in ("cpu", "cuda"):
            there = scores.to(device).requires_grad_()
            value = call(name, there, wanted.to(device))
            found.append((value.item(), torch.autograd.grad(value, there)[0].cpu()))
        assert found[0][0] == pytest.approx(found[1][0])
        assert torch.allclose(found[0][1], found[1][1], atol=1e-8)


def test_an_example_of_which_no_label_can_be_there_gets_no_gradient_from_cross_entropy():
    logits = torch.zeros(2, 3, requires_grad=True)
    scores = logits + torch.tensor([[0.0, 0, 0], [-torch.inf] * 3])
    cross_entropy(scores, torch.tensor([[1, 0, 0], [0, 0, 0]])).backward()
    assert logits.grad[1].tolist() == [0.0, 0.0, 0.0]
    assert logits.grad[0].abs().sum() > 0


@pytest.mark.parametrize("small", [1.0, 1e-20, 1e-36])
def test_a_group_counts_like_others_however_small_its_weights_are(small):
    scores, target = torch.tensor([[1.0, 2, 3], [1.0, 2, 3]]), torch.tensor([[1.0, 2, 3], [3.0, 2, 1]])
    weights = torch.tensor([[1.0] * 3, [small] * 3])
    assert spearman(scores, target, sorter=ranks, weights=weights).item() == pytest.approx(1.0)
    labels = torch.tensor([[[0], [0], [1]], [[1], [0], [0]]])
    value = mean_average_precision(scores.unsqueeze(-1), labels, sorter=ranks, weights=weights.unsqueeze(-1))
    assert value.item() == pytest.approx(1 / 3)
    right, wrong = torch.eye(3, dtype=torch.bool), torch.eye(3, dtype=torch.bool).flip(0)
    for loss in (recall, recall_at_k):
        values = [
            loss(torch.eye(3), positives, sorter=ranks, weights=torch.full((3, 3), small)).item()
            for positives in (right, wrong)
        ]
        wanted = [loss(torch.eye(3), positives, sorter=ranks).item() for positives in (right, wrong)]
        assert values == pytest.approx(wanted)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int64])
def test_the_largest_label_rank_of_a_type_is_no_near_tie_of_an_absent_one(kind):
    label_ranks = torch.tensor([[0, torch.iinfo(kind).max]], dtype=kind)
    scores = torch.tensor([[0.0, 5.0]])
    assert pairwise_logistic(scores, label_ranks, adjacent=4.0) == pairwise_logistic(scores, label_ranks)


def test_hinge_ap_does_not_feel_an_offset(generator):
    scores, labels = torch.randn(400, 1, generator=generator), torch.rand(400, 1, generator=generator) < 0.3
    wanted = hinge_ap(scores.double(), labels).item()
    assert hinge_ap(scores + 2.0**17, labels).item() == pytest.approx(
        hinge_ap((scores + 2.0**17).double(), labels).item(), rel=1e-6
    )
    assert hinge_ap(scores, labels).item() == pytest.approx(wanted, rel=1e-6)


class TestMasksAndWeightsInValue:
    """Worked out by hand: losses with the exact ranks of `ranks` as their sorter are metrics."""

    LABELS = torch.tensor([[1, 1], [1, 0], [0, 1], [0, 0]])
    SCORES = torch.tensor([[0.2, 0.9], [0.4, 0.5], [0.9, 0.1], [0.7, 0.3]])
    # The first class has only positives that count.
    MASK = torch.tensor([[True, True], [True, True], [False, True], [False, True]])

    def test_what_the_mask_leaves_out_has_no_top_heavy_place(self):
        scores, target = torch.tensor([3.0, 1.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0, 99.0])
        options = {"sorter": ranks, "temperature": 0.01, "top_heavy": True}
        found = kendall(scores, target, mask=torch.tensor([True, True, True, False]), **options)
        assert found.item() == pytest.approx(kendall(scores[:3], target[:3], **options).item())

    def test_kendall_of_nearly_tied_scores_is_neither_good_nor_steep(self):
        target = torch.arange(5.0, dtype=torch.float64)
        scores = (target * 1e-9).requires_grad_()
        value = kendall(scores, target, sorter=Handcrafted(steepness=1.0))
        value.backward()
        assert value.item() > 0.99
        assert scores.grad.abs().max() < 1e3

    @pytest.mark.parametrize("loss", [kendall, spearman])
    def test_targets_that_are_tied_but_for_one_without_weight_say_nothing(self, loss):
        scores, target = torch.tensor([3.0, 1.0, 2.0]).requires_grad_(), torch.tensor([1.0, 1.0, 5.0])
        value = loss(scores, target, sorter=Handcrafted(), weights=torch.tensor([1.0, 1.0, 0.0]))
        value.backward()
        assert value.item() == 0
        assert not scores.grad.any()

    def test_precision_at_k_could_have_had_the_heaviest_positives(self):
        weights = torch.tensor([[1.0], [3.0], [1.0]])
        scores, labels = torch.tensor([[0.9], [0.5], [0.1]]), torch.tensor([[1], [1], [0]])
        found = precision_at_k(scores, labels, sorter=ranks, weights=weights, k=1, temperature=0.01)
        assert found.item() == pytest.approx(1 - 1 / 3)

    def test_average_precision_weighs_positives_and_what_stands_before_them(self):
        weights = torch.tensor([[1.0], [3.0], [1.0]])
        scores, labels = torch.tensor([[0.9], [0.5], [0.7]]), torch.tensor([[1], [1], [0]])
        found = average_precision(scores, labels, sorter=ranks, weights=weights)
        assert found.item() == pytest.approx(1 - (1 * 1 + 3 * 2 / 3) / 4)

    def test_each_search_weighs_as_the_heaviest_of_its_own(self):
        scores, own = torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.eye(2, dtype=torch.bool)
        # Of both rows and both columns the second row alone, of weight 3, does not find its own first.
        weights = torch.tensor([[1.0, 9.0], [9.0, 3.0]])
        found = recall_at_k(scores, own, sorter=ranks, weights=weights, temperature=0.01)
        assert found.item() == pytest.approx(3 / (1 + 3 + 1 + 3))

    def test_classes_weigh_as_their_positives(self):
        scores, labels = torch.tensor([[0.9, 0.1], [0.5, 0.9], [0.1, 0.5]]), torch.tensor([[1, 1], [0, 0], [0, 0]])
        weights = torch.tensor([[1.0, 3.0], [1.0, 1.0], [1.0, 1.0]])
        # The positive is too low by 0 of 3 places in the first class and by 2 in the second.
        found = mean_average_precision(scores, labels, sorter=ranks, weights=weights, weight_by="positives")
        assert found.item() == pytest.approx((0 + 3 * 2 / 3) / 4)

    def test_a_class_whose_positives_have_no_weight_does_not_count(self):
        scores, labels = torch.tensor([[0.9, 0.1], [0.5, 0.9], [0.1, 0.5]]), torch.tensor([[0, 1], [1, 0], [0, 0]])
        weights = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        found = mean_average_precision(scores, labels, sorter=ranks, weights=weights)
        assert found.item() == pytest.approx(mean_average_precision(scores[:, 1:], labels[:, 1:], sorter=ranks).item())

    @pytest.mark.parametrize("loss", [average_precision, partial(precision_at_k, k=1, temperature=0.1)])
    def test_a_class_whose_negatives_are_all_masked_does_not_count(self, loss):
        found = loss(self.SCORES, self.LABELS, sorter=ranks, mask=self.MASK)
        assert found.item() == pytest.approx(loss(self.SCORES[:, 1:], self.LABELS[:, 1:], sorter=ranks).item())

    def test_an_example_without_labels_adds_nothing_to_the_mean_cross_entropy(self):
        found = cross_entropy(torch.zeros(2, 4), torch.tensor([[2, 1, 0, 0], [0, 0, 0, 0]]))
        assert found.item() == pytest.approx(math.log(4) / 2)
