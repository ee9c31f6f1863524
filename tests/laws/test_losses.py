"""Every loss and metric is its formula, a plain loop, whatever its arguments are.

Weights of any size, masks, ties, types of the truth, dimensions, and groups that have nothing to compare are drawn.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from contracts.values import parameters
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from laws.formulas import LOSSES, METRICS, Counted, Row, Rows
from laws.law import law
from rankgrad import lookup, losses, metrics

TYPES = (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16)
TYPES += (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


@dataclass
class Batch:
    """Groups along the last dimension, or one matrix of `positives`, whose rows and columns are groups.

    A function gets the truth in a type, weights times a factor, and all tensors along a dimension.
    """

    scores: Tensor
    truth: Tensor
    weights: Tensor
    mask: Tensor
    is_matrix: bool
    dtype: torch.dtype
    factor: float
    dim: int

    def groups(self) -> list[Rows]:
        """Return the rows of each group that the mask leaves."""
        tensors = [self.scores, self.truth, self.relative_weights(), self.mask]
        matrices = [tensors, [tensor.mT for tensor in tensors]] if self.is_matrix else [tensors]
        result = []
        for matrix in matrices:
            for group in zip(*(tensor.tolist() for tensor in matrix), strict=True):
                cells = zip(*group, strict=True)
                result.append([Row(score, float(truth), weight) for score, truth, weight, kept in cells if kept])
            result += [[]] * (max(self.scores.shape) - len(matrix[0]) if self.is_matrix else 0)
        return result

    def relative_weights(self) -> Tensor:
        largest = (self.weights * self.mask).max()
        return self.weights / largest.where(largest > 0, 1.0)


@st.composite
def batches(draw, function, lengths: st.SearchStrategy[int]) -> Batch:
    """Draw scores with ties, grades, and, if a function takes them, weights and a mask, of a few groups."""
    taken = parameters(function)
    kind, count, length = taken[1], draw(st.integers(2, 4)), draw(lengths)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def cells(*values: float) -> Tensor:
        return torch.tensor(values)[torch.randint(len(values), (count, length), generator=generator)]

    levels = [-2.0, -0.5, 0.0, 0.25, 0.75, 1.5, *range(2, length)]  # most scores of long groups differ
    scores = cells(*levels).double() * draw(st.sampled_from([0.05, 1.0]))
    weights = (cells(0.0, 0.25, 1.0, 3.0) if "weights" in taken else cells(1.0)).double()
    mask = cells(True, True, False) if "mask" in taken else cells(True)
    is_binary, is_matrix = kind in ("labels", "positives"), kind == "positives"
    truth = cells(0, 1) if is_binary else cells(0, 1, 2, 3)
    dtype = draw(st.sampled_from([*TYPES, torch.bool] if kind != "target" else TYPES))
    truth = truth.clamp(max=1) if dtype == torch.bool else truth
    factor, dim = draw(st.sampled_from([1.0, 7.0, 1e-15, 1e15])), draw(st.sampled_from([0, -1]))
    return Batch(scores, truth, weights, mask, is_matrix, dtype, factor, dim)


def call(function, batch: Batch, **options) -> Tensor:
    """Return what a loss or metric makes of a batch, of the arguments that it takes; masked cells are NaN."""
    taken = parameters(function)
    tensors = {"scores": batch.scores, taken[1]: batch.truth.to(batch.dtype)}
    if "mask" in taken:
        for name, values in tensors.items():
            tensors[name] = values.where(batch.mask, torch.nan) if values.is_floating_point() else values
        tensors["mask"] = batch.mask
    if "weights" in taken:
        tensors["weights"] = batch.weights * batch.factor
    if options.pop("log_variances", None):
        tensors["log_variances"] = tensors["scores"] / 2
    if "sorter" in taken:
        options["sorter"] = "straight_through"
    if batch.dim == 0 and "dim" in taken:
        tensors, options["dim"] = {name: values.T for name, values in tensors.items()}, 0
    result = function(**tensors, **options)
    return torch.stack(list(result.values()), -1) if isinstance(result, dict) else result


def value_of(formula, rows: Rows, options: dict) -> Counted:
    """Return the value of a group, NaN where there is nothing to compare, and how much the group counts."""
    value = formula(rows, **options) if any(row.weight for row in rows) else None
    if value is None:
        return Counted(math.nan, 0.0)
    return value if isinstance(value, Counted) else Counted(value, 1.0)


def cases(formulas: dict[str, tuple]) -> pytest.MarkDecorator:
    """Try each formula with each of its options."""
    rows = []
    for name, (formula, *options_of_rows) in formulas.items():
        rows += [(name, formula, options) for options in options_of_rows]
    return pytest.mark.parametrize(("name", "formula", "options"), rows)


@cases(LOSSES)
@law(16)
@given(data=st.data())
def test_a_loss_is_its_formula(name, formula, options, data):
    function = getattr(losses, name)
    batch = data.draw(batches(function, st.integers(3, 6)))
    groups = [value_of(formula, rows, options) for rows in batch.groups()]
    values = [group.value if group.count else 0.0 for group in groups]
    counts = [group.count for group in groups]
    of_batch = call(function, batch, reduction="none", **options)
    assert of_batch.flatten().tolist() == pytest.approx(values, rel=1e-6, abs=1e-6)

    of_groups = data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    weighted = [count * weight for count, weight in zip(counts, of_groups, strict=True)]
    group_weights = torch.tensor(of_groups, dtype=torch.uint16).view(of_batch.shape)
    if factor := data.draw(st.sampled_from([None, 1e-300, 1e300])):
        group_weights = group_weights.double() * factor
    for reduction, expected in (
        ({"reduction": "sum"}, sum(values)),
        ({}, weighted_mean(values, counts)),
        ({"group_weights": group_weights}, weighted_mean(values, weighted)),
    ):
        result = call(function, batch, **reduction, **options)
        assert result.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def weighted_mean(values: list[float], counts: list[float]) -> float:
    total = sum(value * count for value, count in zip(values, counts, strict=True) if count)
    return total / sum(counts) if sum(counts) else 0.0


@cases(METRICS)
@law(16)
@given(data=st.data())
def test_a_metric_is_its_formula(name, formula, options, data):
    function = getattr(metrics, name)
    batch = data.draw(batches(function, st.integers(3, 6) | st.integers(7, 40)))
    for value, rows in zip(call(function, batch, **options).tolist(), batch.groups(), strict=True):
        expected = formula(rows, **options) if rows else None
        assert value == pytest.approx(math.nan if expected is None else expected, rel=1e-9, abs=1e-9, nan_ok=True)


def test_every_loss_has_a_formula():
    assert {*LOSSES} == {*lookup.names("losses")}
