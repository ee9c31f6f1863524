"""Soft sorting: tends to sorting, and is the same whatever the order of what is sorted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankops.ranks import ranks
from rankops.sorters.laplace import Laplace
from rankops.sorters.soft_sort import soft_permutation, soft_sort
from rankops.sorters.straight_through import StraightThrough

VALUES = hnp.arrays("float64", st.integers(1, 10), elements=st.integers(-4, 4))


@settings(deadline=None, max_examples=40)
@given(VALUES)
def test_tends_to_sorting_ties_included(values):
    values = torch.from_numpy(values)
    assert torch.allclose(soft_sort(values, sorter=ranks, temperature=0.01), values.sort(descending=True).values)


@settings(deadline=None, max_examples=40)
@given(VALUES, st.floats(0.05, 3.0))
def test_rows_are_shares_and_the_order_of_what_comes_in_does_not_matter(values, temperature):
    values = torch.from_numpy(values)
    sorter = Laplace(softness=0.2)
    shares = soft_permutation(sorter(values), temperature=temperature)
    assert (shares >= 0).all()
    assert torch.allclose(shares.sum(-1), torch.ones(len(values), dtype=torch.float64))
    found = soft_sort(values, sorter=sorter, temperature=temperature)
    assert torch.allclose(soft_sort(values.flip(0), sorter=sorter, temperature=temperature), found, atol=1e-6)


def test_sorts_by_other_scores_and_has_the_gradient_of_both(generator):
    values, scores = (torch.randn(2, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    sorter = Laplace(softness=0.3, standardize=False)
    assert torch.autograd.gradcheck(
        lambda values, scores: soft_sort(values, scores=scores, sorter=sorter, temperature=0.5), (values, scores)
    )
    hard = soft_sort(values, scores=scores, sorter=ranks, temperature=1e-3)
    assert torch.allclose(hard, values.gather(-1, scores.argsort(-1, descending=True)))


def test_what_is_masked_takes_no_place(generator):
    values = torch.randn(5, generator=generator, dtype=torch.float64)
    mask = torch.tensor([True, False, True, True, False])
    spoilt = values.masked_fill(~mask, torch.nan).requires_grad_()
    found = soft_sort(spoilt, sorter=StraightThrough(), mask=mask)
    assert torch.allclose(found[:3], soft_sort(values[mask], sorter=StraightThrough()))
    assert (found[3:] == 0).all()
    found.square().sum().backward()
    assert torch.isfinite(spoilt.grad).all()
    assert (spoilt.grad[~mask] == 0).all()


def test_refuses_what_makes_no_sense():
    with pytest.raises(ValueError, match="temperature is 0"):
        soft_permutation(torch.ones(2), temperature=0)
    with pytest.raises(ValueError, match=r"values \(2,\) and scores \(3,\)"):
        soft_sort(torch.ones(2), scores=torch.ones(3), sorter=ranks)
    with pytest.raises(TypeError, match="mask is torch.int64"):
        soft_permutation(torch.ones(2), mask=torch.ones(2).long())


def test_autocast_rounds_no_value():
    values = torch.tensor([1.0001, 3.0003, 2.002])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = soft_sort(values, sorter=StraightThrough(), temperature=1e-3)
    assert torch.allclose(found, values.sort(descending=True).values)


def test_values_keep_their_precision_beside_scores_of_less():
    values, scores = torch.tensor([1732406401, 1732406407, 1732406403]).double(), torch.tensor([1.0, 3.0, 2.0])
    found = soft_sort(values, scores=scores, sorter=StraightThrough(), temperature=0.001)
    assert found.tolist() == [1732406407, 1732406403, 1732406401]
