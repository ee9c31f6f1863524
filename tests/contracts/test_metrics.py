"""What every metric must do: each public function of scores and a truth of a known kind in a file of the folder."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.truths import AXES, IMPOSSIBLE, TRUTHS, TYPES, example, kind, without
from contracts.values import check_nothing_else_changes, check_option, check_summary, options, parameters, required
from rankgrad import lookup

METRICS = {
    f"{file}.{name}": thing
    for file in lookup.names("metrics")
    for name, thing in inspect.getmembers(lookup.module("metrics", file), inspect.isfunction)
    if name in lookup.module("metrics", file).__all__ and parameters(thing)[0] == "scores" and kind(thing) in TRUTHS
}
every = pytest.mark.parametrize("name", METRICS)


def takes(argument: str) -> list[str]:
    return [name for name, metric in METRICS.items() if argument in parameters(metric)]


def call(name: str, scores, truth, **options) -> torch.Tensor:
    result = METRICS[name](scores, truth, **required(METRICS[name]) | options)
    return torch.stack(list(result.values())) if isinstance(result, dict) else result


def one(name: str, generator, **options):
    return example(METRICS[name], generator, **options)


@every
def test_is_documented_exact_without_gradient_and_changes_nothing(name, generator):
    assert {name.split(".")[0] for name in METRICS} == set(lookup.names("metrics"))  # every file holds one
    check_summary(METRICS[name])
    scores, truth = one(name, generator, dtype=torch.float32)
    value = check_nothing_else_changes(lambda: call(name, scores.requires_grad_(), truth), scores, truth)
    assert not value.requires_grad
    assert value.dtype in (torch.float64, torch.int64)
    assert call(name, scores.double(), truth.double() if truth.is_floating_point() else truth).equal(value)


@every
@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_sees_the_order_of_the_scores_alone_wherever_examples_stand(name, seed):
    generator = torch.Generator().manual_seed(seed)
    scores, truth = one(name, generator)
    scores = (scores * 3).round()  # with ties
    value = call(name, scores, truth)
    for same in (scores + 7, scores * 8, scores.exp()):
        assert call(name, same, truth).equal(value)
    axis = AXES[kind(METRICS[name])][-1]
    order = torch.randperm(scores.shape[axis], generator=generator)
    moved = call(name, scores.index_select(axis, order), truth.index_select(axis, order))
    if kind(METRICS[name]) != "label_ranks":  # whose pairs are positive or negative by their places
        assert torch.allclose(moved, value, equal_nan=True)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if kind(metric) in ("target", "labels")])
def test_groups_may_lie_along_any_dimension(name, generator):
    scores, truth = one(name, generator)
    if scores.dim() == 1:
        scores, truth = torch.stack([scores, -scores]), torch.stack([truth, truth.flip(0)])
    options = {"mask": torch.ones_like(scores) > 0, "weights": torch.rand(scores.shape, generator=generator)}
    options["mask"][0, 0] = False
    options = {argument: part for argument, part in options.items() if argument in parameters(METRICS[name])}
    moved = {argument: part.T for argument, part in options.items()}
    expected = call(name, scores, truth, **options)
    torch.testing.assert_close(call(name, scores.T, truth.T, dim=0, **moved), expected, equal_nan=True)
    with pytest.raises(ValueError, match="dim is 2"):
        call(name, scores, truth, dim=2)


@every
def test_the_truth_may_be_of_any_type(name, generator):
    scores, truth = one(name, generator)
    truth = (4 * truth).round() if truth.is_floating_point() else truth
    for dtype in TYPES[kind(METRICS[name])]:
        assert torch.allclose(call(name, scores, truth.to(dtype)), call(name, scores, truth), equal_nan=True)


@pytest.mark.parametrize("name", [name for name in METRICS if kind(METRICS[name]) in ("target", "label_ranks")])
def test_large_integers_are_compared_as_integers_or_refused(name):
    """Of time stamps in nanoseconds float64 makes ties."""
    scores, small = torch.tensor([[0.4, 0.5, 0.3, 0.2, 0.1]]), torch.tensor([[2, 0, 1, 1, 3]])
    large = small + 2**60 * (small.sign() if kind(METRICS[name]) == "label_ranks" else 1)  # 0 is no label
    value = call(name, scores, small)
    if value.equal(call(name, scores, small + small // 3)):  # their order alone counts
        assert call(name, scores, large).equal(value)
    else:
        with pytest.raises(ValueError, match=rf"target\[0, 0\] is {2**60 + 2}"):
            call(name, scores, large)


@every
def test_computes_in_float64_whatever_it_is_given_and_follows_no_gradient(name, generator):
    scores, truth = one(name, generator, dtype=torch.float32)
    given = {}
    if "weights" in parameters(METRICS[name]):
        shape = scores.shape[:1] if kind(METRICS[name]) == "positives" else scores.shape
        given["weights"] = torch.rand(shape, generator=generator, dtype=torch.float64)
    value = call(name, scores, truth, **given)
    wide = scores.double(), truth.double() if truth.is_floating_point() else truth
    assert call(name, *wide, **given).equal(value)
    followed = [part.requires_grad_() if part.is_floating_point() else part for part in (*wide, *given.values())]
    assert not call(name, *followed[:2], **dict(zip(given, followed[2:], strict=True))).requires_grad
    halves = {argument: part.float() for argument, part in given.items()}
    assert call(name, scores, truth, **halves).equal(
        call(name, *wide, **{key: half.double() for key, half in halves.items()})
    )


@pytest.mark.parametrize("name", takes("mask"))
def test_what_is_masked_might_as_well_not_be_there(name, generator):
    scores, truth = one(name, generator)
    mask, shorter = without(kind(METRICS[name]), scores, truth)
    if kind(METRICS[name]) == "positives":  # each row needs one: leave out a column alone
        mask = torch.ones_like(mask)
        mask[:, 3] = False
        truth = torch.eye(4, dtype=torch.bool)
        scores, truth, mask = scores[:3], truth[:3], mask[:3]
        shorter = scores[:, :3], truth[:, :3]
    spoilt = scores.masked_fill(~mask, math.nan)
    assert torch.allclose(call(name, spoilt, truth, mask=mask), call(name, *shorter), equal_nan=True)
    with pytest.raises(TypeError, match="mask is torch.float"):
        call(name, scores, truth, mask=mask.float())
    with pytest.raises(ValueError, match=r"mask has shape \(2,\)"):
        call(name, scores, truth, mask=torch.ones(2, dtype=torch.bool))


@pytest.mark.parametrize("name", takes("weights"))
def test_weights_count_in_proportion(name, generator):
    scores, truth = one(name, generator)
    shape = scores.shape[:1] if kind(METRICS[name]) == "positives" else scores.shape  # of each search
    weights = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.1
    value = call(name, scores, truth, weights=weights)
    assert torch.allclose(call(name, scores, truth, weights=7 * weights), value, equal_nan=True)
    equal = call(name, scores, truth, weights=torch.ones(shape))
    assert torch.allclose(equal, call(name, scores, truth), equal_nan=True)
    with pytest.raises(ValueError, match=r"weights\[0.*\] is -"):
        call(name, scores, truth, weights=-weights)
    with pytest.raises(TypeError, match="weights is torch.int64"):
        call(name, scores, truth, weights=torch.ones(shape).long())


@every
def test_names_what_it_refuses(name, generator):
    compared, (scores, truth) = kind(METRICS[name]), one(name, generator)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        call(name, torch.zeros(2, 3), torch.zeros(2, 4, dtype=TRUTHS[compared].dtype))
    with pytest.raises(TypeError, match=f"{compared} is a list"):
        call(name, torch.zeros(1, 2), [[1, 0]])
    with pytest.raises(TypeError, match="scores is torch.int64"):
        call(name, scores.long(), truth)
    place = tuple(size - 1 for size in scores.shape)
    scores[place] = math.nan
    with pytest.raises(ValueError, match=rf"scores\[{', '.join(map(str, place))}\] is nan"):
        call(name, scores, truth)
    if compared != "target":  # of which a correlation may be of any type
        for bad, message in IMPOSSIBLE[compared]:
            with pytest.raises((ValueError, TypeError), match=message):
                call(name, torch.zeros(bad.shape), bad)


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, metric in METRICS.items() for option in options(metric)]
)
def test_every_option_changes_the_value(name, option, generator):
    pairs = [one(name, generator) for _ in range(4)]
    result = lambda values: torch.stack([call(name, *pair, **values).nan_to_num() for pair in pairs])  # noqa: E731
    check_option(METRICS[name], option, result)
