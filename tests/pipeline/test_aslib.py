"""Algorithms by run time: a scenario's table, ranks with ties of what is not solved, and methods on a planted order."""

import numpy as np
import pandas as pd
import pytest
import torch

from studies import aslib, compared
from studies.converters import aslib as converter

RUNS = "@RELATION r\n% a\n@ATTRIBUTE instance_id STRING\n@ATTRIBUTE repetition NUMERIC\n@attribute algorithm string\n"


def make_scenario(folder, cutoff="algorithm_cutoff_time: 60"):
    """Two algorithms and three instances: one run ends too late, one breaks, one instance has no feature."""
    folder.mkdir(parents=True)
    (folder / "description.txt").write_text(f"{cutoff}\nperformance_measures:\n- runtime\n")
    runs = ["'a,1',1,quick,0.5,ok", "'a,1',1,slow,70,ok", "b,1,quick,3,memout", "b,1,slow,30,ok", "c,1,quick,?,crash",
            "c,1,slow,60,timeout"]  # fmt: skip
    states = "@ATTRIBUTE runtime NUMERIC\n@ATTRIBUTE runstatus {ok, timeout}\n@DATA\n"
    (folder / "algorithm_runs.arff").write_text(RUNS + states + "\n".join(runs))
    head = "@attribute instance_id string\n@attribute repetition numeric\n@attribute 'n vars' numeric\n@data\n"
    (folder / "feature_values.arff").write_text(head + "'a,1',1,7\nb,1,?\nc,1,2\n")
    (folder / "cv.arff").write_text(head.replace("'n vars'", "fold") + "'a,1',1,1\nb,1,2\nc,1,2\n")


def test_a_run_counts_if_it_ends_well_within_the_cutoff(tmp_path):
    make_scenario(tmp_path / "planted")
    table = converter.table_of(tmp_path / "planted")
    assert [*table.columns] == ["instance", "fold", "cutoff", "x_n vars", "seconds_quick", "seconds_slow"]
    assert table["instance"].tolist() == ["a,1", "b", "c"]
    assert table["fold"].tolist() == [1, 2, 2]
    expected = [[7, 0.5, np.nan], [np.nan, np.nan, 30], [2, np.nan, np.nan]]
    np.testing.assert_array_equal(table.iloc[:, 3:].to_numpy(dtype=float), expected)


def test_a_scenario_without_a_cutoff_and_a_broken_line_are_refused(tmp_path):
    make_scenario(tmp_path / "quality", cutoff="")
    with pytest.raises(ValueError, match=r"description\.txt.*cutoff"):
        converter.table_of(tmp_path / "quality")
    path = tmp_path / "cut.arff"
    path.write_text("@attribute a numeric\n@attribute b numeric\n@data\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"cut\.arff: line 5 has 1 cells, expected 2"):
        converter.arff(path)


def test_runs_that_are_not_solved_are_tied_below_all_others_and_pairs_of_them_cost_nothing():
    times = torch.tensor([[[0.5, 10.0, 0.1, 10.0]]])
    assert aslib.label_ranks(times).tolist() == [[[1, 0, 2, 0]]]
    scores = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]], requires_grad=True)
    for method in ("ranknet", "rlsep"):
        (gradient,) = torch.autograd.grad(aslib.METHODS[method](scores, times).sum(), scores)
        assert torch.sign(gradient).tolist() == [[[-1, 1, -1, 1]]]


@pytest.mark.parametrize("method", [*aslib.METHODS, "random forest"])
def test_each_method_finds_the_fastest_algorithm_that_features_decide(method, tmp_path, monkeypatch):
    draws = np.random.default_rng(1)
    features = draws.normal(size=(200, 4))
    seconds = 10 ** (1.5 + 2 * features[:, :3])
    table = pd.DataFrame(np.hstack([features, np.where(seconds < 100, seconds, np.nan)]))
    table.columns = [*(f"x_{index}" for index in range(4)), *(f"seconds_{index}" for index in range(3))]
    table.assign(fold=np.arange(200) % 10 + 1, cutoff=100.0).to_parquet(tmp_path / "planted.parquet")
    small = {"TABLES": tmp_path, "SEEDS": 2, "CHOOSE_BY": 1, "RATES": (1e-5, 0.03), "STEPS": (1, 100), "TREES": 20,
             "BASELINE": method}  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(aslib, name, value)
    monkeypatch.chdir(tmp_path)
    aslib.read.cache_clear()
    rows = {row.metric: row.value for row in aslib.rows("planted", method) if row.seed is None and row.fold is None}
    assert rows["gap"] > 0.8
    assert rows["tau"] > (0.2 if method == "cross-entropy, fastest" else 0.6)


def test_differences_are_paired_by_example_and_a_method_without_chance_counts_for_each_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(1)
    baseline = draws.normal(size=(1, 1, 50))
    compared.compared("planted", "rule", ["hit"], baseline, baselines={})
    better = baseline + 0.1 + 0.001 * draws.normal(size=(3, 1, 50))
    rows = {
        row.metric: row for row in compared.compared("planted", "net", ["hit"], better, baselines={"a rule": "rule"})
    }
    gain = rows["hit minus a rule"]
    assert gain.low < 0.1 < gain.high
    assert gain.high - gain.low < 0.01
    assert rows["p of hit minus a rule"].value < 0.001
    rows = {row.metric: row for row in compared.compared("planted", "r", ["hit"], baseline, baselines={"a net": "net"})}
    assert rows["hit minus a net"].value == pytest.approx(-gain.value)
    with pytest.raises(FileNotFoundError, match=r"predictions/planted/none\.npy"):
        compared.stored("planted", "none")
