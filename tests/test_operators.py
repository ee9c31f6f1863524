"""Soft sorting, top-k and quantiles against bisection on the sum over all pairs, and their hard limits."""

import math
from functools import partial

import pytest
import torch

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
FIXED = [kernel(softness=softness, standardize=False) for kernel in KERNELS for softness in (0.01, 0.5)]


def share(scores: torch.Tensor, level: torch.Tensor, sorter: Laplace | Logistic) -> torch.Tensor:
    apart = (scores - level) / sorter.softness
    if isinstance(sorter, Logistic):
        return torch.sigmoid(apart)
    return torch.where(apart > 0, 1 - torch.exp(-apart.clamp(min=0)) / 2, torch.exp(apart.clamp(max=0)) / 2)


def bisected(scores: torch.Tensor, wanted: float, sorter: Laplace | Logistic) -> torch.Tensor:
    """Where the sum over the scores of a vector is what is wanted."""
    low, high = scores.min() - 60 * sorter.softness, scores.max() + 60 * sorter.softness
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if share(scores, middle, sorter).sum() > wanted else (low, middle)
    return middle


@pytest.mark.parametrize("sorter", FIXED, ids=repr)
@pytest.mark.parametrize("length", [1, 2, 7, 300])  # 300: sums by another way than 7
def test_levels_are_those_found_by_bisection(length, sorter, generator):
    scores = torch.randn(length, generator=generator, dtype=torch.float64)
    scores[length // 2] = scores[0]  # a tie
    some = range(0, length, max(1, length // 5))
    expected = torch.stack([bisected(scores, place + 0.5, sorter) for place in some])
    assert torch.allclose(soft_sort(scores, sorter=sorter)[list(some)], expected, atol=1e-9)
    for k in (0.3, length / 2 + 0.1):
        topk = soft_topk_mask(scores, k, sorter=sorter)
        assert torch.allclose(topk, share(scores, bisected(scores, k, sorter), sorter), atol=1e-9)
    ends = [bisected(scores, length - place - 0.5, sorter) for place in (int(0.3 * (length - 1)),
            -int(-0.3 * (length - 1) // 1))]  # fmt: skip
    between = ends[0] + (ends[1] - ends[0]) * (0.3 * (length - 1) % 1)
    assert torch.allclose(soft_quantile(scores, 0.3, sorter=sorter), between, atol=1e-9)


@pytest.mark.parametrize("sorter", FIXED, ids=repr)
def test_the_permutation_is_doubly_stochastic_and_the_difference_of_two_shares(sorter, generator):
    scores = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    matrix = soft_permutation(scores, sorter=sorter, dim=1)
    assert matrix.shape == (2, 5, 5, 3)
    assert (matrix >= 0).all()
    for dim in (1, 2):
        assert torch.allclose(matrix.sum(dim), torch.ones(2, 5, 3, dtype=torch.float64))
    one = scores[0, :, 0]
    second = share(one, bisected(one, 2, sorter), sorter) - share(one, bisected(one, 1, sorter), sorter)
    assert torch.allclose(matrix[0, 1, :, 0], second)


def test_soft_ones_tend_to_hard_ones_and_hard_ones_are_exact(generator):
    scores = torch.randn(4, 9, generator=generator, dtype=torch.float64)
    q = torch.tensor([0.0, 0.37, 0.5, 1.0]).double()
    order = scores.argsort(-1, descending=True)
    largest = torch.zeros_like(scores).scatter(-1, order[:, :3], 1.0)
    matrix = torch.zeros(4, 9, 9).double().scatter(-1, order.unsqueeze(-1), 1.0)
    sharp = [kernel(softness=1e-6) for kernel in KERNELS]
    for options in ({"sorter": sharp[0]}, {"sorter": sharp[1]}, {"hard": True}):
        if "sorter" in options:
            assert torch.allclose(soft_permutation(scores, **options), matrix, atol=1e-4)
        assert torch.allclose(soft_sort(scores, **options), scores.sort(-1, descending=True).values, atol=1e-4)
        assert torch.allclose(soft_topk_mask(scores, 3, **options), largest, atol=1e-4)
        assert torch.allclose(soft_quantile(scores, q, **options), torch.quantile(scores, q, dim=-1), atol=1e-4)
        assert torch.allclose(soft_median(scores, **options), torch.quantile(scores, 0.5, dim=-1), atol=1e-4)
    moved = scores.clone().requires_grad_()
    totals = [(soft_topk_mask(moved, 3, hard=hard) * order).sum() for hard in (True, False)]
    assert torch.allclose(*(torch.autograd.grad(total, moved)[0] for total in totals))
    for sorter in (StraightThrough(), Handcrafted(steepness=500.0)):  # which sort by their ranks
        assert torch.allclose(soft_sort(scores, sorter=sorter), scores.sort(-1, descending=True).values, atol=0.01)
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(soft_sort, (scores,), (scores,))


def test_many_short_vectors_have_the_gradients_of_each_alone(generator):
    """Which are summed by another way."""
    scores = torch.randn(50, 30, generator=generator, dtype=torch.float64)
    mask = torch.rand(50, 30, generator=generator) < 0.8
    mask[:, 0] = True

    def gradient(rows):
        leaf = scores[rows].requires_grad_()
        soft_sort(leaf, mask=mask[rows]).square().sum().backward()
        return leaf.grad

    assert torch.allclose(gradient(slice(None)), torch.cat([gradient(slice(row, row + 1)) for row in range(50)]))


@pytest.mark.parametrize("softness", [0.001, 0.2])
def test_long_vectors_have_the_gradients_of_all_pairs(softness, generator):
    scores = torch.randn(300, generator=generator, dtype=torch.float64).round(decimals=2).requires_grad_()  # with ties
    wanted = torch.randn(300, generator=generator, dtype=torch.float64)
    sorter, q = Laplace(softness=softness, standardize=False), torch.rand(150, generator=generator)

    def gradient(result, **options):
        return torch.autograd.grad(result, scores, wanted[: len(result)], **options)[0]

    found = soft_sort(scores, sorter=sorter)
    pairs = torch.softmax(-(scores - found.unsqueeze(1)).abs() / softness, 1).T @ wanted
    assert torch.allclose(gradient(found, retain_graph=True), pairs)
    assert torch.allclose(gradient(found, create_graph=True), pairs)
    one_by_one = torch.cat([soft_quantile(scores, each.reshape(1), sorter=sorter) for each in q])
    assert torch.allclose(gradient(soft_quantile(scores, q, sorter=sorter)), gradient(one_by_one))


OPERATORS = {
    "topk": lambda scores, **options: soft_topk_mask(scores, 2, **options), "sort": soft_sort, "median": soft_median,
    "quantile": lambda scores, **options: soft_quantile(scores, 0.3, **options), "permutation": soft_permutation,
}  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
class TestEach:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_has_its_derivatives_and_runs_under_vmap(self, operator, kernel, generator):
        scores = torch.randn(2, 6, generator=generator, dtype=torch.float64).requires_grad_()
        long = torch.randn(200, generator=generator, dtype=torch.float64).requires_grad_()  # summed by another way
        sorter = kernel(softness=0.5, standardize=False)
        soft = partial(operator, sorter=sorter)
        for given, fast in ((scores, False), (long, True)):
            assert torch.autograd.gradcheck(soft, given, fast_mode=fast)
            assert torch.autograd.gradgradcheck(soft, given, fast_mode=fast)
        assert torch.allclose(torch.func.vmap(soft)(scores), soft(scores))

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_leaves_out_what_is_masked(self, operator, kernel, generator):
        scores = torch.randn(3, 7, generator=generator, dtype=torch.float64)
        mask = torch.tensor([[1, 1, 0, 1, 0, 1, 1], [0, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()
        filled = scores.masked_fill(~mask, torch.nan).requires_grad_()
        result = operator(filled, mask=mask, sorter=kernel())
        for row in range(2):
            alone, count = operator(scores[row][mask[row]], sorter=kernel()), int(mask[row].sum())
            if result.dim() == 1:
                kept = result[row]
            elif result.dim() == 3:
                kept = result[row][:count, mask[row]]
            else:
                kept = result[row][:count] if operator is soft_sort else result[row][mask[row]]
            assert torch.allclose(kept, alone)
            assert result[row].sum().item() == pytest.approx(alone.sum().item())  # the rest is 0
        result.square().sum().backward()
        assert torch.isfinite(filled.grad).all()
        assert (filled.grad[~mask] == 0).all()

    def test_is_finite_on_plateaus_of_ties_and_in_half_precision(self, operator):
        for values in ([0.0, 1.0, 5.0, 9.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1e30, -1e30, 2e30, 0.0]):
            for kernel in KERNELS:
                scores = torch.tensor(values).requires_grad_()
                result = operator(scores, sorter=kernel(softness=1e-4))
                assert torch.isfinite(result).all()
                total = (result * torch.arange(result.numel()).view(result.shape)).sum()
                assert torch.isfinite(torch.autograd.grad(total, scores)[0]).all()
        half = torch.tensor([0.0, 1.0, 5.0, 9.0], dtype=torch.bfloat16)
        assert operator(half).dtype == torch.float32
        assert operator(half).equal(operator(half.float()))

    def test_ranks_along_any_dimension(self, operator, generator):
        scores = torch.randn(4, 3, generator=generator)
        assert torch.allclose(operator(scores, dim=0).movedim(-1, 0), operator(scores.mT))


@pytest.mark.parametrize(
    "name", [name if name == "sort" else pytest.param(name, marks=pytest.mark.slow) for name in OPERATORS]
)
def test_compiles_whole(name, generator):
    torch.compiler.reset()
    scores = torch.randn(2, 6, generator=generator, dtype=torch.float64).requires_grad_()
    compiled = torch.compile(OPERATORS[name], backend="aot_eager", fullgraph=True)(scores)
    assert torch.allclose(compiled, OPERATORS[name](scores))
    compiled.square().sum().backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_noise_is_drawn_from_the_generator(kernel):
    topk = partial(soft_topk_mask, torch.zeros(2000, 4), 1, sorter=kernel(), hard=True)
    drawn = [topk(generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert drawn[0].equal(drawn[1])
    assert not drawn[0].equal(drawn[2])
    assert torch.allclose(drawn[0].mean(0), torch.full((4,), 0.25), atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_scores_may_span_all_that_their_type_holds(dtype):
    most = 2.0 ** (math.frexp(torch.finfo(dtype).max)[1] - 1)
    scores = torch.tensor([-1.0, 1.0, 0.0, 0.25, -0.75], dtype=dtype)
    wide = (most * scores).requires_grad_()
    for result, expected in (
        (soft_sort(wide) / most, soft_sort(scores)),
        (soft_sort(wide, hard=True) / most, scores.sort(descending=True).values.to(soft_sort(scores).dtype)),
        (soft_quantile(wide, 0.3) / most, soft_quantile(scores, 0.3)),
        (soft_topk_mask(wide, 2), soft_topk_mask(scores, 2)),
        (soft_permutation(wide), soft_permutation(scores)),
    ):
        assert torch.allclose(result, expected, atol=1e-5)
        assert torch.isfinite(torch.autograd.grad(result.sum(), wide, retain_graph=True)[0]).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda scores: soft_topk_mask(scores, 5), ValueError, "k is 5, expected from 0 to 4"),
        (lambda scores: soft_topk_mask(scores, 1.5, hard=True), ValueError, "k is 1.5, expected a whole number"),
        (
            lambda scores: soft_topk_mask(scores, 2, mask=torch.zeros(4).bool()),
            ValueError,
            "k is 2, expected from 0 to 0",
        ),
        (lambda scores: soft_quantile(scores, math.nan), ValueError, "q is nan"),
        (lambda scores: permutation_of_ranks(scores, temperature=math.nan), ValueError, "temperature is nan"),
        (lambda scores: permutation_of_ranks(scores.to_sparse()), TypeError, "ranks is a sparse tensor"),
        (
            lambda scores: soft_topk_mask(scores, 2, sorter=exact_ranks),
            TypeError,
            "sorter is exact_ranks, expected a Laplace",
        ),
        (lambda scores: soft_quantile(scores, torch.tensor([0.5, 1.5])), ValueError, r"q\[1\] is 1.5"),
        (lambda scores: soft_quantile(scores, 1.5), ValueError, "^q is 1.5"),
        (lambda scores: soft_sort(scores, sorter="laplace"), TypeError, "load_sorter"),
        (lambda scores: soft_median(scores, mask=torch.zeros(4).bool()), ValueError, r"mask\[0\] is False"),
        (lambda scores: soft_sort(scores / 0), ValueError, r"scores\[0\] is nan"),
        (lambda scores: soft_permutation(scores, dim=1), ValueError, "dim is 1"),
        (lambda scores: soft_sort(scores, sorter=Handcrafted(), hard=True), ValueError, "need a Laplace"),
    ],
)
def test_names_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.arange(4.0))


def test_soft_rank_is_laplace_as_a_function(generator):
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.rand(4, 6, generator=generator) < 0.7
    assert soft_rank(scores).equal(Laplace(softness=0.2)(scores))
    found = soft_rank(scores, 0.5, dim=0, mask=mask)
    assert found.equal(Laplace(softness=0.5)(scores, dim=0, mask=mask))
    assert torch.autograd.grad(found.square().sum(), scores)[0].any()
    assert torch.allclose(soft_rank(scores, softness=1e-9), exact_ranks(scores))
    with pytest.raises(ValueError, match="softness is 0, expected a positive number"):
        soft_rank(scores, 0)
