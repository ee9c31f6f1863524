"""What is not defined, of constant, single or no rows: NaN that is named, ends nothing, and is never "no worse"."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.config.schema import Comparison, Resampling
from pipelines.reporting.content import _verdict
from pipelines.reporting.results import number, read_comparisons, read_runs, shown
from pipelines.stages.compare import compared
from pipelines.tracking import gate
from pipelines.tracking.slices import slices
from rankgrad import lookup
from rankgrad.bootstrap import Statistic, describe_undefined, evaluate, interval
from rankgrad.io.written import as_json
from studies.kept import compared_rows, rows_of

TARGET = [0.1, 0.2, 0.3, 0.4]


def scored(score, target, **columns) -> Statistic:
    table = pa.table({"id": range(len(score)), "score": pa.array(score, pa.float32()), "target": target} | columns)
    return lookup.find("tasks", "score_ranking")().statistic(table)


def labeled(labels: list, **columns: list) -> Statistic:
    scores = [[float(row), float(-row)] for row in range(len(labels))]
    table = {"id": range(len(labels)), "scores": scores, "labels": labels, "difficult": [[0, 0]] * len(labels)}
    return lookup.find("tasks", "multilabel")().statistic(pa.table(table | columns))


def queried(relevance: list) -> Statistic:
    table = {"id": range(len(relevance)), "scores": [[0.5] * len(row) for row in relevance], "relevance": relevance}
    return lookup.find("tasks", "query_ranking")().statistic(pa.table(table))


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
        (queried([[0, 0], [0]]), None),
    ],
)  # fmt: skip
def test_a_metric_that_has_no_value_is_named_and_takes_nothing_from_the_others(statistic, named):
    metrics = evaluate({1: statistic}, resamples=20, seed=0)
    named = statistic.names if named is None else named
    assert describe_undefined(statistic) == named
    leaves = {".".join(path): leaf for path, leaf in walk(metrics)}
    for name, leaf in leaves.items():
        undefined = any(one.partition(" ")[0] == name for one in named)
        assert math.isnan(leaf["value"]) == undefined
        assert math.isnan(leaf["low"]) == (undefined or statistic.examples < 2)


def walk(block: dict, path: tuple = ()):
    for key, value in block.items():
        yield from [((*path, key), value)] if "value" in value else walk(value, (*path, key))


def test_classes_that_a_fold_lacks_are_not_taken_for_others():
    """Fold 1 has the first class alone, fold 2 the second alone: both have one class."""
    statistic = labeled([[1, 0], [0, 0], [0, 1], [0, 0]], fold=[1, 1, 2, 2])
    assert statistic.names == ["mean_average_precision", "average_precision.0", "average_precision.1"]
    values = statistic.of_all()
    assert values[0] == pytest.approx(0.75)  # 0.5 in fold 1, where a row without the class is first, and 1
    assert np.isnan(values[1:]).all()


def test_an_interval_needs_two_rows_and_half_of_the_resamples():
    assert interval(np.array([0.7]), resamples=20, seed=0) == pytest.approx(
        {"value": 0.7, "low": math.nan, "high": math.nan}, nan_ok=True
    )
    # A class with one positive among 12 rows of which resamples draw five: most have none.
    first = np.arange(12) == 0

    def of_rows(rows: np.ndarray) -> np.ndarray:
        return np.where(first[rows][..., -5:].any(-1) | (rows.ndim == 1), 1.0, np.nan)[None]

    leaf = evaluate({1: Statistic(["m"], 12, of_rows)}, resamples=50, seed=0)["m"]
    assert leaf["value"] == 1.0
    assert math.isnan(leaf["low"])
    assert math.isnan(leaf["high"])


@pytest.mark.parametrize("constant", ["baseline", "challenger", "target"])
def test_a_comparison_with_what_is_undefined_is_not_significant_and_is_read_back_from_json(
    tmp_path, monkeypatch, constant
):
    of = {name: [1.0] * 4 if name == constant else TARGET for name in ("baseline", "challenger", "third", "target")}
    statistics = {name: {1: scored(of[name], of["target"])} for name in ("baseline", "challenger", "third")}
    question = Comparison(question="?", metric="spearman", baseline="baseline", runs=["challenger", "third"])
    result = compared(question, statistics, Resampling(resamples=20))
    folder = tmp_path / "metrics/comparisons"
    folder.mkdir(parents=True)
    (folder / "all.json").write_text(as_json(result))
    json.loads((folder / "all.json").read_text(), parse_constant=pytest.fail)
    monkeypatch.chdir(tmp_path)
    row = read_comparisons().set_index("run").loc["challenger"]
    assert row[["difference", "low", "high", "p"]].isna().all()
    assert {_verdict(row.low, row.high, lower_is_better=one) for one in (True, False)} == {"undefined"}
    third = read_comparisons().set_index("run").loc["third"]
    assert third[["difference", "p"]].notna().all() == (constant == "challenger")
    assert [one.run for one in compared_rows(result)] == (["third"] * 2 if constant == "challenger" else [])


def test_undefined_metrics_of_a_run_are_null_in_its_file_and_nan_again(tmp_path):
    metrics = evaluate({1: scored([1.0] * 4, TARGET)}, resamples=10, seed=0)
    (tmp_path / "mine.json").write_text(as_json(metrics))
    assert json.loads((tmp_path / "mine.json").read_text())["spearman"]["seeds"] == {"1": None}
    assert read_runs(tmp_path)[["value", "low", "high"]].isna().all(axis=None)
    assert rows_of("mine", metrics) == rows_of("mine", json.loads(as_json(metrics))) == []
    assert (number(math.nan, 0.1, 0.2), shown(math.nan, 0.1, 0.2)) == ("", "undefined")


LEVEL, UNKNOWN = {"value": 0.0, "low": 0.0, "high": 0.0}, dict.fromkeys(("value", "low", "high"), math.nan)
BETTER = {"value": 0.1, "low": 0.05, "high": 0.15}


@pytest.mark.parametrize(
    ("gaps", "named"),
    [({"main": UNKNOWN, "guarded": LEVEL}, "main is undefined"), ({"main": BETTER, "guarded": UNKNOWN}, "guarded is"),
     ({"main": BETTER}, "guarded is undefined")],
)  # fmt: skip
def test_the_gate_takes_nothing_undefined_for_no_worse(gaps, named):
    judged, options = SimpleNamespace(metric="main", guarded=["guarded"]), SimpleNamespace(minimum_gain=0, tolerance=9)
    better, reason = gate.verdict(gaps, judged, options, {"main": False, "guarded": False})
    assert not better
    assert named in reason


@pytest.mark.parametrize(
    ("constant", "held", "told"),
    [("challenger", True, "on the slice `shop: b`"), ("champion", False, "on 1 it is undefined: `shop: b`"),
     ("target", False, "on 1 it is undefined: `shop: b`")],
)  # fmt: skip
def test_a_slice_on_which_the_challenger_alone_is_undefined_holds_it_and_others_are_named(constant, held, told):
    draws = np.random.default_rng(0).normal(size=40)
    of = {name: np.ones(40) if name == constant else draws for name in ("challenger", "champion", "target")}
    slices_of = {
        name: {"shop: a": (40, scored(draws, draws)), "shop: b": (40, scored(of[name], of["target"]))}
        for name in ("challenger", "champion")
    }
    evidence = gate.Evidence({}, {"spearman": False}, "rows", slices_of)
    judged = SimpleNamespace(metric="spearman", guarded=[], slice_tolerance=0.05)
    better, reason = gate.guarded_slices(evidence, judged, SimpleNamespace(resamples=20, seed=0, confidence=0.95))
    assert better != held
    assert told in reason


def test_slices_without_a_value_come_last_and_names_that_are_alike_lose_none(tmp_path):
    rows = 120
    near = np.linspace(1000.1, 1000.2, rows)  # of three digits all are 1e+03
    test = pa.table({"id": range(rows), "target": [float(row % 3) for row in range(rows)], "near": near})
    shop = ["a" if row % 3 == 0 else "b" for row in range(rows)]  # targets of one shop are all 0
    pq.write_table(test.append_column("shop", [shop]), tmp_path / "test.parquet")
    score = np.random.default_rng(0).normal(size=rows)
    pq.write_table(
        pa.table({"id": range(rows), "seed": [1] * rows, "score": score, "target": test["target"]}),
        tmp_path / "predictions.parquet",
    )
    found = slices("score_ranking", "spearman", tmp_path / "predictions.parquet", tmp_path / "test.parquet", seed=1)
    assert (found[-1].name, math.isnan(found[-1].value)) == ("shop: a", True)
    assert len({one.name for one in found}) == len(found) == 5
    assert sum(one.rows for one in found if one.name.startswith("near")) >= rows
