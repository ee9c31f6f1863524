"""Every loss and metric against plain loops, in float64: weights, masks, ties and the order of the items."""

import inspect

import pytest
import torch
from contracts.truths import kind
from hypothesis import assume, given
from hypothesis import strategies as st

from laws.formulas import LOSSES, METRICS
from laws.law import law
from rankgrad import lookup, losses, metrics

ALL = [name for name in lookup.names("losses") if name != "none"]
# Where a row of no weight is as one that is not there. Elsewhere it takes a place, or may come first.
BY_PAIRS = ("gaussian_mlr", "lsep", "pairwise_logistic", "ranknet", "rlsep")
BY_SCORE = ("asymmetric", "focal", "generalized_cross_entropy", "l1", "mse", "multilabel_soft_margin")


@st.composite
def batches(draw, truth: str):
    """Tensors of a few groups: scores with ties, what they are compared with, weights, and a mask of two at least."""
    count, length = draw(st.integers(2, 3)), draw(st.integers(3, 6))
    shape = (length, length) if truth == "positives" else (count, length)
    elements = [
        st.sampled_from([-2.0, -0.5, 0.0, 0.25, 0.75, 1.5]),
        st.integers(0, 1 if truth == "labels" else 3),
        st.sampled_from([0.0, 0.25, 1.0, 3.0]),
        st.booleans(),
    ]
    size = shape[0] * shape[1]
    scores, true, weights, mask = (
        torch.tensor(draw(st.lists(one, min_size=size, max_size=size))).view(shape) for one in elements
    )
    mask[:, :2] = True
    return scores.double(), torch.eye(length).bool() if truth == "positives" else true, weights.double(), mask


def call(function, scores, truth, weights, mask, **options):
    """What a loss or metric gives of each group, of the arguments that it takes."""
    taken = inspect.signature(function).parameters
    more = {"weights": weights, "mask": mask, "reduction": "none"}
    if "generator" in taken:
        options["generator"] = torch.Generator().manual_seed(0)
    return function(scores, truth, **{name: value for name, value in more.items() if name in taken}, **options)


def rows_of(scores, truth, weights, mask, group: int) -> list[tuple[float, float, float]]:
    parts = (one[group].tolist() for one in (scores, truth, weights, mask))
    return [(score, true, weight) for score, true, weight, there in zip(*parts, strict=True) if there]


def check_against_a_loop(function, formula, options, nothing: float, batch) -> None:
    scores, truth, weights, mask = batch
    if "weights" not in inspect.signature(function).parameters:
        weights = torch.ones_like(scores)
    found = call(function, scores.where(mask, torch.nan), truth, weights, mask, **options)
    for group, value in enumerate(found.tolist()):
        expected = formula(rows_of(scores, truth, weights, mask, group))
        expected = nothing if expected is None else expected
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", LOSSES)
@law(25)
@given(data=st.data())
def test_a_loss_is_its_formula(name, data):
    function, (formula, options) = getattr(losses, name), LOSSES[name]
    check_against_a_loop(function, formula, options, 0.0, data.draw(batches(kind(function))))


@pytest.mark.parametrize("name", METRICS)
@law(25)
@given(data=st.data())
def test_a_metric_is_its_formula(name, data):
    function, (formula, options) = getattr(metrics, name), METRICS[name]
    check_against_a_loop(function, formula, options, torch.nan, data.draw(batches(kind(function))))


@pytest.mark.parametrize("name", [name for name in ALL if kind(getattr(losses, name)) != "positives"])
@law(8)
@given(data=st.data())
def test_a_masked_list_is_the_shorter_list_and_no_order_of_its_items_counts(name, data):
    function = getattr(losses, name)
    scores, truth, weights, mask = data.draw(batches(kind(function)))
    found = call(function, scores.where(mask, torch.nan), truth, weights, mask)
    for group, value in enumerate(found.tolist()):
        order = data.draw(st.permutations(mask[group].nonzero()[:, 0].tolist()))
        parts = (one[group][order].unsqueeze(0) for one in (scores, truth, weights))
        assert value == pytest.approx(call(function, *parts, None).item(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in ALL if kind(getattr(losses, name)) == "positives"])
@law(15)
@given(data=st.data())
def test_of_a_matrix_masked_rows_and_columns_might_as_well_not_be_there(name, data):
    function = getattr(losses, name)
    scores, truth, weights, _ = data.draw(batches("positives"))
    order = data.draw(st.permutations(range(len(scores))))
    kept = order[: data.draw(st.integers(2, len(scores)))]
    there = torch.zeros(len(scores), dtype=torch.bool).index_fill(0, torch.tensor(kept), True)
    mask = there.unsqueeze(0) & there.unsqueeze(1)
    found = call(function, scores.where(mask, torch.nan), truth, weights, mask)
    alone = call(function, *(one[kept][:, kept] for one in (scores, truth, weights)), None)
    assert found.double().sum().item() == pytest.approx(alone.double().sum().item(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [*BY_PAIRS, *BY_SCORE])
@law(15)
@given(data=st.data())
def test_a_row_of_no_weight_is_as_one_that_is_not_there(name, data):
    function = getattr(losses, name)
    scores, truth, weights, mask = data.draw(batches(kind(function)))
    assume(bool(((weights > 0) & mask).any(-1).all()))
    found, without = (call(function, scores, truth, weights, one) for one in (mask, mask & (weights > 0)))
    assert found.tolist() == pytest.approx(without.tolist(), rel=1e-6, abs=1e-9)
