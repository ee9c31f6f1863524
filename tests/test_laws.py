"""What holds for every sorter and every operator, whatever the scores: range, scale, shift, ties, masks."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrad.sorters import (
    Handcrafted,
    Laplace,
    Logistic,
    StraightThrough,
    load_sorter,
    soft_median,
    soft_permutation,
    soft_quantile,
    soft_sort,
    soft_topk_mask,
)

SORTERS = {
    "laplace": Laplace(),
    "laplace, true derivative": Laplace(detach=False),
    "laplace, absolute": Laplace(standardize=False),
    "logistic": Logistic(),
    "handcrafted": Handcrafted(),
    "straight_through": StraightThrough(),
    "comparator": load_sorter("comparator"),
}
IN_DEVIATIONS = {name: sorter for name, sorter in SORTERS.items() if sorter.scale_invariant}
KERNELS = {name: IN_DEVIATIONS[name] for name in ("laplace", "logistic")}

# Multiples of 1/8, often equal: no rounding of float64 makes near ties of them.
lists = st.lists(st.integers(-40, 40).map(lambda number: number / 8), min_size=1, max_size=9)
scales = st.integers(-30, 30).map(lambda exponent: 10.0**exponent)
laws = settings(max_examples=20, deadline=None)


def vector(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def operators(sorter) -> dict:
    """Those that give values in the scores' unit."""
    return {
        "sort": partial(soft_sort, sorter=sorter),
        "median": partial(soft_median, sorter=sorter),
        "quantile": partial(soft_quantile, q=0.9, sorter=sorter),
        "quantiles": partial(soft_quantile, q=torch.tensor([0.0, 0.3, 1.0]), sorter=sorter),
    }


def shares(sorter) -> dict:
    """Those that give parts of places."""
    return {
        "topk": lambda scores, **options: soft_topk_mask(scores, 1, sorter=sorter, **options),
        "permutation": partial(soft_permutation, sorter=sorter),
    }


@pytest.mark.parametrize("value", [0.0, 0.001, -3.0, 1e-30, 1e30])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("hard", [False, True])
def test_equal_scores_are_their_own_order(kernel, value, hard):
    scores = torch.full((2, 3), value, requires_grad=True)
    for name, operator in operators(kernel).items():
        for generator in (torch.Generator().manual_seed(0), None):
            result = operator(scores, hard=hard, generator=generator)
            assert (result == scores.detach().reshape(-1)[0]).all(), name
        # Each is the mean of all, as far as the gradient can tell.
        (gradient,) = torch.autograd.grad(result.sum(), scores)
        assert torch.allclose(gradient, torch.full((2, 3), result.numel() / 6)), name
    mask = torch.tensor([True, False, True])
    assert soft_sort(torch.tensor([value, 99.0, value]), sorter=kernel, mask=mask).tolist() == [
        *[torch.tensor(value).item()] * 2,
        0.0,
    ]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@laws
@given(lists)
def test_values_are_within_reach_of_the_scores(kernel, values):
    scores = vector(values)
    reach = kernel.softness * np.std(values) * math.log(2 * len(values)) + 1e-12
    for operator in operators(kernel).values():
        result = operator(scores)
        assert (result >= min(values) - reach).all()
        assert (result <= max(values) + reach).all()
    for operator in shares(kernel).values():
        result = operator(scores)
        assert (result >= -1e-12).all()
        assert (result <= 1 + 1e-12).all()


@pytest.mark.parametrize("sorter", SORTERS.values(), ids=SORTERS)
@laws
@given(lists)
def test_ranks_are_from_1_to_d_and_alike_for_equal_scores(sorter, values):
    found = sorter(vector(values))
    assert (found >= 1 - 1e-6).all()
    assert (found <= len(values) + 1e-6).all()
    assert found.sum().item() == pytest.approx(len(values) * (len(values) + 1) / 2, rel=0.02)
    for value in values:
        assert np.ptp(found[vector(values) == value].detach().numpy()) < 1e-6


@pytest.mark.parametrize("sorter", IN_DEVIATIONS.values(), ids=IN_DEVIATIONS)
@laws
@given(lists, scales, st.integers(-8, 8))
def test_ranks_ignore_scale_and_shift(sorter, values, scale, shift):
    scores = vector(values)
    assert torch.allclose(sorter(scale * (scores + shift)), sorter(scores), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@laws
@given(lists, scales, st.integers(-8, 8))
def test_operators_follow_scale_and_shift(kernel, values, scale, shift):
    scores = vector(values)
    for operator in operators(kernel).values():
        assert torch.allclose(operator(scale * (scores + shift)) / scale, operator(scores) + shift, atol=1e-9)
    for operator in shares(kernel).values():
        assert torch.allclose(operator(scale * (scores + shift)), operator(scores), atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_places_are_shared_far_from_zero_as_near_it(kernel):
    near = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for operator in shares(kernel).values():
        # One unit is the last digit there: no number lies between the scores.
        assert torch.allclose(operator(2.0**52 + near), operator(near), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@laws
@given(lists, st.sampled_from([1e-9, 1e-12]))
def test_operators_do_not_jump_where_scores_become_equal(kernel, values, apart):
    scores = vector(values)
    moved = scores + apart * torch.linspace(-1, 1, len(values), dtype=torch.float64)
    for operator in operators(kernel).values():
        assert torch.allclose(operator(moved), operator(scores), atol=1e3 * apart)


@pytest.mark.parametrize("sorter", SORTERS.values(), ids=SORTERS)
@laws
@given(st.data(), lists)
def test_masks_are_shorter_lists(sorter, data, values):
    kept = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)).filter(any))
    scores, mask = vector(values), torch.tensor(kept)
    shorter = scores[mask]
    everywhere = scores.where(mask, torch.nan)
    assert torch.allclose(sorter(everywhere, mask=mask)[mask], sorter(shorter), atol=1e-6)
    if sorter not in KERNELS.values():
        return
    for name, operator in (operators(sorter) | shares(sorter)).items():
        whole, part = operator(everywhere, mask=mask), operator(shorter)
        if name == "sort":
            whole = whole[: len(shorter)]
        elif name == "topk":
            whole = whole[mask]
        elif name == "permutation":
            whole = whole[: len(shorter)][:, mask]
        assert torch.allclose(whole, part, atol=1e-12), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@laws
@given(lists, scales)
def test_hard_values_are_exact_to_the_last_digit(dtype, values, scale):
    scores = torch.tensor([*values, 0.0], dtype=dtype) * scale  # next to 0, the soft value is far from it
    ordered = np.sort(scores.numpy())[::-1].copy()
    for kernel in KERNELS.values():
        assert (soft_sort(scores, sorter=kernel, hard=True).numpy() == ordered).all()
        assert set(soft_topk_mask(scores, 1, sorter=kernel, hard=True).tolist()) == {0.0, 1.0}
        found = soft_quantile(scores, 1.0, sorter=kernel, hard=True).item()
        assert found == ordered[0]


@pytest.mark.parametrize("q", [0.1, 0.3, 1 / 3, 0.9])
def test_quantiles_have_all_digits_of_a_number(q):
    scores = torch.tensor([0.0, 1e9], dtype=torch.float64)
    assert soft_quantile(scores, q, hard=True).item() == pytest.approx(np.quantile(scores.numpy(), q), rel=1e-15)
