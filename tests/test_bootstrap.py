"""Bootstrap intervals, and the figures of label ranking that are resampled."""

import numpy as np
import pytest
import torch

from rankops.metrics.bootstrap import interval, intervals
from rankops.metrics.evaluation import Figures, compare, evaluate
from rankops.tasks.label_ranking import figures as figures_of
from rankops.tasks.label_ranking import label_ranks_of, predictions


def test_selected_labels_are_ranked_among_themselves():
    scores = torch.tensor([[9.0, -5.0, 0.5, 0.5], [1.0, 2.0, 3.0, 4.0]])
    selected = torch.tensor([[False, True, True, True], [False] * 4])
    assert label_ranks_of(scores, selected).tolist() == [[0, 1, 2, 2], [0, 0, 0, 0]]


def test_f1_is_the_harmonic_mean_of_the_averages_and_intervals_hold_it():
    class Ranker:  # says what it is told to
        def __call__(self, images):
            return scores, torch.zeros_like(scores)

    draws = torch.Generator().manual_seed(0)
    scores, label_ranks = torch.randn(50, 4, generator=draws), torch.randint(0, 2, (50, 4), generator=draws)
    split = torch.zeros(50, 8, 8), label_ranks
    figures = evaluate(figures_of(predictions(Ranker(), split), split), resamples=200, seed=0)
    for kind in ("ranked", "unranked"):
        precision, recall = figures[kind]["precision"]["value"], figures[kind]["recall"]["value"]
        assert figures[kind]["f1"]["value"] == pytest.approx(2 * precision * recall / (precision + recall))
        assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in figures[kind].values())


def test_intervals_cover_as_often_as_they_say():
    draws = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        figure = interval(draws.normal(size=80), resamples=400, generator=draws)
        covered += figure["low"] <= 0 <= figure["high"]
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize(("values", "message"), [([1.0], "at least 2"), ([1.0, float("nan")], "row 1 is not finite")])
def test_intervals_refuse_what_has_none(values, message):
    with pytest.raises(ValueError, match=message):
        interval(np.array(values), resamples=10, generator=np.random.default_rng(0))


def test_a_score_that_is_not_finite_is_named():
    class Diverged:
        def __call__(self, images):
            return torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), torch.zeros(2, 2)

    with pytest.raises(FloatingPointError, match="row 1"):
        predictions(Diverged(), (torch.zeros(2, 8, 8), torch.zeros(2, 2)))


def test_an_interval_takes_tensors_and_hits():
    hits = np.array([True, False, True, True])
    figures = [
        interval(column, resamples=99, generator=np.random.default_rng(0))
        for column in (hits, torch.from_numpy(hits), hits.astype(float))
    ]
    assert figures[0] == figures[1] == figures[2]
    assert figures[0]["value"] == 0.75


class TestLevelAndSeed:
    VALUES = np.random.default_rng(0).normal(size=60)

    def figures(self, values: np.ndarray) -> Figures:
        return Figures(["mean"], len(values), lambda rows: values[rows].mean(-1)[None])

    def bounds(self, confidence: float, *, seed: int = 3) -> dict[str, float]:
        (found,) = intervals(
            self.VALUES, statistic=lambda values, axis: values.mean(axis)[None], resamples=999,
            generator=np.random.default_rng(seed), confidence=confidence,
        )  # fmt: skip
        return found

    def test_half_of_the_distribution_is_in_an_interval_of_a_half(self):
        half, most = self.bounds(0.5), self.bounds(0.95)
        assert (half["high"] - half["low"]) / (most["high"] - most["low"]) == pytest.approx(0.674 / 1.96, rel=0.1)

    def test_one_constant_column_of_two_leaves_an_interval(self):
        found = interval(
            self.VALUES, np.ones(60), statistic=lambda one, other, axis: (one * other).mean(axis), resamples=99,
            generator=np.random.default_rng(0),
        )  # fmt: skip
        assert found["low"] < found["value"] < found["high"]

    @pytest.mark.parametrize("seed", [3, 4])
    def test_figures_have_95_per_cent_by_the_seed(self, seed):
        found = evaluate(self.figures(self.VALUES), resamples=999, seed=seed)["mean"]
        assert found == pytest.approx(self.bounds(0.95, seed=seed))

    def test_differences_have_the_level_that_is_asked_for(self):
        zeros = self.figures(np.zeros(60))
        found = compare(self.figures(self.VALUES), zeros, resamples=999, seed=3, confidence=0.5)["mean"]
        assert found == pytest.approx(self.bounds(0.5))

    def test_columns_are_drawn_in_pairs(self):
        def correlation(one, other, axis):
            one, other = (values - values.mean(axis, keepdims=True) for values in (one, other))
            return (one * other).mean(axis) / np.sqrt((one**2).mean(axis) * (other**2).mean(axis))

        found = interval(
            self.VALUES, 2 * self.VALUES, statistic=correlation, resamples=99, generator=np.random.default_rng(0)
        )
        assert found == pytest.approx({"value": 1, "low": 1, "high": 1})
