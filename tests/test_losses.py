"""What every loss in the folder must do, and each against slow loops that share no code with it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankops import by_name
from rankops.losses.cross_entropy import cross_entropy
from rankops.losses.lsep import lsep
from rankops.losses.rlsep import rlsep

ALL = by_name.names("losses")
OTHER = {"pairs": 2}


def call(name: str, scores, label_ranks, **options):
    if options.get("pairs"):
        options["generator"] = torch.Generator().manual_seed(0)
    return by_name.find("losses", name)(scores, label_ranks, **options)


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


@pytest.mark.parametrize("name", ALL)
def test_has_the_gradient_of_its_value_and_changes_nothing_else(name, generator):
    scores = torch.randn(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    label_ranks = torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 2], [0, 0, 0, 4, 0]])
    before = scores.detach().clone(), label_ranks.clone(), torch.get_rng_state()
    assert torch.autograd.gradcheck(lambda scores: call(name, scores, label_ranks), scores)
    after = scores.detach(), label_ranks, torch.get_rng_state()
    assert all(old.equal(new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "label_ranks", [[[0, 0, 0]], [[2, 2, 2]], [[0, 3, 0]]], ids=["no label", "all tied", "one label"]
)
def test_is_finite_and_has_a_finite_gradient_without_anything_to_compare(name, label_ranks):
    scores = torch.tensor([[1.0, -2.0, 0.5]], requires_grad=True)
    value = call(name, scores, torch.tensor(label_ranks))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()
    if not any(label_ranks[0]):
        assert value.item() == 0
        assert not scores.grad.any()


@pytest.mark.parametrize("name", ALL)
def test_does_not_overflow(name):
    scores = torch.tensor([[-1e4, 1e4, 0.0]], requires_grad=True)
    value = call(name, scores, torch.tensor([[2, 0, 1]]))
    value.backward()
    assert value.item() == pytest.approx(2e4, rel=0.5)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("name", ALL)
def test_falls_when_the_order_is_right(name):
    label_ranks = torch.tensor([[0, 1, 2, 0]])
    right, wrong = torch.tensor([[-3.0, 1.0, 1.5, -3.0]]), torch.tensor([[3.0, 1.0, 0.5, 3.0]])
    assert call(name, right, label_ranks) < call(name, wrong, label_ranks)


@pytest.mark.parametrize("name", ALL)
def test_names_shapes_that_differ(name):
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        call(name, torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.long))


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in ALL for option in by_name.options(by_name.find("losses", name))]
)
def test_every_option_changes_something(name, option, generator):
    scores, label_ranks = torch.randn(4, 6, generator=generator), torch.tensor([[0, 1, 2, 3, 0, 0]] * 4)
    assert not call(name, scores, label_ranks).allclose(call(name, scores, label_ranks, **{option: OTHER[option]}))


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
