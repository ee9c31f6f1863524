"""Exact ranks, against scipy and by their properties."""

import pytest
import torch
from contracts.values import check_nothing_else_changes
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from rankgrad.ranks import exact_ranks

# Few distinct values, so that ties are common.
SCORES = hnp.arrays("float64", hnp.array_shapes(min_dims=1, max_dims=3, max_side=12), elements=st.integers(-4, 4))


@settings(max_examples=40)
@given(SCORES)
def test_agree_with_scipy(scores):
    expected = rankdata(-scores, axis=-1, method="average")
    assert exact_ranks(torch.from_numpy(scores)).numpy() == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_are_right_in_half_precision_too(dtype):
    scores = torch.arange(0x3F80, 0x3F80 + 250, dtype=torch.int16).view(torch.bfloat16).flip(0).to(dtype)
    assert len(scores.unique()) == 250
    assert exact_ranks(scores).tolist() == list(range(1, 251))


def test_take_a_dimension_a_direction_and_a_mask(generator):
    scores = torch.randn(3, 5, generator=generator)
    assert check_nothing_else_changes(lambda: exact_ranks(scores, dim=0), scores).equal(exact_ranks(scores.T).T)
    assert exact_ranks(scores, descending=False).equal(exact_ranks(-scores))
    assert exact_ranks(torch.tensor([5.0, 1.0]), normalized=True).tolist() == [0.5, 1.0]
    mask = torch.tensor([True, False, True, True, False])
    filled = scores.masked_fill(~mask, torch.nan)
    assert exact_ranks(filled, mask=mask.expand(3, -1))[:, mask].equal(exact_ranks(scores[:, mask]))


def test_refuse_vectors_whose_ranks_float32_does_not_hold():
    scores = torch.zeros(1).expand(2**23 + 1)
    with pytest.raises(ValueError, match=r"length 8388609 .* \.double\(\)"):
        exact_ranks(scores, check_finite=False)
