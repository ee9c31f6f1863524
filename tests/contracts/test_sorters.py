"""What every sorter must do, and that each has the properties that it declares."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch._subclasses import FakeTensorMode

from contracts.values import (
    changed,
    check_nothing_else_changes,
    check_option,
    check_summary,
    gradient,
    numbers_of,
    options_of,
    small,
)
from rankgrad import lookup
from rankgrad.io.checkpoints import build, save_model
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import LSTM, Sorter, load_sorter

LENGTH = 6
ALL = lookup.names("sorters")
WEIGHTS = torch.arange(LENGTH)  # of ranks in a sum, so that no two gradients are alike


def make(name: str, **options) -> Sorter:
    return build("sorters", name, small(lookup.find("sorters", name)) | options, seed=0, length=LENGTH).eval()


def variants() -> dict[str, Sorter]:
    """Each sorter as it is, and with each of its switches turned. Tests copy them before they change them."""
    made = {name: make(name) for name in ALL}
    for name, option in options_of("sorters"):
        component = lookup.find("sorters", name)
        if lookup.options(component)[option] is bool:
            made[f"{name}, {option}"] = make(name, **{option: changed(component, option)})
    return made


VARIANTS = variants()
ANY_LENGTH = {name: sorter for name, sorter in VARIANTS.items() if sorter.length is None}


def those(is_meant: Callable[[Sorter], bool]) -> pytest.MarkDecorator:
    """Run a test for the variants that are meant."""
    meant = {name: sorter for name, sorter in VARIANTS.items() if is_meant(sorter)}
    return pytest.mark.parametrize("sorter", meant.values(), ids=meant)


every = pytest.mark.parametrize("sorter", VARIANTS.values(), ids=VARIANTS)
any_length = pytest.mark.parametrize("sorter", ANY_LENGTH.values(), ids=ANY_LENGTH)
equivariant = those(lambda sorter: sorter.equivariant and sorter.length is None)


def double(sorter: Sorter) -> Sorter:
    return copy.deepcopy(sorter).double()


NUMBERS = [(name, option) for name in ALL for option in numbers_of(lookup.find("sorters", name))]


def random_scores(generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=dtype)


@every
def test_documentation_shape_type_dimension_direction_and_normalization(sorter, generator):
    check_summary(type(sorter))
    for dtype, ranking in ((torch.float32, sorter), (torch.float64, double(sorter))):
        for shape in ((LENGTH,), (2, 3, LENGTH), (0, LENGTH)):
            soft = ranking(random_scores(generator, *shape, dtype=dtype))
            assert (soft.shape, soft.dtype) == (shape, dtype)
    scores = random_scores(generator, 2, LENGTH, 3)
    expected = sorter(scores.mT).mT
    assert torch.allclose(sorter(scores, dim=1), expected)
    assert torch.allclose(sorter(scores, dim=-2, descending=False), sorter(-scores.mT).mT)
    assert torch.allclose(sorter(scores, dim=1, normalized=True), expected / LENGTH)


@every
def test_gives_every_score_a_finite_gradient_and_changes_nothing_else(sorter, generator):
    scores = random_scores(generator, 3, LENGTH).requires_grad_()
    soft = check_nothing_else_changes(lambda: sorter(scores), scores)
    slope = gradient(soft * WEIGHTS, scores)
    assert slope.isfinite().all()
    assert slope.any(dim=1).all()
    equal = torch.full((LENGTH,), 0.1, requires_grad=True)
    assert gradient(sorter(equal) * WEIGHTS, equal).isfinite().all()


@every
def test_half_precision_is_ranked_in_float32_and_autocast_and_the_type_of_the_weights_change_little(sorter, generator):
    scores = random_scores(generator, 3, LENGTH)
    for dtype in (torch.float16, torch.bfloat16):
        half = scores.to(dtype).requires_grad_()
        soft = sorter(half)
        assert soft.dtype == torch.float32
        assert soft.equal(sorter(half.detach().float()))
        slope = gradient(soft.square(), half)
        assert slope.dtype == dtype
        assert slope.isfinite().all()
    expected, loss = sorter(scores), sorter.imitation_loss(scores, exact_ranks(scores))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(sorter(scores), expected, atol=1e-6)
        assert sorter.imitation_loss(scores, exact_ranks(scores)).item() == pytest.approx(loss.item(), rel=1e-6)
    assert torch.allclose(sorter(scores.double()).float(), expected, atol=1e-3)
    assert copy.deepcopy(sorter).bfloat16()(scores.bfloat16()).dtype == torch.float32


@those(lambda sorter: sorter.exact_gradient)
def test_where_it_says_so_the_gradient_is_the_derivative(sorter, generator):
    sorter, scores = double(sorter), random_scores(generator, 2, LENGTH, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(sorter, scores)
    assert torch.autograd.gradgradcheck(sorter, scores)
    if sorter.length is None:  # of equal scores and of a single one too
        for few in (torch.full((LENGTH,), 0.1), torch.tensor([3.0])):
            weighted = lambda scores: (sorter(scores) * WEIGHTS[: len(scores)]).sum()  # noqa: E731
            assert torch.autograd.functional.hessian(weighted, few.double()).isfinite().all()


@any_length
def test_runs_under_vmap(sorter, generator):
    scores = random_scores(generator, 4, 3, LENGTH)
    assert torch.allclose(torch.func.vmap(sorter)(scores), sorter(scores), atol=1e-6)
    slopes = torch.func.grad(lambda scores: sorter(scores).square().sum())
    expected = torch.stack([slopes(rows) for rows in scores])
    assert torch.allclose(torch.func.vmap(slopes)(scores), expected, atol=1e-3, rtol=1e-4)
    masks = torch.rand(4, LENGTH, generator=generator) < 0.6
    mapped = torch.func.vmap(lambda mask: sorter(scores[0, 0], mask=mask))(masks)
    assert torch.allclose(mapped, sorter(scores[0, 0].expand(4, -1), mask=masks), atol=1e-6)


@pytest.mark.parametrize(
    "sorter",
    [sorter if name == "laplace" else pytest.param(sorter, marks=pytest.mark.slow)
     for name, sorter in ANY_LENGTH.items()],
    ids=ANY_LENGTH,
)  # fmt: skip
def test_compiles_whole(sorter, generator):
    torch.compiler.reset()
    scores = random_scores(generator, 3, LENGTH).requires_grad_()
    soft, expected = torch.compile(sorter, fullgraph=True, backend="aot_eager")(scores), sorter(scores)
    assert torch.allclose(soft, expected, atol=1e-6)
    gradients = [gradient(ranks.square(), scores) for ranks in (soft, expected)]
    assert torch.allclose(*gradients, atol=1e-3)


@any_length
def test_a_masked_vector_is_ranked_as_the_shorter_one(sorter, generator):
    sorter, scores = double(sorter), random_scores(generator, 3, LENGTH, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    filled = scores.masked_fill(~mask, torch.nan).requires_grad_()
    soft = sorter(filled, mask=mask)
    slopes = gradient(soft * WEIGHTS, filled)
    for row in range(2):
        alone = scores[row][mask[row]].requires_grad_()
        expected = sorter(alone)
        assert torch.allclose(soft[row][mask[row]], expected)
        assert torch.allclose(slopes[row][mask[row]], gradient(expected * WEIGHTS[mask[row]], alone))
    assert not soft[~mask].any()
    assert not slopes[~mask].any()
    assert torch.allclose(sorter(scores, mask=torch.ones_like(mask)), sorter(scores), rtol=1e-14, atol=1e-13)
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    assert torch.allclose(sorter(filled, mask=mask, normalized=True), soft / count)


@every
def test_names_what_it_refuses(sorter):
    for scores, options, error, message in (
        (torch.tensor([[0.0, 1.0, float("nan"), 3.0, 4.0, 5.0]]), {}, ValueError, r"scores\[0, 2\] is nan"),
        (torch.zeros(2, 0), {}, ValueError, r"\(2, 0\)"),
        (torch.tensor(1.0), {}, ValueError, r"shape \(\)"),
        (torch.zeros(2, LENGTH, dtype=torch.int64), {}, TypeError, r"scores is torch.int64.*float"),
        ([1.0] * LENGTH, {}, TypeError, "scores is a list"),
        (torch.zeros(LENGTH), {"dim": (0, 1)}, TypeError, r"dim is \(0, 1\)"),
        (torch.zeros(LENGTH), {"dim": 1}, ValueError, r"dim is 1.*\(6,\)"),
        (torch.zeros(2, LENGTH), {"mask": torch.ones(LENGTH).bool()}, ValueError, r"mask has shape \(6,\).*\(2, 6\)"),
        (torch.zeros(LENGTH), {"mask": torch.ones(LENGTH)}, TypeError, "mask is torch.float32"),
    ):
        with pytest.raises(error, match=message):
            sorter(scores, **options)
    if sorter.length is not None:
        with pytest.raises(ValueError, match=r"length 5 in shape \(2, 5\), expected 6"):
            sorter(torch.zeros(2, 5))
        with pytest.raises(ValueError, match="exactly 6"):
            sorter(torch.zeros(LENGTH), mask=torch.ones(LENGTH).bool())


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_an_option_that_is_not_a_number_is_refused(name, option):
    needs_length = VARIANTS[name].length is not None
    with pytest.raises((TypeError, ValueError), match=f"{option} is nan, expected"):
        lookup.find("sorters", name)(**({"length": LENGTH} if needs_length else {}) | {option: float("nan")})


@every
def test_unchecked_a_score_that_is_not_finite_spoils_its_vector_alone(sorter, generator):
    scores = random_scores(generator, 3, LENGTH)
    expected = sorter(scores)
    scores[1, 2], scores[2, 0] = torch.nan, torch.inf
    soft = sorter(scores, check_finite=False)
    assert torch.allclose(soft[0], expected[0])
    assert soft[1:].isnan().all()


# Few distinct values, so that ties are common.
VALUES = hnp.arrays("float64", st.integers(1, 12), elements=st.integers(-4, 4))
VECTORS = hnp.arrays("float64", LENGTH, elements=st.integers(-4, 4))


@equivariant
@settings(max_examples=30)
@given(values=VALUES, seed=st.integers(0, 2**31))
def test_ranks_follow_the_scores_wherever_they_stand(sorter, values, seed):
    sorter, scores = double(sorter), torch.from_numpy(values)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    soft = sorter(scores)
    assert soft.min() >= 1 - 1e-6
    assert torch.allclose(sorter(scores[order]), soft[order], atol=1e-6)
    assert soft.sum().item() == pytest.approx(len(scores) * (len(scores) + 1) / 2)
    differences = soft.unsqueeze(0) - soft.unsqueeze(1)  # [i, j]: rank j - rank i
    assert (differences[scores.unsqueeze(1) > scores.unsqueeze(0)] > -1e-9).all()
    assert (differences.abs()[scores.unsqueeze(1) == scores.unsqueeze(0)] < 1e-6).all()


@equivariant
def test_equal_scores_have_equal_gradients(sorter):
    scores = torch.tensor([1.0, 1.0, 1.0, 0.0, 3.0, 3.0, -2.0]).double().requires_grad_()
    slopes = gradient(double(sorter)(scores) * torch.tensor([2, 2, 2, 1, 5, 5, 0]), scores)
    assert torch.allclose(slopes[[0, 0, 4]], slopes[[1, 2, 5]])


@those(lambda sorter: sorter.shift_invariant or sorter.scale_invariant)
@settings(max_examples=25)
@given(values=VECTORS, shift=st.integers(-1000, 1000), scale=st.floats(1e-6, 1e6))
def test_where_it_says_so_a_shift_or_a_factor_changes_nothing(sorter, values, shift, scale):
    scores, sorter = torch.from_numpy(values), double(sorter)
    if sorter.shift_invariant:
        assert torch.allclose(sorter(scores + shift), sorter(scores), atol=1e-6)
    if sorter.scale_invariant:
        assert torch.allclose(sorter(scores * scale), sorter(scores), atol=1e-6)


@those(lambda sorter: sorter.scale_invariant)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_where_it_says_so_scores_may_span_all_that_their_type_holds(sorter, dtype):
    """Also beside a vector of ordinary ones, under a mask, and unchecked."""
    sorter = double(sorter) if dtype == torch.float64 else sorter
    scores = torch.tensor([[-1.0, 1.0, 0.0, 0.25, -0.75, 0.5]] * 2, dtype=dtype)
    most = 2.0 ** (math.frexp(torch.finfo(dtype).max)[1] - 1)
    wide = (scores * torch.tensor([[most], [1.0]], dtype=dtype)).requires_grad_()
    mask = {} if sorter.length else {"mask": torch.arange(6).expand(2, 6) < 5}
    for options in ({}, mask, {"check_finite": False}):
        expected, soft = sorter(scores, **options), sorter(wide, **options)
        assert torch.allclose(soft, expected, atol=1e-5)
        assert gradient(soft * WEIGHTS, wide).isfinite().all()


@those(lambda sorter: sorter.shift_invariant and sorter.length is None)
def test_where_it_says_so_an_offset_costs_no_digit_beside_masked_scores_either(sorter, generator):
    scores = (torch.randn(200, generator=generator) * 64).round() / 64
    moved, mask = torch.cat([scores + 1e5, torch.tensor([torch.nan])]), torch.arange(201) < 200  # exact in float32
    for descending in (True, False):
        expected = sorter(scores, descending=descending)
        assert torch.allclose(sorter(moved[:200], descending=descending), expected, atol=1e-3)
        assert torch.allclose(sorter(moved, mask=mask, descending=descending)[:200], expected, atol=1e-3)


@pytest.mark.parametrize("attribute", ["equivariant", "shift_invariant", "scale_invariant"])
def test_has_no_property_that_it_denies(attribute, generator):
    """Users choose by these properties."""
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    for name, variant in VARIANTS.items():
        if not getattr(variant, attribute):
            sorter, scores = double(variant), random_scores(generator, LENGTH, dtype=torch.float64)
            moved, expected = {
                "equivariant": (scores[order], sorter(scores)[order]),
                "shift_invariant": (scores + 3, sorter(scores)),
                "scale_invariant": (scores * 3, sorter(scores)),
            }[attribute]
            assert not torch.allclose(sorter(moved), expected, atol=1e-6), name


# Kernels must fit the length and the layers: laws/test_sorters.py has some that do.
@pytest.mark.parametrize(("name", "option"), [pair for pair in options_of("sorters") if pair != ("cnn", "kernels")])
def test_every_option_changes_ranks_or_gradients(name, option, generator):
    scores = (3 * random_scores(generator, 4, LENGTH)).requires_grad_()

    def result(options):
        soft = make(name, **options)(scores)
        return torch.cat([soft, gradient(soft.square(), scores)]).detach()

    check_option(lookup.find("sorters", name), option, result)


@every
def test_comes_back_from_disk_as_it_was(sorter, tmp_path, generator):
    save_model(tmp_path, sorter)
    scores, loaded = random_scores(generator, 3, LENGTH), load_sorter(tmp_path)
    assert loaded(scores).equal(sorter(scores))
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


@those(lambda sorter: not isinstance(sorter, LSTM))  # which asks for cuDNN
def test_makes_no_tensor_on_another_device_than_the_scores(sorter):
    sorter = copy.deepcopy(sorter)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():  # a GPU that need not be there
        sorter.to_empty(device="cuda")
        scores = torch.randn(3, LENGTH, device="cuda")
        for options in [{}] if sorter.length else [{}, {"mask": scores > 0}]:
            assert sorter(scores, check_finite=False, **options).device.type == "cuda"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every
def test_ranks_and_gradients_on_a_gpu_are_the_cpus(sorter, generator):
    scores, results = random_scores(generator, 4, LENGTH, dtype=torch.float64), []
    for device in ("cpu", "cuda"):
        moved = scores.to(device).requires_grad_()
        soft = double(sorter).to(device)(moved)
        slope = gradient(soft * WEIGHTS.to(device), moved)
        results.append(torch.cat([soft.detach(), slope]).cpu())
    assert torch.allclose(*results, atol=1e-8)
