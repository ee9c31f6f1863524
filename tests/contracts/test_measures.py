"""What every loss and every metric must do: gradients, types, empty groups, bad input, options, sorters.

A new one is found by its file. Values, with masks, weights, dimensions and types of the truth, are held to plain loops
in laws/test_losses.py.
"""

import inspect
import math
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from contracts.measures import IMPOSSIBLE, LOSSES, MEASURES, METRICS, TRUTHS, Measure
from contracts.values import (
    check_nothing_else_changes,
    check_option,
    check_summary,
    gradient,
    normal,
    numbers_of,
    options,
)
from rankgrad import lookup
from rankgrad.io.checkpoints import build
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Laplace, load_sorter

# The arguments that all losses have, in order, where they make sense.
COMMON = {
    "dim": -1, "mask": None, "weights": None, "group_weights": None, "reduction": "mean", "sorter": None,
    "check_finite": True,
}  # fmt: skip
# Those that pick out their positives run neither under vmap nor compiled.
NO_VMAP = ("hard_negative_triplet", "hinge_ap", "sodeep_recall")

every = pytest.mark.parametrize("measure", MEASURES, ids=str)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_metric = pytest.mark.parametrize("metric", METRICS, ids=str)
every_with_sorter = pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.takes("sorter")], ids=str)


def close(first: torch.Tensor, second: torch.Tensor, **tolerance) -> None:
    torch.testing.assert_close(first, second, equal_nan=True, check_dtype=False, **tolerance)


@every_loss
def test_is_documented_and_has_the_common_arguments(loss):
    check_summary(loss.function)
    signature = inspect.signature(loss.function).parameters
    common = {argument: default for argument, default in COMMON.items() if argument in signature}
    assert list(signature)[: 2 + len(common)] == ["scores", loss.kind, *common]
    assert {argument: signature[argument].default for argument in common} == common
    assert {"mask", "group_weights", "reduction", "check_finite"} <= set(common)
    assert ("dim" in common) != (loss.kind == "positives")


@every_loss
def test_a_loss_has_the_gradient_of_its_value_and_changes_nothing_else(loss, generator):
    scores, truth = loss.example(generator)
    check = partial(torch.autograd.gradcheck, lambda scores: loss(scores, truth, reduction="mean"), scores)
    assert check_nothing_else_changes(check, scores, truth)
    with torch.no_grad():
        assert not loss(scores, truth).requires_grad
    # Where a second derivative may follow, some gradients are computed in another way.
    value = loss(scores, truth, reduction="mean")
    (slope,) = torch.autograd.grad(value, scores, create_graph=True)
    close(slope, gradient(loss(scores, truth, reduction="mean"), scores), rtol=1e-6, atol=1e-9)


@every_loss
def test_a_loss_has_a_second_derivative(loss, generator):
    scores, truth = loss.example(generator)
    for mask in ({}, {"mask": torch.rand(scores.shape, generator=generator) < 0.8}):
        mean = partial(loss, truth=truth, reduction="mean", **mask)
        assert torch.autograd.gradgradcheck(mean, scores, fast_mode=True)


@every_metric
def test_a_metric_is_exact_without_gradient_and_changes_nothing_else(metric, generator):
    assert {metric.function.__module__.rsplit(".")[-1] for metric in METRICS} == set(lookup.names("metrics"))
    check_summary(metric.function)
    scores, truth = metric.example(generator, torch.float32)
    value = check_nothing_else_changes(lambda: metric(scores, truth), scores, truth)
    assert not value.requires_grad
    assert value.dtype in (torch.float64, torch.int64)
    assert metric(scores.double(), truth.double() if truth.is_floating_point() else truth).equal(value)


@every_loss
def test_a_loss_has_the_scores_type_and_computes_in_float32_at_least(loss, generator):
    for dtype in (torch.float32, torch.float64):
        assert loss(*loss.example(generator, dtype)).dtype == dtype
    scores, truth = loss.example(generator, torch.float32)
    half = scores.bfloat16()
    single = half.detach().float().requires_grad_()
    values = [loss(half, truth), loss(single, truth)]
    assert values[0].equal(values[1])
    close(gradient(values[0], half).float(), gradient(values[1], single), rtol=1e-2, atol=1e-6)


@every_loss
def test_pairs_made_block_by_block_give_the_same(loss, generator, monkeypatch):
    scores, truth = loss.example(generator)
    at_once = loss(scores, truth)
    for module in ("rankgrad.losses._pairs", loss.function.__module__):
        monkeypatch.setattr(f"{module}.at_once", lambda device: 2 * scores.numel(), raising=False)
    blocks = loss(scores, truth)
    close(blocks, at_once, rtol=1e-12, atol=1e-12)
    close(gradient(blocks, scores), gradient(at_once, scores), rtol=1e-12, atol=1e-12)


# Groups, masks and weights.


@every_loss
def test_a_masked_item_has_no_gradient_whatever_it_holds(loss, generator):
    scores, truth = loss.example(generator)
    mask = torch.ones_like(scores, dtype=torch.bool)
    mask[..., 1] = False
    if loss.kind == "positives":
        truth, mask[1] = torch.eye(4, dtype=torch.bool), False
    spoilt = scores.masked_fill(~mask, torch.nan)
    slope = gradient(loss(spoilt, truth.double().masked_fill(~mask, torch.nan), mask=mask), spoilt)
    assert not slope[~mask].any()
    assert slope.isfinite().all()


@every_loss
def test_a_group_without_anything_to_compare_has_a_gradient_of_0_and_takes_none_from_others(loss, generator):
    scores, truth = loss.example(generator)
    batch = [torch.stack([tensor, tensor]) for tensor in (scores, truth)]
    nothing = torch.stack([torch.ones_like(scores), torch.zeros_like(scores)])
    for argument in ("mask", "weights") if loss.takes("weights") else ("mask",):
        counts = nothing > 0 if argument == "mask" else nothing
        assert not gradient(loss(scores, truth, **{argument: counts[1]}), scores).any()
        for reduction in ("mean", "sum"):
            alone = loss(scores, truth, reduction=reduction)
            close(gradient(loss(*batch, reduction=reduction, **{argument: counts}), scores), gradient(alone, scores))


@every
def test_no_group_has_no_value(measure):
    for shape in ((0, 3, 3), (2, 0, 3, 3)) if measure.is_loss else ((0, 3),):
        scores = torch.zeros(shape, requires_grad=True)
        truth = torch.zeros(shape, dtype=TRUTHS[measure.kind].dtype)
        value = measure(scores, truth)
        assert value.numel() == 0 or value.isnan().all()
        if measure.is_loss:
            mean = measure(scores, truth, reduction="mean")
            assert mean.item() == 0
            assert gradient(mean, scores).shape == shape


# Types, values that are refused, options.


@pytest.mark.parametrize(
    "measure", [measure for measure in MEASURES if measure.kind in ("target", "label_ranks")], ids=str
)
def test_large_integers_are_compared_as_integers_or_refused(measure):
    """In float64, time stamps in nanoseconds would be ties."""
    scores, small = torch.tensor([[0.4, 0.5, 0.3, 0.2, 0.1]]), torch.tensor([[2, 0, 1, 1, 3]])
    large = small + 2**60 * (small.sign() if measure.kind == "label_ranks" else 1)  # 0 is no label
    if measure(scores, small).equal(measure(scores, small + small // 3)):  # only their order counts
        assert measure(scores, large).equal(measure(scores, small))
    elif measure.kind == "target":
        with pytest.raises(ValueError, match=rf"target\[0, 0\] is {2**60 + 2}"):
            measure(scores, large)


def with_last(scores: torch.Tensor, value: float) -> torch.Tensor:
    changed = scores.clone()
    changed[-1, -1] = value
    return changed


def refusals(measure: Measure, scores: torch.Tensor, truth: torch.Tensor) -> Iterator[tuple[dict, type, str]]:
    """Yield arguments that a measure refuses, and the error."""
    kind, ones = measure.kind, torch.ones(scores.shape)
    yield {"scores": torch.zeros(2, 3)}, ValueError, r"\(2, 3\)"
    for argument, values in {"scores": scores, "truth": truth}.items():
        name = kind if argument == "truth" else argument
        yield {argument: values.tolist()}, TypeError, f"{name} is a list, expected a tensor.*torch.as_tensor"
        yield {argument: values.to_sparse()}, TypeError, f"{name} is a sparse tensor, expected a dense one"
        yield {argument: values.to(torch.float8_e5m2)}, TypeError, rf"{name} is torch.float8_e5m2, .*\.float\(\)"
    yield {"scores": scores.long()}, TypeError, r"scores is torch.int64.*\.float\(\)"
    for bad in (math.nan, -math.inf):
        yield {"scores": with_last(scores, bad)}, ValueError, rf"scores\[{len(scores) - 1}, \d\] is {bad}"
    for impossible, message in IMPOSSIBLE[kind]:
        yield {"scores": torch.zeros(impossible.shape), "truth": impossible}, ValueError, message
    if measure.takes("dim"):
        yield {"dim": 2}, ValueError, "dim is 2"
        yield {"dim": (0, 1)}, TypeError, r"dim is \(0, 1\)"
    if measure.takes("mask"):
        yield {"mask": ones}, TypeError, "mask is torch.float32"
        yield {"mask": ones.bool().numpy()}, TypeError, "mask is a ndarray, expected a tensor"
        yield {"mask": torch.ones(2).bool()}, ValueError, r"mask has shape \(2,\)"
    if measure.takes("weights"):
        yield {"weights": -ones}, ValueError, r"weights\[0.*\] is -"
        yield {"weights": ones * math.nan}, ValueError, r"weights\[0.*\] is nan"
        yield {"weights": torch.ones(2)}, ValueError, r"weights \(2,\) and scores"
        yield {"weights": ones.long()}, TypeError, "weights is torch.int64"
        yield {"weights": ones.numpy()}, TypeError, "weights is a ndarray, expected a tensor"
    if measure.is_loss:
        jagged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(1)], layout=torch.jagged)
        yield {"scores": jagged}, TypeError, "scores is a nested tensor"
        empty = torch.zeros(2, 3, 0)
        yield {"scores": empty, "truth": empty}, ValueError, r"\(2, 3, 0\), expected a size of at least 1"
        counts = torch.ones(measure(scores, truth).shape)
        mean = {"reduction": "mean", "group_weights": counts}
        yield {"reduction": "average"}, ValueError, "reduction is 'average', expected 'mean' or 'sum' or 'none'"
        yield {"reduction": counts}, TypeError, "reduction is a tensor, .* group_weights"
        yield mean | {"reduction": "sum"}, ValueError, "reduction is 'sum', expected 'mean'"
        yield mean | {"group_weights": counts[0]}, ValueError, "group_weights has shape"
        yield mean | {"group_weights": -counts}, ValueError, "group_weights.* is -1"
    if measure.is_loss and kind == "target":
        yield {"truth": truth.clone().requires_grad_()}, ValueError, "target requires a gradient.*detach"


@every
def test_names_what_it_refuses(measure, generator):
    scores, truth = measure.example(generator)
    for change, error, message in refusals(measure, scores, truth):
        with pytest.raises(error, match=message):
            measure(**{"scores": scores, "truth": truth} | change)
    if measure.is_loss:
        assert measure.mean(with_last(scores, math.nan), truth, check_finite=False).shape == ()


@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.kind == "label_ranks" and not loss.takes("sorter")], ids=str
)
def test_unchecked_a_label_that_cannot_be_there_may_score_minus_infinity(loss, generator):
    label_ranks = torch.tensor([[2, 1, 0, 0], [1, 0, 0, 0]])
    impossible = torch.tensor([[False, False, False, True], [False, True, False, False]])
    scores = normal(generator, 2, 4)
    lowest = scores.masked_fill(impossible, -torch.inf).requires_grad_()
    low = scores.masked_fill(impossible, -1000.0).requires_grad_()  # e^-1000 is 0 in double precision
    values = [loss(unlikely, label_ranks, check_finite=False) for unlikely in (lowest, low)]
    close(*values)
    close(gradient(values[0], lowest), gradient(values[1], low))


OPTIONS = [(measure, option) for measure in MEASURES for option in options(measure.function)]
NUMBERS = [(loss, option) for loss in LOSSES for option in numbers_of(loss.function)]


@pytest.mark.parametrize(("measure", "option"), OPTIONS, ids=str)
def test_every_option_changes_the_value(measure, option, generator):
    pairs = [measure.example(generator) for _ in range(4)]

    def values(chosen):
        return torch.stack([measure.mean(*pair, **chosen).nan_to_num() for pair in pairs])

    check_option(measure.function, option, values)


@pytest.mark.parametrize(("loss", "option"), NUMBERS, ids=str)
def test_an_option_that_is_not_a_number_is_refused(loss, option, generator):
    with pytest.raises((TypeError, ValueError), match=f"{option} is nan, expected"):
        loss(*loss.example(generator), **{option: math.nan})


# Sorters.


@every_with_sorter
def test_a_sorter_may_be_left_out_named_a_function_or_frozen(loss, generator):
    scores, truth = loss.example(generator, torch.float32)
    default = loss(scores, truth, sorter=Laplace(softness=0.2))
    for same in (None, "laplace"):
        assert loss(scores, truth, sorter=same).equal(default)
    assert loss(scores, truth, sorter="comparator").equal(loss(scores, truth, sorter=load_sorter("comparator")))
    mask = torch.ones_like(scores, dtype=torch.bool)
    mask[..., 2] = False

    def spoilt(scores, mask):  # it may give anything where the mask is False
        return Laplace(softness=0.2)(scores, mask=mask).masked_fill(~mask, math.nan)

    assert loss(scores, truth, mask=mask, sorter=spoilt).equal(loss(scores, truth, mask=mask, sorter=None))
    frozen = build("sorters", "comparator", {"hidden": 4}, seed=0).requires_grad_(False).eval()
    assert gradient(loss(scores, truth, sorter=frozen), scores).any()


@every_with_sorter
def test_names_what_is_no_sorter_or_gives_no_ranks(loss, generator):
    scores, truth = loss.example(generator)

    def changed(change):
        return lambda scores, **mask: change(Laplace()(scores, **mask))

    for wrong, error, message in (
        (exact_ranks, ValueError, "sorter is the function exact_ranks, which has no gradient"),
        (3, TypeError, "sorter is a int"),
        ("lstm", ValueError, "lstm: needs training"),
        (changed(lambda ranks: ranks.detach()), ValueError, "<lambda>, whose ranks have no gradient"),
        (changed(lambda ranks: ranks.mean(-1, keepdim=True)), ValueError, "ranks have shape .*, expected the shape of"),
        (changed(lambda ranks: ranks * math.nan), ValueError, r"rank\[0.*\] is nan"),
        (changed(lambda ranks: ranks.detach().long()), TypeError, "ranks are torch.int64"),
        (changed(lambda ranks: ranks.tolist()), TypeError, "ranks are list"),
    ):
        with pytest.raises(error, match=message):
            loss(scores, truth, sorter=wrong)


# Transformations and devices.


@every_loss
def test_under_vmap_it_is_the_same_or_refused(loss, generator):
    pairs = [loss.example(generator) for _ in range(2)]
    batch = [torch.stack(tensors) for tensors in zip(*pairs, strict=True)]
    if loss.function.__name__ in NO_VMAP:
        with pytest.raises(RuntimeError):
            torch.func.vmap(loss)(*batch)
    else:
        close(torch.func.vmap(loss)(*batch), torch.stack([loss(*pair) for pair in pairs]))


@pytest.mark.parametrize(
    "loss",
    [loss if loss.name == "losses.spearman" else pytest.param(loss, marks=pytest.mark.slow) for loss in LOSSES],
    ids=str,
)
def test_compiled_whole_it_is_the_same_or_refused(loss, generator):
    torch.compiler.reset()
    pair = loss.example(generator)
    extra = {"sorter": Laplace()} if loss.takes("sorter") else {}
    compiled = torch.compile(partial(loss.function, **extra), fullgraph=True, backend="eager")
    try:
        value = compiled(*pair)
    except torch._dynamo.exc.Unsupported:
        assert loss.function.__name__ in NO_VMAP
        return
    close(value, loss(*pair, reduction="mean", **extra))


@every_loss
def test_makes_no_tensor_on_another_device_than_the_scores(loss, generator):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():  # a GPU that need not be there
        pair = [torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda") for tensor in loss.example(generator)]
        try:
            assert loss(*pair, check_finite=False).device.type == "cuda"
        except (DataDependentOutputException, DynamicOutputShapeException):
            assert loss.function.__name__ in NO_VMAP


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every_loss
def test_values_and_gradients_on_a_gpu_are_the_cpus(loss, generator):
    scores, truth = loss.example(generator)
    moved = scores.cuda()
    value, expected = loss(moved, truth.cuda()), loss(scores, truth)
    close(value.cpu(), expected)
    close(gradient(value, moved).cpu(), gradient(expected, scores))
