"""Soft sorting, top-k and quantiles against bisection on the sum over all pairs, their hard limits, and their laws."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from contracts.values import gradient, normal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from rankgrad.ranks import exact_ranks
from rankgrad.sorters import (
    Handcrafted,
    Laplace,
    Logistic,
    StraightThrough,
    permutation_of_ranks,
    soft_median,
    soft_permutation,
    soft_quantile,
    soft_rank,
    soft_sort,
    soft_topk_mask,
)

KERNELS = (Laplace, Logistic)
# The operators whose values are scores, and those whose values are shares of places.
OF_SCORES = {
    "sort": soft_sort,
    "median": soft_median,
    "quantile": partial(soft_quantile, q=0.3),
    "quantiles": partial(soft_quantile, q=torch.tensor([0.0, 0.3, 1.0])),
}
OF_PLACES = {"topk": partial(soft_topk_mask, k=1), "permutation": soft_permutation}
OPERATORS = OF_SCORES | OF_PLACES

every = pytest.mark.parametrize("name", OPERATORS)
both_kernels = pytest.mark.parametrize("kernel", KERNELS)
# Multiples of 1/8, often equal: rounding of float64 makes no near ties of them.
vectors = st.lists(st.integers(-40, 40).map(lambda number: number / 8), min_size=1, max_size=9)
scales = st.integers(-30, 30).map(lambda exponent: 10.0**exponent)


def vector(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# Against bisection and all pairs.


def share(scores: torch.Tensor, level: float, sorter: Laplace | Logistic) -> torch.Tensor:
    """Return F((s - t) / b) for each score s and the level t."""
    noise = stats.logistic if isinstance(sorter, Logistic) else stats.laplace
    return torch.from_numpy(noise.cdf(scores.numpy(), loc=level, scale=sorter.softness))


def level_of(total: float, scores: torch.Tensor, sorter: Laplace | Logistic) -> float:
    """Return the level at which the shares of a vector add up to a total."""
    reach = 60 * sorter.softness
    above = lambda level: (share(scores, level, sorter).sum() - total).item()  # noqa: E731
    return brentq(above, scores.min().item() - reach, scores.max().item() + reach, xtol=1e-12)


@pytest.mark.parametrize("softness", [0.01, 0.5])
@pytest.mark.parametrize("length", [1, 2, 7, 300])  # 300: summed in another way than 7
@both_kernels
def test_levels_are_those_found_by_bisection(kernel, softness, length, generator):
    sorter = kernel(softness=softness, standardize=False)
    scores = normal(generator, length)
    scores[length // 2] = scores[0]  # a tie
    level = partial(level_of, scores=scores, sorter=sorter)

    places = range(0, length, max(1, length // 3))
    expected = vector([level(place + 0.5) for place in places])
    assert torch.allclose(soft_sort(scores, sorter=sorter)[list(places)], expected, atol=1e-9)

    k = length / 2 + 0.1
    assert torch.allclose(soft_topk_mask(scores, k, sorter=sorter), share(scores, level(k), sorter), atol=1e-9)

    place = 0.3 * (length - 1)
    lower, upper = level(length - math.floor(place) - 0.5), level(length - math.ceil(place) - 0.5)
    expected = lower + (upper - lower) * (place % 1)
    assert soft_quantile(scores, 0.3, sorter=sorter).item() == pytest.approx(expected, abs=1e-9)


@both_kernels
def test_the_permutation_is_doubly_stochastic_and_the_difference_of_two_shares(kernel, generator):
    sorter = kernel(softness=0.5, standardize=False)
    scores = normal(generator, 2, 5, 3)
    matrix = soft_permutation(scores, sorter=sorter, dim=1)
    assert matrix.shape == (2, 5, 5, 3)
    assert (matrix >= 0).all()
    for dim in (1, 2):
        assert torch.allclose(matrix.sum(dim), torch.ones(2, 5, 3, dtype=torch.float64))
    first = scores[0, :, 0]
    one, two = (share(first, level_of(total, first, sorter), sorter) for total in (1, 2))
    assert torch.allclose(matrix[0, 1, :, 0], two - one)


@pytest.mark.parametrize("name", ["sort", "quantiles", "topk"])
@both_kernels
def test_hard_values_are_the_limit_of_soft_ones_and_have_their_gradient(name, kernel, generator):
    scores = normal(generator, 4, 9).requires_grad_()
    operator = OPERATORS[name]
    assert torch.allclose(operator(scores, sorter=kernel(softness=1e-6)), operator(scores, hard=True), atol=1e-4)
    gradients = []
    for hard in (True, False):
        values = operator(scores, sorter=kernel(), hard=hard)
        weighted = values * torch.arange(values.numel()).view(values.shape)
        gradients.append(gradient(weighted, scores))
    assert torch.allclose(*gradients)


@pytest.mark.parametrize("sorter", [StraightThrough(), Handcrafted(steepness=500.0)])
def test_other_sorters_sort_by_their_ranks(sorter, generator):
    scores = normal(generator, 4, 9)
    for dim in (-1, 0, 1):
        expected = scores.sort(dim, descending=True).values
        assert torch.allclose(soft_sort(scores, sorter=sorter, dim=dim), expected, atol=0.01)


# What each operator has.


@every
@both_kernels
def test_has_its_derivatives_and_runs_under_vmap(name, kernel, generator):
    soft = partial(OPERATORS[name], sorter=kernel(softness=0.5, standardize=False))
    scores = normal(generator, 2, 6).requires_grad_()
    long = normal(generator, 200).requires_grad_()  # summed in another way
    for vector_, fast in ((scores, False), (long, True)):
        assert torch.autograd.gradcheck(soft, vector_, fast_mode=fast)
        assert torch.autograd.gradgradcheck(soft, vector_, fast_mode=fast)
    mapped = torch.func.vmap(soft)(scores)
    assert torch.allclose(mapped, torch.stack([soft(row) for row in scores]))


@pytest.mark.parametrize(("rows", "length"), [(2, 7), (50, 30)])  # many vectors are summed in another way
@every
@both_kernels
def test_each_vector_has_the_values_and_gradients_of_its_scores_that_the_mask_leaves(
    name, kernel, rows, length, generator
):
    operator = partial(OPERATORS[name], sorter=kernel())
    scores, mask = normal(generator, rows, length), torch.rand(rows, length, generator=generator) < 0.7
    mask[torch.arange(rows), torch.arange(rows) % length] = True  # each vector has one
    filled = scores.masked_fill(~mask, torch.nan).requires_grad_()
    result = operator(filled, mask=mask)
    slope = gradient(result.square(), filled)
    total = 0.0
    for row in range(rows):
        left = scores[row][mask[row]].requires_grad_()
        alone = operator(left)
        kept = result[:, row] if name == "quantiles" else result[row]
        if name in OF_PLACES:
            kept = kept[..., mask[row]]
        if name in ("sort", "permutation"):
            kept = kept[: len(left)]
        assert torch.allclose(kept, alone)
        assert torch.allclose(slope[row][mask[row]], gradient(alone.square(), left))
        total += alone.sum().item()
    assert result.sum().item() == pytest.approx(total)  # the rest is 0
    assert not slope[~mask].any()


@every
@both_kernels
def test_is_finite_on_plateaus_of_ties(name, kernel):
    for values in ([0.0, 1.0, 5.0, 9.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1e30, -1e30, 2e30, 0.0]):
        scores = torch.tensor(values).requires_grad_()
        result = OPERATORS[name](scores, sorter=kernel(softness=1e-4))
        assert torch.isfinite(result).all()
        weighted = result * torch.arange(result.numel()).view(result.shape)
        assert torch.isfinite(gradient(weighted, scores)).all()


@every
def test_takes_half_precision_and_any_dimension(name, generator):
    operator, scores = OPERATORS[name], torch.randn(4, 3, generator=generator)
    half = scores.bfloat16()
    assert operator(half).dtype == torch.float32
    assert operator(half).equal(operator(half.float()))
    along_first = operator(scores, dim=0)
    expected = operator(scores.mT)
    if name in ("sort", "topk", "permutation"):
        along_first = along_first.movedim(-1, 0)
    assert torch.allclose(along_first, expected)


@pytest.mark.slow
@every
def test_compiles_whole(name, generator):
    torch.compiler.reset()
    scores = normal(generator, 2, 6).requires_grad_()
    compiled = torch.compile(OPERATORS[name], backend="aot_eager", fullgraph=True)(scores)
    assert torch.allclose(compiled, OPERATORS[name](scores))
    compiled.square().sum().backward()
    assert torch.isfinite(scores.grad).all()


@both_kernels
def test_noise_is_drawn_from_the_generator(kernel):
    topk = partial(soft_topk_mask, torch.zeros(2000, 4), 1, sorter=kernel(), hard=True)
    masks = [topk(generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert torch.allclose(masks[0].mean(0), torch.full((4,), 0.25), atol=0.05)


# Laws.


@every
@both_kernels
@settings(max_examples=15)
@given(vectors, scales, st.integers(-8, 8))
def test_follows_scale_and_shift_and_stays_within_reach(name, kernel, values, scale, shift):
    operator, scores = partial(OPERATORS[name], sorter=kernel()), vector(values)
    result, moved = operator(scores), operator(scale * (scores + shift))
    if name in OF_PLACES:
        assert torch.allclose(moved, result, atol=1e-9)
        low, high = 0.0, 1.0
    else:
        assert torch.allclose(moved / scale, result + shift, atol=1e-9)
        apart = 1e-10 * torch.linspace(-1, 1, len(values), dtype=torch.float64)
        assert torch.allclose(operator(scores + apart), result, atol=1e-7)  # no jump where scores become equal
        reach = kernel().softness * np.std(values) * math.log(2 * len(values))
        low, high = min(values) - reach, max(values) + reach
    assert result.min() >= low - 1e-12
    assert result.max() <= high + 1e-12


@pytest.mark.parametrize("name", OF_PLACES)
@both_kernels
def test_places_are_shared_far_from_zero_as_near_it(name, kernel):
    near = vector([0.0, 0.0, 1.0, 1.0, 1.0])
    far = 2.0**52 + near  # one unit is the last digit there
    assert torch.allclose(*(OPERATORS[name](scores, sorter=kernel()) for scores in (far, near)), atol=1e-12)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e-30, 1e30])
@pytest.mark.parametrize("name", OF_SCORES)
@both_kernels
def test_equal_scores_are_their_own_order(name, kernel, value):
    scores = torch.full((2, 3), value, requires_grad=True)
    for options in ({}, {"hard": True}, {"generator": torch.Generator().manual_seed(0)}):
        result = OPERATORS[name](scores, sorter=kernel(), **options)
        assert (result == scores.detach()[0, 0]).all()
    # The gradient takes each for the mean of all.
    result = OPERATORS[name](scores, sorter=kernel())
    assert torch.allclose(gradient(result, scores), torch.full((2, 3), result.numel() / 6))


@both_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=15)
@given(vectors, scales, st.sampled_from([0.0, 0.1, 1 / 3, 0.9, 1.0]))
def test_hard_values_are_exact_to_the_last_digit(kernel, dtype, values, scale, q):
    scores = torch.tensor([*values, 0.0], dtype=dtype) * scale  # next to 0, the soft value is far from it
    ordered = scores.sort(descending=True).values
    hard = {"sorter": kernel(), "hard": True}
    assert soft_sort(scores, **hard).equal(ordered)
    assert sorted(soft_topk_mask(scores, 1, **hard).tolist()) == [0.0] * len(values) + [1.0]
    quantile = np.quantile(scores.double().numpy(), q)
    assert soft_quantile(scores, q, **hard).item() == pytest.approx(quantile, rel=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@every
def test_scores_may_span_the_range_of_their_type(name, dtype):
    largest = 2.0 ** (math.frexp(torch.finfo(dtype).max)[1] - 1)
    scores = torch.tensor([-1.0, 1.0, 0.0, 0.25, -0.75], dtype=dtype)
    wide = (largest * scores).requires_grad_()
    result = OPERATORS[name](wide)
    unit = 1 if name in OF_PLACES else largest
    assert torch.allclose(result / unit, OPERATORS[name](scores), atol=1e-5)
    assert torch.isfinite(gradient(result, wide)).all()


# What is refused, and the ranks as a function.

SCORES, NOWHERE = torch.arange(4.0), torch.zeros(4).bool()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (partial(soft_topk_mask, SCORES, 5), ValueError, "k is 5, expected .*0 to 4"),
        (partial(soft_topk_mask, SCORES, 1.5, hard=True), ValueError, "k is 1.5, expected a whole number"),
        (partial(soft_topk_mask, SCORES, 2, mask=NOWHERE), ValueError, "k is 2, expected .*0 to 0"),
        (partial(soft_topk_mask, SCORES, 2, sorter=exact_ranks), TypeError, "exact_ranks, expected a Laplace"),
        (partial(soft_topk_mask, SCORES, True), TypeError, "k is True, expected a number"),
        (partial(soft_quantile, SCORES, torch.zeros(1, 1)), ValueError, r"q has shape \(1, 1\)"),
        (partial(soft_quantile, SCORES, torch.tensor([0.5, 1.5])), ValueError, r"q\[1\] is 1.5"),
        (partial(permutation_of_ranks, SCORES, temperature=math.nan), ValueError, "temperature is nan"),
        (partial(permutation_of_ranks, SCORES.to_sparse()), TypeError, "ranks is a sparse tensor"),
        (partial(soft_sort, SCORES, sorter="laplace"), TypeError, "load_sorter"),
        (partial(soft_sort, SCORES, sorter=Handcrafted(), hard=True), ValueError, "expected Laplace"),
        (partial(soft_sort, SCORES / 0), ValueError, r"scores\[0\] is nan"),
        (partial(soft_median, SCORES, mask=NOWHERE), ValueError, r"mask\[0\] is False"),
        (partial(soft_permutation, SCORES, dim=1), ValueError, "dim is 1"),
        (partial(soft_rank, SCORES, 0), ValueError, "softness is 0, expected a positive number"),
    ],
)
def test_names_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_soft_rank_is_laplace_as_a_function(generator):
    scores, mask = normal(generator, 4, 6), torch.rand(4, 6, generator=generator) < 0.7
    assert soft_rank(scores).equal(Laplace(softness=0.2)(scores))
    assert soft_rank(scores, 0.5, dim=0, mask=mask).equal(Laplace(softness=0.5)(scores, dim=0, mask=mask))
    assert torch.allclose(soft_rank(scores, softness=1e-9), exact_ranks(scores))
