"""Exact ranks, against scipy and by their properties."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from rankops.ranks import ranks

# Few distinct values, so that ties are common.
SCORES = hnp.arrays("float64", hnp.array_shapes(min_dims=1, max_dims=3, max_side=12), elements=st.integers(-4, 4))


@given(SCORES)
def test_agree_with_scipy(scores):
    expected = rankdata(-scores, axis=-1, method="average")
    assert ranks(torch.from_numpy(scores)).numpy() == pytest.approx(expected)


@given(SCORES, st.floats(0.25, 4.0), st.integers(-3, 3))
def test_do_not_change_under_scale_and_shift(scores, scale, shift):
    scores = torch.from_numpy(scores)
    assert ranks(scores).equal(ranks(scores * scale + shift))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_are_right_in_half_precision_too(dtype):
    scores = torch.arange(0x3F80, 0x3F80 + 250, dtype=torch.int16).view(torch.bfloat16).flip(0).to(dtype)
    assert len(scores.unique()) == 250
    assert ranks(scores).tolist() == list(range(1, 251))


def test_normalized_ranks_lie_above_zero_and_up_to_one():
    assert ranks(torch.tensor([5.0, 1.0]), normalized=True).tolist() == [0.5, 1.0]


def test_leave_the_scores_alone(generator):
    scores = torch.randn(3, 5, generator=generator)
    before = scores.clone()
    ranks(scores)
    assert scores.equal(before)


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        (torch.tensor([1.0, float("nan")]), ValueError, r"nan at \(1,\)"),
        (torch.tensor([float("inf")]), ValueError, "inf at"),
        (torch.tensor([1, 2]), TypeError, "int64"),
        (torch.zeros(3, 0), ValueError, r"\(3, 0\)"),
        ([1.0], TypeError, "list"),
    ],
)
def test_refuse_what_has_no_order(scores, error, message):
    with pytest.raises(error, match=message):
        ranks(scores)
