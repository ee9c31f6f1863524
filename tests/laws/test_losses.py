"""Every loss and metric is its formula, a plain loop: weights, masks, ties, groups that have nothing to compare."""

from dataclasses import dataclass

import pytest
import torch
from contracts.values import parameters
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from laws.formulas import LOSSES, METRICS, Counted, Row, Rows
from laws.law import law
from rankgrad import lookup, losses, metrics


@dataclass
class Batch:
    """Groups along the last dimension, or one matrix of `positives`, whose rows and columns are groups."""

    scores: Tensor
    truth: Tensor
    weights: Tensor
    mask: Tensor
    is_matrix: bool

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
        largest = self.weights[self.mask].max() if self.mask.any() else torch.tensor(0.0)
        return self.weights / largest.where(largest > 0, 1.0)


@st.composite
def batches(draw, kind: str) -> Batch:
    """Draw scores with ties, grades, weights and a mask of a few groups."""
    count, length = draw(st.integers(2, 4)), draw(st.integers(3, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def cells(*values: float) -> Tensor:
        return torch.tensor(values)[torch.randint(len(values), (count, length), generator=generator)]

    scores = cells(-2.0, -0.5, 0.0, 0.25, 0.75, 1.5).double() * draw(st.sampled_from([0.05, 1.0]))
    weights = cells(0.0, 0.25, 1.0, 3.0).double()
    truth = cells(0, 1) if kind in ("labels", "positives") else cells(0, 1, 2, 3)
    return Batch(scores, truth, weights, cells(True, True, False), is_matrix=kind == "positives")


def call(function, batch: Batch, **options) -> Tensor:
    """Return what a loss or metric makes of a batch, of the arguments that it takes; masked cells are NaN."""
    arguments = parameters(function)
    scores = batch.scores
    if "mask" in arguments:
        scores = scores.where(batch.mask, torch.nan)
        options["mask"] = batch.mask
    if "weights" in arguments:
        options["weights"] = batch.weights
    if "sorter" in arguments:
        options["sorter"] = "straight_through"
    if "log_variances" in options:
        options["log_variances"] = scores / 2
    result = function(scores, batch.truth, **options)
    return torch.stack(list(result.values()), -1) if isinstance(result, dict) else result


def drawn(data, function) -> Batch:
    batch = data.draw(batches(parameters(function)[1]))
    if "weights" not in parameters(function):
        batch.weights.fill_(1.0)
    if "mask" not in parameters(function):
        batch.mask.fill_(True)
    return batch


@pytest.mark.parametrize(("name", "formula", "options"), LOSSES)
@law(16)
@given(data=st.data())
def test_a_loss_is_its_formula(name, formula, options, data):
    function = getattr(losses, name)
    batch = drawn(data, function)
    values, counts = [], []
    for rows in batch.groups():
        value = formula(rows, **options) if rows else None
        value, count = value if isinstance(value, Counted) else (value, float(value is not None))
        values.append(0.0 if value is None else value)
        counts.append(count)

    of_batch = call(function, batch, reduction="none", **options)
    assert of_batch.flatten().tolist() == pytest.approx(values, rel=1e-6, abs=1e-6)

    of_groups = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))))
    of_groups = of_groups.view(of_batch.shape).double()
    for reduction, expected in (
        ({"reduction": "sum"}, sum(values)),
        ({}, weighted_mean(values, counts)),
        ({"group_weights": of_groups}, weighted_mean(values, (torch.tensor(counts) * of_groups.flatten()).tolist())),
    ):
        result = call(function, batch, **reduction, **options)
        assert result.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def weighted_mean(values: list[float], counts: list[float]) -> float:
    total = sum(value * count for value, count in zip(values, counts, strict=True) if count)
    return total / sum(counts) if sum(counts) else 0.0


@pytest.mark.parametrize(("name", "formula", "options"), METRICS)
@law(16)
@given(data=st.data())
def test_a_metric_is_its_formula(name, formula, options, data):
    function = getattr(metrics, name)
    batch = drawn(data, function)
    for value, rows in zip(call(function, batch, **options).tolist(), batch.groups(), strict=True):
        expected = formula(rows, **options) if rows else None
        expected = torch.nan if expected is None else expected
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def test_every_loss_has_a_formula():
    assert {name for name, *_ in LOSSES} == set(lookup.names("losses"))


@pytest.mark.parametrize("name", ["kendall", "goodman_kruskal_gamma", "label_ranking_scores", "spearman"])
@law(10)
@given(length=st.integers(7, 40), levels=st.integers(2, 30), seed=st.integers(0, 1000))
def test_a_metric_of_longer_lists_is_its_formula(name, length, levels, seed):
    function, formula = getattr(metrics, name), next(formula for metric, formula, _ in METRICS if metric == name)
    generator = torch.Generator().manual_seed(seed)
    scores, truth = torch.randint(0, levels, (2, 2, length), generator=generator)
    weights = torch.randint(0, 4, (2, length), generator=generator).double()
    batch = Batch(scores.double(), truth, weights, weights >= 0, is_matrix=False)
    if "weights" not in parameters(function):
        weights.fill_(1.0)
    assume(all(formula(rows) is not None for rows in batch.groups()))
    for value, rows in zip(call(function, batch).tolist(), batch.groups(), strict=True):
        assert value == pytest.approx(formula(rows), rel=1e-9, abs=1e-9)
