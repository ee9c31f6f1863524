"""What every loss must do. The name of its second argument tells what scores are compared with."""

import inspect
import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from contracts.truths import AXES, EMPTY_OF_ORDER, IMPOSSIBLE, TRUTHS, TYPES, example, kind, without
from contracts.values import check_nothing_else_changes, check_option, check_summary, numbers_of, options_of, parameters
from rankgrad import lookup
from rankgrad.io.checkpoints import build
from rankgrad.losses import _pairs as pairs
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Handcrafted, Laplace, StraightThrough, load_sorter

ALL = lookup.names("losses")
FUNCTIONS = {name: lookup.find("losses", name) for name in ALL}
SORTER = [name for name in ALL if "sorter" in parameters(FUNCTIONS[name])]
WEIGHTED = [name for name in ALL if "weights" in parameters(FUNCTIONS[name])]
# The arguments that all have, in order, where they make sense.
COMMON = {
    "dim": -1,
    "mask": None,
    "weights": None,
    "group_weights": None,
    "reduction": "mean",
    "sorter": None,
    "check_finite": True,
}

JAGGED = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(1)], layout=torch.jagged)

every = pytest.mark.parametrize("name", ALL)


def call(name: str, scores, truth, **options):
    if options.get("pairs"):
        options["generator"] = torch.Generator().manual_seed(0)
    if name in SORTER:
        options.setdefault("sorter", Handcrafted(steepness=3.0))
    return FUNCTIONS[name](scores, truth, **options)


def one(name: str, generator, **options):
    return example(FUNCTIONS[name], generator, **options)


def three(name: str, generator) -> tuple:
    return tuple(torch.stack(parts) for parts in zip(*(one(name, generator) for _ in range(3)), strict=True))


@every
def test_is_documented_and_of_a_kind_that_is_tested(name):
    check_summary(FUNCTIONS[name])
    assert kind(FUNCTIONS[name]) in TRUTHS
    signature = inspect.signature(FUNCTIONS[name]).parameters
    taken = [argument for argument in COMMON if argument in signature]
    assert list(signature)[: 2 + len(taken)] == ["scores", kind(FUNCTIONS[name]), *taken]
    assert {argument: signature[argument].default for argument in taken} == {a: COMMON[a] for a in taken}
    assert {"mask", "group_weights", "reduction", "check_finite"} <= set(taken)
    assert ("dim" in taken) != (kind(FUNCTIONS[name]) == "positives")


@every
def test_has_the_gradient_of_its_value_and_changes_nothing_else(name, generator):
    scores, truth = one(name, generator)
    scores.requires_grad_()
    assert check_nothing_else_changes(
        lambda: torch.autograd.gradcheck(lambda scores: call(name, scores, truth), scores), scores, truth
    )
    with torch.no_grad():
        assert not call(name, scores, truth).requires_grad


@every
def test_is_a_scalar_of_the_scores_type_and_computed_in_float32_at_least(name, generator):
    for dtype in (torch.float32, torch.float64):
        value = call(name, *one(name, generator, dtype=dtype))
        assert (value.shape, value.dtype) == ((), dtype)
    scores, truth = one(name, generator, dtype=torch.float32)
    half = (10 * scores).bfloat16().requires_grad_()
    whole = half.detach().float().requires_grad_()
    values = [call(name, given, truth) for given in (half, whole)]
    assert values[0].item() == values[1].item()
    gradients = [torch.autograd.grad(v, given)[0] for v, given in zip(values, (half, whole), strict=True)]
    assert torch.allclose(gradients[0].float(), gradients[1], rtol=1e-2, atol=1e-6)


@every
def test_reductions_agree(name, generator):
    scores, truth = three(name, generator)
    scores.requires_grad_()
    if kind(FUNCTIONS[name]) == "positives":
        truth = torch.eye(truth.shape[-1]).expand(truth.shape)  # as many in each row and column
    each, mean, total = (call(name, scores, truth, reduction=reduction) for reduction in ("none", "mean", "sum"))
    assert each.shape == (3, 2, 4) if kind(FUNCTIONS[name]) == "positives" else scores.shape[:-1]
    torch.testing.assert_close(call(name, scores[0], truth[0], reduction="none"), each[0])
    torch.testing.assert_close((each.mean(), each.sum()), (mean, total))
    slopes = [torch.autograd.grad(value, scores)[0] for value in (each.mean(), mean, total / each.numel())]
    torch.testing.assert_close(slopes, slopes[:1] * 3)
    with pytest.raises(ValueError, match="reduction is 'average', expected 'mean' or 'sum' or 'none'"):
        call(name, scores, truth, reduction="average")
    # A group that counts three times is in the mean three times.
    times = torch.tensor([3, 0, 2])
    thrice = [part.repeat_interleave(times, 0) for part in (scores, truth)]
    counts = times.view(3, *[1] * (each.dim() - 1)).expand(each.shape)
    torch.testing.assert_close(call(name, scores, truth, group_weights=counts), call(name, *thrice))
    for wrong, message in ((counts[0], "has shape"), (counts - 1, "-1")):
        with pytest.raises(ValueError, match=f"group_weights.*{message}"):
            call(name, scores, truth, group_weights=wrong)
    with pytest.raises(ValueError, match="reduction is 'sum', expected 'mean' with group_weights"):
        call(name, scores, truth, group_weights=counts, reduction="sum")
    with pytest.raises(TypeError, match="reduction is a tensor, .* group_weights"):
        call(name, scores, truth, reduction=counts)


@every
def test_pairs_that_are_made_block_by_block_add_up_to_the_same(name, generator, monkeypatch):
    scores, truth = three(name, generator)
    scores.requires_grad_()
    options = {"mask": torch.rand(scores.shape, generator=generator) < 0.8} if truth.dim() == 2 else {}
    whole = call(name, scores, truth, reduction="none", **options)
    for module in (pairs, lookup.module("losses", name)):
        monkeypatch.setattr(module, "at_once", lambda device: 2 * scores.numel(), raising=False)  # two rows of each
    parts = call(name, scores, truth, reduction="none", **options)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    above = torch.rand(whole.shape, generator=generator, dtype=whole.dtype)
    slopes = [torch.autograd.grad(value, scores, above)[0] for value in (parts, whole)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if kind(FUNCTIONS[name]) != "positives"])
def test_groups_may_lie_along_any_dimension(name, generator):
    scores, truth = three(name, generator)
    options = {"mask": torch.rand(scores.shape, generator=generator) < 0.8}
    if name in WEIGHTED:
        options["weights"] = torch.rand(scores.shape, generator=generator)
    expected = call(name, scores, truth, reduction="none", **options)
    for dim in (0, -2):
        scores_, truth_, *moved = (part.movedim(-1, dim) for part in (scores, truth, *options.values()))
        options_ = dict(zip(options, moved, strict=True))
        torch.testing.assert_close(call(name, scores_, truth_, dim=dim, reduction="none", **options_), expected)
    with pytest.raises(ValueError, match="dim is 3"):
        call(name, scores, truth, dim=3)


@every
def test_the_truth_may_be_of_any_type(name, generator):
    scores, truth = one(name, generator)
    if truth.is_floating_point():
        graded = {"gain", "max_grade"} & set(parameters(FUNCTIONS[name]))
        truth = (truth > 0.35).double() if graded else (10 * truth).round()
    for dtype in TYPES[kind(FUNCTIONS[name])]:
        assert call(name, scores, truth.to(dtype)).item() == pytest.approx(call(name, scores, truth).item())
    with pytest.raises(TypeError, match=f"{kind(FUNCTIONS[name])} is torch.complex64, expected real numbers"):
        call(name, scores, truth.to(torch.complex64))


@pytest.mark.parametrize("name", [name for name in ALL if kind(FUNCTIONS[name]) in ("target", "label_ranks")])
def test_large_integers_are_compared_as_integers_or_refused(name, generator):
    truth = torch.tensor([[3, 1, 2, 4], [1, 2, 2, 1]])
    scores = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    value = call(name, scores, truth).item()
    by_order = call(name, scores, truth.where(truth != 2, 1.5)).item() == pytest.approx(value)
    for offset in (2**53, 1_700_000_000_000_000_000):
        if by_order:
            assert call(name, scores, truth + offset).item() == pytest.approx(value)
        else:
            with pytest.raises(ValueError, match=r"target\[0, 0\] is \d+ .*2\^53"):
                call(name, scores, truth + offset)


@every
def test_value_and_gradient_are_finite_for_large_scores_and_without_anything_to_compare(name, generator):
    compared = kind(FUNCTIONS[name])
    for truth in (TRUTHS[compared], *map(torch.tensor, EMPTY_OF_ORDER[compared])):
        for scale in (1, 1e4):
            scores = (scale * torch.randn(truth.shape, generator=generator)).requires_grad_()
            value = call(name, scores, truth)
            assert torch.isfinite(value)
            assert torch.isfinite(torch.autograd.grad(value, scores)[0]).all()


@every
def test_falls_when_the_order_is_right_and_when_its_gradient_is_followed(name, generator):
    truth = TRUTHS[kind(FUNCTIONS[name])]
    right = 2 * truth.float() - 1
    assert call(name, right, truth) < call(name, -right, truth)
    scores, truth = one(name, generator)
    value = call(name, scores.requires_grad_(), truth)
    (slope,) = torch.autograd.grad(value, scores)
    assert call(name, scores - 0.01 * slope / slope.norm(), truth) < value


@every
def test_names_what_it_refuses(name):
    compared = kind(FUNCTIONS[name])
    for shape, other, message in (
        ((2, 3), (2, 4), r"\(2, 3\).*\(2, 4\)"),
        ((2, 3, 0), (2, 3, 0), r"\(2, 3, 0\), expected a size of at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call(name, torch.zeros(shape), torch.zeros(other, dtype=TRUTHS[compared].dtype))
    square = torch.eye(2)
    for argument, bad in (("scores", square.tolist()), (compared, square.tolist()), ("mask", square.numpy() > 0),
                            *[("weights", square.numpy())] * (name in WEIGHTED)):  # fmt: skip
        arguments = {"scores": square, compared: square} | {argument: bad}
        with pytest.raises(TypeError, match=f"{argument} is an? (list|ndarray), expected a tensor.*torch.as_tensor"):
            call(name, arguments.pop("scores"), arguments.pop(compared), **arguments)
    for other, found in ((square.to_sparse(), "sparse"), (JAGGED, "nested")):
        for argument in ("scores", compared):
            arguments = {"scores": square, compared: square} | {argument: other}
            with pytest.raises(TypeError, match=f"{argument} is a {found} tensor, expected a dense one"):
                call(name, arguments.pop("scores"), arguments.pop(compared))
    with pytest.raises(TypeError, match=r"scores is torch.int64.*\.float\(\)"):
        call(name, square.long(), square)
    for truth, message in IMPOSSIBLE[compared]:
        with pytest.raises((ValueError, TypeError), match=message):
            call(name, torch.zeros(truth.shape), truth)


@every
def test_no_group_costs_nothing(name):
    for shape in ((0, 3, 3), (2, 0, 3, 3)):
        scores = torch.zeros(shape, requires_grad=True)
        value = call(name, scores, torch.zeros(shape, dtype=TRUTHS[kind(FUNCTIONS[name])].dtype))
        (gradient,) = torch.autograd.grad(value, scores)
        assert (value.item(), gradient.shape) == (0.0, shape)
        none = call(name, scores, torch.zeros(shape), reduction="none")
        assert none.numel() == 0


@every
def test_lists_that_a_mask_leaves_without_anything_to_compare_cost_nothing(name):
    shape = (2, 1) if kind(FUNCTIONS[name]) != "positives" else (1, 2)
    scores = torch.zeros(shape, requires_grad=True)
    value = call(name, scores, torch.zeros(shape), mask=torch.zeros(shape, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(value, scores)
    assert value.item() == 0.0
    assert (gradient == 0).all()


@every
def test_truths_of_any_whole_type_are_read_right_and_float8_is_named(name, generator):
    scores, truth = one(name, generator)
    whole = (10 * truth).long() % 5 if truth.is_floating_point() else truth.long()
    mask = torch.ones_like(scores, dtype=torch.bool)
    for options in ({}, {"mask": mask}):
        expected = call(name, scores, whole, **options)
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            assert call(name, scores, whole.to(dtype), **options).equal(expected), dtype
        if kind(FUNCTIONS[name]) != "target":
            assert call(name, scores, whole > 0, **options).equal(call(name, scores, (whole > 0).long(), **options))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        with pytest.raises(TypeError, match=rf"{kind(FUNCTIONS[name])} is {dtype}, .*\.float\(\)"):
            call(name, scores, whole.to(dtype))
        with pytest.raises(TypeError, match=rf"scores is {dtype}, .*\.float\(\)"):
            call(name, scores.to(dtype), whole)


@pytest.mark.parametrize(("name", "option"), options_of("losses", ALL))
def test_every_option_changes_the_value(name, option, generator):
    pair = one(name, generator)
    check_option(FUNCTIONS[name], option, lambda options: call(name, *pair, **options))


@pytest.mark.parametrize(("name", "option"), numbers_of("losses", ALL))
def test_an_option_that_is_not_a_number_is_refused(name, option, generator):
    with pytest.raises((TypeError, ValueError), match=f"{option} is nan, expected"):
        call(name, *one(name, generator), **{option: math.nan})


@pytest.mark.parametrize("name", [name for name in ALL if kind(FUNCTIONS[name]) != "label_ranks"])
@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_does_not_see_in_which_order_examples_come(name, seed):
    generator = torch.Generator().manual_seed(seed)
    pair = one(name, generator)
    moved = pair
    for axis in AXES[kind(FUNCTIONS[name])]:  # images and texts each in an order of their own
        order = torch.randperm(pair[0].shape[axis], generator=generator)
        moved = [part.index_select(axis, order) for part in moved]
    assert call(name, *moved).item() == pytest.approx(call(name, *pair).item(), abs=1e-12)


@pytest.mark.parametrize("name", [n for n in ALL if kind(FUNCTIONS[n]) == "label_ranks" and n not in SORTER])
def test_unchecked_a_label_that_cannot_be_there_may_score_minus_infinity(name, generator):
    label_ranks = torch.tensor([[2, 1, 0, 0], [1, 0, 0, 0]])
    impossible = torch.tensor([[False, False, False, True], [False, True, False, False]])
    scores = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    results = []
    for lowest in (-torch.inf, -1000.0):  # e^-1000 is 0 in double precision
        given = scores.masked_fill(impossible, lowest).requires_grad_()
        value = call(name, given, label_ranks, check_finite=False)
        results.append((value, *torch.autograd.grad(value, given)))
    torch.testing.assert_close(*results)


@every
def test_refuses_scores_that_are_not_finite_unless_told_not_to_look(name, generator):
    scores, truth = one(name, generator, dtype=torch.float32)
    place = tuple(size - 1 for size in scores.shape)
    for bad in (math.nan, math.inf, -math.inf):
        scores[place] = bad
        with pytest.raises(ValueError, match=rf"scores\[{', '.join(map(str, place))}\] is {bad}.*mask"):
            call(name, scores, truth)
        assert call(name, scores, truth, check_finite=False).shape == ()
    assert torch.isfinite(call(name, torch.zeros_like(scores), truth))


@every
def test_what_is_masked_might_as_well_not_be_there(name, generator):
    scores, truth = three(name, generator)
    mask, shorter = without(kind(FUNCTIONS[name]), scores, truth)
    spoilt = scores.masked_fill(~mask, torch.nan).requires_grad_()
    unknown = truth.double().masked_fill(~mask, torch.nan)
    value = call(name, spoilt, unknown, mask=mask)
    assert value.item() == pytest.approx(call(name, *shorter).item())
    (gradient,) = torch.autograd.grad(value, spoilt)
    assert (gradient[~mask] == 0).all()
    assert torch.isfinite(gradient).all()
    if kind(FUNCTIONS[name]) != "positives":  # each group has a mask of its own
        mask = (torch.rand(scores.shape, generator=generator) < 0.7).index_fill(-1, torch.tensor(0), True)
        values = call(name, scores, truth, mask=mask, reduction="none")
        groups = zip(*(part.flatten(0, -2) for part in (scores, truth, mask)), strict=True)
        alone = [call(name, given[kept], true[kept]) for given, true, kept in groups]
        torch.testing.assert_close(values.flatten(), torch.stack(alone))
    nothing = call(name, spoilt, unknown, mask=torch.zeros_like(mask))
    assert nothing.item() == 0
    assert not torch.autograd.grad(nothing, spoilt)[0].any()
    with pytest.raises(TypeError, match="mask is torch.float32"):
        call(name, scores, truth, mask=torch.ones(scores.shape))
    with pytest.raises(ValueError, match=r"mask has shape \(2,\)"):
        call(name, scores, truth, mask=torch.ones(2, dtype=torch.bool))


@every
def test_a_group_without_any_score_or_weight_does_not_count(name, generator):
    scores, truth = three(name, generator)
    scores.requires_grad_()
    kept = torch.tensor([True, True, True, False]).view(-1, *[1] * (scores.dim() - 1))
    more, unknown = (torch.cat([part, part[:1]]) for part in (scores, truth))
    left_out = {"mask": kept.expand(more.shape)}
    for options in (left_out, {"weights": kept.double().expand(more.shape)} if name in WEIGHTED else left_out):
        for reduction in ("mean", "sum"):
            values = [call(name, scores, truth, reduction=reduction)]
            values.append(call(name, more, unknown, reduction=reduction, **options))
            torch.testing.assert_close(*values)
            torch.testing.assert_close(*(torch.autograd.grad(value, scores, retain_graph=True)[0] for value in values))
        each = call(name, more, unknown, **options, reduction="none")
        assert not each[-1].any()
        torch.testing.assert_close(each[:-1], call(name, scores, truth, reduction="none"))


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_count_in_proportion(name, generator):
    scores, truth = three(name, generator)
    weights = torch.rand(scores.shape, generator=generator, dtype=scores.dtype) + 0.1
    value = call(name, scores, truth, weights=weights).item()
    for factor in (7, 1e-15, 1e15):
        assert call(name, scores, truth, weights=weights * factor).item() == pytest.approx(value)
    equal = call(name, scores, truth, weights=torch.ones_like(weights)).item()
    assert equal == pytest.approx(call(name, scores, truth).item())
    assert value != pytest.approx(equal)
    spoilt = weights.clone()
    spoilt[..., 0] = 0.0
    assert torch.isfinite(torch.func.grad(lambda scores: call(name, scores, truth, weights=spoilt))(scores)).all()
    for bad, error, message in (
        (-weights, ValueError, r"weights\[0.*\] is -"),
        (weights * math.nan, ValueError, r"weights\[0.*\] is nan"),
        (torch.ones(2), ValueError, r"weights \(2,\) and scores"),
        (torch.ones(scores.shape).long(), TypeError, "weights is torch.int64"),
    ):
        with pytest.raises(error, match=message):
            call(name, scores, truth, weights=bad)


@pytest.mark.parametrize("name", SORTER)
class TestWithSorter:
    def test_trains_through_a_frozen_sorter(self, name, generator):
        scores, truth = one(name, generator, dtype=torch.float32)
        sorter = build("sorters", "comparator", {"hidden": 4}, seed=0).requires_grad_(False).eval()
        call(name, scores.requires_grad_(), truth, sorter=sorter).backward()
        assert scores.grad.any()
        assert all(weight.grad is None for weight in sorter.parameters())

    @settings(max_examples=20)
    @given(seed=st.integers(0, 1000), shift=st.integers(-100, 100))
    def test_depends_on_the_order_of_the_scores_alone_if_the_sorter_does(self, name, seed, shift):
        scores, truth = one(name, torch.Generator().manual_seed(seed))
        scores = (scores * 3).round()  # exact under the shift, and with ties
        value = call(name, scores, truth, sorter=StraightThrough())
        for same in (scores + shift, scores * 8, scores.exp()):
            assert call(name, same, truth, sorter=StraightThrough()).equal(value)

    def test_a_sorter_may_be_left_out_or_named(self, name, generator):
        scores, truth = one(name, generator)
        expected = FUNCTIONS[name](scores, truth, sorter=Laplace(softness=0.2))
        for same in ({}, {"sorter": None}, {"sorter": "laplace"}):
            assert FUNCTIONS[name](scores, truth, **same).equal(expected)
        values = (call(name, scores, truth, sorter=one) for one in ("comparator", load_sorter("comparator")))
        assert torch.equal(*values)

    def test_names_what_is_no_sorter(self, name, generator):
        scores, truth = one(name, generator)
        for bad, error, message in (
            (exact_ranks, ValueError, "sorter is the function exact_ranks, which has no gradient.*StraightThrough"),
            (3, TypeError, "sorter is a int"),
            ("lstm", ValueError, "lstm: needs training"),
        ):
            with pytest.raises(error, match=message):
                call(name, scores, truth, sorter=bad)
        with pytest.raises(ValueError, match="<lambda>, whose ranks have no gradient"):
            call(name, scores.requires_grad_(), truth, sorter=lambda scores, **options: exact_ranks(scores, **options))

    def test_ranks_of_another_shape_or_that_are_no_numbers_are_refused(self, name, generator):
        scores, truth = one(name, generator)
        for wrong, error, message in (
            (
                lambda ranks: ranks.mean(-1, keepdim=True),
                ValueError,
                "ranks have shape .*, expected that of the scores",
            ),
            (lambda ranks: ranks * math.nan, ValueError, r"rank\[0.*\] is nan"),
            (lambda ranks: ranks.detach().long(), TypeError, "ranks are torch.int64"),
            (lambda ranks: ranks.tolist(), TypeError, "ranks are list"),
        ):
            sorter = lambda scores, wrong=wrong, **options: wrong(Laplace()(scores, **options))  # noqa: E731
            with pytest.raises(error, match=message):
                call(name, scores, truth, sorter=sorter)

    def test_a_function_may_give_anything_where_the_mask_is_false(self, name, generator):
        scores, truth = three(name, generator)
        mask, _ = without(kind(FUNCTIONS[name]), scores, truth)
        spoilt = lambda scores, mask: Laplace()(scores, mask=mask).masked_fill(~mask, math.nan)  # noqa: E731
        assert call(name, scores, truth, mask=mask, sorter=spoilt).equal(
            call(name, scores, truth, mask=mask, sorter=Laplace())
        )


@every
def test_under_vmap_it_is_the_same_or_refused(name, generator):
    pair = three(name, generator)
    try:
        mapped = torch.func.vmap(partial(call, name))(*pair)
    except RuntimeError:  # it picks out its positives
        assert name not in ("spearman", "kendall", "ndcg", "average_precision", "precision_at_k", "hit_rate")
        return
    assert torch.allclose(mapped, torch.stack([call(name, *group) for group in zip(*pair, strict=True)]))


@pytest.mark.parametrize(
    "name", [name if name == "spearman" else pytest.param(name, marks=pytest.mark.slow) for name in ALL]
)
def test_compiled_whole_it_is_the_same_or_refused(name, generator):
    torch.compiler.reset()
    pair, options = one(name, generator), {"sorter": Handcrafted(steepness=3.0)} if name in SORTER else {}
    compiled = torch.compile(partial(FUNCTIONS[name], **options), fullgraph=True, backend="eager")
    try:
        value = compiled(*pair)
    except torch._dynamo.exc.Unsupported:  # it picks out its positives
        return
    assert torch.allclose(value, call(name, *pair))


@every
def test_makes_no_tensor_on_another_device_than_the_scores(name, generator):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():  # a GPU that need not be there
        moved = [torch.empty(part.shape, dtype=part.dtype, device="cuda") for part in one(name, generator)]
        try:
            assert call(name, *moved, check_finite=False).device.type == "cuda"
        except (DataDependentOutputException, DynamicOutputShapeException):  # it picks out its positives
            return


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every
def test_values_and_gradients_on_a_gpu_are_the_cpus(name, generator):
    scores, truth = one(name, generator)
    results = []
    for device in ("cpu", "cuda"):
        moved = scores.to(device).requires_grad_()
        value = call(name, moved, truth.to(device))
        results.append((value.detach().cpu(), torch.autograd.grad(value, moved)[0].cpu()))
    torch.testing.assert_close(*results)
