"""Intervals, paired differences and their p: laws against scipy, simulations, and what is not defined."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from pipelines.config.schema import Comparison, Resampling
from pipelines.stages.compare import compared
from pipelines.tracking.slices import slices
from rankgrad import lookup
from rankgrad.evaluation import Statistic, describe_undefined, differences, evaluate, holm, interval
from rankgrad.io.results import Row

TARGET = [0.1, 0.2, 0.3, 0.4]


def mean_of(values: np.ndarray) -> Statistic:
    return Statistic(["mean"], len(values), lambda rows: values[rows].mean(-1)[None])


def statistic_of(task: str, count: int, **columns) -> Statistic:
    return lookup.find("tasks", task)().statistic(pa.table({"id": range(count)} | columns))


def scored(score, target, **columns) -> Statistic:
    scores = pa.array(score, pa.float32())
    return statistic_of("score_ranking", len(score), score=scores, target=target, **columns)


def labeled(labels: list, **columns: list) -> Statistic:
    count = len(labels)
    scores, difficult = [[float(row), float(-row)] for row in range(count)], [[0, 0]] * count
    return statistic_of("multilabel", count, scores=scores, labels=labels, difficult=difficult, **columns)


def queried(relevance: list, scores: list, **columns: list) -> Statistic:
    return statistic_of("query_ranking", len(relevance), scores=scores, relevance=relevance, **columns)


def compared_rows(metric: str, statistics: dict[str, dict[int, Statistic]]) -> dict[tuple[str, str], Row]:
    """Compare runs with the first; return the rows over seeds, by run and metric."""
    baseline, *runs = statistics
    question = Comparison(question="?", metric=metric, baseline=baseline, runs=runs)
    rows = compared(question, statistics, Resampling(resamples=20))
    return {(row.run, row.metric): row for row in rows if row.seed is None}


class TestIntervals:
    def test_over_seeds_alone_it_is_students_and_over_examples_alone_nearly_the_normal_one(self):
        values = np.random.default_rng(0).normal(size=10)
        seeds = {seed: mean_of(np.full(5, value)) for seed, value in enumerate(values)}
        row = evaluate("", seeds, resamples=20, seed=0, confidence=0.9)[0]
        expected = stats.t.interval(0.9, 9, values.mean(), stats.sem(values))
        assert (row.low, row.high) == pytest.approx(expected)
        (row, *_) = evaluate("", seeds, resamples=20, seed=0, limits={"mean": (row.value - 0.1, math.inf)})
        assert row.low == row.value - 0.1 < row.value + 0.1 < row.high  # a share is never above 1, say
        gaps = differences({"": seeds}, dict.fromkeys(seeds, mean_of(np.zeros(5))), resamples=20, seed=0)
        (p,) = [row.value for row in gaps if row.metric == "p of mean"]
        assert p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
        examples = np.random.default_rng(1).normal(size=100)
        value, low, high = interval(examples, resamples=4000, seed=0)
        assert value == examples.mean()
        assert high - low == pytest.approx(2 * 1.96 * stats.sem(examples), rel=0.1)

    # The ratio is that of the seeds' deviation to the standard error of the examples.
    @pytest.mark.parametrize(("seeds", "ratio"), [(1, 1), (3, 0.5), (3, 2), (3, 5)])
    def test_nineteen_of_twenty_hold_the_truth_if_it_is_about_seeds_and_examples(self, seeds, ratio):
        draws, repeats, covered = np.random.default_rng(0), 200, 0
        for repeat in range(repeats):
            examples, shifts = draws.normal(size=100), draws.normal(0, ratio / 10, seeds)
            models = {seed: mean_of(examples + shift) for seed, shift in enumerate(shifts)}
            row = evaluate("", models, resamples=200, seed=repeat)[0]
            truth = 0 if seeds > 1 else shifts[0]  # with one seed it is about that very model
            covered += row.low <= truth <= row.high
        assert 0.88 <= covered / repeats <= 0.99

    def test_a_difference_is_paired_by_example_and_by_seed(self):
        """Models that err together: their metrics are uncertain, their difference is not."""
        draws = np.random.default_rng(0)
        target, noise = draws.normal(size=60), draws.normal(size=(2, 60))
        ours = {seed: scored(target + 0.9 * noise[seed], target) for seed in (0, 1)}
        theirs = {seed: scored(target + 0.92 * noise[seed], target) for seed in (0, 1)}
        first, second = (evaluate("", model, resamples=200, seed=0)[0] for model in (ours, theirs))
        gap = differences({"ours": ours}, theirs, resamples=200, seed=0)[0]
        assert gap.value == pytest.approx(first.value - second.value)
        assert gap.high - gap.low < 0.2 * (first.high - first.low)
        same, p, *_ = differences({"ours": ours}, ours, resamples=20, seed=0)
        assert (same.interval, p.value) == ((0.0, 0.0, 0.0), 1.0)
        with pytest.raises(ValueError, match="none in common"):
            differences({"ours": {5: ours[0]}}, theirs, resamples=20, seed=0)

    def test_holm_is_the_step_down_of_bonferroni(self):
        p = np.random.default_rng(0).uniform(0, 0.2, 8)
        expected = np.empty(8)
        order = p.argsort()
        expected[order] = np.maximum.accumulate(np.minimum(1, (8 - np.arange(8)) * p[order]))
        assert holm(p.tolist()) == pytest.approx(expected)


class TestUndefined:
    """What is not defined, of constant, single or no rows, is NaN that is named, and takes nothing from the others."""

    @pytest.mark.parametrize(
        ("statistic", "named"),
        [
            (scored([1.0] * 4, TARGET), ["spearman"]),
            (scored(TARGET, [1.0] * 4), ["spearman"]),
            (scored([1.0], [1.0]), ["spearman"]),
            (scored([], pa.array([], pa.float64()), fold=pa.array([], pa.int64())), ["spearman"]),
            (scored(TARGET, TARGET, group=["a"] * 4), []),
            (scored(TARGET, TARGET, fold=[1, 1, 1, 2]), ["spearman (fold 2)"]),
            (scored([1.0, 1, 2, 3], TARGET, fold=[1, 1, 2, 2]), ["spearman (fold 1)"]),
            (labeled([[0, 0]] * 3), ["mean_average_precision"]),
            (labeled([[1, 0], [0, 0], [0, 1], [1, 0]], fold=[1, 1, 2, 2]), ["average_precision.1 (fold 1)"]),
            (queried([[0, 0], [0]], [[0.5, 0.5], [0.5]]), None),
        ],
    )  # fmt: skip
    def test_a_metric_without_a_value_is_named(self, statistic, named):
        named = statistic.names if named is None else named
        assert describe_undefined(statistic) == named
        undefined = {text.partition(" ")[0] for text in named}
        for row in evaluate("", {1: statistic}, resamples=20, seed=0):
            assert math.isnan(row.value) == (row.metric in undefined)
            if row.seed is None:
                assert math.isnan(row.low) == (row.metric in undefined or statistic.examples < 2)

    def test_classes_that_a_fold_lacks_are_not_taken_for_others(self):
        """Fold 1 has the first class alone, fold 2 the second alone: both have one class."""
        statistic = labeled([[1, 0], [0, 0], [0, 1], [0, 0]], fold=[1, 1, 2, 2])
        assert statistic.names == ["mean_average_precision", "average_precision.0", "average_precision.1"]
        values = statistic.of_all()
        assert values[0] == pytest.approx(0.75)  # 0.5 in fold 1, where a row without the class is first, and 1
        assert np.isnan(values[1:]).all()

    def test_an_interval_needs_half_of_the_resamples(self):
        first = np.arange(12) == 0  # a class with one positive among 12 rows of which resamples draw five

        def of_rows(rows: np.ndarray) -> np.ndarray:
            return np.where(first[rows][..., -5:].any(-1) | (rows.ndim == 1), 1.0, np.nan)[None]

        row = evaluate("", {1: Statistic(["m"], 12, of_rows)}, resamples=50, seed=0)[0]
        assert row.value == 1.0
        assert np.isnan([row.low, row.high]).all()

    @pytest.mark.parametrize("constant", ["baseline", "challenger", "target"])
    def test_a_comparison_with_what_is_undefined_is_undefined(self, constant):
        columns = {name: [1.0] * 4 if name == constant else TARGET for name in ("baseline", "challenger", "third")}
        target = [1.0] * 4 if constant == "target" else TARGET
        statistics = {name: {1: scored(score, target)} for name, score in columns.items()}
        rows = compared_rows("spearman", statistics)
        gap, p = (rows["challenger", f"{of}spearman minus baseline"] for of in ("", "p of "))
        assert np.isnan([*gap.interval, p.value]).all()
        assert math.isnan(rows["third", "spearman minus baseline"].value) == (constant != "challenger")

    def test_means_are_over_the_seeds_of_the_difference(self):
        offsets = {"baseline": {1: 0.0, 2: 3.0}, "challenger": {2: 5.0, 3: 90.0}}
        statistics = {}
        for name, by_seed in offsets.items():
            statistics[name] = {seed: mean_of(np.arange(4.0) + offset) for seed, offset in by_seed.items()}
        rows = compared_rows("mean", statistics)
        assert rows["baseline", "mean"].value == 4.5
        assert rows["challenger", "mean"].value == 6.5
        assert rows["challenger", "mean minus baseline"].value == 2.0

    def test_slices_without_a_value_come_last_and_names_that_are_alike_lose_none(self, tmp_path):
        rows = 120
        near = np.linspace(1000.1, 1000.2, rows)  # of three digits all are 1e+03
        test = pa.table({"id": range(rows), "target": [float(row % 3) for row in range(rows)], "near": near})
        shop = ["a" if row % 3 == 0 else "b" for row in range(rows)]  # targets of one shop are all 0
        pq.write_table(test.append_column("shop", [shop]), tmp_path / "test.parquet")
        score = np.random.default_rng(0).normal(size=rows)
        predicted = pa.table({"id": range(rows), "seed": [1] * rows, "score": score, "target": test["target"]})
        pq.write_table(predicted, tmp_path / "predictions.parquet")
        pieces = slices(
            "score_ranking", "spearman", tmp_path / "predictions.parquet", tmp_path / "test.parquet", seed=1
        )
        assert (pieces[-1].name, math.isnan(pieces[-1].value)) == ("shop: a", True)
        assert len({piece.name for piece in pieces}) == len(pieces) == 5
        assert sum(piece.rows for piece in pieces if piece.name.startswith("near")) >= rows


def test_weights_count_between_folds_as_within_them():
    relevance, weight = [[1, 0]] * 4 + [[0, 1]] * 4, [100.0] * 4 + [1.0] * 4  # the first four are right
    statistic = queried(relevance, [[1.0, 0.0]] * 8, weight=weight, fold=[1] * 4 + [2] * 4)
    value = dict(zip(statistic.names, statistic.of_all(), strict=True))["pair_accuracy"]
    assert value == pytest.approx(np.average([1] * 4 + [0] * 4, weights=weight))
